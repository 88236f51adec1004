import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.fake_controllers import BROKER, FakeControllers, until
from support.metadata_images import brokers, image_with, partition
from support.raft_nodes import make_runtime, virtual

from lograft.metadata.controller.services.metadata_publisher import MetadataPublisher
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.record_codec import encode_operation, encode_records
from lograft.metadata.image.records import Operation, ProducerIdsAllocated, Record
from lograft.metadata.image.snapshot import encode_snapshot, split
from lograft.metadata.image.state_machine import MachineListener, MetadataMachine
from lograft.metadata.membership.metadata_follower import MetadataFollower
from lograft.proto.controller_pb2 import (
    Alive,
    FollowRequest,
    FollowResponse,
    MetadataDelta,
    MetadataDeltas,
    MetadataSnapshotPart,
)
from lograft.proto.metadata_pb2 import MetadataRecord
from lograft.proto.methods import FOLLOW
from lograft.runtime.network import Stream
from lograft.runtime.rng import Rng

CLUSTER = "cluster"


def alive(index: int) -> FollowResponse:
    return FollowResponse(applied_index=index, alive=Alive())


def deltas(*changes: tuple[int, list[Record]], applied: int = 0) -> FollowResponse:
    messages = [MetadataDelta(index=index, records=encode_records(records)) for index, records in changes]
    return FollowResponse(applied_index=applied or changes[-1][0], deltas=MetadataDeltas(deltas=messages))


def snapshot(index: int, data: bytes) -> FollowResponse:
    return FollowResponse(applied_index=index, snapshot=MetadataSnapshotPart(index=index, data=data))


def producer_ids(next_id: int) -> list[Record]:
    return [ProducerIdsAllocated(next_id)]


def image_at(operations: int) -> ClusterImage:
    """After so many operations, each of which gave out a producer id."""
    image = ClusterImage()
    for number in range(operations):
        assert image.apply_operation(Operation(image.sequence, tuple(producer_ids(number + 1))))
    return image


class Source:
    """One controller's end of Follow: sends what it is given, in the order it is given it, and signs of life."""

    def __init__(self, world: FakeControllers, controller_id: int) -> None:
        self.from_indexes: list[int] = []
        self.script: list[FollowResponse | bytes] = []  # sent to each who comes
        self.applied = 0
        self.is_silent = False
        self._world = world
        self._id = controller_id

    async def serve(self) -> "Source":
        await self._world.serve(self._id, {FOLLOW: self._follow})
        return self

    async def _follow(self, stream: Stream) -> None:
        data = await stream.receive()
        assert data is not None
        request = FollowRequest.FromString(data)
        assert request.cluster_id == CLUSTER
        self.from_indexes.append(request.from_index)
        sent = 0
        while True:
            for message in self.script[sent:]:
                await stream.send(message if isinstance(message, bytes) else message.SerializeToString())
            sent = len(self.script)
            if not self.is_silent:
                await stream.send(alive(self.applied).SerializeToString())
            await asyncio.sleep(0.1)


class Listener(MachineListener):
    def __init__(self, follower: MetadataFollower) -> None:
        self.events: list[tuple[str, int]] = []
        self._follower = follower
        follower.listen(self)

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        assert self._follower.index == index, "told after the change, before the next"
        assert self._follower.image.next_producer_id == records[-1].next_id
        self.events.append(("applied", index))

    def restored(self, index: int) -> None:
        assert self._follower.index == index
        self.events.append(("restored", index))

    def advanced(self, index: int) -> None:
        assert self._follower.index == index
        self.events.append(("advanced", index))


@asynccontextmanager
async def running(follower: MetadataFollower) -> AsyncIterator[None]:
    task = asyncio.ensure_future(follower.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def follower_of(world: FakeControllers, *ids: int) -> MetadataFollower:
    """Follows these, the first of them first."""
    follower = MetadataFollower(
        world.runtime, {each: world.addresses[each] for each in ids or world.addresses}, CLUSTER, 7
    )
    follower.source_id = (ids[0] if ids else 1) - 1  # the one after it is next
    return follower


async def two_sources() -> tuple[FakeControllers, Source, Source, MetadataFollower]:
    world = FakeControllers(1, 2)
    return world, await Source(world, 1).serve(), await Source(world, 2).serve(), follower_of(world, 1, 2)


# -- following


@virtual
async def test_a_snapshot_then_every_change_in_order() -> None:
    world = FakeControllers(1)
    source = await Source(world, 1).serve()
    source.script = [
        snapshot(10, encode_snapshot(image_at(3))),
        deltas((12, producer_ids(4)), (13, producer_ids(5))),
        deltas((20, producer_ids(6))),
    ]
    follower = follower_of(world)
    listener = Listener(follower)
    async with running(follower):
        await follower.wait_for(20)
        assert follower.image == image_at(6)
        assert source.from_indexes == [0]
        assert listener.events == [
            ("restored", 10), ("advanced", 10), ("applied", 12), ("applied", 13), ("advanced", 13), ("applied", 20),
            ("advanced", 20),
        ]  # fmt: skip


@virtual
async def test_a_snapshot_in_parts_shows_only_when_it_is_complete() -> None:
    world = FakeControllers(1)
    source = await Source(world, 1).serve()
    image = image_with(*brokers(3), topics={"orders": [partition(1, 2, 3)] * 50})
    parts = [snapshot(10, data) for data in split(image, 500)]
    assert len(parts) > 5
    source.script = [*parts[:-1]]
    follower = follower_of(world)
    async with running(follower):
        await asyncio.sleep(1)
        assert follower.index == 0
        assert follower.image == ClusterImage()
        source.script.append(parts[-1])
        await follower.wait_for(10)
        assert follower.image == image


@virtual
async def test_half_a_snapshot_is_forgotten_with_its_source() -> None:
    world, one, two, follower = await two_sources()
    image = image_with(*brokers(3), topics={"orders": [partition(1, 2, 3)] * 50})
    parts = [snapshot(10, data) for data in split(image, 500)]
    one.script = [*parts[:3]]
    two.script = [snapshot(12, encode_snapshot(image)), deltas((13, producer_ids(9)))]
    async with running(follower):
        await asyncio.sleep(0.5)
        world.kill(1)
        await follower.wait_for(13)
        assert two.from_indexes == [0]
        assert follower.image.sequence == image.sequence + 1


@virtual
async def test_it_resumes_where_it_was_and_is_told_nothing_twice() -> None:
    world, one, two, follower = await two_sources()
    one.script = [snapshot(10, encode_snapshot(image_at(3))), deltas((11, producer_ids(4)))]
    two.script = [deltas((15, producer_ids(5)))]
    listener = Listener(follower)
    async with running(follower):
        await follower.wait_for(11)
        world.kill(1)
        began_ms = world.now_ms
        await follower.wait_for(15)
        assert world.now_ms - began_ms < 150, "a killed controller is noticed at once"
        assert two.from_indexes == [11]
        assert follower.image == image_at(5)
        assert [event for event in listener.events if event[0] == "restored"] == [("restored", 10)]


@virtual
async def test_entries_that_change_nothing_count_once_all_before_them_was_sent() -> None:
    world = FakeControllers(1)
    source = await Source(world, 1).serve()
    source.applied = 30  # before the snapshot is sent: it says nothing of what we have
    follower = follower_of(world)
    async with running(follower):
        await asyncio.sleep(1)
        assert follower.index == 0
        parts = [snapshot(10, data) for data in split(image_with(*brokers(9)), 200)]
        source.script += parts[:2]
        await asyncio.sleep(1)
        assert follower.index == 0, "nor amid it"
        source.script += parts[2:]
        await follower.wait_for(30)
        source.applied = 20
        await asyncio.sleep(1)
        assert follower.index == 30, "a controller may have to catch up"
        source.applied = 50
        source.script += [snapshot(50, part.snapshot.data) for part in parts[:2]]
        await asyncio.sleep(1)
        assert follower.index == 30, "nor amid another snapshot"


# -- never back


@pytest.mark.parametrize(
    "bad",
    [
        snapshot(19, encode_snapshot(image_at(9))),
        snapshot(25, encode_snapshot(image_at(2))),
        deltas((20, producer_ids(9))),
        deltas((12, producer_ids(9))),
        FollowResponse(applied_index=30),
        FollowResponse(
            applied_index=30, deltas=MetadataDeltas(deltas=[MetadataDelta(index=30, records=[MetadataRecord()])])
        ),
        b"\xff\xff\xff",
        snapshot(30, b"\xff\xff"),
        snapshot(30, list(split(image_with(*brokers(9)), 200))[1]),
    ],
    ids=[
        "an older snapshot", "another history", "the same change", "an older change", "an unknown kind of message",
        "an unknown kind of record", "no message", "no snapshot", "the middle of a snapshot",
    ],
)  # fmt: skip
@virtual
async def test_what_is_older_or_makes_no_sense_is_not_taken_and_another_controller_is_asked(
    bad: FollowResponse | bytes,
) -> None:
    _, one, two, follower = await two_sources()
    one.script = [snapshot(20, encode_snapshot(image_at(3))), bad]
    listener = Listener(follower)
    async with running(follower):
        await until(lambda: bool(two.from_indexes))
        assert two.from_indexes[0] == 20
        assert (follower.index, follower.image) == (20, image_at(3))
        one.script.clear()
        two.script = [deltas((31, producer_ids(4)))]
        await follower.wait_for(31)
        assert follower.image == image_at(4)
    assert listener.events == [("restored", 20), ("advanced", 20), ("applied", 31), ("advanced", 31)]


@virtual
async def test_parts_of_different_snapshots_are_not_put_together() -> None:
    _, one, two, follower = await two_sources()
    parts = list(split(image_with(*brokers(9)), 200))
    one.script = [snapshot(10, parts[0]), *(snapshot(11, part) for part in parts[1:])]
    two.script = [snapshot(12, encode_snapshot(image_at(1)))]
    async with running(follower):
        await follower.wait_for(12)
        assert follower.image == image_at(1)


@virtual
async def test_a_change_amid_a_snapshot_is_not_taken() -> None:
    _, one, two, follower = await two_sources()
    parts = list(split(image_with(*brokers(9)), 200))
    one.script = [snapshot(10, parts[0]), deltas((11, producer_ids(1)))]
    async with running(follower):
        await until(lambda: bool(two.from_indexes))
        assert (follower.index, follower.image) == (0, ClusterImage())


@virtual
async def test_what_was_applied_before_something_unusable_is_told() -> None:
    world = FakeControllers(1)
    source = await Source(world, 1).serve()
    source.script = [
        snapshot(10, encode_snapshot(image_at(1))),
        deltas((11, producer_ids(2)), (11, producer_ids(3))),
    ]
    follower = follower_of(world)
    async with running(follower):
        async with asyncio.timeout(1):
            await follower.wait_for(11)
        assert follower.image == image_at(2)


# -- changing the source


@virtual
async def test_a_silent_source_is_left_after_a_second_and_a_half() -> None:
    world, one, two, follower = await two_sources()
    one.script = [snapshot(10, encode_snapshot(image_at(3)))]
    two.script = [deltas((11, producer_ids(4)))]
    async with running(follower):
        await follower.wait_for(10)
        await asyncio.sleep(5)
        assert not two.from_indexes, "signs of life are enough"
        one.is_silent = True
        began_ms = world.now_ms
        await follower.wait_for(11)
        assert 1400 <= world.now_ms - began_ms < 1800


@virtual
async def test_a_paused_source_is_left_and_one_that_cannot_be_reached_passed_by() -> None:
    world = FakeControllers(1, 2, 3)
    one, three = await Source(world, 1).serve(), await Source(world, 3).serve()
    one.script = [snapshot(10, encode_snapshot(image_at(3)))]
    three.script = [deltas((11, producer_ids(4)))]
    follower = follower_of(world)
    async with running(follower):
        await follower.wait_for(10)
        world.pause(1)
        began_ms = world.now_ms
        await follower.wait_for(11)
        assert world.now_ms - began_ms < 2000


@virtual
async def test_a_source_that_is_behind_what_is_known_to_be_committed_is_left_after_a_second() -> None:
    world, one, two, follower = await two_sources()
    one.script = [snapshot(10, encode_snapshot(image_at(3)))]
    two.script = [deltas((11, producer_ids(4)))]
    async with running(follower):
        await follower.wait_for(10)
        began_ms = world.now_ms
        while world.now_ms < began_ms + 900:
            follower.commit_index_heard(11)
            await asyncio.sleep(0.1)
        assert not two.from_indexes
        await asyncio.sleep(0.15)
        follower.commit_index_heard(11)
        async with asyncio.timeout(0.2):
            await follower.wait_for(11)


@virtual
async def test_a_source_that_is_always_a_little_behind_is_kept() -> None:
    _, one, two, follower = await two_sources()
    one.script = [snapshot(10, encode_snapshot(image_at(1)))]
    async with running(follower):
        for number in range(2, 40):
            one.script.append(deltas((10 + number, producer_ids(number))))
            follower.commit_index_heard(10 + number + 3)
            await asyncio.sleep(0.2)
        assert not two.from_indexes
        assert one.from_indexes == [0]


@virtual
async def test_a_large_snapshot_may_take_its_time_although_others_are_ahead() -> None:
    _, one, two, follower = await two_sources()
    image = image_with(*brokers(3), topics={"orders": [partition(1, 2, 3)] * 50})
    parts = [snapshot(10, data) for data in split(image, 500)]
    async with running(follower):
        for part in parts:
            one.script.append(part)
            for _ in range(7):
                follower.commit_index_heard(12)
                await asyncio.sleep(0.1)
        assert follower.index == 10
        assert follower.image == image
        assert not two.from_indexes


@virtual
async def test_a_controller_that_was_not_known_at_the_start_is_followed_when_the_others_are_gone() -> None:
    world = FakeControllers(1, 2)
    two = await Source(world, 2).serve()
    two.script = [snapshot(10, encode_snapshot(image_at(3)))]
    follower = follower_of(world, 1)
    async with running(follower):
        await asyncio.sleep(1)
        follower.learn(2, world.addresses[2])
        async with asyncio.timeout(1):
            await follower.wait_for(10)


@virtual
async def test_without_controllers_it_tries_on_and_does_not_hurry() -> None:
    world = FakeControllers(1, 2, 3)
    attempts: list[str] = []
    connect = world.runtime.network.connect

    async def counted(address: str, timeout_ms: int = 3000) -> object:
        attempts.append(address)
        return await connect(address, timeout_ms)

    world.runtime.network.connect = counted  # type: ignore[assignment, method-assign]
    async with running(follower_of(world)):
        await asyncio.sleep(30)
        assert 50 <= len(attempts) <= 150
        assert all(attempts.count(address) >= 15 for address in world.addresses.values())


@virtual
async def test_stopping_leaves_no_connection() -> None:
    world = FakeControllers(1)
    await Source(world, 1).serve()
    async with running(follower_of(world)):
        await until(lambda: world.connections(1) == 1)
    await until(lambda: world.connections(1) == 0, within_s=1)


@virtual
async def test_a_source_that_stops_in_an_orderly_way_is_left_at_once() -> None:
    world, one, two, follower = await two_sources()
    one.script = [snapshot(10, encode_snapshot(image_at(3)))]
    two.script = [deltas((11, producer_ids(4)))]
    async with running(follower):
        await follower.wait_for(10)
        stopping = asyncio.ensure_future(world.servers[1].stop(grace_ms=5000))
        async with asyncio.timeout(0.15):
            await follower.wait_for(11)
        await stopping


@virtual
async def test_when_all_are_behind_each_gets_its_second() -> None:
    _, one, two, follower = await two_sources()
    one.script = [snapshot(10, encode_snapshot(image_at(3)))]
    async with running(follower):
        await follower.wait_for(10)
        one.script.clear()
        for _ in range(100):
            follower.commit_index_heard(11)
            await asyncio.sleep(0.1)
        assert 7 <= len(one.from_indexes) + len(two.from_indexes) <= 11


@virtual
async def test_after_a_long_outage_a_break_is_got_over_as_quickly_as_ever() -> None:
    world = FakeControllers(1, 2)
    follower = follower_of(world, 1, 2)
    async with running(follower):
        await asyncio.sleep(60)
        for controller_id in (1, 2):
            source = await Source(world, controller_id).serve()
            source.script = [snapshot(10, encode_snapshot(image_at(3)))]
        await follower.wait_for(10)
        await asyncio.sleep(1)
        world.calls.clear()
        world.network.break_connections(BROKER, f"c{follower.source_id}")
        await until(lambda: bool(world.calls), within_s=0.1)


# -- waiting


@virtual
async def test_waiting_ends_at_the_index_and_a_wait_that_is_given_up_leaves_nothing() -> None:
    world = FakeControllers(1)
    source = await Source(world, 1).serve()
    source.script = [snapshot(10, encode_snapshot(image_at(3)))]
    follower = follower_of(world)
    async with running(follower):
        await follower.wait_for(10)
        await follower.wait_for(3)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await follower.wait_for(12)
        assert not follower._waiters
        waits = [asyncio.ensure_future(follower.wait_for(index)) for index in (12, 11, 12)]
        source.script.append(deltas((11, producer_ids(4))))
        await asyncio.sleep(1)
        assert [wait.done() for wait in waits] == [False, True, False]
        source.script.append(deltas((12, producer_ids(5))))
        await asyncio.gather(*waits)


# -- with the controllers' own end, and all that goes wrong


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_to_controllers_the_image_is_theirs_and_never_goes_back(seed: int) -> None:
    @virtual
    async def run() -> None:
        world = FakeControllers(1, 2, 3, seed=seed)
        rng = Rng(seed)
        truth: dict[int, ClusterImage] = {}
        machines = {each: MetadataMachine() for each in (1, 2, 3)}
        committed: list[tuple[int, bytes]] = []
        for each, machine in machines.items():
            publishing = MetadataPublisher(make_runtime(seed, world.network, f"c{each}"), machine, CLUSTER)
            await world.serve(each, publishing.handlers())
        follower = follower_of(world)
        seen: list[int] = []

        class Checker(MachineListener):
            def advanced(self, index: int) -> None:
                assert not seen or index >= seen[-1]
                seen.append(index)
                operations = max((at for at in truth if at <= index), default=0)
                assert follower.image == truth.get(operations, ClusterImage())

        follower.listen(Checker())

        def commit() -> None:
            index = (committed[-1][0] if committed else 0) + rng.choice([1, 1, 1, 2])
            image = truth[committed[-1][0]].copy() if committed else ClusterImage()
            operation = Operation(image.sequence, tuple(producer_ids(image.sequence + 1)))
            assert image.apply_operation(operation)
            truth[index] = image
            committed.append((index, encode_operation(operation)))

        def catch_up(controller_id: int, limit: int) -> None:
            machine = machines[controller_id]
            for index, data in [each for each in committed if each[0] > machine.index][:limit]:
                machine.apply(index, data)
                machine.committed(index)

        async with running(follower):
            for _ in range(400):
                commit()
                match rng.randrange(12):
                    case 0:
                        world.network.break_connections(BROKER, f"c{rng.randrange(1, 4)}")
                    case 1:
                        world.pause(rng.randrange(1, 4))
                    case 2 | 3:
                        world.network.heal_all()
                for controller_id in machines:
                    catch_up(controller_id, rng.choice([0, 1, 1, 5]))
                follower.commit_index_heard(max(machine.index for machine in machines.values()))
                await asyncio.sleep(rng.uniform(0, 0.2))
            world.network.heal_all()
            for controller_id in machines:
                catch_up(controller_id, 1000)
            async with asyncio.timeout(5):
                await follower.wait_for(committed[-1][0])
        assert follower.image == truth[committed[-1][0]]
        assert len(seen) > 50

    run()
