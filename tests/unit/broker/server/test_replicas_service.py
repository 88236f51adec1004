"""What a broker says that it has of its partitions."""

from support.log_services import ORDERS, Node
from support.metadata_images import broker, image_with, partition
from support.raft_nodes import virtual
from support.served_replicas import DIRECTORY, batch

from lograft.broker.server.replicas_service import ReplicasService
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DESCRIBE_REPLICAS
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.unary import exchange


async def ask(node: Node, *topics: str) -> list[pb.DescribeReplicasResponse.Replica]:
    connection = await node.serve(ReplicasService(node.logs).handlers())
    request = pb.DescribeReplicasRequest(topics=topics)
    return list(
        pb.DescribeReplicasResponse.FromString(
            await exchange(connection, DESCRIBE_REPLICAS, request.SerializeToString())
        ).replicas
    )


@virtual
async def test_each_replica_tells_what_it_has() -> None:
    node = Node()
    led, followed = node.lead(0), node.lead(1)
    led.append(batch("a", "b"))
    led.is_held = True
    led.append(batch("c"))
    led.log_start = 1
    followed.refusal = ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads")
    first, second = await ask(node)
    assert first == pb.DescribeReplicasResponse.Replica(
        topic="orders",
        topic_id=ORDERS,
        partition=0,
        is_leader=True,
        leader_epoch=5,
        log_start=1,
        log_end=3,
        high_watermark=2,
        size_bytes=len(batch("a", "b")) + len(batch("c")),
        directory_id=DIRECTORY.bytes,
    )
    assert (second.partition, second.is_leader) == (1, False)


@virtual
async def test_a_new_leader_does_not_tell_a_watermark() -> None:
    node = Node()
    node.lead().watermark_is_known = False
    (only,) = await ask(node)
    assert not only.HasField("high_watermark")


@virtual
async def test_only_what_is_asked_for_and_known_is_told() -> None:
    node = Node()
    node.image = image_with(broker(1), broker(2), topics={"orders": [partition(1, 2)], "bills": [partition(1, 2)]})
    node.replicas.add(1, 0)
    node.replicas.add(2, 0)
    node.replicas.add(3, 0)  # deleted
    assert [each.topic for each in await ask(node)] == ["orders", "bills"]
    assert [each.topic for each in await ask(node, "bills", "nobody")] == ["bills"]
    assert await ask(node, "nobody") == []
