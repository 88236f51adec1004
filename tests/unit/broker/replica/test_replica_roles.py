"""Replicas lead and follow as the image says: never otherwise, and one role at a time."""

import asyncio
from dataclasses import replace

import pytest
from support.led_replicas import ONE, THREE, TWO, led, next_leader
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, until
from support.virtual_log import headers, virtual

from lograft.broker.replica.follower_role import FollowerRole
from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Idle
from lograft.metadata.decisions.brokers.fencing import unfence
from lograft.metadata.image.partition import BrokerId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.state.epoch_cache import EpochEntry

# -- leaders come and go


@virtual
async def test_a_new_leader_begins_its_epoch_where_its_log_ends() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader, 3).outcome()
    metadata.fence(1)
    successor = await brokers[TWO].leads(topic)
    assert list(successor.log.epochs) == [EpochEntry(0, 0), EpochEntry(1, 3)]
    assert (await append(successor, 2).outcome()).base_offset == 3
    assert [header.leader_epoch for header in await headers(successor.log)] == [0, 1]
    assert isinstance(leader.role, FollowerRole)
    await until(lambda: leader.log_end == 5)


@virtual
async def test_what_a_former_leader_has_alone_is_cut_off_when_it_follows() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader).outcome()
    for follower in (TWO, THREE):
        brokers[follower].sink.stop()
    append(leader, 2)
    await leader.log.wait_stable(3)
    metadata.fence(1)
    for follower in (TWO, THREE):
        brokers[follower].sink.start()
    successor = await brokers[TWO].leads(topic)
    await append(successor, 5).outcome()
    await until(lambda: leader.log_end == 6)
    assert brokers[ONE].sink.log[0] == "TruncateTo"
    assert [(one.base_offset, one.leader_epoch) for one in await headers(leader.log)] == [(0, 0), (1, 1)]


@virtual
async def test_a_leader_of_the_next_epoch_too_begins_anew() -> None:
    metadata = Metadata()
    _, topic, leader = await led(metadata)
    role = leader.role
    pending = append(leader)
    metadata.put(topic, next_leader(metadata.partition(topic), ONE))
    assert isinstance(leader.role, LeaderRole)
    assert leader.role is not role
    assert leader.role.core.leader_epoch == 1
    with pytest.raises(ReplicaError) as lost:
        pending.result()
    assert lost.value.outcome_unknown


@virtual
async def test_a_change_within_an_epoch_disturbs_nobody() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    role, follower = leader.role, brokers[TWO].replica(topic).role
    brokers[TWO].sink.stop()
    pending = append(leader)
    metadata.fence(3)
    assert (leader.role, brokers[TWO].replica(topic).role) == (role, follower)
    assert not pending.done()
    brokers[TWO].sink.start()
    await pending.outcome()


@virtual
async def test_without_a_leader_nobody_leads_or_follows() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2)
    metadata.put(topic, next_leader(metadata.partition(topic), None, isr=(), elr=metadata.partition(topic).replicas))
    assert isinstance(leader.role, Idle)
    assert isinstance(brokers[TWO].replica(topic).role, Idle)
    assert brokers[TWO].sink.followed == []
    with pytest.raises(ReplicaError) as refused:
        append(leader)
    assert refused.value.code == errors_pb2.LEADER_NOT_AVAILABLE


@virtual
async def test_a_log_in_another_directory_than_the_metadatas_is_not_led_with() -> None:
    metadata = Metadata()
    peers: dict[BrokerId, TestBroker] = {}
    broker = await TestBroker(1, metadata, peers, disks=2).start()
    first, second = metadata.image.brokers[ONE].directories
    topic = metadata.create("orders", place(metadata, 1))
    leader = await broker.leads(topic)
    moved = metadata.partition(topic).replicas[0]
    moved = replace(moved, directory_id=second)
    metadata.put(topic, next_leader(metadata.partition(topic), ONE, replicas=(moved,)))
    assert leader.identity.directory_id == first
    assert isinstance(leader.role, Idle)


@virtual
async def test_a_role_waits_until_the_log_is_free_for_it() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader).outcome()
    brokers[TWO].sink.stop()
    brokers[THREE].sink.stop()
    append(leader, 2)
    await leader.log.wait_stable(3)
    metadata.fence(1)
    metadata.carry_out(unfence(metadata.image, ONE, brokers[ONE].view.broker_epoch))
    successor = await brokers[TWO].leads(topic)
    brokers[ONE].machine.speed.slowdown = 200
    await until(lambda: leader.log.is_exclusive)
    metadata.put(topic, next_leader(metadata.partition(topic), ONE, isr=ids(1, 2)))
    assert isinstance(successor.role, FollowerRole)
    assert leader.log.is_exclusive
    assert isinstance(leader.role, Idle)
    with pytest.raises(ReplicaError) as refused:
        append(leader)
    assert refused.value.code == errors_pb2.LEADER_NOT_AVAILABLE
    brokers[ONE].machine.speed.slowdown = 1
    await until(lambda: isinstance(leader.role, LeaderRole))
    end = leader.log_end  # the cut was interrupted, and is done or not
    assert (await append(leader, acks=Acks.LEADER).outcome()).base_offset == end


@virtual
async def test_a_cut_that_was_interrupted_is_durable_before_the_follower_subscribes_again() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    await append(leader).outcome()
    for follower in (TWO, THREE):
        brokers[follower].sink.stop()
    append(leader, 2)
    await leader.log.wait_stable(3)
    metadata.fence(1)
    brokers[ONE].machine.speed.slowdown = 300
    await until(lambda: leader.log_end == 1)
    (followed,) = brokers[ONE].sink.followed
    brokers[ONE].sink.end()
    calls = brokers[ONE].machine.points.names
    assert not any(call.startswith("truncate ") for call in calls)
    await followed.settle()
    assert any(call.startswith("truncate ") for call in calls)
    assert followed.subscribe(1000).end_offset == 1


# -- images that are not ours to act on


@virtual
async def test_nothing_is_done_on_an_image_older_than_the_own_registration() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 1)
    await append(leader).outcome()
    brokers[ONE].kill()
    broker = brokers[ONE]
    broker.begin()
    await broker.open_directories()
    broker.view.hold()
    broker.register()
    broker.run()
    await asyncio.sleep(2)
    # It says that we lead, in an epoch of the process before.
    seen = broker.view.image.partition(topic, 0)
    assert seen is not None
    assert seen.leader == ONE
    assert not broker.has(topic)
    assert list(broker.manager.log_ends()) == []
    broker.view.release()
    await broker.until_ready()
    replica = await broker.leads(topic)
    assert replica.leader_epoch == metadata.partition(topic).leader_epoch


@virtual
async def test_a_later_process_of_the_same_broker_ends_all_roles() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 1)
    former, epoch = brokers[ONE].view, brokers[ONE].view.broker_epoch
    brokers[ONE].register()
    former.broker_epoch = epoch
    assert isinstance(leader.role, Idle)
    metadata.carry_out(unfence(metadata.image, ONE, metadata.image.brokers[ONE].epoch))
    assert metadata.partition(topic).leader == ONE
    assert isinstance(leader.role, Idle)
    assert list(brokers[ONE].manager.log_ends()) == []
