"""A broker in a whole cluster: what it asks of the controllers, and what it answers for them."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from support.controller_nodes import BrokerHost, ControllerNodes, controllers, registration_of
from support.fake_controllers import until
from support.metadata_images import directory, ids, topic_id
from support.raft_nodes import make_runtime, virtual

from lograft.chaos.world.network import VirtualNetwork
from lograft.metadata.decisions.partitions.alter_isr import Alteration, IsrMember
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import LeaderEpoch, Partition
from lograft.metadata.membership.broker_session import ReplicaEnd, Wanted
from lograft.metadata.membership.cluster_membership import ClusterMembership
from lograft.proto import errors_pb2
from lograft.proto.admin_pb2 import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigResource,
    CreateTopicsRequest,
    CreateTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    NewTopic,
    PartitionReference,
    ReplicaAssignment,
    TopicReference,
)
from lograft.proto.cluster_pb2 import ClusterDescription, DescribeRequest
from lograft.proto.methods import ALTER_CONFIGS, CREATE_TOPICS, DESCRIBE_CLUSTER, ELECT_LEADERS, WATCH_CLUSTER
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.network import Status, StreamError
from lograft.runtime.rng import Rng

ONE, TWO, THREE = ids(1, 2, 3)
ORDERS = topic_id(1)


async def three_brokers(cluster: ControllerNodes) -> dict[int, BrokerHost]:
    return {each: await cluster.ready_broker(each) for each in (1, 2, 3)}


async def create(cluster: ControllerNodes, by: BrokerHost, *brokers: int, **fields: Any) -> CreateTopicsResponse.Result:
    """Topic `orders` with one partition on these brokers, by way of a broker."""
    topic = NewTopic(
        name="orders", topic_id=ORDERS.bytes, assignments=[ReplicaAssignment(broker_ids=brokers)], **fields
    )
    response = await cluster.ask(by.address, CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    (result,) = response.results
    assert not result.HasField("error"), result
    return result


async def partition_now(cluster: ControllerNodes) -> Partition:
    return (await cluster.active()).node.machine.image.topics[ORDERS].partitions[0]


def alteration(before: Partition, brokers: dict[int, BrokerHost], *isr: int) -> Alteration:
    members = [
        IsrMember(brokers[each].broker_id, brokers[each].membership.broker_epoch, directory(each)) for each in isr
    ]
    return Alteration(ORDERS, 0, before.leader_epoch, before.partition_epoch, tuple(members))


# -- coming


@virtual
async def test_a_broker_registers_follows_the_metadata_and_is_unfenced_when_it_is_ready() -> None:
    async with controllers() as cluster:
        broker = await cluster.broker(1)
        async with asyncio.timeout(5):
            await broker.membership.until_registered()
        registered = broker.membership.image.brokers[ONE]
        assert registered.epoch == broker.membership.broker_epoch
        assert registered.state is BrokerState.FENCED
        await asyncio.sleep(5)
        assert (await cluster.active()).node.machine.image.brokers[ONE].state is BrokerState.FENCED, "not ready yet"
        broker.membership.session.set_wanted(Wanted.READY)
        await until(lambda: broker.state is BrokerState.ACTIVE, within_s=1)
        await until(lambda: broker.membership.image.brokers[ONE].state is BrokerState.ACTIVE, within_s=1)


@virtual
async def test_a_broker_that_starts_before_the_controllers_waits_for_them() -> None:
    cluster = ControllerNodes()
    broker = await cluster.broker(1)
    await asyncio.sleep(20)
    assert not broker.membership.session.is_registered
    for host in cluster.hosts.values():
        await host.start()
    await until(lambda: broker.membership.session.is_registered, within_s=10)
    await cluster.end()


@virtual
async def test_a_broker_of_another_cluster_ends_with_that_error() -> None:
    async with controllers() as cluster:
        runtime = make_runtime(1, cluster.network, "b1")
        membership = ClusterMembership(runtime, cluster.addresses, "other", registration_of(1), lambda: ())
        with pytest.raises(ControllerError) as caught:
            await membership.run()
        assert caught.value.code == errors_pb2.WRONG_CLUSTER


@virtual
async def test_a_process_that_another_one_replaced_is_told_and_ends() -> None:
    async with controllers() as cluster:
        old = await cluster.ready_broker(1)
        runtime = make_runtime(2, cluster.network, "b1-new")
        registration = registration_of(1, incarnation=2)
        new = ClusterMembership(runtime, cluster.addresses, "cluster", registration, lambda: ())
        running = asyncio.ensure_future(new.run())
        await new.until_registered()
        assert old.running is not None
        await asyncio.wait([old.running], timeout=3)
        error = old.running.exception()
        assert isinstance(error, ControllerError)
        assert error.code == errors_pb2.STALE_BROKER_EPOCH
        with pytest.raises(ControllerError):
            await old.membership.allocate_producer_ids()
        running.cancel()


# -- going


@virtual
async def test_a_broker_that_wants_to_leave_is_let_go_once_others_lead() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create(cluster, brokers[1], 1, 2, 3)
        assert (await partition_now(cluster)).leader == 1
        session = brokers[1].membership.session
        session.set_wanted(Wanted.SHUT_DOWN)
        began_ms = cluster.now_ms
        assert await session.wait_until_may_stop()
        assert cluster.now_ms - began_ms < 2000
        partition = await partition_now(cluster)
        assert partition.leader in (2, 3)
        assert 1 not in partition.isr
        assert (await cluster.active()).node.machine.image.brokers[ONE].state is BrokerState.FENCED


@virtual
async def test_a_broker_that_is_needed_waits_until_another_has_caught_up() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create(cluster, brokers[1], 1, 2, 3)
        before = await partition_now(cluster)
        await brokers[1].membership.alter_partitions([alteration(before, brokers, 1, 2)])
        session = brokers[2].membership.session
        session.set_wanted(Wanted.SHUT_DOWN)
        assert not await session.wait_until_may_stop(at_most_ms=5000), "its leaving would break the minimum"
        before = await partition_now(cluster)
        response = await brokers[1].membership.alter_partitions([alteration(before, brokers, 1, 2, 3)])
        assert not response.results[0].HasField("error"), response
        assert await session.wait_until_may_stop(at_most_ms=5000)


@virtual
async def test_without_a_quorum_a_broker_leaves_after_a_moment() -> None:
    async with controllers() as cluster:
        broker = await cluster.ready_broker(1)
        for host in cluster.hosts.values():
            await host.kill()
        broker.membership.session.set_wanted(Wanted.SHUT_DOWN)
        began_ms = cluster.now_ms
        assert not await broker.membership.session.wait_until_may_stop()
        assert 1000 < cluster.now_ms - began_ms < 2500


@virtual
async def test_a_broker_may_leave_through_a_controller_that_has_just_taken_over() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create(cluster, brokers[1], 1, 2, 3)
        session = brokers[1].membership.session
        session.set_wanted(Wanted.SHUT_DOWN)
        await (await cluster.active()).kill()
        assert await session.wait_until_may_stop()


@virtual
async def test_who_ends_stops_all_it_does() -> None:
    async with controllers(1) as cluster:
        broker = await cluster.ready_broker(1)
        assert broker.running is not None
        broker.running.cancel()
        await asyncio.wait([broker.running])
        assert broker.running.cancelled()
        await asyncio.sleep(0.1)
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert not [name for name in names if "b1" in name or "heartbeat" in name or "follower" in name], names
        with pytest.raises(ControllerError) as caught:
            await broker.membership.latest_index()
        assert caught.value.code == errors_pb2.UNAVAILABLE


@virtual
async def test_a_broken_follower_ends_the_membership_with_its_error() -> None:
    async with controllers(1) as cluster:
        broker = await cluster.broker(1)

        class Broken(Exception):
            pass

        def fail(index: int, records: object) -> None:
            raise Broken

        broker.membership.follower.apply = fail  # type: ignore[method-assign]
        broker.membership.session.set_wanted(Wanted.READY)  # its unfencing, if nothing before, is news to break on
        assert broker.running is not None
        async with asyncio.timeout(5):
            await asyncio.wait([broker.running])
        error = broker.running.exception()
        assert isinstance(error, ExceptionGroup)
        assert error.subgroup(Broken) is not None


# -- what it asks of the controller


@virtual
async def test_an_isr_is_altered_and_the_image_has_it_by_the_index_of_the_answer() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create(cluster, brokers[1], 1, 2, 3)
        before = await partition_now(cluster)
        response = await brokers[1].membership.alter_partitions([alteration(before, brokers, 1, 3)])
        (result,) = response.results
        assert list(result.isr) == [1, 3]
        membership = brokers[2].membership
        await membership.follower.wait_for(response.index)
        after = membership.image.topics[ORDERS].partitions[0]
        assert after.isr == ids(1, 3)
        assert (after.leader_epoch, after.partition_epoch) == (result.leader_epoch, result.partition_epoch)
        again = await brokers[1].membership.alter_partitions([alteration(before, brokers, 1, 2, 3)])
        assert again.results[0].error.code == errors_pb2.STALE_PARTITION_EPOCH


@virtual
async def test_an_alteration_that_may_have_been_made_is_not_made_again() -> None:
    """A second attempt would be refused, and the leader would take that for the answer."""
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create(cluster, brokers[1], 1, 2, 3)
        before = await partition_now(cluster)
        active = await cluster.active()
        cluster.network.cut(active.name, "b1")  # the request arrives, the answer does not
        asking = asyncio.ensure_future(brokers[1].membership.alter_partitions([alteration(before, brokers, 1, 3)]))
        await until(lambda: active.node.machine.image.topics[ORDERS].partitions[0].isr == ids(1, 3))
        await active.kill()
        await asyncio.wait([asking])
        error = asking.exception()
        assert isinstance(error, ControllerError)
        assert error.code == errors_pb2.CONTROLLER_MOVED


@virtual
async def test_reports_ids_and_reads_are_asked_again_when_the_controller_is_lost() -> None:
    async with controllers() as cluster:
        broker = await cluster.ready_broker(1, directories=2)
        membership = broker.membership
        asked: list[Any] = [
            lambda: membership.allocate_producer_ids(),
            lambda: membership.report_failures([directory(1, 1)], [], "failed"),
            lambda: membership.latest_index(),
        ]
        for ask in asked:
            active = await cluster.active()
            cluster.network.cut(active.name, "b1")
            asking = asyncio.ensure_future(ask())
            await asyncio.sleep(0.3)
            assert not asking.done()
            await active.kill()
            async with asyncio.timeout(10):
                assert await asking is not None
            cluster.network.heal(active.name, "b1")
            await active.start()
        brokers = (await cluster.active()).node.machine.image.brokers
        assert brokers[ONE].directories == (directory(1),)


@virtual
async def test_what_failed_leaves_by_the_index_of_the_answer() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create(cluster, brokers[1], 1, 2, 3)
        index = await brokers[1].membership.report_failures([], [(ORDERS, 0)], "a bad checksum")
        await brokers[2].membership.follower.wait_for(index)
        after = brokers[2].membership.image.topics[ORDERS].partitions[0]
        assert 1 not in after.isr
        assert after.leader in (2, 3)
        index = await brokers[2].membership.report_failures([directory(2)], [], "no longer there")
        await brokers[3].membership.follower.wait_for(index)
        after = brokers[3].membership.image.topics[ORDERS].partitions[0]
        assert after.isr == (3,)


@virtual
async def test_producer_ids_of_two_brokers_do_not_overlap() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        used: set[int] = set()
        for broker in brokers.values():
            block = await broker.membership.allocate_producer_ids()
            ids_of_block = set(range(block.first, block.first + block.count))
            assert len(ids_of_block) == block.count > 0
            assert not ids_of_block & used
            used |= ids_of_block


@virtual
async def test_an_internal_topic_is_there_once_a_broker_has_asked_for_it() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await asyncio.gather(*(each.membership.create_internal_topic(CONSUMER_OFFSETS) for each in brokers.values()))
        topics = {each.membership.image.topic(CONSUMER_OFFSETS).topic_id for each in brokers.values()}
        assert len(topics) == 1


@virtual
async def test_the_latest_index_is_at_least_that_of_any_change_that_was_answered() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        index = await brokers[1].membership.report_failures([], [], "nothing")
        assert await brokers[2].membership.latest_index() >= index


# -- unclean elections


async def _lose_leader(cluster: ControllerNodes, **configs: str) -> dict[int, BrokerHost]:
    """Brokers 1 to 3 of a topic whose only one in sync, broker 1, is gone with its directory; the others are behind."""
    brokers = await three_brokers(cluster)
    await create(cluster, brokers[1], 1, 2, 3, configs={"min.insync.replicas": "1", **configs})
    before = await partition_now(cluster)
    response = await brokers[1].membership.alter_partitions([alteration(before, brokers, 1)])
    assert not response.results[0].HasField("error"), response
    await brokers[1].kill()
    image = (await cluster.active()).node.machine.image
    await until(lambda: image.topics[ORDERS].partitions[0].leader is None)
    return brokers


def end(last_epoch: int, end_offset: int) -> ReplicaEnd:
    return ReplicaEnd(ORDERS, 0, LeaderEpoch(last_epoch), end_offset)


@virtual
async def test_a_topic_that_allows_it_gets_the_longest_log_that_brokers_report() -> None:
    async with controllers() as cluster:
        configs = {"unclean.leader.election.enable": "true"}
        brokers = await _lose_leader(cluster, **configs)
        await asyncio.sleep(5)
        assert (await partition_now(cluster)).leader is None, "nobody said how much it has"
        brokers[2].log_ends = [end(0, 100)]
        await asyncio.sleep(5)
        assert (await partition_now(cluster)).leader is None, "the other may have more"
        brokers[3].log_ends = [end(0, 101)]
        await asyncio.sleep(5)
        after = await partition_now(cluster)
        assert (after.leader, after.isr, after.unclean_epoch) == (3, (3,), after.leader_epoch)


@virtual
async def test_an_operator_can_have_it_too_by_way_of_any_broker() -> None:
    async with controllers() as cluster:
        brokers = await _lose_leader(cluster)
        brokers[2].log_ends = [end(1, 5)]
        brokers[3].log_ends = [end(0, 900)]
        await asyncio.sleep(5)
        assert (await partition_now(cluster)).leader is None
        request = ElectLeadersRequest(
            kind=ElectLeadersRequest.UNCLEAN,
            partitions=[PartitionReference(topic=TopicReference(topic_id=ORDERS.bytes), partition=0)],
        )
        response = await cluster.ask(brokers[3].address, ELECT_LEADERS, request, ElectLeadersResponse)
        assert response.results[0].leader == 2, "a later epoch counts for more than a longer log"


@virtual
async def test_a_controller_that_takes_over_hears_of_log_ends_anew() -> None:
    async with controllers() as cluster:
        configs = {"unclean.leader.election.enable": "true"}
        brokers = await _lose_leader(cluster, **configs)
        brokers[2].log_ends = [end(0, 100)]
        await asyncio.sleep(3)
        await (await cluster.active()).kill()
        await cluster.active()
        brokers[3].log_ends = [end(0, 1)]
        await asyncio.sleep(5)
        assert (await partition_now(cluster)).leader == 2


# -- what it answers for the cluster


@virtual
async def test_a_broker_hands_requests_on_to_the_active_controller() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        result = await create(cluster, brokers[3], 1, 2)
        assert result.topic_id == ORDERS.bytes
        again = await create(cluster, brokers[2], 1, 2)
        assert again.topic_id == ORDERS.bytes, "a retry is recognised"
        taken = CreateTopicsRequest(topics=[NewTopic(name="orders", topic_id=UUID(int=9).bytes)])
        response = await cluster.ask(brokers[1].address, CREATE_TOPICS, taken, CreateTopicsResponse)
        assert response.results[0].error.code == errors_pb2.TOPIC_ALREADY_EXISTS


@virtual
async def test_a_broker_hands_on_across_the_loss_of_a_controller() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await (await cluster.active()).kill()
        await create(cluster, brokers[2], 1, 2)


@virtual
async def test_a_linearizable_description_has_all_that_was_answered_before_whichever_broker_is_asked() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        slow = brokers[3]
        source = slow.membership.follower.source_id
        assert source is not None
        # What it follows does not reach it any more; it does not know yet.
        cluster.network.cut(cluster[source].name, "b3")
        await create(cluster, brokers[1], 1, 2)
        stale = await cluster.ask(slow.address, DESCRIBE_CLUSTER, DescribeRequest(), ClusterDescription)
        assert not stale.topics
        request = DescribeRequest(linearizable=True)
        description = await cluster.ask(slow.address, DESCRIBE_CLUSTER, request, ClusterDescription)
        assert [topic.name for topic in description.topics] == ["orders"]
        assert description.cluster_id == "cluster"


async def first_use(cluster: ControllerNodes, by: BrokerHost, *names: str) -> ClusterDescription:
    request = DescribeRequest(topics=names, create_missing=True)
    return await cluster.ask(by.address, DESCRIBE_CLUSTER, request, ClusterDescription)


async def create_on_first_use(cluster: ControllerNodes, by: BrokerHost, **more: str) -> None:
    keys = {"auto.create.topics.enable": "true", **{key.replace("_", "."): value for key, value in more.items()}}
    changes = [AlterConfigsRequest.Change(key=key, value=value) for key, value in keys.items()]
    item = AlterConfigsRequest.Item(resource=ConfigResource(kind=ConfigResource.CLUSTER), changes=changes)
    answer = await cluster.ask(by.address, ALTER_CONFIGS, AlterConfigsRequest(items=[item]), AlterConfigsResponse)
    assert not answer.results[0].HasField("error"), answer


@virtual
async def test_topics_are_not_created_by_asking_for_them_unless_the_cluster_wants_that() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        (topic,) = (await first_use(cluster, brokers[1], "orders")).topics
        assert topic.error.code == errors_pb2.UNKNOWN_TOPIC


@virtual
async def test_topics_are_created_on_first_use_with_the_clusters_defaults() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create_on_first_use(cluster, brokers[1], num_partitions="4", default_replication_factor="2")
        answers = await asyncio.gather(*(first_use(cluster, brokers[each], "orders", "bills") for each in (1, 2, 3)))
        for answer in answers:
            assert [topic.name for topic in answer.topics] == ["orders", "bills"]
            assert {len(topic.partitions) for topic in answer.topics} == {4}
            assert {len(each.replicas) for topic in answer.topics for each in topic.partitions} == {2}
        assert len({topic.id for answer in answers for topic in answer.topics}) == 2, "all got the same topics"
        plain = DescribeRequest(topics=["more"], linearizable=True)
        (topic,) = (await cluster.ask(brokers[1].address, DESCRIBE_CLUSTER, plain, ClusterDescription)).topics
        assert topic.error.code == errors_pb2.UNKNOWN_TOPIC, "who only looks creates nothing"


@virtual
async def test_the_clusters_own_topics_are_not_there_until_the_cluster_makes_them() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create_on_first_use(cluster, brokers[1])
        described = (await first_use(cluster, brokers[1], "__consumer_offsets", "orders")).topics
        codes = {topic.name: topic.error.code if topic.HasField("error") else None for topic in described}
        assert codes == {"__consumer_offsets": errors_pb2.UNKNOWN_TOPIC, "orders": None}


@virtual
async def test_a_topic_that_cannot_be_created_says_why() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        await create_on_first_use(cluster, brokers[1])
        with pytest.raises(ControllerError, match="the topic name 'no/name' has '/'"):
            await first_use(cluster, brokers[1], "no/name")


def methods_of_a_broker() -> list[str]:
    found: list[str] = []

    @virtual
    async def fill() -> None:
        runtime = make_runtime(1, VirtualNetwork(Rng(1)), "b1")
        found.extend(ClusterMembership(runtime, {1: "c1:1"}, "cluster", registration_of(1), lambda: ()).handlers())

    fill()
    return found


GARBAGE = [b"\xff\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05ab", b"\x08" + b"\xff" * 11]


@pytest.mark.parametrize("method", methods_of_a_broker())
def test_bytes_that_are_no_request_are_refused_and_harm_nobody(method: str) -> None:
    @virtual
    async def scenario() -> None:
        async with controllers(1) as cluster:
            broker = await cluster.ready_broker(1)
            for garbage in GARBAGE:
                stream = (await cluster.connect(broker.address)).open(method)
                await stream.send(garbage)
                await stream.half_close()
                with pytest.raises(StreamError) as caught:
                    async with asyncio.timeout(5):
                        await stream.receive()
                assert caught.value.status is Status.INVALID_ARGUMENT
            assert broker.running is not None
            assert not broker.running.done()
            assert not broker.panics
            await create(cluster, broker, 1)

    scenario()


@virtual
async def test_a_watch_through_a_broker_tells_of_changes_and_is_never_silent_for_long() -> None:
    async with controllers() as cluster:
        brokers = await three_brokers(cluster)
        stream = (await cluster.connect(brokers[2].address)).open(WATCH_CLUSTER)
        await stream.send(b"")
        await stream.half_close()
        for number in range(10):
            if number == 5:
                await create(cluster, brokers[1], 1, 2)
            began_ms = cluster.now_ms
            assert await stream.receive() is not None
            assert cluster.now_ms - began_ms <= 550
        stream.reset()
