"""Replicas with logs on simulated disks, replicated over simulated networks."""

import asyncio
from collections.abc import Awaitable

import pytest
from support.fake_controllers import until
from support.raft_nodes import virtual
from support.replicating_brokers import Brokers, replicating

from lograft.broker.replica.interfaces import Acks, PendingAppend
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.batch.codec import decode_records, encode_batch, iterate_batches
from lograft.storage.log.admission import admit

KIB = 1024
MIB = 1024 * 1024
NOW_MS = 1_767_225_600_000  # when the virtual calendar starts


def append(replica: Replica, value: bytes, acks: Acks = Acks.ALL) -> PendingAppend:
    batch = encode_batch([value], timestamps=NOW_MS)
    return replica.begin_append(admit(batch, replica.log_config, NOW_MS), acks=acks, leader_epoch=None, timeout_ms=5000)


def values_of(content: bytes) -> dict[int, bytes | None]:
    """By offset."""
    view = memoryview(content)
    values: dict[int, bytes | None] = {}
    for position, header in iterate_batches(content):
        (record,) = decode_records(view[position : position + header.total_bytes])
        values[header.base_offset] = record.value
    return values


async def check_same(one: Brokers, number: int = 0) -> dict[int, bytes | None]:
    """Once they have all there is, all replicas are the same, byte for byte."""
    await one.until_in_sync(number)
    first, *others = [await one.contents(broker_id, number) for broker_id in one.brokers]
    assert all(other == first for other in others)
    return values_of(first)


@virtual
async def test_what_is_acknowledged_is_on_all_replicas() -> None:
    async with replicating() as one:
        leader = await one.until_led()
        outcomes = [append(leader, b"value %d" % number) for number in range(50)]
        for number, outcome in enumerate(outcomes):
            assert (await outcome.outcome()).base_offset == number
        logs = [broker.replica().log for broker in one.brokers.values()]
        assert [log.stable_end for log in logs] == [50, 50, 50]
        assert list((await check_same(one)).values()) == [b"value %d" % number for number in range(50)]


@virtual
async def test_what_an_old_leader_had_alone_is_cut_and_all_go_on_with_the_new_one() -> None:
    async with replicating() as one:
        old = await one.until_led()
        await append(old, b"kept").outcome()
        for other in ("b2", "b3"):
            one.network.cut("b1", other)
        lost = append(old, b"lost")
        await asyncio.sleep(0.2)
        one.controller.move_leader(0, 2)
        new = await one.until_led()
        pending = append(new, b"new")
        for other in ("b2", "b3"):
            one.network.heal("b1", other)
        await pending.outcome()
        assert await check_same(one) == {0: b"kept", 1: b"new"}
        with pytest.raises(ReplicaError):
            await lost.outcome()


@virtual
async def test_a_replica_that_is_far_behind_catches_up_from_disk_while_others_go_on() -> None:
    async with replicating(partitions=4, segment_bytes=str(4 * MIB)) as one:
        assert one.controller.partition(3).leader == one.controller.partition(0).leader == 1
        big, small = await one.until_led(0), await one.until_led(3)
        big.log.tail.limit_bytes = 64 * KIB  # as if much else had been appended since
        await one.until_in_sync(0)
        one.fence(3)
        one.network.cut("b1", "b3")
        await until(lambda: 3 not in one.controller.partition(0).isr)
        for _ in range(40):
            await append(big, bytes(512 * KIB)).outcome()
        one.network.heal("b1", "b3")
        one.unfence(3)
        third = one.brokers[3].replica(0).log
        behind = []
        for number in range(20):
            behind.append(third.end_offset < big.log_end)
            async with asyncio.timeout(0.5):
                await append(small, b"%d" % number, Acks.ALL).outcome()
        assert behind[0], "there was something to catch up with"
        await one.until_in_sync(0)
        assert await one.contents(3, 0) == await one.contents(1, 0)
        assert list((await check_same(one, 3)).values()) == [b"%d" % number for number in range(20)]


@virtual
async def test_a_replica_that_ends_before_the_log_starts_begins_there() -> None:
    async with replicating(segment_bytes=str(64 * KIB)) as one:
        leader = await one.until_led()
        await append(leader, b"first").outcome()
        await one.until_in_sync()
        one.fence(3)
        one.network.cut("b1", "b3")
        await until(lambda: 3 not in one.controller.partition().isr)
        for _ in range(20):
            await append(leader, bytes(32 * KIB)).outcome()
        leader.log.delete_prefix(15)
        one.network.heal("b1", "b3")
        one.unfence(3)
        await one.until_in_sync()
        assert one.brokers[3].replica().log_start == 15
        assert await one.contents(3) == await one.contents(1)


@virtual
async def test_a_follower_that_starts_with_nothing_hears_of_tombstones_that_are_gone() -> None:
    async with replicating() as one:
        leader = await one.until_led()
        leader.log.note_tombstones_removed(5)
        one.network.break_connections("b1", "b3")
        third = one.brokers[3].replica().log
        await until(lambda: third.checkpointed.tombstones_removed_below == 5)


@virtual
async def test_followers_hear_of_the_watermark() -> None:
    async with replicating() as one:
        leader = await one.until_led()
        await append(leader, b"x").outcome()
        async with asyncio.timeout(0.2):
            await until(lambda: all(broker.replica().high_watermark == 1 for broker in one.brokers.values()))


class Weather:
    """Breaks, cuts and slows links, moves leaders and fences brokers, for as long as it is let."""

    def __init__(self, one: Brokers, partitions: int) -> None:
        self._one = one
        self._rng = one.rng.fork()
        self._partitions = partitions

    async def blow(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(self._rng.uniform(0.01, 0.5))
            self._rng.choice([self._break, self._cut, self._heal, self._heal, self._move, self._fence, self._unfence])()
        self._one.network.heal_all()
        for broker_id in self._one.brokers:
            self._one.unfence(broker_id)

    def _pair(self) -> tuple[str, str]:
        first, second = self._rng.sample(["b1", "b2", "b3"], 2)
        return first, second

    def _break(self) -> None:
        self._one.network.break_connections(*self._pair())

    def _cut(self) -> None:
        self._one.network.cut(*self._pair())

    def _heal(self) -> None:
        self._one.network.heal(*self._pair())

    def _move(self) -> None:
        number = self._rng.randrange(self._partitions)
        if isr := self._one.controller.partition(number).isr:
            self._one.controller.move_leader(number, self._rng.choice(isr))

    def _fence(self) -> None:
        self._one.fence(self._rng.choice([1, 2, 3]))

    def _unfence(self) -> None:
        self._one.unfence(self._rng.choice([1, 2, 3]))


class Clients:
    """Append to whoever thinks that it leads, and remember what was acknowledged."""

    def __init__(self, one: Brokers, partitions: int) -> None:
        self._one = one
        self._rng = one.rng.fork()
        self._partitions = partitions
        self._count = 0
        self.acknowledged: dict[int, dict[int, bytes]] = {number: {} for number in range(partitions)}

    async def work(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._rng.uniform(0, 0.02))
                number, broker = self._rng.randrange(self._partitions), self._one.brokers[self._rng.choice([1, 2, 3])]
                try:
                    replica = broker.replica(number)
                    if not isinstance(replica.role, LeaderRole):
                        continue
                    self._count += 1
                    value = b"%d of %d %s" % (self._count, number, bytes(self._rng.choice([0, 100, 20_000])))
                    group.create_task(self._note(number, value, append(replica, value).outcome()))
                except ReplicaError:
                    continue

    async def _note(self, number: int, value: bytes, outcome: Awaitable[object]) -> None:
        try:
            appended = await outcome
        except ReplicaError:
            return
        offset: int = appended.base_offset  # type: ignore[attr-defined]
        assert offset not in self.acknowledged[number]
        self.acknowledged[number][offset] = value


@pytest.mark.parametrize("seed", range(6))
@virtual
async def test_nothing_acknowledged_is_lost_and_all_replicas_end_the_same(seed: int) -> None:
    partitions = 3
    async with replicating(seed, partitions) as one:
        clients = Clients(one, partitions)
        working = asyncio.ensure_future(clients.work())
        await Weather(one, partitions).blow(seconds=15)
        await asyncio.sleep(2)
        working.cancel()
        await asyncio.wait([working])
        for number in range(partitions):
            stored = await check_same(one, number)
            acknowledged = clients.acknowledged[number]
            assert {offset: stored.get(offset) for offset in acknowledged} == acknowledged
        assert sum(map(len, clients.acknowledged.values())) > 50
