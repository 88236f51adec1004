"""The follower's side of replication streams, and leaders that a test speaks for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from support.fake_controllers import until
from support.raft_nodes import make_runtime
from support.replication_fakes import CLUSTER, FOLLOWER, FollowersPartition, led_by

from lograft.broker.replication.codec import REPLICATE
from lograft.broker.replication.follower_client import FollowerClient, FollowerClientLimits, FollowerIdentity
from lograft.broker.replication.follower_stream import FollowerStreamLimits
from lograft.chaos.world.network import VirtualNetwork, VirtualServer
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.proto import replication_pb2 as pb
from lograft.runtime.network import Stream
from lograft.runtime.rng import Rng

WINDOW = 1_000_000


class Leader:
    """Takes note of what is said on each stream, and says what a test tells it to on the latest."""

    def __init__(self) -> None:
        self.streams: list[list[pb.ReplicateRequest]] = []  # signs of life left out
        self.opened_ms: list[float] = []
        self.signs_of_life = 0
        self.is_mute = False
        self.stream: Stream | None = None

    @property
    def heard(self) -> list[pb.ReplicateRequest]:
        return self.streams[-1] if self.streams else []

    async def serve(self, stream: Stream) -> None:
        self.stream = stream
        heard: list[pb.ReplicateRequest] = []
        self.streams.append(heard)
        self.opened_ms.append(asyncio.get_running_loop().time() * 1000)
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(self._beat(stream))
            while (data := await stream.receive()) is not None:
                if data:
                    heard.append(pb.ReplicateRequest.FromString(data))
                else:
                    self.signs_of_life += 1
            beating.cancel()

    async def _beat(self, stream: Stream) -> None:
        while True:
            await asyncio.sleep(0.4)
            if not self.is_mute:
                await stream.send(b"")

    async def say(self, **fields: object) -> None:
        assert self.stream is not None
        await self.stream.send(pb.ReplicateResponse(**fields).SerializeToString())  # type: ignore[arg-type]

    def subscribes(self, partition: int = 0) -> list[pb.Subscribe]:
        return [one for message in self.heard for one in message.subscribe if one.partition == partition]

    def acknowledgements(self) -> list[pb.ReplicaAcknowledgement]:
        return [one for message in self.heard for one in message.acknowledgements]

    def barriers(self) -> list[pb.ReplicaBarrier]:
        return [one for message in self.heard for one in message.barriers]

    def granted(self) -> int:
        return sum(message.window_bytes for message in self.heard)

    def unsubscribed(self) -> list[int]:
        return [handle for message in self.heard for handle in message.unsubscribe]


class World:
    def __init__(self, network: VirtualNetwork) -> None:
        self.network = network
        self.leaders = {1: Leader(), 3: Leader()}
        self.servers: dict[int, VirtualServer] = {}
        self.addresses: dict[BrokerId, str] = {BrokerId(1): "b1:9092", BrokerId(3): "b3:9092"}
        runtime = make_runtime(1, network, "follower")
        follower = FollowerIdentity(CLUSTER, FOLLOWER, lambda: BrokerEpoch(22), self.addresses.get)
        self.sink = FollowerClient(
            runtime, follower, FollowerClientLimits(following=FollowerStreamLimits(window_bytes=WINDOW))
        )

    @property
    def leader(self) -> Leader:
        return self.leaders[1]

    def partition(self, number: int = 0, leader: int = 1, leader_epoch: int = 1, **options: bool) -> FollowersPartition:
        return FollowersPartition(led_by(leader, leader_epoch), number, **options)

    def follow(self, number: int = 0, leader: int = 1, leader_epoch: int = 1, **options: bool) -> FollowersPartition:
        followed = self.partition(number, leader, leader_epoch, **options)
        self.sink.follow(followed)
        return followed

    async def handle_of(self, number: int = 0, count: int = 1, leader: int = 1) -> int:
        """Of the `count`th subscription to a partition on the stream."""
        await until(lambda: len(self.leaders[leader].subscribes(number)) >= count)
        return self.leaders[leader].subscribes(number)[count - 1].handle

    async def match(self, number: int = 0, count: int = 1, high_watermark: int = 0) -> int:
        handle = await self.handle_of(number, count)
        matched = pb.ReplicaMatched(handle=handle, high_watermark=high_watermark, log_start=0)
        await self.leader.say(matched=[matched])
        return handle


def frame(handle: int, start: int, content: bytes = b"x", **changes: object) -> pb.ReplicaFrame:
    fields = {"handle": handle, "start": start, "end": start + 1, "batches": content, **changes}
    return pb.ReplicaFrame(**fields)  # type: ignore[arg-type]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    def fail(panic: BaseException) -> None:
        raise AssertionError from panic

    made = World(VirtualNetwork(Rng(1)))
    for number, leader in made.leaders.items():
        host = made.network.host(f"b{number}")
        made.servers[number] = await host.serve(f"b{number}:9092", {REPLICATE: leader.serve}, fail)
    running = asyncio.ensure_future(made.sink.run())
    try:
        yield made
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def stays(condition: Callable[[], bool], for_s: float = 1) -> None:
    await asyncio.sleep(for_s)
    assert condition()
