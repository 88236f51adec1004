"""Consumers of a group share what they subscribe to, and hand on partitions in good order."""

import asyncio
import re
from collections.abc import Awaitable

import pytest
from support.group_consumers import ORDERS_0, ORDERS_1, Listener, assigned, consumer_of, group, poll_until, store
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
from lograft.clients.types import OffsetAndMetadata, TopicPartition
from lograft.proto import errors_pb2, methods

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
        cluster.create_topic("lograft-spark-orders", [2])  # which lists leave out
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(re.compile(".*orders.*"))
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


# -- without a group, or without a membership


@virtual
async def test_subscribing_does_not_wait_and_polling_tells_why_the_group_can_have_no_coordinator() -> None:
    async with group((1,)) as (cluster, groups):
        groups.refuse_next(methods.FIND_COORDINATOR, *[errors_pb2.NOT_ENOUGH_BROKERS] * 1000)
        async with consumer_of(cluster, request_timeout_ms=3000) as consumer:
            await at_once(consumer.subscribe(["orders"]))
            assert consumer.subscription() == ["orders"]
            assert await consumer.poll(1.0) == []
            for _ in range(2):
                with pytest.raises(errors.TimedOut, match="NOT_ENOUGH_BROKERS"):
                    await consumer.poll(60.0)
            groups.serve_again(methods.FIND_COORDINATOR)
            await assigned(consumer, ORDERS_0)


@virtual
@pytest.mark.parametrize("topics", [["orders"], re.compile("ord.*")])
async def test_subscribing_waits_for_no_broker(topics: list[str] | re.Pattern[str]) -> None:
    async with group((1,)) as (cluster, groups), consumer_of(cluster, request_timeout_ms=3000) as consumer:
        for number in cluster.addresses:
            cluster.cut_off(number)
        await at_once(consumer.subscribe(topics))
        with pytest.raises(errors.NoBrokerAvailable):
            await consumer.poll(60.0)
        await at_once(consumer.subscribe(["others"]))
        await at_once(consumer.subscribe(topics))
        cluster.heal()
        await assigned(consumer, ORDERS_0)
        assert consumer.subscription() == ["orders"]
        await consumer.unsubscribe()
        await at_once(consumer.subscribe(topics))
        await consumer.unsubscribe()
        assert consumer.subscription() == []
        assert groups.members == {}


async def at_once(work: Awaitable[None]) -> None:
    """It takes no time at all, so that it asks nobody."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await work
    assert loop.time() == began


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
