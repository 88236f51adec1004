"""`lograft.v1.Log/DescribeLoad`: this broker's load since its start."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from lograft.broker.replica.interfaces import ServedReplicas
from lograft.broker.replica.traffic import PartitionTraffic, Traffic
from lograft.broker.requests.call_stats import ServerStats
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, PartitionKey
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DESCRIBE_LOAD
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.request_limits import check_item_count
from lograft.rpc.unary import unary
from lograft.runtime.clock import Clock
from lograft.runtime.network import Handler
from lograft.runtime.tasks.loop_lag import LoopLag
from lograft.storage.log.data_directory import DataDirectory

_AT_ONCE = 500


class CountedReplicas(ServedReplicas, Protocol):
    @property
    def traffic(self) -> Traffic: ...


class LoadService:
    """Uptime counts from the creation of this object."""

    def __init__(
        self,
        clock: Clock,
        broker_id: BrokerId,
        image: Callable[[], ClusterImage],
        replicas: CountedReplicas,
        stats: ServerStats,
        lag: LoopLag | None,
        directories: Sequence[DataDirectory] = (),
    ) -> None:
        self._clock = clock
        self._broker_id = broker_id
        self._image = image
        self._replicas = replicas
        self._stats = stats
        self._lag = lag
        self._directories = directories
        self._began_ms = clock.monotonic_ms()

    def handlers(self) -> Mapping[str, Handler]:
        return {DESCRIBE_LOAD: unary(self._describe, pb.DescribeLoadRequest)}

    async def _describe(self, request: pb.DescribeLoadRequest) -> pb.DescribeLoadResponse:
        check_item_count(len(request.topics), "topics")
        now_ms, total = self._clock.monotonic_ms(), self._replicas.traffic.total()
        return pb.DescribeLoadResponse(
            broker_id=self._broker_id,
            uptime_ms=now_ms - self._began_ms,
            at_ms=now_ms,
            requests=self._stats.requests,
            errors=self._stats.errors,
            event_loop_lag_ms=self._lag.worst_seconds * 1000 if self._lag is not None else None,
            open_streams=self._stats.open,
            disks=[_disk(each) for each in self._directories if each.disk.writer.failure is None],
            partitions=() if request.omit_partitions else await self._partitions(frozenset(request.topics)),
            **_counts(total),
        )

    async def _partitions(self, names: Collection[str]) -> list[pb.DescribeLoadResponse.Partition]:
        topics, found = self._image().topics, list[pb.DescribeLoadResponse.Partition]()
        for number, (key, traffic) in enumerate(list(self._replicas.traffic.partitions()), start=1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # there may be thousands: give other tasks a turn
            topic = topics.get(key[0])
            if topic is not None and (not names or topic.name in names):
                message = pb.DescribeLoadResponse.Partition(
                    topic=topic.name,
                    topic_id=key[0].bytes,
                    partition=key[1],
                    is_leader=self._leads(key),
                    **_counts(traffic),
                )
                found.append(message)
        return found

    def _leads(self, key: PartitionKey) -> bool:
        try:
            return self._replicas.get(*key).is_leader
        except ReplicaError:
            return False  # the replica was removed


def _disk(directory: DataDirectory) -> pb.DescribeLoadResponse.Disk:
    space = directory.space
    return pb.DescribeLoadResponse.Disk(
        directory_id=directory.identity.bytes,
        path=directory.path,
        free_bytes=space.free_bytes,
        total_bytes=space.disk_bytes,
        reserve_bytes=space.reserve_bytes,
        is_full=space.is_full,
    )


def _counts(traffic: PartitionTraffic) -> dict[str, int]:
    return {name: getattr(traffic, name) for name in PartitionTraffic.__slots__}
