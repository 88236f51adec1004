"""A key that was deleted stays deleted on every replica, whenever its tombstone goes."""

import asyncio

from support.compacted_topics import DELETE_RETENTION_MS, ONE, THREE, TWO, led, table, write
from support.metadata_images import ids
from support.replica_brokers import Metadata, until
from support.virtual_log import virtual

from lograft.broker.replica.replica import Replica
from lograft.storage.cleaning.compaction import compact


async def clean(leader: Replica) -> None:
    """Of all tombstones but the last ones, which are in the active segment; and memory has none of them any more."""
    for number in range(20):
        await write(leader, b"filler", b"%d" % number)
    await compact(leader.log, leader.high_watermark, leader.log.disk.clock.wall_ms())
    await asyncio.sleep(2 * DELETE_RETENTION_MS / 1000)
    for number in range(20):
        await write(leader, b"filler", b"%d" % number)
    await compact(leader.log, leader.high_watermark, leader.log.disk.clock.wall_ms())
    assert leader.log.checkpointed.tombstones_removed_below > 0
    leader.log.tail.clear()


@virtual
async def test_a_tombstone_that_goes_while_a_follower_is_on_its_way_to_it() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    follower = await brokers[TWO].follows(topic)
    await write(leader, b"kept", b"1")
    await write(leader, b"deleted", b"1")
    await until(lambda: follower.log_end == 2)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    brokers[TWO].sink.stop()
    metadata.fence(2)
    await write(leader, b"filler", b"next to be sent")
    await write(leader, b"deleted", None)
    await clean(leader)
    brokers[TWO].sink.start()
    await until(lambda: follower.log_end == leader.log_end)
    assert await table(follower) == await table(leader) == {b"kept": b"1"}


@virtual
async def test_who_copied_a_log_without_its_tombstones_knows_that_they_are_missing() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, TWO)
    await brokers[THREE].follows(topic)
    await write(leader, b"kept", b"1")
    await write(leader, b"deleted", b"1")
    third = brokers[THREE].replica(topic)
    await until(lambda: third.log.stable_end == 2)
    brokers[THREE].kill()
    metadata.fence(3)
    await write(leader, b"deleted", None)
    await clean(leader)
    brokers[TWO].sink.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    brokers[ONE].kill()
    metadata.fence(1)
    successor = await brokers[TWO].leads(topic)
    await brokers[THREE].start()
    third = await brokers[THREE].follows(topic)
    await until(lambda: third.log_end == successor.log_end)
    assert await table(third) == await table(successor) == {b"kept": b"1"}


@virtual
async def test_who_has_begun_to_copy_such_a_log_goes_on_where_it_was() -> None:
    """Else a copy that takes longer than its streams last would begin over and over again."""
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, TWO, THREE)
    for number in range(30):
        await write(leader, b"kept-%d" % number, b"1")
    await write(leader, b"deleted", b"1")
    await write(leader, b"deleted", None)
    await clean(leader)
    removed_below = leader.log.checkpointed.tombstones_removed_below
    broker, interruptions = brokers[TWO], 0
    broker.fed_bytes = 500
    broker.sink.start()
    follower = await broker.follows(topic)
    while follower.log_end < leader.log_end:
        end = follower.log_end
        await until(lambda: follower.log_end > end)  # noqa: B023
        if follower.log_end < removed_below:
            broker.sink.stop()
            await follower.log.wait_stable(follower.log_end)
            broker.kill()
            metadata.fence(2)
            await broker.start()
            follower = await broker.follows(topic)
            interruptions += 1
    assert interruptions > 1
    assert "ResetTo" not in broker.sink.log
    assert follower.log.checkpointed.tombstones_removed_below == removed_below
    assert await table(follower) == await table(leader)
