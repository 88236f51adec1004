"""The leader's side of replication streams, and followers that a test speaks for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.raft_nodes import make_runtime
from support.replication_fakes import (
    CLUSTER,
    DIRECTORY,
    FOLLOWER,
    LEADER,
    TOPIC,
    ByHand,
    LeadersPartition,
    LeadersPartitions,
    image,
)

from lograft.broker.replication.codec import REPLICATE
from lograft.broker.replication.leader_server import LeaderServer, LeaderServerLimits
from lograft.chaos.world.network import VirtualNetwork
from lograft.proto import replication_pb2 as pb
from lograft.rpc.status import read_detail
from lograft.runtime.network import StreamError
from lograft.runtime.rng import Rng

ADDRESS = "leader:9092"
KIB = 1024
MIB = 1024 * 1024
PLENTY = 1 << 40


def hello(**changes: object) -> pb.ReplicaHello:
    fields = {"cluster_id": CLUSTER, "broker_id": FOLLOWER, "broker_epoch": 22, "leader_id": LEADER, **changes}
    return pb.ReplicaHello(**fields)  # type: ignore[arg-type]


def subscribe(
    handle: int, partition: int = 0, end_offset: int = 0, last_epoch: int = -1, **changes: object
) -> pb.Subscribe:
    fields = {
        "handle": handle,
        "topic_id": TOPIC.bytes,
        "partition": partition,
        "leader_epoch": 1,
        "end_offset": end_offset,
        "last_epoch": last_epoch,
        "directory_id": DIRECTORY.bytes,
        "partition_epoch": 3,
        **changes,
    }
    return pb.Subscribe(**fields)  # type: ignore[arg-type]


def acknowledgement(handle: int, end_offset: int, leader_epoch: int = 1) -> pb.ReplicaAcknowledgement:
    return pb.ReplicaAcknowledgement(handle=handle, leader_epoch=leader_epoch, end_offset=end_offset, partition_epoch=3)


class World:
    def __init__(self, partitions: int, limits: LeaderServerLimits | None) -> None:
        self.network = VirtualNetwork(Rng(1))
        self.partitions = [LeadersPartition() for _ in range(partitions)]
        runtime = make_runtime(1, self.network, "leader")
        self.image = image()
        self.source = LeaderServer(
            runtime, CLUSTER, LEADER, LeadersPartitions(*self.partitions), lambda: self.image, limits
        )
        self.panics: list[BaseException] = []

    async def open(self, host: str = "follower") -> ByHand:
        connection = await self.network.host(host).connect(ADDRESS)
        return ByHand(connection.open(REPLICATE))

    async def follow(self, *subscriptions: pb.Subscribe, window_bytes: int = PLENTY) -> ByHand:
        follower = await self.open()
        await follower.say(hello=hello(), subscribe=subscriptions, window_bytes=window_bytes)
        return follower


@asynccontextmanager
async def world(partitions: int = 1, limits: LeaderServerLimits | None = None) -> AsyncIterator[World]:
    made = World(partitions, limits)
    server = await made.network.host("leader").serve(ADDRESS, made.source.handlers(), made.panics.append)
    try:
        yield made
    finally:
        await server.stop()
        assert not made.panics
        assert not any(partition.feeds for partition in made.partitions), "a stream's end closes its feeds"


async def keep_alive(follower: ByHand) -> None:
    while True:
        await asyncio.sleep(0.4)
        await follower.stream.send(b"")


async def refusal(follower: ByHand) -> StreamError:
    with pytest.raises(StreamError) as caught:
        await follower.next()
    return caught.value


def code_of(error: StreamError) -> int:
    detail = read_detail(error)
    assert detail is not None
    return detail.code
