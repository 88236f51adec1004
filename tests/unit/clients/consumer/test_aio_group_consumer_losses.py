"""Consumers whose coordinator moves, falls silent or puts them out: what they lose, and when they may go on."""

import asyncio

import pytest
from support.group_consumers import ORDERS_0, Listener, assigned, consumer_of, group, poll_until, store
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.proto import errors_pb2, methods


@virtual
async def test_who_does_not_poll_loses_its_partitions_and_cannot_commit_until_it_does() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a", b"b", b"c")
        listener = Listener()
        async with consumer_of(cluster, max_poll_records=2) as consumer:
            await consumer.subscribe(["orders"], listener)
            assert await poll_until(consumer, have=2) == [b"a", b"b"]
            await asyncio.sleep(59)
            assert groups.members
            await asyncio.sleep(10)
            assert groups.members == {}
            assert consumer.assignment() == []
            with pytest.raises(errors.CommitFailed, match=r"orders-0.*max_poll_interval_ms"):
                await consumer.commit()
            with pytest.raises(errors.CommitFailed, match=r"orders-0"):
                await consumer.commit({ORDERS_0: 2})
            assert groups.offsets == {}
            assert await poll_until(consumer, have=2) == [b"a", b"b"]
            assert listener.told == [("assigned", [ORDERS_0]), ("lost", [ORDERS_0]), ("assigned", [ORDERS_0])]
            await consumer.commit()
            assert groups.offsets == {("orders", 0): 2}


@virtual
async def test_who_takes_records_that_are_at_hand_polls_too() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, *[b"%d" % number for number in range(8)])
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"])
            count = 0
            async for _ in consumer:
                count += 1
                await asyncio.sleep(15 if count % 2 else 55)  # of the 60 s that it has
                if count == 8:
                    break
            assert list(groups.members) == [consumer.member_id]
            await consumer.commit()
            assert groups.offsets == {("orders", 0): 8}


@virtual
async def test_a_poll_that_waits_is_no_reason_to_leave() -> None:
    async with group((1,)) as (cluster, groups), consumer_of(cluster) as consumer:
        await consumer.subscribe(["orders"])
        assert await consumer.poll(200.0) == []
        assert list(groups.members) == [consumer.member_id]


@virtual
@pytest.mark.parametrize("is_in_doubt", [True, False])
async def test_a_commit_that_may_have_been_taken_before_the_partitions_were_lost_says_so(is_in_doubt: bool) -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a")
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=1)
            groups.refuse_next(methods.COMMIT_OFFSETS, errors_pb2.TIMED_OUT if is_in_doubt else errors_pb2.LOADING)
            groups.put_out(consumer.member_id)
            with pytest.raises(errors.CommitFailed) as failed:
                await consumer.commit()
            assert failed.value.outcome_unknown is is_in_doubt


@virtual
async def test_who_is_put_out_loses_its_partitions_and_joins_again() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a", b"b")
        listener = Listener()
        async with consumer_of(cluster, max_poll_records=1) as consumer:
            await consumer.subscribe(["orders"], listener)
            assert await poll_until(consumer, have=1) == [b"a"]
            groups.put_out(consumer.member_id)
            with pytest.raises(errors.CommitFailed):
                await consumer.commit()
            assert await poll_until(consumer, have=2) == [b"a", b"b"]
            assert listener.told == [("assigned", [ORDERS_0]), ("lost", [ORDERS_0]), ("assigned", [ORDERS_0])]


@virtual
async def test_partitions_are_read_while_the_coordinator_is_silent_but_not_longer_than_a_session() -> None:
    async with group((2,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a")
        listener = Listener()
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"], listener)
            assert await poll_until(consumer, have=1) == [b"a"]
            await consumer.commit()
            heard_s = asyncio.get_running_loop().time()
            cluster.cut_off(1)
            store(cluster, "orders", 0, b"b")
            assert [record.value for record in await consumer.poll(1.0)] == [b"b"]
            while consumer.assignment():
                await consumer.poll(0.1)
            # The coordinator cannot have given it to another yet.
            assert 5 < asyncio.get_running_loop().time() - heard_s <= 10.2
            store(cluster, "orders", 0, b"c")
            assert await consumer.poll(5.0) == []
            assert listener.told[-1] == ("lost", [ORDERS_0])
            cluster.heal()
            assert await poll_until(consumer, have=2) == [b"b", b"c"]
            assert groups.offsets == {("orders", 0): 1}


@virtual
async def test_a_coordinator_that_moves_is_followed_and_nothing_is_lost() -> None:
    async with group((2,)) as (cluster, groups):
        listener = Listener()
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(["orders"], listener)
            await assigned(consumer, ORDERS_0)
            for coordinator in (2, 3):
                groups.move(coordinator)
                cluster.kill(coordinator - 1) if coordinator == 2 else None
                store(cluster, "orders", 0, b"a")
                await poll_until(consumer, have=1)
                await consumer.commit()
                await asyncio.sleep(15)
                await consumer.poll(0.1)
            assert groups.offsets == {("orders", 0): 2}
            assert listener.told == [("assigned", [ORDERS_0])]


@virtual
async def test_a_poll_takes_no_longer_than_it_may_whatever_the_coordinator_does() -> None:
    async with group() as (cluster, _):
        cluster.cut_off(1)
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(["orders"])
            started_s = asyncio.get_running_loop().time()
            assert await consumer.poll(3.0) == []
            assert asyncio.get_running_loop().time() - started_s == pytest.approx(3.0, abs=0.01)


@virtual
async def test_who_got_no_answer_asks_for_one_at_once() -> None:
    async with group((1,)) as (cluster, groups), consumer_of(cluster) as consumer:
        await consumer.subscribe(["orders"])
        await assigned(consumer, ORDERS_0)
        groups.refuse_next(methods.GROUP_HEARTBEAT, errors_pb2.LOADING)
        before = len(groups.beats)
        while len(groups.beats) < before + 3:
            await consumer.poll(0.05)
        assert [beat.max_wait_ms > 0 for beat in groups.beats[before : before + 3]] == [False, True, True]
