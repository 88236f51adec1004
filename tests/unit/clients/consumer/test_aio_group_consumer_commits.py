"""What consumers of a group commit: what was given and no more, in order, before a partition is another's."""

import asyncio

import pytest
from support.group_consumers import ORDERS_0, assigned, consumer_of, group, poll_until, store
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.types import OffsetAndMetadata, TopicPartition
from lograft.proto import errors_pb2, methods


@virtual
async def test_only_what_was_given_before_a_poll_is_committed_by_it() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, *[b"%d" % number for number in range(4)])
        async with consumer_of(cluster, max_poll_records=2, auto_commit_interval_ms=1000) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=2)
            await asyncio.sleep(5)
            assert groups.offsets == {}, "it was committed while it was worked on"
            await poll_until(consumer, have=2)
            await asyncio.sleep(5)
            assert groups.offsets == {("orders", 0): 2}
            # Nothing comes, but what was given before is done with.
            assert await consumer.poll(5.0) == []
            assert groups.offsets == {("orders", 0): 4}


@virtual
async def test_what_is_iterated_over_is_committed_as_far_as_the_loop_has_come() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, *[b"%d" % number for number in range(100)])
        async with consumer_of(cluster, auto_commit_interval_ms=1000) as consumer:
            await consumer.subscribe(["orders"])
            count = 0
            async for _ in consumer:
                count += 1
                assert groups.offsets.get(("orders", 0), 0) < count
                await asyncio.sleep(0.3)
                if count == 50:
                    break
            assert groups.offsets[("orders", 0)] > 40
        assert groups.offsets == {("orders", 0): 50}


@virtual
async def test_commits_are_done_in_order_and_told_of() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, *[b"%d" % number for number in range(9)])
        told: list[tuple[object, object]] = []
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=9)
            groups.refuse_next(methods.COMMIT_OFFSETS, errors_pb2.LOADING, errors_pb2.NOT_COORDINATOR)
            for offset in (3, 5, 7):
                consumer.commit_async({ORDERS_0: offset}, lambda offsets, error: told.append((offsets, error)))
            consumer.commit_async(callback=lambda offsets, error: told.append((offsets, error)))
            await consumer.commit({ORDERS_0: OffsetAndMetadata(8, "almost", 0)})
            assert told == [({ORDERS_0: (offset, "", None)}, None) for offset in (3, 5, 7)] + [(None, None)]
            assert groups.offsets == {("orders", 0): 8}
            assert await consumer.committed([ORDERS_0]) == {ORDERS_0: 8}
            (committed,) = groups.committed.values()
            assert committed.metadata == "almost"
        assert groups.offsets == {("orders", 0): 8}


@virtual
async def test_what_was_asked_for_is_committed_before_a_partition_is_given_up() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a", b"b")
        cluster.create_topic("prices", [2])
        told: list[object] = []
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=2)
            groups.refuse_next(methods.COMMIT_OFFSETS, *[errors_pb2.LOADING] * 4)
            consumer.commit_async(callback=lambda _, error: told.append(error))
            await consumer.subscribe(["prices"])
            await assigned(consumer, TopicPartition("prices", 0))
            while not told:
                await consumer.poll(0.05)
            assert told == [None]
            assert groups.offsets == {("orders", 0): 2}


@pytest.mark.parametrize("is_member", [True, False])
@virtual
async def test_what_was_asked_for_is_committed_before_the_consumer_closes(is_member: bool) -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a", b"b")
        told: list[object] = []
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await (consumer.subscribe(["orders"]) if is_member else consumer.assign([ORDERS_0]))
            await poll_until(consumer, have=2)
            groups.refuse_next(methods.COMMIT_OFFSETS, *[errors_pb2.LOADING] * 4)
            consumer.commit_async(callback=lambda _, error: told.append(error))
        assert told == [None]
        assert groups.offsets == {("orders", 0): 2}


@virtual
async def test_a_commit_that_nobody_waits_for_is_told_that_it_failed() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a")
        told: list[object] = []
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=1)
            groups.put_out(consumer.member_id)
            consumer.commit_async(callback=lambda _, error: told.append(error))
            await asyncio.sleep(1)
            consumer.commit_async(callback=lambda _, error: told.append(error))
            assert [type(error) for error in told] == [errors.CommitFailed, errors.CommitFailed]
            consumer.commit_async()


@virtual
async def test_who_goes_back_may_commit_so_but_a_late_commit_may_not() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, *[b"%d" % number for number in range(9)])
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=9)
            await consumer.commit()
            assert not groups.commits[-1].may_lower
            await consumer.commit({ORDERS_0: 4})
            assert groups.commits[-1].may_lower
            await consumer.commit({ORDERS_0: 5})
            assert not groups.commits[-1].may_lower
            assert groups.offsets == {("orders", 0): 5}


@virtual
async def test_a_commit_whose_epoch_has_passed_meanwhile_is_made_in_the_next() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a")
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=1)
            groups.refuse_next(methods.COMMIT_OFFSETS, errors_pb2.FENCED_MEMBER_EPOCH)
            await consumer.commit()
            assert groups.offsets == {("orders", 0): 1}


@virtual
async def test_a_commit_that_gets_no_answer_says_so_in_time() -> None:
    async with group((2,)) as (cluster, _):
        store(cluster, "orders", 0, b"a")
        async with consumer_of(cluster, auto_commit=False, request_timeout_ms=3000) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=1)
            cluster.cut_off(1)
            with pytest.raises(errors.TimedOut, match="the offsets were not committed within 3000 ms"):
                await consumer.commit()
