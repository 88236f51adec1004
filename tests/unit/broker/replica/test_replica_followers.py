"""Followers fall behind, start over, leave the ISR and come back, whatever the controller answers."""

import asyncio
from dataclasses import replace

import pytest
from support.led_replicas import ONE, THREE, TWO, led
from support.metadata_images import ids
from support.replica_brokers import Metadata, append, place, start_brokers, until
from support.virtual_log import offsets, virtual

from lograft.metadata.decisions.brokers.fencing import unfence
from lograft.metadata.decisions.partitions.alter_isr import Alteration
from lograft.metadata.image.partition import PartitionEpoch
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

# -- followers


@virtual
async def test_a_follower_holds_the_leaders_watermark_up_to_its_own_end() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    follower = brokers[TWO].replica(topic)
    for _ in range(3):
        await append(leader).outcome()
    await until(lambda: follower.high_watermark == 3)
    assert not follower.watermark_is_known


@virtual
async def test_a_follower_that_stopped_leaves_the_isr_and_comes_back() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    brokers[THREE].sink.stop()
    pending = append(leader, timeout_ms=60_000)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    await pending.outcome()
    brokers[THREE].sink.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert brokers[THREE].replica(topic).log_end == 1


@virtual
async def test_a_shorter_lag_time_takes_effect_at_once() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    metadata.configure(None, "replica.lag.time.max.ms", "1000")
    brokers[THREE].sink.stop()
    append(leader)
    began = asyncio.get_running_loop().time()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    assert asyncio.get_running_loop().time() - began < 3


@virtual
async def test_a_replica_from_nothing_gets_everything_and_joins() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    topic = metadata.create("orders", place(metadata, 1, 2, isr=[1]), min_insync_replicas="1")
    leader = await brokers[ONE].leads(topic)
    brokers[TWO].sink.stop()
    for _ in range(20):
        append(leader, 2)
    await until(lambda: leader.high_watermark == 40)
    brokers[TWO].sink.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    assert await offsets(brokers[TWO].replica(topic).log) == await offsets(leader.log)


@virtual
async def test_who_is_below_the_leaders_start_starts_over_with_its_producers() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    topic = metadata.create("orders", place(metadata, 1, 2, isr=[1]), min_insync_replicas="1", segment_bytes="2000")
    leader = await brokers[ONE].leads(topic)
    brokers[TWO].sink.stop()
    append(leader, producer_id=8, producer_epoch=3, base_sequence=0)
    for sequence in range(59):
        append(leader, producer_id=7, producer_epoch=0, base_sequence=sequence)
    await until(lambda: leader.high_watermark == 60)
    bases = [segment.base_offset for segment in leader.log.segments]
    assert len(bases) > 2
    leader.log.delete_prefix(bases[2])
    brokers[TWO].sink.start()
    follower = await brokers[TWO].follows(topic)
    await until(lambda: follower.log_end == 60)
    assert "ResetTo" in brokers[TWO].sink.log
    assert follower.log_start == bases[2]
    assert follower.log.producers.encode() == leader.log.producers.encode()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    metadata.fence(1)
    successor = await brokers[TWO].leads(topic)
    assert append(successor, producer_id=7, producer_epoch=0, base_sequence=58).result().base_offset == 59
    assert append(successor, producer_id=8, producer_epoch=3, base_sequence=0).result().base_offset == 0


@virtual
async def test_a_follower_drops_what_its_leader_dropped() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2, segment_bytes="1024")
    for _ in range(30):
        await append(leader).outcome()
    start = list(leader.log.segments)[1].base_offset
    leader.log.delete_prefix(start)
    leader.start_moved()
    await until(lambda: brokers[TWO].replica(topic).log_start == start)


@virtual
async def test_a_replica_that_is_no_more_is_told_and_counts_no_more() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await until(lambda: brokers[THREE].sink.log == ["PartitionFeed"])
    brokers[THREE].sink.stop()
    pending = append(leader)
    await until(lambda: brokers[TWO].replica(topic).log_end == 1)
    before = metadata.partition(topic)
    epoch = PartitionEpoch(before.partition_epoch + 1)
    brokers[THREE].view.hold()
    metadata.put(topic, replace(before, replicas=before.replicas[:2], isr=ids(1, 2), partition_epoch=epoch))
    assert [bell.error is not None for bell in brokers[THREE].sink.bells] == [True]
    await pending.outcome()
    brokers[THREE].view.release()
    await until(lambda: not brokers[THREE].has(topic))


# -- what the controller answers


@virtual
async def test_a_refused_expansion_is_undone_and_asked_for_again() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    view = brokers[ONE].view
    brokers[THREE].sink.stop()
    append(leader)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))

    async def refuse(alterations: list[Alteration]) -> None:
        raise ControllerError(errors_pb2.UNAVAILABLE, "not now")

    view.alter = refuse  # type: ignore[assignment]
    count = len(view.asked)
    brokers[THREE].sink.start()
    await until(lambda: len(view.asked) > count)
    brokers[THREE].sink.stop()
    await asyncio.sleep(0.1)
    await append(leader).outcome()
    brokers[THREE].sink.start()
    view.alter = None
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))


@pytest.mark.parametrize("code", [errors_pb2.UNAVAILABLE, errors_pb2.CONTROLLER_MOVED])
@virtual
async def test_what_was_not_granted_is_asked_for_again_though_nothing_else_happens(code: errors_pb2.ErrorCode) -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    view = brokers[ONE].view

    async def refuse(alterations: list[Alteration]) -> None:
        raise ControllerError(code, "not now")

    view.alter = refuse  # type: ignore[assignment]
    topic = metadata.create("orders", place(metadata, 1, 2, isr=[1]), min_insync_replicas="1")
    await brokers[ONE].leads(topic)
    await until(lambda: len(view.asked) > 0)
    await asyncio.sleep(5)
    view.alter = None
    await until(lambda: metadata.partition(topic).isr == ids(1, 2), seconds=1)


@virtual
async def test_who_may_have_joined_counts_while_that_is_not_known() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    view = brokers[ONE].view
    brokers[THREE].sink.stop()
    append(leader)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))

    async def lose(alterations: list[Alteration]) -> None:
        raise ControllerError(errors_pb2.CONTROLLER_MOVED, "who knows")

    view.alter = lose  # type: ignore[assignment]
    count = len(view.asked)
    brokers[THREE].sink.start()
    await until(lambda: len(view.asked) > count)
    brokers[THREE].sink.stop()
    pending = append(leader)
    await asyncio.sleep(2)
    assert not pending.done()
    view.alter = None
    await until(pending.done, seconds=20)


@virtual
async def test_a_broker_that_comes_back_is_let_in_as_soon_as_it_may_be() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    metadata.fence(3)
    await append(leader).outcome()
    follower = await brokers[THREE].opened(topic)
    await until(lambda: follower.log_end == 1)
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    metadata.carry_out(unfence(metadata.image, THREE, brokers[THREE].view.broker_epoch))
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert asyncio.get_running_loop().time() - began < 0.1


@virtual
async def test_followers_are_watched_only_while_one_is_behind() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    alarms = leader._context.alarms
    await append(leader).outcome()
    await asyncio.sleep(60)
    assert not alarms._heap, "all have everything: there is nothing to look at"
    brokers[THREE].sink.stop()
    append(leader)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2), seconds=20)
    await asyncio.sleep(60)
    assert not alarms._heap, "who is not in the ISR is not watched"


@virtual
async def test_a_follower_with_nothing_to_say_says_that_it_knows_of_a_change() -> None:
    metadata = Metadata()
    brokers, topic, _ = await led(metadata)
    await asyncio.sleep(1)
    metadata.fence(3)
    metadata.carry_out(unfence(metadata.image, THREE, brokers[THREE].view.broker_epoch))
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))


@virtual
async def test_changes_of_many_partitions_go_in_few_requests() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    places = [place(metadata, 1, 2, isr=[1]) for _ in range(20)]
    calls: list[int] = []
    view = brokers[ONE].view

    async def alter(alterations: list[Alteration]) -> object:
        calls.append(len(alterations))
        return view.carry_out(alterations)

    view.alter = alter  # type: ignore[assignment]
    topic = metadata.create("orders", *places, min_insync_replicas="1")
    await until(lambda: all(metadata.partition(topic, number).isr == ids(1, 2) for number in range(20)))
    assert sum(calls) == 20
    assert len(calls) < 12
