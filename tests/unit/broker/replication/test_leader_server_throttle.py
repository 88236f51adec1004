"""Replicas that are added get what the throttle lets through, and hold up nobody who is in sync."""

import asyncio
import gc
import weakref
from collections import Counter

import pytest
from support.followers_by_hand import KIB, keep_alive, subscribe, world
from support.raft_nodes import virtual
from support.replication_fakes import ByHand

from lograft.broker.replication.leader_server import LeaderServerLimits
from lograft.broker.replication.throttle import Throttle
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError


class Receiving:
    """What a follower has got so far: bytes of batches by handle."""

    def __init__(self, follower: ByHand) -> None:
        self.sizes: Counter[int] = Counter()
        self._follower = follower
        self._tasks = [asyncio.ensure_future(keep_alive(follower)), asyncio.ensure_future(self._receive())]

    async def _receive(self) -> None:
        while True:
            for frame in (await self._follower.next()).frames:
                self.sizes[frame.handle] += len(frame.batches)

    async def within(self, seconds: float) -> int:
        """How much comes."""
        before = self.sizes.total()
        await asyncio.sleep(seconds)
        return self.sizes.total() - before

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


@pytest.mark.parametrize("memory_start", [0, 1000], ids=["memory", "disk"])
@virtual
async def test_replicas_that_are_added_get_no_more_than_the_throttle_lets_through_and_hold_up_nobody(
    memory_start: int,
) -> None:
    async with world(partitions=3) as made:
        made.source.throttle = Throttle(lambda: 100 * KIB, 0)
        for partition in made.partitions[:2]:
            partition.is_throttled, partition.memory_start = True, memory_start
            partition.append(*(bytes(4 * KIB) for _ in range(1000)))
        receiving = Receiving(await made.follow(*(subscribe(number, number) for number in range(3))))
        assert 900 * KIB < await receiving.within(10) < 1100 * KIB
        assert receiving.sizes[0] == pytest.approx(receiving.sizes[1], rel=0.1)
        made.partitions[2].append(b"urgent")
        await asyncio.sleep(0.05)
        assert receiving.sizes[2] == len(b"urgent")
        receiving.stop()


@virtual
async def test_another_rate_counts_at_once() -> None:
    async with world() as made:
        rate = 10 * KIB
        made.source.throttle = Throttle(lambda: rate, 0)
        made.partitions[0].is_throttled = True
        made.partitions[0].append(*(bytes(4 * KIB) for _ in range(10_000)))
        receiving = Receiving(await made.follow(subscribe(0)))
        assert await receiving.within(10) < 120 * KIB
        rate = 1000 * KIB
        assert await receiving.within(10) > 9000 * KIB
        made.partitions[0].is_throttled = False
        assert await receiving.within(3) > 9000 * KIB
        receiving.stop()


@virtual
async def test_a_replica_that_is_in_sync_meanwhile_does_not_wait_for_what_others_took() -> None:
    """Writers wait for it from now on, and the throttle may have to make up for days."""
    async with world(partitions=2) as made:
        made.source.throttle = Throttle(lambda: 1, 0)
        for partition in made.partitions:
            partition.is_throttled = True
            partition.append(bytes(100 * KIB))
        receiving = Receiving(await made.follow(subscribe(0), subscribe(1, 1)))
        await receiving.within(1)
        (late,) = [number for number in range(2) if not receiving.sizes[number]]
        made.partitions[late].is_throttled = False
        made.partitions[late].append(b"urgent")
        await receiving.within(0.1)
        assert receiving.sizes[late] == 100 * KIB + len(b"urgent")
        receiving.stop()


@virtual
async def test_who_gives_up_waiting_for_the_throttle_is_forgotten() -> None:
    """The throttle may have to make up for days, and followers may subscribe anew every few seconds."""
    async with world(partitions=50) as made:
        made.source.throttle = Throttle(lambda: 1, 0)
        for partition in made.partitions:
            partition.is_throttled = True
            partition.append(bytes(100 * KIB))
        receiving = Receiving(await made.follow(*(subscribe(number, number) for number in range(50))))
        await receiving.within(1)
        assert len(receiving.sizes) < 5
        feeds = [weakref.ref(partition.feeds[0]) for partition in made.partitions]
        for partition in made.partitions:
            partition.end(ReplicaError(errors_pb2.UNAVAILABLE, "subscribe anew"))
        await receiving.within(1)
        gc.collect()
        kept = [feed for feed in feeds if feed() is not None]
        assert len(kept) <= LeaderServerLimits().matching_at_once, "but for those that were matched last"
        receiving.stop()
