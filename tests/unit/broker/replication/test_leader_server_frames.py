"""What a leader sends: what is ready together goes together, and never more than the follower takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.fake_controllers import until
from support.followers_by_hand import KIB, MIB, PLENTY, World, acknowledgement, subscribe, world
from support.raft_nodes import virtual
from support.replication_fakes import ByHand

from lograft.broker.replication.leader_server import LeaderServerLimits
from lograft.broker.replication.leader_stream import LeaderStreamLimits
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.errors import CorruptLog

# -- frames


@virtual
async def test_frames_that_are_ready_together_travel_together() -> None:
    async with world(50) as one:
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(50)))
        await follower.until(lambda: sum(len(one.matched) for one in follower.responses) == 50)
        for partition in one.partitions:
            partition.append(b"x" * KIB, b"y" * KIB)
        message = await follower.next()
        assert sorted(frame.handle for frame in message.frames) == list(range(1, 51))
        assert all(frame.end == 2 for frame in message.frames)


# -- small messages


UNHURRIED = LeaderServerLimits(LeaderStreamLimits(hold_ms=200))


@asynccontextmanager
async def followed_with_one_frame_sent(size_bytes: int) -> AsyncIterator[tuple[World, ByHand]]:
    async with world(2, UNHURRIED) as one:
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: sum(len(response.matched) for response in follower.responses) == 2)
        one.partitions[0].append(b"x" * size_bytes)
        await follower.until(lambda: bool(follower.frames(1)))
        yield one, follower


@virtual
async def test_what_becomes_ready_behind_a_small_message_goes_together_when_that_is_acknowledged() -> None:
    async with followed_with_one_frame_sent(KIB) as (one, follower):
        for _ in range(3):
            one.partitions[0].append(b"y" * KIB)
            one.partitions[1].append(b"z" * KIB)
            await asyncio.sleep(0.01)
        assert [len(partition.reads) for partition in one.partitions] == [1, 0]
        await follower.say(acknowledgements=[acknowledgement(1, 1)])
        async with asyncio.timeout(0.05):
            message = await follower.next()
        assert sorted((frame.handle, frame.start, frame.end) for frame in message.frames) == [(1, 1, 4), (2, 0, 3)]


@virtual
async def test_an_acknowledgement_that_does_not_come_is_waited_for_no_longer_than_a_while() -> None:
    async with followed_with_one_frame_sent(KIB) as (one, follower):
        one.partitions[1].append(b"z")
        await follower.say(acknowledgements=[acknowledgement(1, 0)])  # of what was before it
        await asyncio.sleep(0.15)
        assert one.partitions[1].reads == []
        async with asyncio.timeout(0.1):
            await follower.until(lambda: bool(follower.frames(2)))


@virtual
async def test_nothing_waits_behind_a_large_message() -> None:
    async with followed_with_one_frame_sent(200 * KIB) as (one, follower):
        one.partitions[1].append(b"z")
        async with asyncio.timeout(0.05):
            await follower.until(lambda: bool(follower.frames(2)))


@virtual
async def test_nothing_waits_for_who_has_unsubscribed() -> None:
    async with followed_with_one_frame_sent(KIB) as (one, follower):
        one.partitions[1].append(b"z")
        await follower.say(unsubscribe=[1])
        async with asyncio.timeout(0.05):
            await follower.until(lambda: bool(follower.frames(2)))


# -- the window


@virtual
async def test_no_more_is_sent_than_the_window_takes_and_what_was_too_much_is_owed() -> None:
    async with world() as one:
        one.partitions[0].append(*[b"x" * 300 * KIB] * 12)
        limits = LeaderServerLimits(LeaderStreamLimits(frame_bytes=300 * KIB, message_bytes=300 * KIB))
        one.source.limits = limits
        follower = await one.follow(subscribe(1), window_bytes=1000 * KIB)
        await asyncio.sleep(0.3)
        await follower.until(lambda: len(follower.frames(1)) == 4)
        await follower.say(window_bytes=100 * KIB)  # 200 were owed
        await asyncio.sleep(0.3)
        assert one.partitions[0].reads[-1][0] == 3, "nothing was read in vain"
        await follower.say(window_bytes=101 * KIB)
        await follower.until(lambda: len(follower.frames(1)) == 5)
        await asyncio.sleep(0.3)
        assert len(one.partitions[0].reads) == 5


@virtual
async def test_a_batch_is_sent_whatever_its_size() -> None:
    async with world() as one:
        one.partitions[0].append(b"x" * 20 * MIB)
        follower = await one.follow(subscribe(1), window_bytes=1)
        await follower.until(lambda: bool(follower.frames(1)))
        assert len(follower.frames(1)[0].batches) == 20 * MIB


@virtual
async def test_a_message_has_no_more_than_goes_well_together() -> None:
    async with world(600) as one:
        for partition in one.partitions[:10]:
            partition.append(b"x" * 900 * KIB)
        for partition in one.partitions[10:]:
            partition.append(b"x")
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(600)))
        await follower.until(lambda: sum(len(response.frames) for response in follower.responses) == 600)
        sizes = [sum(len(frame.batches) for frame in response.frames) for response in follower.responses]
        assert max(sizes) < 2 * MIB
        assert max(len(response.frames) for response in follower.responses) == 256


@virtual
async def test_no_window_no_frames() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1), window_bytes=0)
        await follower.next()
        one.partitions[0].append(b"x")
        one.partitions[0].commit(1)
        await follower.until(lambda: bool(follower.watermarks(1)))  # they cost nothing
        assert follower.frames(1) == []
        await follower.say(window_bytes=1)
        await follower.until(lambda: bool(follower.frames(1)))


@virtual
async def test_partitions_take_turns() -> None:
    async with world(3) as one:
        for partition in one.partitions:
            partition.append(*[b"x" * MIB] * 10)
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(3)))
        await follower.until(lambda: sum(len(response.frames) for response in follower.responses) == 30)
        order = [frame.handle for response in follower.responses for frame in response.frames]
        assert all(sorted(order[at : at + 3]) == [1, 2, 3] for at in range(3, 27, 3))


@virtual
async def test_one_that_is_far_behind_reads_from_disk_while_the_others_go_on() -> None:
    async with world(2) as one:
        behind, ahead = one.partitions
        behind.append(*[b"x" * MIB] * 40)
        behind.memory_start, behind.disk_ms = 40, 100
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: sum(len(one.matched) for one in follower.responses) == 2)
        for number in range(10):
            ahead.append(b"new")
            await follower.until(lambda number=number: len(follower.frames(2)) == number + 1, within_s=0.09)  # type: ignore[misc]
        await follower.until(lambda: len(follower.frames(1)) == 2)
        assert {max_bytes for _, max_bytes in behind.reads} == {MIB}, "in bounded chunks"


@virtual
async def test_what_was_read_from_disk_and_not_sent_yet_is_bounded() -> None:
    async with world(6) as one:
        for partition in one.partitions:
            partition.append(*[b"x" * MIB] * 3)
            partition.memory_start, partition.disk_ms = 3, 100
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(6)), window_bytes=1)
        await asyncio.sleep(0.05)
        assert sum(len(partition.reads) for partition in one.partitions) == 2
        await asyncio.sleep(0.2)
        assert sum(len(partition.reads) for partition in one.partitions) == 3, "one was sent, and the window is closed"
        await follower.say(window_bytes=PLENTY)
        await follower.until(lambda: sum(len(response.frames) for response in follower.responses) == 18)


@virtual
async def test_one_that_unsubscribes_after_it_was_read_makes_room_for_the_next() -> None:
    async with world(3, LeaderServerLimits(LeaderStreamLimits(reads_at_once=1))) as one:
        for partition in one.partitions[:2]:
            partition.append(b"x")
            partition.memory_start, partition.disk_ms = 1, 50
        follower = await one.follow(subscribe(1), subscribe(2, partition=1), subscribe(3, partition=2), window_bytes=1)
        await until(lambda: len(one.partitions[0].reads) == 1)
        one.partitions[2].append(b"all of the window")
        await follower.until(lambda: bool(follower.frames(3)))
        await asyncio.sleep(0.1)
        await follower.say(unsubscribe=[1], window_bytes=PLENTY)
        await follower.until(lambda: bool(follower.frames(2)))
        assert follower.frames(1) == []


@virtual
async def test_one_that_unsubscribes_while_it_is_read_makes_room_for_the_next() -> None:
    limits = LeaderServerLimits(LeaderStreamLimits(reads_at_once=1))
    async with world(2, limits) as one:
        for partition in one.partitions:
            partition.append(b"x")
            partition.memory_start, partition.disk_ms = 1, 200
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await until(lambda: len(one.partitions[0].reads) == 1)
        await follower.say(unsubscribe=[1])
        await follower.until(lambda: bool(follower.frames(2)))
        assert follower.frames(1) == []


@virtual
async def test_a_replica_that_cannot_be_read_is_refused() -> None:
    async with world() as one:
        partition = one.partitions[0]
        partition.append(b"x")
        partition.memory_start, partition.disk_ms = 1, 50
        follower = await one.follow(subscribe(1))
        await until(lambda: len(partition.reads) == 1)
        partition.end(ReplicaError(errors_pb2.STORAGE_FAILED, "it is corrupt"))
        await follower.until(lambda: bool(follower.responses[-1:]) and len(follower.responses[-1].refused) == 1)
        assert follower.frames(1) == []


@virtual
async def test_a_log_that_turns_out_to_be_corrupt_is_not_sent_on() -> None:
    async with world(2) as one:
        one.partitions[0].read_error = CorruptLog("a segment", 5, "nonsense")
        for partition in one.partitions:
            partition.append(b"x")
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: any(response.refused for response in follower.responses))
        await follower.until(lambda: bool(follower.frames(2)))
        (refused,) = [refused for response in follower.responses for refused in response.refused]
        assert (refused.handle, refused.error.code) == (1, errors_pb2.STORAGE_FAILED)
        assert one.partitions[0].feeds == []
