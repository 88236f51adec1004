"""The consumer, for asyncio."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, Unpack

from lograft.clients.bootstrap import parse_bootstrap
from lograft.clients.client_task import ClientTask, open_runtime
from lograft.clients.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.consumer_options import ConsumerKeywords, ConsumerOptions
from lograft.clients.errors import InvalidArgument, NotAssigned, OffsetOutOfRange
from lograft.clients.fetch_line import FetchSettings
from lograft.clients.fetched_partition import Anchor, FetchedPartition
from lograft.clients.fetcher import Fetcher
from lograft.clients.offset_lookup import AT_TIME, EARLIEST, LATEST, OffsetLookup, OffsetQuestion
from lograft.clients.topic_partition import MAX_INTEGER, TopicPartition, check_topic, partition_name
from lograft.proto import log_pb2 as pb
from lograft.runtime.client_runtime import close_client_runtime
from lograft.runtime.world import Runtime
from lograft.storage.batch import Record

__all__ = ["Consumer"]


class Consumer:
    """Reads records, of each partition in order.

    async with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
        await consumer.assign([TopicPartition("orders", 0)])
        async for record in consumer: ...
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        runtime: Runtime | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> None:
        self._options = ConsumerOptions(**options)
        self._bootstrap = parse_bootstrap(bootstrap)
        self._given_runtime = runtime
        self._runtime: Runtime
        self._cluster: ClusterClient
        self._fetcher: Fetcher
        self._lookup: OffsetLookup
        self._ahead: deque[Record] = deque()  # taken, and not yet given by the iterator
        self._task = ClientTask("consumer", self._run)

    # -- life

    async def start(self) -> None:
        """Begin; `async with` does it."""
        if self._task.is_running:
            return
        options = self._options
        self._runtime = open_runtime(self._given_runtime)
        times = ClusterTimes(first_contact_ms=options.first_contact_ms)
        self._cluster = ClusterClient(self._runtime, self._bootstrap, times)
        settings = FetchSettings(
            options.fetch_buffer_bytes, options.fetch_partition_bytes, options.client_id, options.rack
        )
        self._fetcher = Fetcher(self._cluster, settings, options.reset)
        self._lookup = OffsetLookup(self._cluster)
        self._task.start()
        self._task.when_failed(lambda _: self._fetcher.tell())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.run(), name="follow-metadata")
            group.create_task(self._fetcher.run(), name="fetch")

    async def close(self) -> None:
        if not self._task.is_running:
            return
        await self._task.close()
        self._fetcher.tell()
        await self._cluster.close()
        if self._given_runtime is None:
            await close_client_runtime(self._runtime)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- partitions

    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, and no others. Those that were read before go on where they are; others begin where
        `auto_offset_reset` says, unless one seeks first. `UnknownTopic` or `UnknownPartition` changes nothing."""
        self._task.check()
        names = [partition_name(each) for each in partitions]
        topic_ids = await self._topic_ids(names)
        self._give_back_ahead()
        assigned: dict[TopicPartition, FetchedPartition] = {}
        for name in names:
            before = self._fetcher.partitions.get(name)
            if before is not None and before.topic_id == topic_ids[name]:
                assigned[name] = before
            else:
                assigned[name] = self._new_partition(name, topic_ids[name])
        for name, partition in self._fetcher.partitions.items():
            if assigned.get(name) is not partition:
                partition.drop()
        self._fetcher.partitions = assigned
        self._fetcher.wake()

    def _new_partition(self, name: TopicPartition, topic_id: bytes) -> FetchedPartition:
        reset = self._options.reset
        partition = FetchedPartition(name, topic_id, reset or Anchor.EARLIEST)
        if reset is None:
            partition.anchor = None
            partition.failure = OffsetOutOfRange(
                f"nothing says where to begin in {name.topic}-{name.partition}: seek, or set auto_offset_reset"
            )
        return partition

    async def _topic_ids(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, bytes]:
        async with self._within("nothing could be learnt of the topics"):
            return {name: (await self._cluster.partition(*name)).id for name in names}

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        self._task.check()
        return sorted(self._fetcher.partitions)

    def _assigned(self, partition: tuple[str, int]) -> FetchedPartition:
        self._task.check()
        name = partition_name(partition)
        assigned = self._fetcher.partitions.get(name)
        if assigned is None:
            raise NotAssigned(f"partition {name.partition} of {name.topic!r} is not assigned: assign it first")
        self._give_back_ahead()
        return assigned

    def _chosen(self, partitions: Iterable[tuple[str, int]]) -> list[FetchedPartition]:
        """These; all, if there are none."""
        self._give_back_ahead()
        return [self._assigned(each) for each in partitions] or list(self._fetcher.partitions.values())

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        self._task.check()
        check_topic(topic)
        async with self._within(f"nothing could be learnt of topic {topic!r}"):
            count = (await self._cluster.topic(topic)).partition_count
        return [TopicPartition(topic, number) for number in range(count)]

    # -- records

    async def poll(self, timeout: float | None = None, max_records: int | None = None) -> list[Record]:
        """Records as soon as there are any, at most `max_poll_records`; none after `timeout` seconds (None: no end).

        What a partition failed with is raised once there is nothing else to give; it stays so until one seeks.
        """
        self._task.check()
        if max_records is not None and (not isinstance(max_records, int) or max_records < 1):
            raise InvalidArgument(f"max_records is {max_records!r}: give a number above 0")
        self._give_back_ahead()
        return await self._poll(timeout, max_records or self._options.max_poll_records)

    async def _poll(self, timeout: float | None, limit: int) -> list[Record]:
        deadline = asyncio.timeout(timeout)
        try:
            async with deadline:
                while True:
                    records = self._take(limit)
                    if records:
                        return records
                    self._raise_failure()
                    await self._fetcher.news.wait()
                    self._task.check()
        except TimeoutError:
            if not deadline.expired():
                raise
            return []

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

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """The next record. Whoever stops after any of them goes on behind it, by whichever way."""
        self._task.check()
        if not self._ahead:
            self._ahead.extend(await self._poll(None, self._options.max_poll_records))
        return self._ahead.popleft()

    def _give_back_ahead(self) -> None:
        if self._ahead:
            self.give_back(self._ahead)
            self._ahead.clear()

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

    # -- positions

    async def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Go on at `offset`."""
        if not isinstance(offset, int) or not 0 <= offset <= MAX_INTEGER:
            raise InvalidArgument(f"there is no offset {offset}: give 0 or more, or use seek_to_end")
        self._assigned(partition).seek(offset)
        self._fetcher.wake()

    async def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first offset there is; in all partitions, if none are named."""
        self._seek_anchor(partitions, Anchor.EARLIEST)

    async def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on with what is stored from now on; in all partitions, if none are named."""
        self._seek_anchor(partitions, Anchor.LATEST)

    def _seek_anchor(self, partitions: Iterable[tuple[str, int]], anchor: Anchor) -> None:
        self._task.check()
        for partition in self._chosen(partitions):
            partition.seek_anchor(anchor)
        self._fetcher.wake()

    async def position(self, partition: tuple[str, int]) -> int:
        """The offset of the next record that `poll` gives of the partition."""
        assigned = self._assigned(partition)
        async with self._within("the position could not be found out"):
            while assigned.position is None:
                if assigned.failure is not None:
                    raise assigned.failure
                await self._fetcher.news.wait()
                self._task.check()
        return assigned.position

    async def pause(self, *partitions: tuple[str, int]) -> None:
        """Give nothing of these (of all, if none are named) until they are resumed."""
        self._task.check()
        for partition in self._chosen(partitions):
            partition.pause()
        self._fetcher.wake()

    async def resume(self, *partitions: tuple[str, int]) -> None:
        self._task.check()
        for partition in self._chosen(partitions):
            partition.resume()
        self._fetcher.wake()

    # -- offsets

    async def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        return _all_found(await self._offsets(dict.fromkeys(map(partition_name, partitions), 0), EARLIEST))

    async def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Where each partition ends: the offset of the next record to be stored for good."""
        return _all_found(await self._offsets(dict.fromkeys(map(partition_name, partitions), 0), LATEST))

    async def offsets_for_times(self, times: Mapping[tuple[str, int], int]) -> dict[TopicPartition, int | None]:
        """The first record at or after a time (in milliseconds) in each partition; None where there is none."""
        for moment in times.values():
            if not isinstance(moment, int) or abs(moment) > MAX_INTEGER:
                raise InvalidArgument(f"{moment!r} is not a time: give milliseconds since 1970")
        return await self._offsets({partition_name(name): moment for name, moment in times.items()}, AT_TIME)

    async def _offsets(
        self, times: Mapping[TopicPartition, int], kind: pb.ListOffsetsRequest.Kind
    ) -> dict[TopicPartition, int | None]:
        self._task.check()
        async with self._within("the offsets could not be found out"):
            questions = {
                name: OffsetQuestion((await self._cluster.partition(*name)).id, kind, moment)
                for name, moment in times.items()
            }
            return await self._lookup.find(questions)

    def _within(self, what: str) -> AbstractAsyncContextManager[None]:
        return self._cluster.within(self._options.request_timeout_ms, what)


def _all_found(offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    return {name: offset for name, offset in offsets.items() if offset is not None}
