"""Where a log starts is decided by its leader alone, and moves nowhere without that."""

import asyncio
from dataclasses import replace

from support.led_replicas import THREE, TWO, led, led_with_records
from support.metadata_images import ids
from support.replica_brokers import Metadata, append, until
from support.virtual_log import offsets, virtual

from lograft.metadata.image.partition import PartitionEpoch


@virtual
async def test_a_follower_has_no_retention_of_its_own() -> None:
    """It is not fed, and hears of no log start: all it has is too much and too old, and stays."""
    metadata = Metadata()
    settings = {"segment_bytes": "1024", "retention_bytes": "2048", "retention_ms": "1000"}
    brokers, topic, leader = await led(metadata, **settings)  # type: ignore[arg-type]
    follower = brokers[THREE].replica(topic)
    for _ in range(20):
        await append(leader, timeout_ms=60_000).outcome()
    await until(lambda: follower.high_watermark == 20)
    brokers[THREE].sink.stop()
    await until(lambda: leader.log_start > 0, seconds=200)
    await asyncio.sleep(200)
    assert follower.log_start == 0
    brokers[THREE].sink.start()
    await until(lambda: follower.log_start == leader.log_start, seconds=200)
    assert await offsets(follower.log) == await offsets(leader.log)


@virtual
async def test_a_log_that_is_deleted_as_a_whole_keeps_no_segment_on_a_follower() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, 2)
    follower = brokers[TWO].replica(topic)
    await until(lambda: follower.high_watermark == 20)
    leader.log.roll()
    leader.log.delete_prefix(20)
    leader.start_moved()
    await until(lambda: follower.log_start == 20)
    assert follower.log.size_bytes == leader.log.size_bytes == 0


@virtual
async def test_a_copy_begins_with_the_batch_that_holds_the_log_start() -> None:
    """The log start itself is told beside, and a copy is not begun again and again."""
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    brokers[THREE].sink.stop()
    append(leader, 5, timeout_ms=60_000)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    for _ in range(5):
        await append(leader, 5, timeout_ms=60_000).outcome()
    leader.log.delete_prefix(12)
    brokers[THREE].sink.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    follower = brokers[THREE].replica(topic)
    assert (follower.log_start, follower.log_end) == (12, 30)
    assert await offsets(follower.log) == await offsets(leader.log) == [10, 15, 20, 25]
    assert list(follower.log.epochs) == list(leader.log.epochs)


@virtual
async def test_a_watermark_is_noted_only_as_far_as_the_log_is_durable() -> None:
    """A log that ends below it is taken for damaged."""
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, 2)
    follower = brokers[TWO].replica(topic)
    follower.log.stable_end = 15
    assert (follower.durable_watermark, leader.durable_watermark) == (15, 20)


@virtual
async def test_a_partition_that_returns_to_a_broker_whose_files_of_it_went_is_a_new_one() -> None:
    """Nobody counts on what that broker had: it is not damaged, whatever was noted."""
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata)
    before = metadata.partition(topic)
    files, directory = brokers[THREE].machine.files, brokers[THREE].replica(topic).log.directory
    await brokers[THREE].stop()
    metadata.fence(3)
    for name in files.list_directory(directory):
        files.remove(f"{directory}/{name}")
    files.remove_directory(directory)
    replicas = tuple(replica for replica in before.replicas if replica.broker_id != THREE)
    now = metadata.partition(topic)
    epoch = PartitionEpoch(now.partition_epoch + 1)
    metadata.put(topic, replace(now, replicas=replicas, elr=(), partition_epoch=epoch))
    await brokers[THREE].start()
    now = metadata.partition(topic)
    epoch = PartitionEpoch(now.partition_epoch + 1)
    metadata.put(topic, replace(now, replicas=before.replicas, partition_epoch=epoch))
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert brokers[THREE].view.reports == []
    assert await offsets(brokers[THREE].replica(topic).log) == await offsets(leader.log)
