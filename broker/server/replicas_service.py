"""`lograft.v1.Log/DescribeReplicas`: the replicas on this broker."""

from collections.abc import Mapping

from lograft.broker.replica.interfaces import ReplicaFacts
from lograft.broker.replica.partition_lookup import PartitionLookup
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DESCRIBE_REPLICAS
from lograft.rpc.request_limits import check_item_count
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler


class ReplicasService:
    def __init__(self, logs: PartitionLookup) -> None:
        self._logs = logs

    def handlers(self) -> Mapping[str, Handler]:
        return {DESCRIBE_REPLICAS: unary(self._describe, pb.DescribeReplicasRequest)}

    async def _describe(self, request: pb.DescribeReplicasRequest) -> pb.DescribeReplicasResponse:
        check_item_count(len(request.topics), "topics")
        return pb.DescribeReplicasResponse(
            replicas=(_message(topic, facts) for topic, facts in self._logs.facts(frozenset(request.topics)))
        )


def _message(topic: str, facts: ReplicaFacts) -> pb.DescribeReplicasResponse.Replica:
    return pb.DescribeReplicasResponse.Replica(
        topic=topic,
        topic_id=facts.topic_id.bytes,
        partition=facts.number,
        is_leader=facts.is_leader,
        leader_epoch=facts.leader_epoch,
        log_start=facts.log_start,
        log_end=facts.log_end,
        high_watermark=facts.high_watermark,
        size_bytes=facts.size_bytes,
        directory_id=facts.directory_id.bytes,
    )
