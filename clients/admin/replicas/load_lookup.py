"""Collects the load counters of all brokers that answer in time."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from lograft.clients.admin.model.types import BrokerLoad, DiskRoom, PartitionLoad
from lograft.clients.admin.replicas.fan_out import ask_each
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.types import TopicPartition
from lograft.proto import cluster_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DESCRIBE_LOAD


def live_brokers(description: cluster_pb2.ClusterDescription) -> list[int]:
    """Return the brokers that the controller does not fence: waiting for a fenced one would be in vain."""
    return [broker.id for broker in description.brokers if broker.state != cluster_pb2.Broker.FENCED]


async def find_load(
    cluster: ClusterClient,
    broker_ids: Iterable[int],
    topics: Sequence[str],
    within_ms: int,
    *,
    include_partitions: bool,
) -> list[BrokerLoad]:
    """Return the load of these brokers, ordered by id. Skip those that do not answer."""
    request = pb.DescribeLoadRequest(topics=topics, omit_partitions=not include_partitions)
    found: list[BrokerLoad] = []

    async def ask(broker_id: int) -> None:
        answer = await cluster.call_broker(broker_id, DESCRIBE_LOAD, request, pb.DescribeLoadResponse)
        found.append(_read(answer))

    await ask_each(broker_ids, ask, within_ms)
    return sorted(found, key=lambda load: load.id)


def _read(load: pb.DescribeLoadResponse) -> BrokerLoad:
    partitions = [_read_partition(load.broker_id, partition) for partition in load.partitions]
    return BrokerLoad(
        id=load.broker_id,
        uptime_ms=load.uptime_ms,
        at_ms=load.at_ms,
        requests=load.requests,
        errors=load.errors,
        bytes_in=load.bytes_in,
        records_in=load.records_in,
        bytes_out=load.bytes_out,
        records_out=load.records_out,
        replicated_bytes_in=load.replicated_bytes_in,
        replicated_bytes_out=load.replicated_bytes_out,
        event_loop_lag_ms=load.event_loop_lag_ms if load.HasField("event_loop_lag_ms") else None,
        open_streams=load.open_streams,
        partitions=tuple(sorted(partitions, key=lambda one: one.partition)),
        disks=tuple(_read_disk(disk) for disk in load.disks),
    )


def _read_disk(disk: pb.DescribeLoadResponse.Disk) -> DiskRoom:
    return DiskRoom(
        directory=UUID(bytes=disk.directory_id),
        path=disk.path,
        free_bytes=disk.free_bytes,
        total_bytes=disk.total_bytes,
        reserve_bytes=disk.reserve_bytes,
        is_full=disk.is_full,
    )


def _read_partition(broker_id: int, load: pb.DescribeLoadResponse.Partition) -> PartitionLoad:
    return PartitionLoad(
        TopicPartition(load.topic, load.partition),
        broker_id,
        is_leader=load.is_leader,
        bytes_in=load.bytes_in,
        records_in=load.records_in,
        bytes_out=load.bytes_out,
        records_out=load.records_out,
        replicated_bytes_in=load.replicated_bytes_in,
        replicated_bytes_out=load.replicated_bytes_out,
    )
