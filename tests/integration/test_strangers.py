"""Strangers who reach the ports of a cluster, and know all that is public: nothing is lost by what they try."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest
from google.protobuf.message import Message

from lograft import Admin, Consumer, Producer, TopicPartition
from lograft.broker.replication.codec import REPLICATE
from lograft.clients.local.local_cluster import existing_cluster
from lograft.proto import controller_pb2 as pb
from lograft.proto import replication_pb2
from lograft.proto.methods import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITIONS,
    BROKER_HEARTBEAT,
    CREATE_INTERNAL_TOPIC,
    FOLLOW,
    LATEST_EPOCH,
    PROVE,
    READ_INDEX,
    REGISTER,
    REPORT_FAILURES,
)
from lograft.raft.bootstrap.bootstrapper import OFFER_METHOD, PROBE_METHOD
from lograft.raft.bootstrap.codec import encode_probe
from lograft.raft.interfaces import StoreIdentity
from lograft.raft.transport.hello import Hello, encode_hello
from lograft.raft.transport.peer_connection import MESSAGES_METHOD
from lograft.raft.transport.snapshot_stream import SNAPSHOT_METHOD
from lograft.runtime.clock import LoopClock
from lograft.runtime.network import ConnectFailed, Status, StreamError
from lograft.runtime.production.grpc_network import GrpcNetwork
from lograft.runtime.proof.node_proof import NodeIdentity
from lograft.runtime.proof.proven_network import ProvenNetwork
from lograft.runtime.rng import system_rng
from lograft.testing import TestingCluster, cluster

COUNT = 1000
SOON_SECONDS = 20


@dataclass(frozen=True)
class Known:
    """What anybody can learn by asking a broker: of the leader of a partition, and of one of its followers."""

    bootstrap: str
    cluster_id: str
    clients_addresses: list[str]
    nodes_address: str
    controller_address: str
    leader: int
    follower: int
    follower_epoch: int
    directory: bytes
    topic_id: bytes
    leader_epoch: int
    partition_epoch: int


@pytest.fixture(scope="module")
def running() -> Iterator[TestingCluster]:
    with cluster(3) as made:
        with Admin(made.bootstrap) as admin:
            admin.create_topic("orders", partitions=1, replicas=3)
            admin.wait_for_topic("orders")
        with Producer(made.bootstrap) as producer:
            for delivery in [producer.send("orders", b"%d" % number) for number in range(COUNT)]:
                delivery.result(SOON_SECONDS)
        yield made


def look(running: TestingCluster) -> Known:
    with Admin(running.bootstrap) as admin:
        topic, described = admin.describe_topic("orders"), admin.describe_cluster()
    (partition,) = topic.partitions
    assert partition.leader is not None
    follower = next(broker for broker in described.brokers if broker.id != partition.leader)
    layout = existing_cluster(running.directory).layout
    controller = described.controller_id
    assert controller is not None
    return Known(
        bootstrap=running.bootstrap,
        cluster_id=described.cluster_id,
        clients_addresses=[broker.address for broker in described.brokers],
        nodes_address=layout.nodes_address(partition.leader),
        controller_address=layout.controller_address(controller),
        leader=partition.leader,
        follower=follower.id,
        follower_epoch=follower.epoch,
        directory=follower.directories[0].bytes,
        topic_id=topic.id.bytes,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def forged(known: Known) -> dict[str, Message]:
    """The first message of each method: as the follower, or another broker, would send it."""
    broker = {"broker_id": known.follower, "broker_epoch": known.follower_epoch}
    subscribe = replication_pb2.Subscribe(
        handle=1 << 40, topic_id=known.topic_id, leader_epoch=known.leader_epoch, last_epoch=-1,
        directory_id=known.directory, partition_epoch=known.partition_epoch,
    )  # fmt: skip
    hello = replication_pb2.ReplicaHello(cluster_id=known.cluster_id, leader_id=known.leader, **broker)
    corrupt = pb.ReportFailuresRequest.CorruptReplica(topic_id=known.topic_id)
    return {
        REPLICATE: replication_pb2.ReplicateRequest(hello=hello, subscribe=[subscribe], window_bytes=1 << 30),
        REPORT_FAILURES: pb.ReportFailuresRequest(corrupt_replicas=[corrupt], **broker),  # type: ignore[arg-type]
        REGISTER: pb.RegisterRequest(
            cluster_id=known.cluster_id,
            broker_id=9,
            incarnation=bytes(16),
            address="h:1",
            directories=[bytes(16)],
            boot_id="b",
            min_feature_level=1,
            max_feature_level=9,
            nodes_address="h:2",
        ),
        LATEST_EPOCH: pb.LatestEpochRequest(cluster_id=known.cluster_id, broker_id=known.follower),
        BROKER_HEARTBEAT: pb.BrokerHeartbeatRequest(
            cluster_id=known.cluster_id,
            wanted=pb.BrokerHeartbeatRequest.SHUT_DOWN,
            **broker,  # type: ignore[arg-type]
        ),
        ALTER_PARTITIONS: pb.AlterPartitionsRequest(broker_id=known.leader, broker_epoch=known.follower_epoch),
        ALLOCATE_PRODUCER_IDS: pb.AllocateProducerIdsRequest(**broker),
        CREATE_INTERNAL_TOPIC: pb.CreateInternalTopicRequest(name="__x", topic_id=bytes(16), **broker),
        FOLLOW: pb.FollowRequest(cluster_id=known.cluster_id, node_id=9),
        READ_INDEX: pb.MetadataIndexRequest(),
    }


def forged_raft(known: Known) -> dict[str, bytes]:
    identity = StoreIdentity(known.cluster_id, known.follower, UUID(int=1))
    hello = encode_hello(Hello(identity.cluster_id, identity.member, known.leader))
    return {
        MESSAGES_METHOD: hello,
        SNAPSHOT_METHOD: hello,
        PROBE_METHOD: encode_probe(identity),
        OFFER_METHOD: encode_probe(identity),
    }


async def how_it_ends(address: str, method: str, *messages: bytes) -> Status | None:
    """None: well."""
    connection = await GrpcNetwork().connect(address)
    try:
        stream = connection.open(method)
        for message in messages:
            await stream.send(message)
        while await stream.receive() is not None:
            pass
    except StreamError as error:
        return error.status
    finally:
        await connection.close()
    return None


@pytest.fixture
def known(running: TestingCluster) -> Iterator[Known]:
    """Afterwards the cluster is as it was, whatever was tried."""
    before = look(running)
    yield before
    after = look(running)
    assert after == before, "nobody was elected, left the ISR or was registered"
    with Consumer(running.bootstrap) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()
        values: list[bytes | None] = []
        while len(values) < COUNT:
            values += [record.value for record in consumer.poll(SOON_SECONDS)]
    assert values == [b"%d" % number for number in range(COUNT)]
    with Admin(running.bootstrap) as admin:
        assert len(admin.describe_topic("orders").partitions[0].isr) == 3


def test_nothing_that_nodes_say_is_served_to_clients(known: Known) -> None:
    first = {method: message.SerializeToString() for method, message in forged(known).items()} | forged_raft(known)
    for address in known.clients_addresses:
        for method, message in {**first, PROVE: b""}.items():
            assert asyncio.run(how_it_ends(address, method, message)) is Status.UNIMPLEMENTED, method


def test_who_acknowledges_what_it_does_not_have_is_not_heard(known: Known) -> None:
    """It subscribes as a follower that is in sync, and says that it has all there is."""
    acknowledgement = replication_pb2.ReplicaAcknowledgement(
        handle=1 << 40, leader_epoch=known.leader_epoch, end_offset=COUNT, partition_epoch=known.partition_epoch
    )
    follows = forged(known)[REPLICATE].SerializeToString()
    acknowledges = replication_pb2.ReplicateRequest(acknowledgements=[acknowledgement]).SerializeToString()
    ended = asyncio.run(how_it_ends(known.nodes_address, REPLICATE, follows, acknowledges))
    assert ended is Status.UNAUTHENTICATED


def test_an_epoch_that_nobody_was_given_shuts_nobody_out(known: Known) -> None:
    request = forged(known)[REPLICATE]
    assert isinstance(request, replication_pb2.ReplicateRequest)
    request.hello.broker_epoch = 2**62
    assert asyncio.run(how_it_ends(known.nodes_address, REPLICATE, request.SerializeToString())) is (
        Status.UNAUTHENTICATED
    )


def test_forged_reports_of_failures_take_nothing_offline(known: Known) -> None:
    with Admin(known.bootstrap) as admin:
        brokers = admin.describe_cluster().brokers
    for broker in brokers:
        report = forged(known)[REPORT_FAILURES]
        assert isinstance(report, pb.ReportFailuresRequest)
        report.broker_id, report.broker_epoch = broker.id, broker.epoch
        report.failed_directories.extend(directory.bytes for directory in broker.directories)
        ended = asyncio.run(how_it_ends(known.controller_address, REPORT_FAILURES, report.SerializeToString()))
        assert ended is Status.UNAUTHENTICATED


def test_no_other_word_is_taken_for_a_nodes(known: Known) -> None:
    first = {method: message.SerializeToString() for method, message in forged(known).items()} | forged_raft(known)
    del first[REPLICATE]
    for method, message in first.items():
        assert asyncio.run(how_it_ends(known.controller_address, method, message)) is Status.UNAUTHENTICATED, method


def test_a_node_with_another_secret_is_not_let_in(known: Known) -> None:
    identity = NodeIdentity(known.cluster_id, known.follower, (b"not the secret of this cluster at all",))
    links = ProvenNetwork(GrpcNetwork(), identity, system_rng(), LoopClock())
    for address in (known.nodes_address, known.controller_address):
        with pytest.raises(ConnectFailed, match="does not know the secret of cluster"):
            asyncio.run(links.connect(address))
