"""The consumer, for ordinary functions: the same as for asyncio, on a loop in another thread."""

from collections import deque
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from lograft.clients import aio_consumer
from lograft.clients.consumer_options import ConsumerKeywords
from lograft.clients.sync_client import SyncClient
from lograft.clients.topic_partition import TopicPartition
from lograft.storage.batch import Record

__all__ = ["Consumer"]

T = TypeVar("T")


class Consumer(SyncClient):
    """Reads records, of each partition in order. To be used by one thread at a time.

    with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        for record in consumer: ...
    """

    def __init__(self, bootstrap: str | Iterable[str], **options: Unpack[ConsumerKeywords]) -> None:
        super().__init__()
        self._inner = aio_consumer.Consumer(bootstrap, **options)
        self._ahead: deque[Record] = deque()  # taken, and not yet given by the iterator
        self._wait(self._inner.start())

    def close(self) -> None:
        self._wait(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- partitions

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, and no others. Those that were read before go on where they are; others begin where
        `auto_offset_reset` says, unless one seeks first. `UnknownTopic` or `UnknownPartition` changes nothing."""
        self._ask(self._inner.assign(partitions))

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._inner.assignment()

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return self._wait(self._inner.partitions_for(topic))

    # -- records

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> list[Record]:
        """Records as soon as there are any, at most `max_poll_records`; none after `timeout` seconds (None: no end).

        What a partition failed with is raised once there is nothing else to give; it stays so until one seeks.
        """
        return self._ask(self._inner.poll(timeout, max_records))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        """The next record. Whoever stops after any of them goes on behind it, by whichever way."""
        if not self._ahead:
            self._ahead.extend(self._wait(self._inner.poll()))
        return self._ahead.popleft()

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        """As `_wait`, once what was not given is given back."""
        if not self._ahead:
            return self._wait(question)
        ahead = list(self._ahead)
        self._ahead.clear()
        return self._wait(self._give_back_and(ahead, question))

    async def _give_back_and(self, records: list[Record], question: Coroutine[Any, Any, T]) -> T:
        self._inner.give_back(records)
        return await question

    # -- positions

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Go on at `offset`."""
        self._ask(self._inner.seek(partition, offset))

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first offset there is; in all partitions, if none are named."""
        self._ask(self._inner.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on with what is stored from now on; in all partitions, if none are named."""
        self._ask(self._inner.seek_to_end(*partitions))

    def position(self, partition: tuple[str, int]) -> int:
        """The offset of the next record that `poll` gives of the partition."""
        return self._ask(self._inner.position(partition))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Give nothing of these (of all, if none are named) until they are resumed."""
        self._ask(self._inner.pause(*partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        self._ask(self._inner.resume(*partitions))

    # -- offsets

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        return self._wait(self._inner.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Where each partition ends: the offset of the next record to be stored for good."""
        return self._wait(self._inner.end_offsets(partitions))

    def offsets_for_times(self, times: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int | None]:
        """The first record at or after a time (in milliseconds) in each partition; None where there is none."""
        return self._wait(self._inner.offsets_for_times(times))
