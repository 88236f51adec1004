"""A broker's part of `/metrics`. It is read from live state on each request, in parts, so that the event loop stays
responsive with ten thousand partitions or many committed offsets."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from lograft.broker.groups.offsets_partition import OffsetsPartition
from lograft.broker.groups.state import Group
from lograft.broker.hosting.replica_manager import ReplicaManager
from lograft.broker.metrics import families
from lograft.broker.metrics.remote_log_ends import RemoteLogEnds
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.traffic import PartitionTraffic
from lograft.broker.server.log_service import LogServices
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import PartitionKey
from lograft.runtime.observability.prometheus_text import Exposition
from lograft.storage.log.data_directory import DataDirectory

OTHERS = "(other)"
"""The label of all topics, or groups, without a series of their own. No topic can have this name."""


_AT_ONCE = 500  # replicas, or committed offsets, per turn of the loop, which takes a few milliseconds


class BrokerMetrics:
    """`most_groups`: the most groups that get series of their own."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        replicas: ReplicaManager,
        directories: Sequence[DataDirectory],
        groups: Mapping[int, OffsetsPartition],
        elsewhere: RemoteLogEnds,
        services: LogServices,
        most_groups: int,
    ) -> None:
        self._image = image
        self._replicas = replicas
        self._directories = directories
        self._groups = groups
        self._elsewhere = elsewhere
        self._services = services
        self._most_groups = most_groups
        self._told_apart: dict[str, None] = {}  # groups

    async def add_to(self, page: Exposition) -> None:
        await self._add_traffic(page)
        await self._add_replicas(page)
        self._add_disks(page)
        await self._add_groups(page)

    # -- records

    async def _add_traffic(self, page: Exposition) -> None:
        traffic, topics = self._replicas.traffic, self._image().topics
        for topic_id, counts in traffic.topics():
            if (topic := topics.get(topic_id)) is not None:
                _add_counts(page, counts, topic.name)
        _add_counts(page, traffic.others(), OTHERS)
        await asyncio.sleep(0)
        total = traffic.total()
        page.add(families.REPLICATED_IN, total.replicated_bytes_in)
        page.add(families.REPLICATED_OUT, total.replicated_bytes_out)
        page.add_histogram(families.PRODUCE_SECONDS, self._services.produce.seconds)
        page.add_histogram(families.FETCH_SECONDS, self._services.fetch.seconds)
        page.add(families.IN_FLIGHT, self._services.produce.total.size_bytes)
        await asyncio.sleep(0)

    # -- replicas

    async def _add_replicas(self, page: Exposition) -> None:
        topics, traffic = self._image().topics, self._replicas.traffic
        led = under_replicated = under_min_isr = max_lag = 0
        sizes: dict[str, int] = {}
        hosted = list(self._replicas.hosted())
        for number, replica in enumerate(hosted, start=1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            topic_id = replica.identity.key[0]
            if (topic := topics.get(topic_id)) is not None:
                name = topic.name if traffic.is_told_apart(topic_id) else OTHERS
                sizes[name] = sizes.get(name, 0) + replica.log.segments.size_bytes
            if isinstance(replica.role, LeaderRole):
                core = replica.role.core
                led += 1
                under_replicated += len(core.partition.isr) < len(core.partition.final_replicas)
                under_min_isr += not core.has_enough_in_sync
                max_lag = max(max_lag, core.max_lag)
        page.add(families.PARTITIONS, len(hosted))
        page.add(families.LED, led)
        page.add(families.UNDER_REPLICATED, under_replicated)
        page.add(families.UNDER_MIN_ISR, under_min_isr)
        page.add(families.FOLLOWER_LAG, max_lag)
        for name, size_bytes in sizes.items():
            page.add(families.LOG_SIZE, size_bytes, name)
        counts = self._replicas.counts
        page.add(families.ISR_SHRINKS, counts.isr_shrinks)
        page.add(families.ISR_EXPANDS, counts.isr_expands)
        page.add(families.ELECTIONS, counts.elections)
        page.add(families.UNCLEAN_ELECTIONS, counts.unclean_elections)

    # -- disks

    def _add_disks(self, page: Exposition) -> None:
        for directory in self._directories:
            writer = directory.disk.writer
            page.add_histogram(families.SYNC_SECONDS, writer.sync_seconds, directory.path)
            page.add(families.DISK_QUEUE, writer.queued_bytes, directory.path)
            page.add(families.DISK_FAILED, int(writer.failure is not None), directory.path)

    # -- groups

    async def _add_groups(self, page: Exposition) -> None:
        groups = [group for partition in self._groups.values() if partition.is_loaded for group in partition.groups]
        page.add(families.GROUPS, len(groups))
        members, lags, unknowns = dict[str, int](), dict[str, int](), dict[str, int]()
        looked_at = 0
        self._tell_apart(groups)
        for group in groups:
            looked_at += 1 + len(group.offsets)
            if looked_at >= _AT_ONCE:
                looked_at = 0
                await asyncio.sleep(0)
            name = group.name if group.name in self._told_apart else OTHERS
            lag, unknown = self._lag_of(group)
            members[name] = members.get(name, 0) + len(group.members)
            lags[name] = lags.get(name, 0) + lag
            unknowns[name] = unknowns.get(name, 0) + unknown
        for name in members:
            page.add(families.GROUP_MEMBERS, members[name], name)
            page.add(families.GROUP_LAG, lags[name], name)
            page.add(families.GROUP_LAG_UNKNOWN, unknowns[name], name)

    def _tell_apart(self, groups: Sequence[Group]) -> None:
        """Keep the series of existing groups: a series that another group displaces is useless."""
        names = {group.name: None for group in groups}
        kept = [name for name in self._told_apart if name in names]
        self._told_apart = dict.fromkeys(list(dict.fromkeys([*kept, *names]))[: self._most_groups])

    def _lag_of(self, group: Group) -> tuple[int, int]:
        """Return the group's lag in records, and the number of partitions whose lag is unknown."""
        lag = unknown = 0
        for key, committed in group.offsets.items():
            end = self._end_of(key)
            if end is None:
                unknown += 1
            else:
                lag += max(end - committed.offset, 0)
        return lag, unknown

    def _end_of(self, key: PartitionKey) -> int | None:
        """Return the partition's high watermark, or None if unknown. A replica outside the ISR does not know it."""
        replica = self._replicas.find(key)
        partition = replica.partition if replica is not None else None
        if replica is None or partition is None or replica.identity.broker_id not in partition.isr:
            return self._elsewhere.end_of(key)
        return replica.high_watermark


def _add_counts(page: Exposition, counts: PartitionTraffic, topic: str) -> None:
    page.add(families.BYTES_IN, counts.bytes_in, topic)
    page.add(families.RECORDS_IN, counts.records_in, topic)
    page.add(families.BYTES_OUT, counts.bytes_out, topic)
    page.add(families.RECORDS_OUT, counts.records_out, topic)
