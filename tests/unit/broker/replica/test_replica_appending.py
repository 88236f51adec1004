"""Batches get their offsets at once, and are acknowledged when they are as safe as was asked for."""

import asyncio
from typing import Any

import pytest
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import virtual

from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.replica import Replica
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.errors import OutOfOrderSequence, UnknownProducer

ONE, TWO, THREE = ids(1, 2, 3)


async def led(metadata: Metadata, count: int = 3, **config: str) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """A topic with a replica on each of `count` brokers, led by the first; all in sync and followed."""
    brokers = await start_brokers(metadata, count)
    topic = metadata.create("orders", place(metadata, *range(1, count + 1)), **config)
    leader = await brokers[ONE].leads(topic)
    for number in range(2, count + 1):
        await brokers[BrokerId(number)].follows(topic)
    return brokers, topic, leader


def code_of(error: "pytest.ExceptionInfo[ReplicaError]") -> int:
    return error.value.code


# -- when they are acknowledged


@virtual
async def test_offsets_are_given_at_once_and_in_order() -> None:
    _, _, leader = await led(Metadata(), 1)
    first, second = append(leader, 3), append(leader, 2)
    assert leader.log_end == 5
    assert not first.done()
    assert [(await one.outcome()).base_offset for one in (first, second)] == [0, 3]


@virtual
async def test_acks_all_waits_for_every_replica_in_sync() -> None:
    brokers, _, leader = await led(Metadata())
    brokers[THREE].sink.stop()
    pending = append(leader)
    await leader.log.wait_stable(1)
    await until(lambda: brokers[TWO].replica(*leader.identity.key).log_end == 1)
    await asyncio.sleep(1)
    assert not pending.done()
    brokers[THREE].sink.start()
    assert (await pending.outcome()).base_offset == 0
    assert leader.high_watermark == 1


@virtual
async def test_what_the_leader_has_stored_is_known_before_followers_have_it() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    brokers[THREE].sink.stop()
    stored: list[str] = []
    pending = append(leader, when_stored=lambda: stored.append("first"))
    assert stored == [], "it is not durable yet"
    await leader.log.wait_stable(1)
    await asyncio.sleep(0)
    assert stored == ["first"]
    assert not pending.done()
    late = append(leader, when_stored=lambda: stored.append("late"))
    metadata.fence(1)
    await until(lambda: pending.done() and late.done())
    assert stored == ["first", "late"], "it is not waited for by whoever leads no longer"


@virtual
async def test_acks_leader_waits_for_the_leaders_disk_only() -> None:
    brokers, _, leader = await led(Metadata())
    brokers[TWO].sink.stop()
    pending = append(leader, acks=Acks.LEADER)
    assert not pending.done()
    await pending.outcome()
    assert leader.log.stable_end == 1
    assert leader.high_watermark == 0


@virtual
async def test_acks_none_waits_for_nothing() -> None:
    _, _, leader = await led(Metadata(), 1)
    pending = append(leader, acks=Acks.NONE)
    assert pending.done()
    assert pending.result().base_offset == 0
    assert leader.log.stable_end == 0


@virtual
async def test_the_leaders_own_copy_counts_only_when_it_is_durable() -> None:
    brokers, _, leader = await led(Metadata(), 2)
    brokers[ONE].machine.speed.slowdown = 10_000
    pending = append(leader)
    await until(lambda: brokers[TWO].replica(*leader.identity.key).log.stable_end == 1, seconds=5)
    assert leader.log.stable_end == 0
    assert not pending.done()
    assert leader.high_watermark == 0


@virtual
async def test_the_watermark_is_never_ahead_of_the_leaders_disk() -> None:
    _, _, leader = await led(Metadata(), 1)
    behind = 0
    for _ in range(50):
        append(leader)
        await asyncio.sleep(0.0003)
        assert leader.high_watermark <= leader.log.stable_end
        behind += leader.log.stable_end < leader.log_end
    assert behind > 10


@virtual
async def test_callbacks_come_once_now_or_later() -> None:
    _, _, leader = await led(Metadata(), 1)
    calls: list[str] = []
    pending = append(leader)
    pending.add_done_callback(lambda: calls.append("later"))
    assert calls == []
    await pending.outcome()
    pending.add_done_callback(lambda: calls.append("now"))
    assert calls == ["later", "now"]


@virtual
async def test_append_time_and_log_start_are_told() -> None:
    metadata = Metadata()
    _, topic, leader = await led(metadata, 1)
    assert (await append(leader).outcome()).append_time_ms is None
    metadata.configure(topic, "message.timestamp.type", "LogAppendTime")
    await until(lambda: leader.log_config.append_time)
    at_ms = leader.log.disk.clock.wall_ms() + 5
    appended = await append(leader, at_ms=at_ms).outcome()
    assert (appended.append_time_ms, appended.log_start) == (at_ms, 0)


# -- when they are refused, or not acknowledged


@virtual
async def test_too_few_in_sync_refuses_acks_all_before_anything_is_appended() -> None:
    metadata = Metadata()
    _, topic, leader = await led(metadata)
    metadata.fence(2)
    metadata.fence(3)
    assert metadata.partition(topic).isr == ids(1)
    with pytest.raises(ReplicaError) as refused:
        append(leader)
    assert code_of(refused) == errors_pb2.NOT_ENOUGH_REPLICAS
    assert leader.log_end == 0
    assert (await append(leader, acks=Acks.LEADER).outcome()).base_offset == 0
    assert leader.high_watermark == 0


@virtual
async def test_an_isr_that_shrinks_below_the_minimum_leaves_the_outcome_unknown() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    for follower in (TWO, THREE):
        brokers[follower].sink.stop()
    pending, at_disk = append(leader), append(leader, acks=Acks.LEADER)
    metadata.fence(2)
    assert not pending.done()
    metadata.fence(3)
    with pytest.raises(ReplicaError) as unknown:
        pending.result()
    assert code_of(unknown) == errors_pb2.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    await at_disk.outcome()


@virtual
async def test_a_batch_that_is_not_replicated_in_time_is_timed_out_and_stays() -> None:
    brokers, _, leader = await led(Metadata())
    brokers[TWO].sink.stop()
    began = asyncio.get_running_loop().time()
    hasty, patient = append(leader, timeout_ms=1000), append(leader, timeout_ms=3000)
    with pytest.raises(ReplicaError) as timed_out:
        await hasty.outcome()
    assert code_of(timed_out) == errors_pb2.TIMED_OUT
    assert asyncio.get_running_loop().time() - began == pytest.approx(1.1, abs=0.101)
    assert not patient.done()
    with pytest.raises(ReplicaError):
        await patient.outcome()
    assert 3 <= asyncio.get_running_loop().time() - began < 3.2
    brokers[TWO].sink.start()
    await until(lambda: leader.high_watermark == 2)


@virtual
async def test_one_that_waits_for_less_is_timed_out_before_one_that_came_first() -> None:
    brokers, _, leader = await led(Metadata())
    brokers[TWO].sink.stop()
    began = asyncio.get_running_loop().time()
    patient = append(leader, timeout_ms=6000)
    hasty, hastier = append(leader, timeout_ms=2000), append(leader, timeout_ms=1000, acks=Acks.ALL)
    for pending, seconds in ((hastier, 1), (hasty, 2), (patient, 6)):
        with pytest.raises(ReplicaError) as timed_out:
            await pending.outcome()
        assert code_of(timed_out) == errors_pb2.TIMED_OUT
        assert seconds - 0.01 < asyncio.get_running_loop().time() - began < seconds + 0.2


@virtual
async def test_lost_leadership_leaves_the_outcome_unknown_and_names_the_new_leader() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    brokers[TWO].sink.stop()
    pending = append(leader)
    metadata.fence(1)
    with pytest.raises(ReplicaError) as lost:
        pending.result()
    assert code_of(lost) == errors_pb2.NOT_LEADER
    assert lost.value.outcome_unknown
    assert (lost.value.leader_id, lost.value.leader_epoch) == (2, metadata.partition(topic).leader_epoch)


@virtual
async def test_lost_leadership_without_a_successor_is_unknown_too() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata, 1)
    brokers[ONE].machine.speed.slowdown = 1000
    pending = append(leader)
    metadata.fence(1)
    with pytest.raises(ReplicaError) as lost:
        pending.result()
    assert lost.value.outcome_unknown


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (2, errors_pb2.FENCED_LEADER_EPOCH),
        (3, None),
        (None, None),
        (4, errors_pb2.UNKNOWN_LEADER_EPOCH),
    ],
)
@virtual
async def test_the_leader_epoch_of_a_request_is_checked(epoch: int | None, code: int | None) -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 1)
    topic = metadata.create("orders", place(metadata, 1, leader_epoch=3))
    leader = await brokers[ONE].leads(topic)
    if code is None:
        leader.check_leads(epoch)
        await append(leader, leader_epoch=epoch).outcome()
        return
    for attempt in (lambda: leader.check_leads(epoch), lambda: append(leader, leader_epoch=epoch)):
        with pytest.raises(ReplicaError) as refused:
            attempt()
        assert code_of(refused) == code
        assert refused.value.leader_epoch == 3
    assert leader.log_end == 0


@virtual
async def test_a_follower_names_the_leader() -> None:
    metadata = Metadata()
    brokers, topic, _ = await led(metadata)
    with pytest.raises(ReplicaError) as refused:
        brokers[TWO].replica(topic).check_leads(None)
    assert (code_of(refused), refused.value.leader_id) == (errors_pb2.NOT_LEADER, 1)


# -- idempotent producers


def produce(replica: Replica, sequence: int, count: int = 1, **fields: Any) -> Any:
    return append(replica, count, producer_id=7, producer_epoch=0, base_sequence=sequence, **fields)


@virtual
async def test_a_duplicate_has_the_first_ones_offset() -> None:
    _, _, leader = await led(Metadata())
    await append(leader).outcome()
    first = produce(leader, 0, 2)
    again = produce(leader, 0, 2)
    assert leader.log_end == 3
    assert not again.done()
    assert [(await one.outcome()).base_offset for one in (first, again)] == [1, 1]
    later = produce(leader, 0, 2)
    assert later.done()
    assert later.result().base_offset == 1


@virtual
async def test_a_duplicate_waits_for_the_watermark_to_pass_the_first() -> None:
    brokers, _, leader = await led(Metadata())
    brokers[TWO].sink.stop()
    with pytest.raises(ReplicaError):
        await produce(leader, 0, timeout_ms=1000).outcome()
    again = produce(leader, 0, timeout_ms=10_000)
    await asyncio.sleep(2)
    assert not again.done()
    brokers[TWO].sink.start()
    assert (await again.outcome()).base_offset == 0


@virtual
async def test_what_a_new_leader_has_of_a_producer_came_with_the_log() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await produce(leader, 0, 2).outcome()
    brokers[ONE].kill()
    metadata.fence(1)
    successor = await brokers[TWO].leads(topic)
    assert (await produce(successor, 0, 2).outcome()).base_offset == 0
    assert (await produce(successor, 2).outcome()).base_offset == 2


@virtual
async def test_sequences_out_of_order_are_refused_as_they_are() -> None:
    _, _, leader = await led(Metadata(), 1)
    with pytest.raises(UnknownProducer):
        produce(leader, 1)
    produce(leader, 0)
    with pytest.raises(OutOfOrderSequence):
        produce(leader, 5)
    assert leader.log_end == 1


# -- the minimum


@virtual
async def test_a_raised_minimum_holds_the_watermark_at_once() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    metadata.fence(3)
    await append(leader).outcome()
    pending = append(leader)
    metadata.configure(topic, "min.insync.replicas", "3")
    with pytest.raises(ReplicaError) as unknown:
        pending.result()
    assert code_of(unknown) == errors_pb2.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    await until(lambda: brokers[TWO].replica(topic).log_end == 2)
    await asyncio.sleep(0.1)
    assert leader.high_watermark == 1
    metadata.configure(topic, "min.insync.replicas", None)
    await until(lambda: leader.high_watermark == 2)
