"""An outsider in a simulated cluster that is not a node, knows everything public, and impersonates nodes."""

import asyncio
from typing import Protocol

from google.protobuf.message import Message

from lograft.broker.replication.codec import REPLICATE
from lograft.chaos.cluster.checks.coverage_counters import Sights
from lograft.chaos.cluster.world.node import CLUSTER_ID, SimulatedHost
from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.world.network import VirtualNetwork
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage, Topic
from lograft.proto import controller_pb2 as pb
from lograft.proto import replication_pb2
from lograft.proto.methods import (
    BROKER_HEARTBEAT,
    FOLLOW,
    LATEST_EPOCH,
    PROVE,
    READ_INDEX,
    REGISTER,
    REPORT_FAILURES,
    is_between_nodes,
)
from lograft.proto.node_proof_pb2 import NodeHello, NodeProofRequest
from lograft.runtime.network import ConnectFailed, Status, StreamError
from lograft.runtime.proof.node_proof import NONCE_BYTES
from lograft.runtime.rng import Rng

HOST = "stranger"

_PAUSE_MS = (20, 700)
_CONNECT_MS = 500
_PATIENCE_SECONDS = 5.0


class StrangerEnvironment(Protocol):
    hosts: list[SimulatedHost]
    network: VirtualNetwork
    sights: Sights

    @property
    def image(self) -> ClusterImage: ...

    async def pass_ms(self, duration_ms: float) -> None: ...


class Stranger:
    """Makes requests until cancelled. Raise `InvariantBroken` if a node answers one made in a node's name."""

    def __init__(self, world: StrangerEnvironment, rng: Rng) -> None:
        self._world = world
        self._rng = rng

    async def run(self) -> None:
        while True:
            await self._world.pass_ms(self._rng.uniform(*_PAUSE_MS))
            image, host = self._world.image, self._rng.choice(self._world.hosts)
            if not image.brokers:
                continue
            make = self._rng.choice((self._follow, self._report, self._beat, self._register, self._ask, self._prove))
            method, messages = make(image)
            config = host.config
            address = config.nodes_listen if method == REPLICATE else config.controller_listen
            # Also try listeners that do not serve this method.
            addresses = [one for one in (address, address, config.listen) if one is not None]
            if addresses:
                data = [message.SerializeToString() for message in messages]
                await self._try(self._rng.choice(addresses), method, data)

    async def _try(self, address: str, method: str, messages: list[bytes]) -> None:
        assert is_between_nodes(method)
        try:
            connection = await self._world.network.host(HOST).connect(address, _CONNECT_MS)
        except ConnectFailed:
            return
        answers = 0
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                stream = connection.open(method)
                for message in messages:
                    await stream.send(message)
                while await stream.receive() is not None:
                    answers += 1
            raise InvariantBroken("strangers are not heard", f"{method} at {address} ended well")
        except TimeoutError:
            pass  # the node is paused, or gone
        except StreamError as error:
            if error.status in (Status.UNAUTHENTICATED, Status.UNIMPLEMENTED):
                self._world.sights.counts["strangers refused"] += 1
            elif error.status not in (Status.UNAVAILABLE, Status.CANCELLED):
                raise InvariantBroken("strangers are not heard", f"{method} at {address}: {error}") from None
        finally:
            await connection.close()
        if answers > (method == PROVE):  # which sends everyone a challenge
            raise InvariantBroken("strangers are not heard", f"{method} at {address} was answered")

    # -- requests

    def _broker(self, image: ClusterImage) -> Broker:
        return self._rng.choice(sorted(image.brokers.values(), key=lambda broker: broker.broker_id))

    def _topic(self, image: ClusterImage) -> Topic | None:
        topics = sorted(image.topics.values(), key=lambda topic: topic.name)
        return self._rng.choice(topics) if topics else None

    def _follow(self, image: ClusterImage) -> tuple[str, list[Message]]:
        """Pose as a follower that has everything."""
        broker, topic = self._broker(image), self._topic(image)
        epoch = self._rng.choice((broker.epoch, 2**62))
        leader = self._broker(image).broker_id
        hello = replication_pb2.ReplicaHello(
            cluster_id=CLUSTER_ID, broker_id=broker.broker_id, broker_epoch=epoch, leader_id=leader
        )
        request = replication_pb2.ReplicateRequest(hello=hello, window_bytes=1 << 30)
        if topic is None:
            return REPLICATE, [request]
        number, partition = self._rng.choice(sorted(topic.partitions.items()))
        epochs = {"leader_epoch": partition.leader_epoch, "partition_epoch": partition.partition_epoch}
        handle = 1 << 50
        request.subscribe.add(
            handle=handle, topic_id=topic.topic_id.bytes, partition=number, last_epoch=-1,
            directory_id=broker.directories[0].bytes if broker.directories else bytes(16), **epochs,
        )  # fmt: skip
        claim = replication_pb2.ReplicaAcknowledgement(handle=handle, end_offset=self._rng.randrange(1000), **epochs)
        return REPLICATE, [request, replication_pb2.ReplicateRequest(acknowledgements=[claim])]

    def _report(self, image: ClusterImage) -> tuple[str, list[Message]]:
        broker = self._broker(image)
        failed = [directory.bytes for directory in broker.directories]
        return REPORT_FAILURES, [
            pb.ReportFailuresRequest(
                broker_id=broker.broker_id, broker_epoch=broker.epoch, failed_directories=failed, reason="made up"
            )
        ]

    def _beat(self, image: ClusterImage) -> tuple[str, list[Message]]:
        """Pose as a broker that wants to shut down, or as a dead one that is alive."""
        broker = self._broker(image)
        wanted = self._rng.choice((pb.BrokerHeartbeatRequest.SHUT_DOWN, pb.BrokerHeartbeatRequest.READY))
        heartbeat = pb.BrokerHeartbeatRequest(
            cluster_id=CLUSTER_ID, broker_id=broker.broker_id, broker_epoch=broker.epoch, metadata_index=1 << 40,
            wanted=wanted,
        )  # fmt: skip
        return BROKER_HEARTBEAT, [heartbeat, heartbeat]

    def _register(self, image: ClusterImage) -> tuple[str, list[Message]]:
        broker = self._broker(image)
        return REGISTER, [
            pb.RegisterRequest(
                cluster_id=CLUSTER_ID, broker_id=broker.broker_id, incarnation=self._rng.uuid().bytes,
                address=f"{HOST}:1", nodes_address=f"{HOST}:2", boot_id=broker.boot_id, max_feature_level=1 << 20,
                directories=[directory.bytes for directory in broker.directories], previous_epoch=broker.epoch,
            )
        ]  # fmt: skip

    def _ask(self, image: ClusterImage) -> tuple[str, list[Message]]:
        questions: tuple[tuple[str, Message], ...] = (
            (FOLLOW, pb.FollowRequest(cluster_id=CLUSTER_ID, node_id=self._broker(image).broker_id)),
            (LATEST_EPOCH, pb.LatestEpochRequest(cluster_id=CLUSTER_ID, broker_id=1)),
            (READ_INDEX, pb.MetadataIndexRequest()),
        )
        method, question = self._rng.choice(questions)
        return method, [question]

    def _prove(self, image: ClusterImage) -> tuple[str, list[Message]]:
        nonce = self._rng.randbytes(self._rng.choice((0, 5, NONCE_BYTES)))
        hello = NodeHello(version=1, cluster_id=CLUSTER_ID, node_id=self._broker(image).broker_id, nonce=nonce)
        guess = NodeProofRequest(proof=self._rng.randbytes(32))
        messages: list[Message] = [NodeProofRequest(hello=hello), guess]
        return PROVE, messages[: self._rng.randint(1, 2)]
