"""Replicas on disks that are full: writes are refused and nothing else, and all goes on when there is room."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from support.led_replicas import ONE, THREE, TWO, led, next_leader
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import offsets, virtual

from lograft.broker.hosting.log_directories import LogDirectories
from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.leader_role import HAND_OVER_MS
from lograft.broker.replica.replica import Replica
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.files.file_names import PartitionName
from lograft.storage.log.data_directory import DataDirectory
from lograft.storage.state.disk_space import DiskSpace


def space_of(broker: TestBroker) -> DiskSpace:
    space = broker.directories[0].space
    space.reserve_bytes = 1000
    return space


def refusal_of(leader: Replica, **fields: Any) -> ReplicaError:
    with pytest.raises(ReplicaError) as refused:
        append(leader, **fields)
    return refused.value


async def until_nobody_takes_over(leader: Replica) -> None:
    """Return when the leader no longer expects that another replica takes over."""
    assert refusal_of(leader).code == errors_pb2.LEADER_NOT_AVAILABLE
    await asyncio.sleep(HAND_OVER_MS / 1000)


def check_refused(leader: Replica, **fields: Any) -> None:
    refused = refusal_of(leader, **fields)
    assert refused.code == errors_pb2.DISK_FULL
    for said in ("broker 1", "orders", "left", "make room"):
        assert said in refused.message


@virtual
async def test_a_leader_on_a_full_disk_refuses_writes_and_is_read_as_before() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader).outcome()
    space_of(brokers[ONE]).measured(999)
    await until_nobody_takes_over(leader)
    for acks in Acks:
        check_refused(leader, acks=acks)
    assert (leader.log_end, leader.high_watermark) == (1, 1)
    assert (await leader.read(0, 1000)).next_offset == 1
    assert metadata.partition(topic).isr == ids(1, 2, 3)
    space_of(brokers[ONE]).measured(10**6)
    await append(leader).outcome()


@virtual
async def test_a_batch_that_is_stored_is_acknowledged_again_though_the_disk_is_full() -> None:
    brokers, _, leader = await led(Metadata())
    first = await append(leader, producer_id=8, producer_epoch=0, base_sequence=0).outcome()
    space_of(brokers[ONE]).measured(0)
    await until_nobody_takes_over(leader)
    again = await append(leader, producer_id=8, producer_epoch=0, base_sequence=0).outcome()
    assert again.base_offset == first.base_offset
    for sequence in (1, 2):
        (
            check_refused(leader, producer_id=8, producer_epoch=0, base_sequence=sequence),
            ("also what follows one refused"),
        )


@virtual
async def test_a_follower_on_a_full_disk_takes_no_more_leaves_the_isr_and_comes_back() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader).outcome()
    follower = brokers[THREE].replica(topic)
    await until(lambda: follower.log_end == 1)
    space = space_of(brokers[THREE])
    space.measured(999)
    await asyncio.sleep(20)
    assert metadata.partition(topic).isr == ids(1, 2, 3), "it has all there is"
    pending = append(leader, timeout_ms=60_000)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    await pending.outcome()
    assert follower.log_end == 1
    space.measured(10**6)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert await offsets(follower.log) == await offsets(leader.log)


@virtual
async def test_the_clusters_own_topics_go_on_until_little_of_the_reserve_is_left() -> None:
    metadata = Metadata()
    brokers, _, _ = await led(metadata)
    own = metadata.create(CONSUMER_OFFSETS, place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(own)
    for broker in brokers.values():
        space_of(broker).measured(999)
    await append(leader).outcome()
    space_of(brokers[TWO]).measured(200)
    pending = append(leader, timeout_ms=60_000)
    await until(lambda: metadata.partition(own).isr == ids(1, 3))
    await pending.outcome()
    space_of(brokers[ONE]).measured(200)
    with pytest.raises(ReplicaError) as refused:
        append(leader)
    assert refused.value.code == errors_pb2.DISK_FULL


@virtual
async def test_a_disk_that_refuses_what_it_was_to_take_has_not_failed() -> None:
    """Another program has filled it: what has its offset waits for room, and nothing more is taken."""
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    await append(leader).outcome()
    files = brokers[ONE].machine.files
    files.set_capacity(files.used_bytes() + 10)
    pending = append(leader, timeout_ms=60_000)
    await asyncio.sleep(1)
    assert not pending.done()
    await until_nobody_takes_over(leader)
    check_refused(leader)
    assert (await leader.read(0, 1000)).next_offset == 1
    assert brokers[ONE].view.reports == []
    files.set_capacity(None)
    await brokers[ONE].directories[0].look_at_space()
    await pending.outcome()
    await brokers[ONE].directories[0].look_at_space()
    await append(leader).outcome()
    assert await offsets(leader.log) == [0, 1, 2]


@virtual
async def test_retention_makes_room_on_a_full_disk() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata, segment_bytes="2000", retention_bytes="4000")
    for _ in range(60):
        await append(leader).outcome()
    space_of(brokers[ONE]).measured(10)
    assert leader.log_start == 0
    await until(lambda: leader.log_start > 0, seconds=200)
    assert leader.log.size_bytes < 8000


@virtual
async def test_what_may_be_made_anywhere_is_made_where_there_is_room() -> None:
    """As is what was on a disk that has failed."""
    brokers = await start_brokers(Metadata(), 1, disks=2)
    full, roomy = brokers[ONE].directories
    choice = LogDirectories(brokers[ONE].runtime, [full, roomy])
    name = PartitionName("orders", 0, UUID(int=1))
    space_of(brokers[ONE]).measured(999)
    next(one for one in choice.healthy if one.data is roomy).names[PartitionName("other", 0, UUID(int=2))] = None

    def chosen(wanted: UUID | None = None) -> DataDirectory | None:
        directory = choice.choose(name, wanted)
        return directory and directory.data  # type: ignore[return-value]

    assert chosen() is roomy
    assert chosen(full.identity) is full, "the metadata say so"
    roomy.space.reserve_bytes = 1000
    roomy.space.measured(999)
    assert chosen() is full, "neither has room: where there are the fewest"


# -- while another replica may take over


@virtual
async def test_a_leader_on_a_full_disk_has_producers_retry_while_another_may_take_over() -> None:
    brokers, _, leader = await led(Metadata())
    space = space_of(brokers[ONE])
    for _ in range(2):
        space.measured(999)
        await asyncio.sleep(60)
        refused = refusal_of(leader)
        assert (refused.code, refused.retriable, refused.outcome_unknown) == (
            errors_pb2.LEADER_NOT_AVAILABLE, True, False,
        )  # fmt: skip
        await asyncio.sleep((HAND_OVER_MS - 1) / 1000)
        assert refusal_of(leader).code == errors_pb2.LEADER_NOT_AVAILABLE
        await asyncio.sleep(0.001)
        check_refused(leader)
        await asyncio.sleep(60)
        check_refused(leader)
        space.measured(10**6)
        await append(leader).outcome()


@virtual
async def test_a_leader_on_a_full_disk_refuses_at_once_if_too_few_others_are_in_sync() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    brokers[TWO].sink.stop()
    pending = append(leader, timeout_ms=60_000)
    await until(lambda: metadata.partition(topic).isr == ids(1, 3))
    await pending.outcome()
    space_of(brokers[ONE]).measured(999)
    check_refused(leader)


# -- a follower that can take nothing


@virtual
async def test_writes_do_not_wait_for_a_follower_on_a_full_disk() -> None:
    """It leaves the ISR as soon as something waits for it, long before `replica.lag.time.max.ms`."""
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    space_of(brokers[THREE]).measured(999)
    pending = append(leader, timeout_ms=60_000)
    await asyncio.sleep(0.5)
    assert pending.done()
    assert metadata.partition(topic).isr == ids(1, 2)


@virtual
async def test_a_follower_on_a_full_disk_is_waited_for_if_the_others_are_too_few() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, count=2)
    space = space_of(brokers[TWO])
    space.measured(999)
    pending = append(leader, timeout_ms=60_000)
    await asyncio.sleep(5)
    assert metadata.partition(topic).isr == ids(1, 2)
    space.measured(10**6)
    await pending.outcome()


@virtual
async def test_a_former_leader_on_a_full_disk_does_not_hold_up_its_successor() -> None:
    """It follows without ever subscribing."""
    metadata = Metadata()
    brokers, topic, _ = await led(metadata)
    space = space_of(brokers[ONE])
    space.measured(999)
    metadata.put(topic, next_leader(metadata.partition(topic), TWO))
    leader = await brokers[TWO].leads(topic)
    await asyncio.sleep(1)
    assert metadata.partition(topic).isr == ids(1, 2, 3), "nothing waits for it"
    pending = append(leader, timeout_ms=60_000)
    await asyncio.sleep(0.5)
    assert pending.done()
    assert metadata.partition(topic).isr == ids(2, 3)
    space.measured(10**6)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
