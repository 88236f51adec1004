"""What a consumer reads: its partitions, where it is in each of them, and the records that came."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lograft.clients.client_task import ClientTask
from lograft.clients.cluster_client import ClusterClient
from lograft.clients.consumer_options import ConsumerOptions
from lograft.clients.errors import NotAssigned, OffsetOutOfRange
from lograft.clients.fetch_line import FetchSettings
from lograft.clients.fetched_partition import Anchor, FetchedPartition
from lograft.clients.fetcher import Fetcher
from lograft.clients.topic_partition import TopicPartition, partition_name
from lograft.storage.batch import Record


class Position(NamedTuple):
    """The offset of the next record to be given. `leader_epoch`: of the record before it, if that is known: it tells
    whether that is still there after an unclean election."""

    offset: int
    leader_epoch: int | None = None


class PartitionReader:
    """`task` is the consumer's: whoever waits here is told when it does not run any more.

    Partitions are added and removed one by one, by `assign` or as a group says; `add` and `remove` take effect at once,
    and leave the others alone.
    """

    def __init__(self, cluster: ClusterClient, options: ConsumerOptions, task: ClientTask) -> None:
        self._options = options
        self._task = task
        self._cluster = cluster
        settings = FetchSettings(
            options.fetch_buffer_bytes, options.fetch_partition_bytes, options.client_id, options.rack
        )
        self._fetcher = Fetcher(cluster, settings, options.reset)

    async def run(self) -> None:
        """Fetch, until cancelled."""
        await self._fetcher.run()

    def tell(self) -> None:
        """Have those who wait look again."""
        self._fetcher.tell()

    # -- partitions

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchedPartition]:
        return self._fetcher.partitions

    def add(self, name: TopicPartition, topic_id: bytes, start: Position | None = None) -> None:
        """Read this one, too, from `start` on; None: from where `auto_offset_reset` says. One that is read already goes
        on where it is, unless its topic is another one of the same name."""
        before = self._fetcher.partitions.get(name)
        if before is not None and before.topic_id == topic_id:
            return
        self.remove(name)
        partition = FetchedPartition(name, topic_id, self._options.reset or Anchor.EARLIEST)
        if start is not None:
            partition.seek(start.offset)
        elif self._options.reset is None:
            partition.anchor = None
            partition.failure = OffsetOutOfRange(
                f"nothing says where to begin in {name.topic}-{name.partition}: seek, or set auto_offset_reset"
            )
        self._fetcher.partitions[name] = partition
        self._fetcher.wake()

    def remove(self, *names: TopicPartition) -> None:
        """From now on nothing of these is given. Ask for their positions before."""
        for name in names:
            partition = self._fetcher.partitions.pop(name, None)
            if partition is not None:
                partition.drop()
        self._fetcher.wake()

    def assigned(self, partition: tuple[str, int]) -> FetchedPartition:
        """`NotAssigned` if it is not."""
        name = partition_name(partition)
        assigned = self._fetcher.partitions.get(name)
        if assigned is None:
            raise NotAssigned(f"partition {name.partition} of {name.topic!r} is not assigned: assign it first")
        return assigned

    def chosen(self, partitions: Iterable[tuple[str, int]]) -> list[FetchedPartition]:
        """These; all, if there are none."""
        return [self.assigned(each) for each in partitions] or list(self._fetcher.partitions.values())

    # -- positions

    def positions(self) -> dict[TopicPartition, Position]:
        """Of all partitions: what was given, and nothing else, lies before. Those that only a broker knows are left
        out."""
        return {
            name: Position(partition.position)
            for name, partition in self._fetcher.partitions.items()
            if partition.position is not None
        }

    def seek(self, partition: tuple[str, int], position: Position) -> None:
        self.assigned(partition).seek(position.offset)
        self._fetcher.wake()

    def seek_anchor(self, partitions: Iterable[tuple[str, int]], anchor: Anchor) -> None:
        """Go on where only brokers know; in all partitions, if none are named."""
        for partition in self.chosen(partitions):
            partition.seek_anchor(anchor)
        self._fetcher.wake()

    async def position(self, partition: tuple[str, int]) -> int:
        """Waits until it is known."""
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

    async def poll(self, timeout: float | None, limit: int) -> list[Record]:
        """Records as soon as there are any, at most `limit`; none after `timeout` seconds."""
        deadline = asyncio.timeout(timeout)
        try:
            async with deadline:
                while True:
                    records = self._take(limit)
                    if records:
                        return records
                    self._raise_failure()
                    await self._news()
        except TimeoutError:
            if not deadline.expired():
                raise
            return []

    async def _news(self) -> None:
        await self._fetcher.news.wait()
        self._task.check()

    def _take(self, limit: int) -> list[Record]:
        """What is there, a partition at a time; whoever gave something is last the next time."""
        partitions = self._fetcher.partitions
        records: list[Record] = []
        served: list[TopicPartition] = []
        for name, partition in partitions.items():
            if len(records) >= limit:
                break
            if partition.has_more:
                records += partition.take(limit - len(records))
                served.append(name)
        for name in served:
            partitions[name] = partitions.pop(name)
        if served:
            self._fetcher.records_taken([partitions[name] for name in served])
        return records

    def _raise_failure(self) -> None:
        for partition in self._fetcher.partitions.values():
            if partition.failure is not None and not partition.is_paused:
                raise partition.failure

    def give_back(self, records: Iterable[Record]) -> None:
        """Records that `poll` gave last, up to the end: they come again. A partition that was told since to be
        elsewhere is left alone."""
        by_name: dict[TopicPartition, list[Record]] = {}
        for record in records:
            by_name.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        for name, given in by_name.items():
            partition = self._fetcher.partitions.get(name)
            if partition is not None and partition.position is not None:
                partition.give_back(given)
