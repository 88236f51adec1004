"""The consumer, for ordinary functions: the same as for asyncio, on a loop in another thread."""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from lograft.clients.consumer import aio_consumer
from lograft.clients.consumer.reading.metrics import ConsumerMetrics
from lograft.clients.consumer.reading.options import ConsumerKeywords, ConsumerOptions, poll_limit
from lograft.clients.consumer.reading.record_queue import RecordQueue
from lograft.clients.consumer.reading.record_run import RecordRun
from lograft.clients.consumer.sync_group_consumer import GroupConsumer
from lograft.clients.errors import ClientClosed
from lograft.clients.types import TopicPartition
from lograft.runtime.tasks.loop_thread import LoopLost
from lograft.storage.batch.codec import Record

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Consumer"]

_AHEAD_RECORDS = 1000  # handed over by the loop at once, so that most polls need not ask it


class Consumer(GroupConsumer):
    """Reads records, of each partition in order; alone (`assign`), or as a member of a group (`subscribe`). To be used
    by one thread at a time.

    with Consumer("localhost:9092", group="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer: ...
    """

    def __init__(self, bootstrap: str | Iterable[str], **options: Unpack[ConsumerKeywords]) -> None:
        super().__init__(aio_consumer.Consumer(bootstrap, **options))
        checked = ConsumerOptions(**options)
        self._max_poll_records = checked.max_poll_records
        self._queue = RecordQueue(checked.deserializers, self._give_back)
        self._wait(self._inner.start)

    def close(self) -> None:
        """Of a group: commit, if `auto_commit` is set, and leave at once, as far as a few seconds allow."""
        self._call(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, and no others. Those that were read before go on where they are; others begin where
        the group has come to, if there is one, else where `auto_offset_reset` says, unless one seeks first.
        `UnknownTopic` or `UnknownPartition` changes nothing."""
        self._wait(self._inner.assign, partitions)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._ask(self._inner.assignment)

    def metrics(self) -> ConsumerMetrics:
        """Rates, latencies, what is buffered, how far it is behind."""
        return self._ask(self._inner.metrics)

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return self._wait(self._inner.partitions_for, topic)

    # -- records

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> list[Record]:
        """Records as soon as there are any, at most `max_poll_records`; none after `timeout` seconds (None: no end).

        What a partition failed with is raised once there is nothing else to give; it stays so until one seeks.
        """
        limit = poll_limit(max_records, self._max_poll_records)
        self._queue.begin()
        while True:
            try:
                records = self._queue.take(limit)
                if records:
                    return records
            except KeyboardInterrupt:
                self._queue.undo()
                raise
            runs = self._call(self._inner.ready, timeout, max(limit, _AHEAD_RECORDS))
            if not runs:
                return []
            self._queue.replace(runs)

    def poll_arrow(self, timeout: float | None = None, max_records: int | None = None) -> "pyarrow.Table":
        """As `poll`, but all that has come, or at most `max_records`, as a table of `lograft.ARROW_SCHEMA`; without
        rows at the timeout. Nothing is done a record, and nothing is deserialized. Its memory is that in which the
        records came, where that can be."""
        from lograft.clients.records.arrow_table import table_of

        ticket = object()
        try:
            return table_of(self._call(self._inner.take_arrow, timeout, max_records, ticket))
        except KeyboardInterrupt:
            self._ask(lambda: self._inner.give_back_arrow(ticket))
            raise

    def __iter__(self) -> Iterator[Record]:
        """Records without end. Whoever stops after any of them goes on behind it, by whichever way."""
        while True:
            yield from self._queue
            self._queue.replace(self._call(self._inner.ready, None, _AHEAD_RECORDS))

    def __next__(self) -> Record:
        return next(iter(self))

    def _give_back(self, run: RecordRun, index: int) -> None:
        self._ask(lambda: self._inner.give_back(run, index))

    def wakeup(self) -> None:
        """Have a `poll` that waits, or else the next one, raise `WakeupError`. May be called from any thread, or from a
        signal handler."""
        try:
            self._loop.post(self._inner.wakeup)
        except LoopLost as error:
            raise ClientClosed(str(error)) from None

    # -- positions

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Go on at `offset`."""
        self._wait(self._inner.seek, partition, offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first offset there is; in all partitions, if none are named."""
        self._wait(self._inner.seek_to_beginning, *partitions)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on with what is stored from now on; in all partitions, if none are named."""
        self._wait(self._inner.seek_to_end, *partitions)

    def position(self, partition: tuple[str, int]) -> int:
        """The offset of the next record that `poll` gives of the partition."""
        return self._wait(self._inner.position, partition)

    def lag(self, partition: tuple[str, int]) -> int | None:
        """How many offsets the position is behind the end, as far as the consumer has heard; None: it does not know
        yet. `end_offsets` asks."""
        return self._ask(lambda: self._inner.lag(partition))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Give nothing of these (of all, if none are named) until they are resumed."""
        self._wait(self._inner.pause, *partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._wait(self._inner.resume, *partitions)

    def paused(self) -> list[TopicPartition]:
        """The partitions that are."""
        return self._ask(self._inner.paused)

    # -- offsets

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        return self._wait(self._inner.beginning_offsets, partitions)

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Where each partition ends: the offset of the next record to be stored for good."""
        return self._wait(self._inner.end_offsets, partitions)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, int | None]:
        """The first record at or after a time (in milliseconds) in each partition; None where there is none."""
        return self._wait(self._inner.offsets_for_times, times)
