"""What is done for logs now and then, without anybody asking."""

import asyncio

import pytest
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import virtual

from lograft.broker.hosting import maintenance as upkeep
from lograft.broker.hosting.maintenance import MaintenanceTimes
from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.replica import Replica
from lograft.broker.replica.timers import ReplicaTimers
from lograft.chaos.world.loop import VirtualClock
from lograft.metadata.decisions.topics.delete_topic import delete_topic
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.storage.cleaning.retention import apply_retention
from lograft.storage.errors import CorruptLog
from lograft.storage.log.partition_log import PartitionLog

ONE, TWO, THREE = ids(1, 2, 3)


async def led(metadata: Metadata, count: int = 1, **config: str) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    brokers = await start_brokers(metadata, count)
    topic = metadata.create("orders", place(metadata, *range(1, count + 1)), **config)
    return brokers, topic, await brokers[ONE].leads(topic)


@virtual
async def test_under_flush_mode_os_a_log_is_synced_as_often_as_is_asked_for() -> None:
    _, _, leader = await led(Metadata(), flush_mode="os", flush_ms="2000")
    await append(leader).outcome()
    assert leader.log.synced_end == 0
    await until(lambda: leader.log.synced_end == 1, seconds=3)


@virtual
async def test_an_old_segment_is_sealed_though_nothing_is_appended() -> None:
    _, _, leader = await led(Metadata(), segment_ms="30000")
    await append(leader).outcome()
    await asyncio.sleep(20)
    assert len(leader.log.segments) == 1
    await asyncio.sleep(75)
    assert len(leader.log.segments) == 2


@virtual
async def test_logs_are_checkpointed_when_there_is_something_new_to_note() -> None:
    brokers, _, leader = await led(Metadata())
    await append(leader, 3).outcome()
    await until(lambda: leader.log.recovery_point == 3, seconds=130)
    await asyncio.sleep(70)
    calls = len(brokers[ONE].machine.points.names)
    await asyncio.sleep(300)
    assert len(brokers[ONE].machine.points.names) - calls < 5, "the disk is left alone"


@virtual
async def test_expired_segments_go_at_leader_and_follower_but_nothing_above_the_watermark() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2, segment_bytes="1024", retention_bytes="1024")
    follower = await brokers[TWO].follows(topic)
    for _ in range(30):
        await append(leader).outcome()
    await until(lambda: follower.high_watermark == 30)
    brokers[TWO].sink.stop()
    for _ in range(30):
        append(leader)
    await until(lambda: leader.log_start > 0, seconds=130)
    assert leader.log_start <= 30
    brokers[TWO].sink.start()
    await until(lambda: leader.high_watermark == 60)
    await until(lambda: leader.log_start > 30, seconds=130)
    await until(lambda: follower.log_start == leader.log_start)


@virtual
async def test_what_logs_keep_in_memory_is_bounded_for_all_of_them_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lograft.broker.hosting.topic_log_config._ALL_TAILS_BYTES", 8 << 20)
    metadata = Metadata()
    brokers, _, first = await led(metadata)
    for _ in range(20):
        await append(first, value=bytes(100_000)).outcome()
    assert first.log.tail.find(0) is not None
    topic = metadata.create("others", *(place(metadata, 1) for _ in range(7)))
    others = [await brokers[ONE].leads(topic, number) for number in range(7)]
    await until(lambda: all(one.log.tail.limit_bytes == 1 << 20 for one in (first, *others)))
    assert first.log.tail.find(0) is None, "though nothing is appended there any more"
    assert first.log.tail.find(19) is not None
    metadata.carry_out(delete_topic(metadata.image, topic))
    await until(lambda: first.log.tail.limit_bytes == 4 << 20)


@virtual
async def test_segments_expire_while_another_log_takes_long_to_be_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def without_end(log: PartitionLog, *arguments: int, pace: object) -> None:
        if log.config.cleanup_compact:
            await asyncio.get_running_loop().create_future()

    monkeypatch.setattr("lograft.broker.hosting.maintenance.compact", without_end)
    metadata = Metadata()
    brokers, _, _ = await led(metadata, cleanup_policy="compact")
    other = metadata.create("other", place(metadata, 1), segment_bytes="1024", retention_bytes="1024")
    leader = await brokers[ONE].leads(other)
    await asyncio.sleep(130)
    for _ in range(30):
        await append(leader).outcome()
    await until(lambda: leader.log_start > 0, seconds=130)


@virtual
async def test_damage_that_is_met_is_reported_and_the_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[PartitionLog] = []

    async def meet_damage(log: PartitionLog, *arguments: int) -> int:
        looked_at.append(log)
        if log is leader.log:
            raise CorruptLog(log.directory, 0, "a test says so")
        return 0

    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    other = await brokers[ONE].leads(metadata.create("other", place(metadata, 1)))
    monkeypatch.setattr("lograft.broker.hosting.maintenance.apply_retention", meet_damage)
    await until(lambda: brokers[ONE].view.reports == [([], [(topic, 0)])], seconds=130)
    assert leader.has_failed
    await until(lambda: looked_at[-1] is other.log)


@virtual
async def test_a_compacted_topic_is_compacted() -> None:
    _, _, leader = await led(Metadata(), cleanup_policy="compact", segment_bytes="1024", min_cleanable_dirty_ratio="0")
    for _ in range(30):
        await append(leader).outcome()
    before = leader.log.size_bytes
    await asyncio.sleep(70)
    assert leader.log.size_bytes < before
    assert leader.log.checkpointed.first_dirty > 0


async def compacted_slowly(metadata: Metadata) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """A log whose compaction is under way, and takes minutes."""
    brokers, topic, leader = await led(
        metadata, cleanup_policy="compact", segment_bytes="1024", min_cleanable_dirty_ratio="0"
    )
    metadata.configure(None, "log.cleaner.io.max.bytes.per.second", "10")
    for _ in range(200):
        await append(leader).outcome()
    before = leader.log.size_bytes
    await asyncio.sleep(60)
    assert leader.compacting.locked()
    assert leader.log.size_bytes == before
    return brokers, topic, leader


@virtual
async def test_compaction_reads_no_faster_than_it_may_and_ends_when_the_log_is_to_be_closed() -> None:
    metadata = Metadata()
    brokers, topic, leader = await compacted_slowly(metadata)
    metadata.carry_out(delete_topic(metadata.image, topic))
    await until(lambda: leader.is_closed, seconds=1)
    assert not brokers[ONE].has(topic)


@virtual
async def test_a_topic_that_is_not_to_be_compacted_any_more_is_not_while_that_is_under_way() -> None:
    metadata = Metadata()
    _, topic, leader = await compacted_slowly(metadata)
    before = leader.log.size_bytes
    metadata.configure(topic, "cleanup.policy", "delete")
    await until(lambda: not leader.compacting.locked(), seconds=1)
    metadata.configure(None, "log.cleaner.io.max.bytes.per.second", None)
    await asyncio.sleep(60)
    assert leader.log.size_bytes == before


@virtual
async def test_producers_that_were_not_heard_of_for_a_day_are_forgotten() -> None:
    metadata, broker_id, hour_ms = Metadata(), 1, 3_600_000
    broker = TestBroker(broker_id, metadata, {})
    broker.times = MaintenanceTimes(*[hour_ms] * 7, expiry_ms=600_000)  # type: ignore[misc]
    await broker.start()
    leader = await broker.leads(metadata.create("orders", place(metadata, broker_id)))
    await append(leader, producer_id=7, producer_epoch=0, base_sequence=0).outcome()
    await asyncio.sleep(23 * 3600)
    assert len(leader.log.producers) == 1
    await asyncio.sleep(2 * 3600)
    assert len(leader.log.producers) == 0


@virtual
async def test_idle_partitions_cost_no_disk_and_no_requests() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", *(place(metadata, 1, 2, 3) for _ in range(10)))
    for number in range(10):
        await brokers[ONE].leads(topic, number)
    await asyncio.sleep(200)
    calls = {broker: len(brokers[broker].machine.points.names) for broker in brokers}
    await asyncio.sleep(300)
    for broker, before in calls.items():
        assert len(brokers[broker].machine.points.names) - before < 5
        assert brokers[broker].view.asked == []


@virtual
async def test_a_log_is_not_closed_while_it_is_compacted() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader, acks=Acks.LEADER).outcome()
    async with leader.compacting:
        metadata.carry_out(delete_topic(metadata.image, topic))
        await asyncio.sleep(5)
        assert not leader.is_closed
    await until(lambda: leader.is_closed)
    assert not brokers[ONE].has(topic)


@virtual
async def test_a_log_that_was_closed_meanwhile_is_not_shortened() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, segment_bytes="1024", retention_bytes="1024")
    for _ in range(30):
        await append(leader).outcome()
    brokers[ONE].machine.speed.slowdown = 100
    metadata.carry_out(delete_topic(metadata.image, topic))
    for _ in range(100):
        await asyncio.sleep(0.01)
        assert await apply_retention(leader.log, leader.log.disk.clock.wall_ms(), 30) == 0
    assert leader.is_closed
    assert leader.log_start == 0


@pytest.mark.parametrize("delays", [[30, 10, 20], [10, 10, 10], [5]])
@virtual
async def test_alarms_ring_in_the_order_of_their_times(delays: list[int]) -> None:
    clock = VirtualClock(asyncio.get_running_loop())
    alarms = ReplicaTimers(clock)
    rung: list[tuple[int, int]] = []
    task = asyncio.ensure_future(alarms.run())
    await asyncio.sleep(1)
    start_ms = clock.monotonic_ms()
    for delay_ms in delays:
        alarms.ring_at(
            start_ms + delay_ms,
            lambda delay_ms=delay_ms: rung.append((delay_ms, clock.monotonic_ms() - start_ms)),  # type: ignore[misc]
        )
    await asyncio.sleep(1)
    task.cancel()
    assert [delay_ms for delay_ms, _ in rung] == sorted(delays)
    assert all(0 <= at_ms - delay_ms <= 2 for delay_ms, at_ms in rung)


@virtual
async def test_upkeep_ends_when_cancelled_though_a_disk_fails_at_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def failing_when_cancelled(*_: object, **__: object) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise DiskFailed("/data", OSError("no space")) from None

    monkeypatch.setattr(upkeep, "apply_retention", failing_when_cancelled)
    brokers, _, _ = await led(Metadata())
    await begun.wait()
    await asyncio.wait_for(brokers[ONE].stop(), 60)
