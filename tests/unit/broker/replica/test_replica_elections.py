"""What a new leader knows of its watermark; and without one, which ends of logs are told, and what is given up."""

import asyncio

import pytest
from support.led_replicas import ONE, THREE, TWO, led, next_leader
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, until
from support.virtual_log import virtual

from lograft.broker.replica.interfaces import Acks, FoundOffset, OffsetKind, OffsetSpec
from lograft.broker.replica.replica import Failed, Replica
from lograft.metadata.decisions.partitions.elect_leaders import elect_unclean_leaders
from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.errors import OffsetOutOfRange

# -- a new leader's watermark


async def fresh_leader(metadata: Metadata) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """Broker 2 leads anew, has three records, knows that none is committed, and nobody follows yet."""
    brokers, topic, leader = await led(metadata)
    brokers[THREE].sink.stop()
    append(leader, 3)
    await until(lambda: brokers[TWO].replica(topic).log.stable_end == 3)
    brokers[ONE].kill()
    metadata.fence(1)
    return brokers, topic, await brokers[TWO].leads(topic)


@virtual
async def test_a_new_leader_does_not_know_its_watermark_until_it_reaches_the_epochs_start() -> None:
    metadata = Metadata()
    brokers, _, leader = await fresh_leader(metadata)
    assert (leader.high_watermark, leader.watermark_is_known, leader.log_end) == (0, False, 3)
    assert await leader.offsets(OffsetSpec(OffsetKind.EARLIEST)) == FoundOffset(0)
    for kind in (OffsetKind.LATEST, OffsetKind.AT_TIME, OffsetKind.GREATEST_TIME):
        with pytest.raises(ReplicaError) as refused:
            await leader.offsets(OffsetSpec(kind))
        assert refused.value.code == errors_pb2.OFFSET_NOT_AVAILABLE
    assert (await leader.read(1, 1000)).buffers == []
    brokers[THREE].sink.start()
    await until(lambda: leader.watermark_is_known)
    assert await leader.offsets(OffsetSpec(OffsetKind.LATEST)) == FoundOffset(3)


@virtual
async def test_readers_wait_between_watermark_and_end_and_are_woken() -> None:
    metadata = Metadata()
    brokers, _, leader = await fresh_leader(metadata)
    woken: list[int] = []
    for offset in (0, 2, 3):
        leader.when_readable(offset, lambda offset=offset: woken.append(offset))  # type: ignore[misc]
    withdraw = leader.when_readable(1, lambda: woken.append(1))
    withdraw()
    assert woken == []
    brokers[THREE].sink.start()
    await until(lambda: leader.high_watermark == 3)
    assert woken == [0, 2]
    leader.when_readable(1, lambda: woken.append(10))
    assert woken == [0, 2, 10]
    metadata.fence(2)
    assert woken == [0, 2, 10, 3]
    leader.when_readable(3, lambda: woken.append(4))
    assert woken[-1] == 4


@virtual
async def test_times_are_looked_up_below_the_watermark() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    await append(leader, at_ms=1000).outcome()
    await append(leader, at_ms=3000).outcome()
    brokers[TWO].sink.stop()
    append(leader, at_ms=5000)
    assert await leader.offsets(OffsetSpec(OffsetKind.AT_TIME, 2000)) == FoundOffset(1, 3000)
    assert await leader.offsets(OffsetSpec(OffsetKind.AT_TIME, 4000)) == FoundOffset(None)
    assert await leader.offsets(OffsetSpec(OffsetKind.GREATEST_TIME)) == FoundOffset(1, 3000)


@virtual
async def test_reads_end_at_the_watermark_and_out_of_range_is_said() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    await append(leader, 2).outcome()
    brokers[TWO].sink.stop()
    append(leader, 2)
    assert (await leader.read(0, 10_000)).next_offset == 2
    with pytest.raises(OffsetOutOfRange):
        await leader.read(5, 1000)


# -- unclean elections


@virtual
async def test_the_ends_of_logs_without_a_leader_are_told() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    for _ in range(3):
        await append(leader).outcome()
    metadata.put(topic, next_leader(metadata.partition(topic), None, isr=()))
    for broker in brokers.values():
        assert [(end.number, end.last_epoch, end.end_offset) for end in broker.manager.log_ends()] == [(0, 0, 3)]


@virtual
async def test_an_end_that_is_not_durable_yet_is_not_told() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 1)
    brokers[ONE].machine.speed.slowdown = 1000
    append(leader)
    metadata.put(topic, next_leader(metadata.partition(topic), None, isr=()))
    assert list(brokers[ONE].manager.log_ends()) == []
    await leader.log.wait_stable(1)
    assert len(list(brokers[ONE].manager.log_ends())) == 1


@virtual
async def test_an_end_that_is_about_to_be_cut_is_not_told() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader).outcome()
    for follower in (TWO, THREE):
        brokers[follower].sink.stop()
    append(leader, 2)
    await leader.log.wait_stable(3)
    metadata.fence(1)
    brokers[ONE].machine.speed.slowdown = 200
    await until(lambda: leader.log.is_exclusive)
    metadata.put(topic, next_leader(metadata.partition(topic), None, isr=()))
    while not leader.operations.is_idle:
        assert list(brokers[ONE].manager.log_ends()) == []
        await asyncio.sleep(0.001)
    assert len(list(brokers[ONE].manager.log_ends())) == 1


@virtual
async def test_the_end_of_a_log_in_another_directory_than_the_metadatas_is_not_told() -> None:
    """It may be one that was only just begun there."""
    metadata = Metadata()
    peers: dict[BrokerId, TestBroker] = {}
    broker = await TestBroker(1, metadata, peers, disks=2).start()
    topic = metadata.create("orders", place(metadata, 1))
    await broker.leads(topic)
    await broker.stop()
    broker.paths = broker.paths[1:]
    await broker.start()
    await broker.opened(topic)
    assert metadata.partition(topic).leader is None
    assert list(broker.manager.log_ends()) == []


@virtual
async def test_after_an_unclean_election_committed_records_are_cut_and_the_watermark_goes_back_first() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2, min_insync_replicas="1")
    await append(leader).outcome()
    brokers[TWO].sink.stop()
    append(leader, 3, timeout_ms=60_000)
    await until(lambda: metadata.partition(topic).isr == ids(1), seconds=60)
    await until(lambda: leader.high_watermark == 4)
    broker = brokers[ONE]
    await asyncio.sleep(6)
    assert list((await broker.directories[0].read_high_watermarks()).values()) == [4]
    metadata.fence(1)
    ends = {TWO: LogEnd(brokers[TWO].view.broker_epoch, LeaderEpoch(0), 1)}
    metadata.carry_out(elect_unclean_leaders(metadata.image, [(topic, 0)], {(topic, 0): ends}))
    successor = await brokers[TWO].leads(topic)
    written = broker.machine.points.names
    before = len(written)
    brokers[TWO].sink.start()
    await until(lambda: any(call.startswith("truncate ") for call in written[before:]))
    calls = written[before:]
    assert list((await broker.directories[0].read_high_watermarks()).values()) == [1]
    cuts = [at for at, call in enumerate(calls) if call.startswith("truncate ")]
    assert calls.index("rename high-watermarks.tmp high-watermarks") < cuts[0]
    assert leader.log_end == 1
    await append(successor, acks=Acks.LEADER).outcome()
    assert not isinstance(leader.role, Failed)
