"""What brokers have of their partitions: asked of all of them at once, as far as they answer in time."""

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
    """Of these topics, on these brokers. Who does not answer is left out."""
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
