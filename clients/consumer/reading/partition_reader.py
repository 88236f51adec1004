"""A consumer's assigned partitions, their positions, and their received records."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from lograft.clients.cluster.background_task import ClientTask
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.consumer.reading.broker_stream import FetchSettings
from lograft.clients.consumer.reading.fetched_chunk import Damaged
from lograft.clients.consumer.reading.fetched_partition import FetchedPartition, Start
from lograft.clients.consumer.reading.fetcher import Fetcher
from lograft.clients.consumer.reading.metrics import ConsumerMetrics
from lograft.clients.consumer.reading.options import ConsumerOptions
from lograft.clients.consumer.reading.record_run import Position, RecordRun
from lograft.clients.errors import NotAssigned, OffsetOutOfRange, UnknownTopicId, WakeupError
from lograft.clients.types import TopicPartition, partition_name
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)

T = TypeVar("T")


class PartitionReader:
    """`task` is the consumer's task: waiting methods raise when it no longer runs.

    `assign` or the group session adds and removes partitions one by one; `add` and `remove` take effect at once and do
    not affect other partitions. `is_interrupted` returns True if a waiting poll must handle something else first; call
    `tell` when that changes. `ignores_deleted`: a deleted topic is not a failure, because the group session will remove
    its partitions.
    """

    def __init__(self, cluster: ClusterClient, options: ConsumerOptions, task: ClientTask) -> None:
        self._options = options
        self._task = task
        self._clock = cluster.runtime.clock
        settings = FetchSettings(
            options.fetch_buffer_bytes, options.fetch_partition_bytes, options.client_id, options.rack
        )
        self._fetcher = Fetcher(cluster, settings, options.reset)
        self._is_woken = False
        self._arrow_taken: list[tuple[FetchedPartition, int, Position]] = []  # with generations and start positions
        self._arrow_ticket: object = None  # of the call that took them
        self.is_interrupted: Callable[[], bool] = lambda: False
        self.ignores_deleted = False

    async def run(self) -> None:
        """Fetch until cancelled."""
        await self._fetcher.run()

    def stop(self) -> None:
        """Drop all partitions and wake waiting callers."""
        self.remove(*list(self.partitions))
        self.tell()

    def tell(self) -> None:
        """Make waiting callers check again."""
        self._fetcher.tell()

    # -- partitions

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchedPartition]:
        return self._fetcher.partitions

    def add(self, name: TopicPartition, topic_id: bytes, start: Position | None = None) -> None:
        """Add a partition, to read from `start` on; None: from where `auto_offset_reset` says. One that is already
        assigned keeps its position, unless the topic was recreated under the same name."""
        before = self._fetcher.partitions.get(name)
        if before is not None and before.topic_id == topic_id:
            return
        self.remove(name)
        partition = FetchedPartition(
            name, topic_id, self._options.reset, self._passed_over if self._options.skips_bad_batches else None
        )
        if start is not None:
            partition.seek(start)
        elif self._options.reset is None:
            partition.failure = OffsetOutOfRange(
                f"nothing says where to begin in {name.topic}-{name.partition}: seek, or set auto_offset_reset"
            )
        self._fetcher.partitions[name] = partition
        self._fetcher.wake()

    def _passed_over(self, name: TopicPartition, error: Damaged) -> None:
        self._fetcher.figures.bad_batches += 1
        if error.batch is not None:
            log.warning(
                "bad_batch_skipped",
                topic=name.topic,
                partition=name.partition,
                first_offset=error.batch.base_offset,
                last_offset=error.batch.last_offset,
                reason=str(error.__cause__),
            )

    def remove(self, *names: TopicPartition) -> None:
        """Remove these partitions and return no more of their records. Get their positions before calling this."""
        for name in names:
            partition = self._fetcher.partitions.pop(name, None)
            if partition is not None:
                partition.drop()
        self._fetcher.wake()

    def assigned(self, partition: tuple[str, int]) -> FetchedPartition:
        """Return the partition's state. Raise `NotAssigned` if it is not assigned."""
        name = partition_name(partition)
        assigned = self._fetcher.partitions.get(name)
        if assigned is None:
            raise NotAssigned(f"partition {name.partition} of {name.topic!r} is not assigned: assign it first")
        return assigned

    def chosen(self, partitions: Iterable[tuple[str, int]]) -> list[FetchedPartition]:
        """Return these partitions, or all if none are given."""
        return [self.assigned(each) for each in partitions] or list(self._fetcher.partitions.values())

    def metrics(self) -> ConsumerMetrics:
        now_ms = self._clock.monotonic_ms()
        figures, partitions = self._fetcher.figures, self._fetcher.partitions
        return ConsumerMetrics(
            assigned_partitions=len(partitions),
            records=figures.records.total,
            records_per_second=figures.records.per_second(now_ms),
            bytes=figures.bytes.total,
            bytes_per_second=figures.bytes.per_second(now_ms),
            fetch_latency=figures.latency.summary(),
            buffered_bytes=self._fetcher.buffered_bytes,
            current_lag={name: partition.lag for name, partition in partitions.items()},
            truncations=figures.truncations,
            bad_batches=figures.bad_batches,
        )

    # -- positions

    def positions(self) -> dict[TopicPartition, Position]:
        """Return the positions of all partitions, each just after the last returned record. Omit those that are not
        known yet."""
        found = {name: partition.where for name, partition in self._fetcher.partitions.items()}
        return {name: position for name, position in found.items() if position is not None}

    def seek(self, partition: tuple[str, int], position: Position) -> None:
        self.assigned(partition).seek(position)
        self._fetcher.wake()

    def seek_anchor(self, partitions: Iterable[tuple[str, int]], anchor: Start) -> None:
        """Continue at a position to look up, in these partitions or in all."""
        for partition in self.chosen(partitions):
            partition.seek_anchor(anchor)
        self._fetcher.wake()

    async def position(self, partition: tuple[str, int]) -> int:
        """Wait until the partition's position is known, and return it."""
        assigned = self.assigned(partition)
        while assigned.position is None:
            if assigned.failure is not None:
                raise assigned.failure
            await self._news()
        return assigned.position

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        for partition in self.chosen(partitions):
            partition.pause()
        self._fetcher.wake()

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        for partition in self.chosen(partitions):
            partition.resume()
        self._fetcher.wake()

    # -- records

    async def first(self, timeout: float | None, look: Callable[[], list[T]]) -> list[T]:
        """Call `look` until it finds something, and return that; return nothing after `timeout` seconds or when
        interrupted."""
        deadline = asyncio.timeout(timeout)
        try:
            async with deadline:
                while True:
                    self.check_woken()
                    if self.is_interrupted():
                        return []
                    found = look()
                    if found:
                        return found
                    self._raise_failure()
                    await self._news()
        except TimeoutError:
            if not deadline.expired():
                raise
            return []

    async def _news(self) -> None:
        await self._fetcher.news.wait()
        self._task.check()

    def wake_up(self) -> None:
        """Make the call that waits for records, or else the next one, raise `WakeupError`."""
        self._is_woken = True
        self.recall()
        self.tell()

    def check_woken(self) -> None:
        """Raise `WakeupError` if `wake_up` was called. That recalled all runs, so a caller that holds some finds them
        empty and gets here."""
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("somebody called wakeup")

    def recall(self) -> None:
        """Withdraw all runs handed out, so that their holder must ask again."""
        for partition in self._fetcher.partitions.values():
            partition.recall()

    def give_back(self, run: RecordRun, index: int) -> None:
        """Return the records of a run from `index` on again."""
        partition = self._fetcher.partitions.get(run.name)
        if partition is not None:
            partition.give_back(run, index)

    def ready_now(self, at_least: int) -> list[RecordRun]:
        """Return runs of about `at_least` received records."""
        runs: list[RecordRun] = []

        def open_run(partition: FetchedPartition, wanted: int) -> int:
            run = partition.open_run(wanted)
            if run is None:
                return 0
            runs.append(run)
            return run.left

        self._in_turn(open_run, at_least)
        return runs

    def arrow_now(self, limit: int, ticket: object) -> list[tuple[TopicPartition, Any]]:
        parts: list[tuple[TopicPartition, Any]] = []
        self._arrow_taken.clear()
        self._arrow_ticket = ticket

        def take(partition: FetchedPartition, wanted: int) -> int:
            before = partition.where
            batches = partition.take_arrow(wanted)
            if before is not None:
                self._arrow_taken.append((partition, partition.generation, before))
            parts.extend((partition.name, batch) for batch in batches)
            return sum(batch.num_rows for batch in batches)

        self._in_turn(take, limit)
        return parts

    def give_back_arrow(self, ticket: object) -> None:
        """Return the records again that `arrow_now` took for this ticket, since they did not reach the caller."""
        if self._arrow_ticket is not ticket:
            return  # none were taken
        for partition, generation, position in self._arrow_taken:
            if partition.generation == generation:
                partition.seek(position)
        self._arrow_taken.clear()
        self._fetcher.wake()

    def _in_turn(self, serve: Callable[[FetchedPartition, int], int], wanted: int) -> None:
        """Serve partitions in turn until there is enough. Served ones come last the next time."""
        partitions = self._fetcher.partitions
        served: list[TopicPartition] = []
        now_ms = self._clock.monotonic_ms()
        for name, partition in partitions.items():
            if wanted <= 0:
                break
            if partition.has_more:
                before = partition.decoded_records
                wanted -= serve(partition, wanted)
                self._fetcher.figures.records.add(partition.decoded_records - before, now_ms)
                served.append(name)
        for name in served:
            partitions[name] = partitions.pop(name)
        if served:
            self._fetcher.records_taken([partitions[name] for name in served])

    def _raise_failure(self) -> None:
        for partition in self._fetcher.partitions.values():
            if partition.failure is None or partition.is_paused:
                continue
            if not (self.ignores_deleted and isinstance(partition.failure, UnknownTopicId)):
                raise partition.failure
