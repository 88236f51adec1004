"""Collects descriptions of replicas from all brokers that answer in time."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from lograft.clients.admin.model.types import ReplicaDescription
from lograft.clients.admin.replicas.fan_out import ask_each
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DESCRIBE_REPLICAS


async def find_replicas(
    cluster: ClusterClient, broker_ids: Iterable[int], topics: Sequence[str], within_ms: int
) -> list[ReplicaDescription]:
    """Return the replicas of these topics on these brokers. Skip brokers that do not answer."""
    found: list[ReplicaDescription] = []

    async def ask(broker_id: int) -> None:
        request = pb.DescribeReplicasRequest(topics=topics)
        answer = await cluster.call_broker(broker_id, DESCRIBE_REPLICAS, request, pb.DescribeReplicasResponse)
        found.extend(_read(broker_id, replica) for replica in answer.replicas)

    await ask_each(broker_ids, ask, within_ms)
    return sorted(found, key=lambda replica: (replica.partition, replica.broker))


def _read(broker_id: int, replica: pb.DescribeReplicasResponse.Replica) -> ReplicaDescription:
    return ReplicaDescription(
        TopicPartition(replica.topic, replica.partition),
        broker_id,
        is_leader=replica.is_leader,
        leader_epoch=replica.leader_epoch,
        start=replica.log_start,
        end=replica.log_end,
        high_watermark=replica.high_watermark if replica.HasField("high_watermark") else None,
        size_bytes=replica.size_bytes,
        directory=UUID(bytes=replica.directory_id),
    )
