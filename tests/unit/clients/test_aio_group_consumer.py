"""Consumers of a group, against a coordinator that moves, falls silent, refuses and puts them out."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.fake_groups import FakeGroups
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.aio_consumer import Consumer
from lograft.clients.consumer_options import ConsumerKeywords
from lograft.clients.rebalance import RebalanceListener
from lograft.clients.topic_partition import OffsetAndMetadata, TopicPartition
from lograft.proto import errors_pb2, methods
from lograft.storage.batch import encode_batch

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@asynccontextmanager
async def group(leaders: tuple[int, ...] = (1, 2)) -> AsyncIterator[tuple[FakeCluster, FakeGroups]]:
    cluster = FakeCluster()
    groups = FakeGroups(cluster)
    await cluster.start()
    cluster.create_topic("orders", leaders)
    yield cluster, groups


def consumer_of(cluster: FakeCluster, **options: object) -> Consumer:
    keywords: ConsumerKeywords = {
        "group": "billing",
        "auto_offset_reset": "earliest",
        "max_poll_interval_ms": 60_000,
        **options,  # type: ignore[typeddict-item]
    }
    return Consumer(cluster.bootstrap, runtime=cluster.client, **keywords)


def store(cluster: FakeCluster, topic: str, partition: int, *values: bytes) -> None:
    cluster.log(topic, partition).append(encode_batch(list(values), timestamps=0))
    cluster.tell()


async def poll_until(*consumers: Consumer, have: int) -> list[bytes | None]:
    """So many values, in the order in which they came; the consumers take turns."""
    values: list[bytes | None] = []
    async with asyncio.timeout(60):
        while len(values) < have:
            for consumer in consumers:
                values += [record.value for record in await consumer.poll(0.05)]
    return values


async def assigned(consumer: Consumer, *partitions: TopicPartition, others: tuple[Consumer, ...] = ()) -> None:
    """Poll until the consumer has these, and no others."""
    async with asyncio.timeout(60):
        while consumer.assignment() != list(partitions):
            for each in (*others, consumer):
                await each.poll(0.05)


class Listener(RebalanceListener):
    """Remembers what it was told; and does more, if a test says so."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[TopicPartition]]] = []

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("assigned", partitions))

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoked", partitions))

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("lost", partitions))


# -- members come and go


@virtual
async def test_members_share_partitions_and_tell_their_listeners() -> None:
    async with group() as (cluster, groups):
        one, two = Listener(), Listener()
        async with consumer_of(cluster) as first:
            await first.subscribe(["orders"], one)
            await assigned(first, ORDERS_0, ORDERS_1)
            async with consumer_of(cluster) as second:
                await second.subscribe(["orders"], two)
                async with asyncio.timeout(60):
                    while len(first.assignment()) != 1 or len(second.assignment()) != 1:
                        await first.poll(0.05)
                        await second.poll(0.05)
                assert sorted(first.assignment() + second.assignment()) == [ORDERS_0, ORDERS_1]
                (given_up,) = second.assignment()
                assert one.told == [("assigned", [ORDERS_0, ORDERS_1]), ("revoked", [given_up])]
                assert two.told == [("assigned", [given_up])]
            # It has left, and did not have to be missed first.
            assert list(groups.members) == [first.member_id]
            assert two.told[-1] == ("revoked", [given_up])
            await assigned(first, ORDERS_0, ORDERS_1)
        assert groups.members == {}


@virtual
async def test_whoever_gets_a_partition_goes_on_where_the_other_was() -> None:
    async with group((1,)) as (cluster, _):
        store(cluster, "orders", 0, b"a", b"b", b"c")
        async with consumer_of(cluster, max_poll_records=2) as first:
            await first.subscribe(["orders"])
            assert await poll_until(first, have=2) == [b"a", b"b"]
        async with consumer_of(cluster) as second:
            await second.subscribe(["orders"])
            assert await poll_until(second, have=1) == [b"c"]


@virtual
async def test_a_partition_is_owned_until_what_was_read_is_committed() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a", b"b")
        cluster.create_topic("prices", [2])
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(["orders"])
            assert await poll_until(consumer, have=2) == [b"a", b"b"]
            groups.refuse_next(methods.COMMIT_OFFSETS, *[errors_pb2.LOADING] * 4)
            await consumer.subscribe(["prices"])
            while ORDERS_0 in consumer.assignment():
                await consumer.poll(0.05)
            orders = cluster.topics["orders"].bytes
            while not groups.offsets:
                owned = [topic.topic_id for topic in groups.beats[-1].owned]
                assert orders in owned, "it was given up before what was read of it was committed"
                await consumer.poll(0.01)
            assert groups.offsets == {("orders", 0): 2}
            await assigned(consumer, TopicPartition("prices", 0))
            await consumer.poll(0.1)
            assert [topic.topic_id for topic in groups.beats[-1].owned] == [cluster.topics["prices"].bytes]


@virtual
async def test_a_listener_may_commit_and_ask_for_positions_when_partitions_are_revoked() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a", b"b", b"c")

        class Committing(Listener):
            async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                self.position = await consumer.position(partitions[0])
                await consumer.commit({partitions[0]: OffsetAndMetadata(1, "so far")})

        listener = Committing()
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"], listener)
            await poll_until(consumer, have=3)
            await consumer.unsubscribe()
            assert listener.position == 3
            assert groups.offsets == {("orders", 0): 1}
            assert groups.members == {}
            assert consumer.assignment() == []


@virtual
async def test_a_listener_may_seek_before_anything_is_given() -> None:
    async with group((1,)) as (cluster, _):
        store(cluster, "orders", 0, b"a", b"b", b"c")

        class Seeking(Listener):
            async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                await consumer.seek(partitions[0], 2)

        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(["orders"], Seeking())
            assert await poll_until(consumer, have=1) == [b"c"]


@virtual
async def test_what_a_listener_raises_comes_out_of_poll_and_the_partitions_are_there_all_the_same() -> None:
    async with group((1,)) as (cluster, _):
        store(cluster, "orders", 0, b"a")

        class Broken(RebalanceListener):
            def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                raise ZeroDivisionError

        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(["orders"], Broken())
            with pytest.raises(ZeroDivisionError):
                await consumer.poll(10)
            assert consumer.assignment() == [ORDERS_0]
            assert await poll_until(consumer, have=1) == [b"a"]


# -- partitions that are lost


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


# -- static members


@virtual
async def test_who_comes_back_with_its_instance_id_finds_its_partitions_and_who_had_it_is_told() -> None:
    async with group((2,)) as (cluster, groups):
        async with consumer_of(cluster, instance_id="left") as first:
            await first.subscribe(["orders"])
            await assigned(first, ORDERS_0)
        (member,) = groups.members.values()
        assert list(member.assigned), "its place was not kept"
        assert groups.beats[-1].member_epoch == -2
        async with consumer_of(cluster, instance_id="left") as second:
            await second.subscribe(["orders"])
            await assigned(second, ORDERS_0)
            async with consumer_of(cluster, instance_id="left") as third:
                await third.subscribe(["orders"])
                await assigned(third, ORDERS_0)
                with pytest.raises(errors.FencedInstanceId):
                    await second.poll(10)
                with pytest.raises(errors.FencedInstanceId):
                    await second.poll(10)
                assert list(groups.members) == [third.member_id]


# -- patterns


@virtual
async def test_a_pattern_is_matched_anew_as_topics_come_and_go() -> None:
    async with group((1,)) as (cluster, _):
        cluster.create_topic("prices", [2])
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(re.compile("orders.*"))
            await assigned(consumer, ORDERS_0)
            assert consumer.subscription() == ["orders"]
            cluster.create_topic("orders-eu", [2])
            await assigned(consumer, ORDERS_0, TopicPartition("orders-eu", 0))
            assert consumer.subscription() == ["orders", "orders-eu"]
            store(cluster, "orders-eu", 0, b"a")
            assert await poll_until(consumer, have=1) == [b"a"]
            cluster.delete_topic("orders-eu")
            await assigned(consumer, ORDERS_0)
            await consumer.subscribe(["prices"])
            cluster.create_topic("orders-us", [2])
            await assigned(consumer, TopicPartition("prices", 0))
            assert consumer.subscription() == ["prices"]


@virtual
async def test_a_topic_that_is_not_there_yet_is_read_once_it_is_and_so_is_a_new_partition() -> None:
    async with group((1,)) as (cluster, _), consumer_of(cluster) as consumer:
        await consumer.subscribe(["later"])
        assert await consumer.poll(1.0) == []
        cluster.create_topic("later", [2])
        await assigned(consumer, TopicPartition("later", 0))
        cluster.add_partition("later", 3)
        await assigned(consumer, TopicPartition("later", 0), TopicPartition("later", 1))
        store(cluster, "later", 1, b"a")
        assert await poll_until(consumer, have=1) == [b"a"]


# -- commits


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
async def test_who_subscribes_is_told_why_the_group_can_have_no_coordinator() -> None:
    async with group((1,)) as (cluster, groups):
        groups.refuse_next(methods.FIND_COORDINATOR, *[errors_pb2.NOT_ENOUGH_BROKERS] * 1000)
        async with consumer_of(cluster, request_timeout_ms=3000) as consumer:
            with pytest.raises(errors.TimedOut, match="NOT_ENOUGH_BROKERS"):
                await consumer.subscribe(["orders"])
            assert consumer.subscription() == []


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


# -- without a group, or without a membership


@virtual
async def test_assigned_partitions_begin_where_the_group_has_come_to() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a", b"b", b"c")
        for expected in ([b"a", b"b"], [b"c"]):
            async with consumer_of(cluster, max_poll_records=2) as consumer:
                await consumer.assign([ORDERS_0])
                assert await poll_until(consumer, have=len(expected)) == expected
        assert groups.offsets == {("orders", 0): 3}
        assert groups.members == {}
        assert not any(commit.member_id for commit in groups.commits)


@virtual
async def test_what_makes_no_sense_is_refused_with_a_remedy() -> None:
    async with group() as (cluster, _):
        async with Consumer(cluster.bootstrap, runtime=cluster.client) as alone:
            with pytest.raises(errors.InvalidArgument, match="needs a group"):
                await alone.subscribe(["orders"])
            with pytest.raises(errors.InvalidArgument, match="needs a group"):
                await alone.commit()
        async with consumer_of(cluster) as consumer:
            with pytest.raises(errors.InvalidArgument, match="give a list of names"):
                await consumer.subscribe("orders")
            await consumer.assign([ORDERS_0])
            with pytest.raises(errors.InvalidArgument, match="unsubscribe first"):
                await consumer.subscribe(["orders"])
            await consumer.unsubscribe()
            await consumer.subscribe(["orders"])
            with pytest.raises(errors.InvalidArgument, match="unsubscribe first"):
                await consumer.assign([ORDERS_0])
            with pytest.raises(errors.InvalidArgument, match="there is no offset -1"):
                await consumer.commit({ORDERS_0: -1})
            for epoch in (-1, 2**31, "last"):
                with pytest.raises(errors.InvalidArgument, match="there is no leader epoch"):
                    await consumer.commit({ORDERS_0: OffsetAndMetadata(1, "", epoch)})  # type: ignore[arg-type]
            await consumer.subscribe([])
            assert consumer.subscription() == []
    for options in (
        {"assignor": "best"},
        {"instance_id": "x", "group": None},
        {"session_timeout_ms": 10},
        {"group": ""},
        {"group": "\ud800"},
        {"instance_id": "\ud800"},
    ):
        with pytest.raises(errors.InvalidArgument):
            consumer_of(cluster, **options)
