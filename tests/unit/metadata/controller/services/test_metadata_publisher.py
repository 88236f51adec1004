"""The committed metadata, for all who follow it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.metadata_images import broker, image_with, partition, topic_id
from support.raft_nodes import make_runtime, virtual

from lograft.chaos.world.network import VirtualNetwork
from lograft.metadata.controller.services import metadata_publisher as module
from lograft.metadata.controller.services.metadata_publisher import MetadataPublisher, PublisherLimits
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.delta_buffer import DeltaBuffer, DeltaLimits
from lograft.metadata.image.record_codec import decode_records, encode_operation
from lograft.metadata.image.records import Operation, TopicCreated
from lograft.metadata.image.snapshot import SnapshotBuilder
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.metadata.membership.metadata_follower import MetadataFollower
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import FollowRequest, FollowResponse
from lograft.proto.methods import FOLLOW
from lograft.rpc.status import read_detail
from lograft.runtime.network import Connection, Status, Stream, StreamError
from lograft.runtime.rng import Rng

CLUSTER_ID = "test"
ADDRESS = "controller:9093"


class World:
    """A controller's machine, driven by hand, and its server."""

    def __init__(self, limits: PublisherLimits | None, deltas: DeltaLimits | None, rng: Rng) -> None:
        self.network = VirtualNetwork(rng)
        self.machine = MetadataMachine(DeltaBuffer(deltas))
        self.runtime = make_runtime(1, self.network, "controller")
        self.publishing = MetadataPublisher(self.runtime, self.machine, CLUSTER_ID, limits)
        self.topics = 0

    def change(self, count: int = 1) -> None:
        """So many operations, committed together."""
        index = self.machine.index
        for _ in range(count):
            index, self.topics = index + 1, self.topics + 1
            records = (TopicCreated(topic_id(self.topics), f"topic-{self.topics}"),)
            self.machine.apply(index, encode_operation(Operation(self.machine.image.sequence, records)))
        self.machine.committed(index)

    def change_nothing(self) -> None:
        self.machine.committed(self.machine.index + 1)

    async def connect(self) -> Connection:
        return await self.network.host("broker").connect(ADDRESS)

    async def follow(self, from_index: int, cluster_id: str = CLUSTER_ID) -> "Reader":
        stream = (await self.connect()).open(FOLLOW)
        await stream.send(FollowRequest(cluster_id=cluster_id, node_id=7, from_index=from_index).SerializeToString())
        await stream.half_close()
        return Reader(stream)


class Reader:
    """A follower that looks at each message."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.image = ClusterImage()

    async def next(self) -> FollowResponse:
        data = await self._stream.receive()
        assert data is not None
        return FollowResponse.FromString(data)

    async def next_content(self) -> FollowResponse:
        """The next that is not only a sign of life."""
        while True:
            message = await self.next()
            if message.WhichOneof("content") != "alive":
                return message

    async def next_deltas(self) -> list[int]:
        message = await self.next_content()
        assert message.WhichOneof("content") == "deltas"
        for delta in message.deltas.deltas:
            for record in decode_records(delta.records):
                self.image.apply(record)
            self.image.sequence += 1
        assert message.applied_index == message.deltas.deltas[-1].index
        return [delta.index for delta in message.deltas.deltas]

    async def next_snapshot(self) -> tuple[int, int]:
        """Its index, and in how many parts it came."""
        builder, parts, indexes = SnapshotBuilder(), 0, set()
        while True:
            message = await self.next_content()
            assert message.WhichOneof("content") == "snapshot"
            parts += 1
            indexes.add(message.snapshot.index)
            image = builder.take(message.snapshot.data)
            if image is not None:
                (index,) = indexes
                self.image = image
                return index, parts


@asynccontextmanager
async def published(limits: PublisherLimits | None = None, deltas: DeltaLimits | None = None) -> AsyncIterator[World]:
    world = World(limits, deltas, Rng(1))
    server = await world.runtime.network.serve(ADDRESS, world.publishing.handlers(), _panic)
    yield world
    await server.stop()


def _panic(error: BaseException) -> None:
    raise AssertionError("a handler broke") from error


# -- what is sent


@virtual
async def test_who_has_nothing_gets_a_snapshot_and_then_every_change() -> None:
    async with published() as world:
        world.change(3)
        reader = await world.follow(0)
        assert await reader.next_snapshot() == (3, 1)
        assert reader.image == world.machine.image
        world.change(2)
        assert await reader.next_deltas() == [4, 5]
        world.change()
        assert await reader.next_deltas() == [6]
        assert reader.image == world.machine.image


@virtual
async def test_changes_while_a_snapshot_is_sent_follow_it() -> None:
    async with published(PublisherLimits(snapshot_part_bytes=200)) as world:
        world.change(50)
        reader = await world.follow(0)
        first = await reader.next_content()
        world.change(7)
        builder = SnapshotBuilder()
        image = builder.take(first.snapshot.data)
        while image is None:
            message = await reader.next_content()
            assert message.snapshot.index == 50
            image = builder.take(message.snapshot.data)
        assert len(image.topics) == 50
        assert await reader.next_deltas() == [51, 52, 53, 54, 55, 56, 57]


@virtual
async def test_who_was_away_for_a_moment_gets_only_what_it_missed() -> None:
    async with published() as world:
        world.change(10)
        reader = await world.follow(7)
        assert await reader.next_deltas() == [8, 9, 10]


@virtual
async def test_who_was_away_for_too_long_gets_a_snapshot() -> None:
    async with published(deltas=DeltaLimits(max_count=5)) as world:
        world.change(10)
        reader = await world.follow(4)
        assert await reader.next_snapshot() == (10, 1)
        reader = await world.follow(5)
        assert await reader.next_deltas() == [6, 7, 8, 9, 10]


@virtual
async def test_who_has_seen_more_than_this_controller_gets_nothing_until_it_has_caught_up() -> None:
    async with published() as world:
        world.change(3)
        reader = await world.follow(5)
        for _ in range(3):
            message = await reader.next()
            assert (message.WhichOneof("content"), message.applied_index) == ("alive", 3)
        world.change()
        assert (await reader.next()).applied_index == 4
        world.change(3)
        assert await reader.next_deltas() == [6, 7]


@virtual
async def test_a_controller_that_has_nothing_yet_sends_nothing_but_signs_of_life() -> None:
    async with published() as world:
        reader = await world.follow(0)
        for _ in range(3):
            assert (await reader.next()).WhichOneof("content") == "alive"
        world.change(2)
        assert await reader.next_snapshot() == (2, 1)


@virtual
async def test_a_restored_image_is_sent_as_a_snapshot() -> None:
    async with published() as world:
        world.change(2)
        reader = await world.follow(2)
        other = MetadataMachine()
        image = image_with(broker(1), topics={"a": [partition(1)]})
        other.image, other.index = image, 9
        assert (await reader.next()).WhichOneof("content") == "alive"
        began = asyncio.get_running_loop().time()
        world.machine.restore(other.snapshot()())
        assert await reader.next_snapshot() == (9, 1)
        assert reader.image == image
        assert asyncio.get_running_loop().time() - began < 0.1


@virtual
async def test_entries_that_change_nothing_are_told_at_once() -> None:
    """Whoever waits for an index must not wait for the next change."""
    async with published() as world:
        world.change()
        reader = await world.follow(1)
        assert (await reader.next()).applied_index == 1
        began = asyncio.get_running_loop().time()
        world.change_nothing()
        message = await reader.next()
        assert (message.WhichOneof("content"), message.applied_index) == ("alive", 2)
        assert asyncio.get_running_loop().time() - began < 0.1


@virtual
async def test_a_sign_of_life_never_promises_what_was_not_sent() -> None:
    """All up to its index was sent before, whatever the follower is still waiting for."""
    async with published(PublisherLimits(message_bytes=100), DeltaLimits(max_count=1000)) as world:
        world.change(500)
        reader = await world.follow(1)
        at = 1
        while at < 500:
            message = await reader.next()
            if message.WhichOneof("content") == "deltas":
                at = message.deltas.deltas[-1].index
            assert message.applied_index <= at


@virtual
async def test_something_is_sent_every_half_second() -> None:
    async with published() as world:
        world.change()
        reader = await world.follow(0)
        await reader.next_snapshot()
        loop = asyncio.get_running_loop()
        rng, heard = Rng(3), loop.time()
        for _ in range(50):
            if rng.random() < 0.3:
                loop.call_later(rng.uniform(0, 0.4), world.change)
            await reader.next()
            assert loop.time() - heard < 0.55
            heard = loop.time()


@virtual
async def test_what_is_there_together_is_sent_together_up_to_a_size() -> None:
    limits = PublisherLimits(message_bytes=1000)
    async with published(limits) as world:
        world.change(200)
        reader = await world.follow(1)
        batches = []  # type: ignore[var-annotated]
        while sum(map(len, batches)) < 199:  # type: ignore[arg-type]
            batches.append(await reader.next_deltas())
        assert [index for batch in batches for index in batch] == list(range(2, 201))
        assert 5 < len(batches) < 20


# -- many followers, and slow ones


@virtual
async def test_a_slow_follower_costs_nothing_and_starts_over_when_it_is_too_far_behind() -> None:
    async with published(PublisherLimits(message_bytes=200), DeltaLimits(max_count=10)) as world:
        world.change()
        reader = await world.follow(0)
        assert await reader.next_snapshot() == (1, 1)
        for _ in range(3000):  # more than the stream holds
            world.change()
            await asyncio.sleep(0.001)
        at, snapshots = 1, 0
        while at < world.machine.index:
            message = await reader.next()
            match message.WhichOneof("content"):
                case "deltas":
                    assert message.deltas.deltas[0].index == at + 1
                    at = message.deltas.deltas[-1].index
                case "snapshot":
                    assert message.snapshot.index > at
                    at, snapshots = message.snapshot.index, snapshots + 1
                case _:
                    assert message.applied_index <= at
        assert snapshots


@virtual
async def test_a_change_is_encoded_once_for_all_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    original = module.MetadataDelta  # type: ignore[attr-defined]

    def counting(**fields: Any) -> Any:
        encoded.append(fields["index"])
        return original(**fields)

    monkeypatch.setattr(module, "MetadataDelta", counting)
    async with published() as world:
        world.change()
        readers = [await world.follow(1) for _ in range(5)]
        world.change(2)
        for reader in readers:
            assert await reader.next_deltas() == [2, 3]
        assert encoded == [2, 3]


@virtual
async def test_followers_that_start_together_share_one_copy_of_the_image() -> None:
    async with published(PublisherLimits(snapshot_part_bytes=100, max_shared_age=3)) as world:
        world.change(100)
        copies = 0
        original = world.machine.image.copy

        def copy() -> ClusterImage:
            nonlocal copies
            copies += 1
            return original()

        world.machine.image.copy = copy  # type: ignore[method-assign]
        readers = [await world.follow(0) for _ in range(5)]
        first_parts = [await reader.next_content() for reader in readers]
        assert {part.snapshot.index for part in first_parts} == {100}
        assert copies == 1
        world.change(3)
        assert (await (await world.follow(0)).next_content()).snapshot.index == 100
        assert copies == 1
        world.change()
        assert (await (await world.follow(0)).next_content()).snapshot.index == 104
        assert copies == 2


@virtual
async def test_a_copy_that_nothing_here_leads_on_from_is_not_shared() -> None:
    async with published(PublisherLimits(snapshot_part_bytes=100), DeltaLimits(max_count=5)) as world:
        world.change(100)
        slow = await world.follow(0)
        assert (await slow.next_content()).snapshot.index == 100
        world.change(6)
        assert (await (await world.follow(0)).next_content()).snapshot.index == 106


@virtual
async def test_a_follower_that_goes_away_is_forgotten() -> None:
    async with published() as world:
        world.change()
        connection = await world.connect()
        stream = connection.open(FOLLOW)
        await stream.send(FollowRequest(cluster_id=CLUSTER_ID, from_index=1).SerializeToString())
        assert await stream.receive()
        tasks = len(asyncio.all_tasks())
        await connection.close()
        await asyncio.sleep(0.1)
        assert len(asyncio.all_tasks()) < tasks


# -- who is refused


@virtual
async def test_a_node_of_another_cluster_is_refused() -> None:
    async with published() as world:
        reader = await world.follow(0, cluster_id="other")
        with pytest.raises(StreamError, match="node 7 is of cluster 'other'") as caught:
            await reader.next()
        assert caught.value.status is Status.FAILED_PRECONDITION
        detail = read_detail(caught.value)
        assert detail is not None
        assert detail.code == errors_pb2.WRONG_CLUSTER


@pytest.mark.parametrize("request_bytes", [b"\xff\xff\xff", None])
def test_what_is_no_request_is_refused(request_bytes: bytes | None) -> None:
    @virtual
    async def scenario() -> None:
        async with published() as world:
            stream = (await world.connect()).open(FOLLOW)
            if request_bytes is not None:
                await stream.send(request_bytes)
            await stream.half_close()
            with pytest.raises(StreamError) as caught:
                await stream.receive()
            assert caught.value.status is Status.INVALID_ARGUMENT

    scenario()


# -- with a broker's own follower


@pytest.mark.parametrize("seed", range(5))
def test_followers_have_the_image_whatever_happens_to_their_streams(seed: int) -> None:
    @virtual
    async def scenario() -> None:
        rng = Rng(seed)
        limits = PublisherLimits(message_bytes=300, snapshot_part_bytes=300)
        async with published(limits, DeltaLimits(max_count=20)) as world:
            followers = [
                MetadataFollower(
                    make_runtime(node_id, world.network, f"broker-{node_id}"), {1: ADDRESS}, CLUSTER_ID, node_id
                )
                for node_id in range(3)
            ]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(follower.run()) for follower in followers]
                for _ in range(100):
                    world.change(rng.randrange(1, 6))
                    if rng.random() < 0.3:
                        world.change_nothing()
                    if rng.random() < 0.1:
                        world.network.break_connections(f"broker-{rng.randrange(3)}", "controller")
                    await asyncio.sleep(rng.choice([0, 0.001, 0.3]))
                for follower in followers:
                    await follower.wait_for(world.machine.index)
                    assert follower.image == world.machine.image
                for task in tasks:
                    task.cancel()

    scenario()
