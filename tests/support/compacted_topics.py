"""A compacted topic on brokers with real replicas, and what a reader finds in it."""

from support.metadata_images import ids
from support.replica_brokers import TIMEOUT_MS, Metadata, TestBroker, place, start_brokers
from support.virtual_log import admitted

from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.replica import Replica
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.storage.batch.codec import decode_records, encode_batch, iterate_batches

ONE, TWO, THREE = ids(1, 2, 3)
DELETE_RETENTION_MS = 1000


async def led(metadata: Metadata, *stopped: BrokerId) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """A compacted topic on three brokers, led by the first; nothing is fed to those that are `stopped`."""
    brokers = await start_brokers(metadata, 3)
    for broker_id in stopped:
        brokers[broker_id].sink.stop()
    topic = metadata.create(
        "tables",
        place(metadata, 1, 2, 3, isr=[1]),
        cleanup_policy="compact",
        segment_bytes="1024",
        min_cleanable_dirty_ratio="0",
        delete_retention_ms=str(DELETE_RETENTION_MS),
        min_insync_replicas="1",
    )
    return brokers, topic, await brokers[ONE].leads(topic)


async def write(leader: Replica, key: bytes, value: bytes | None) -> None:
    batch = encode_batch([value], keys=[key], timestamps=leader.log.disk.clock.wall_ms())
    await leader.begin_append(admitted(batch), acks=Acks.ALL, leader_epoch=None, timeout_ms=TIMEOUT_MS).outcome()


async def table(replica: Replica) -> dict[bytes | None, bytes]:
    """What a reader of the whole log finds in it, but for what was there to fill it."""
    found: dict[bytes | None, bytes] = {}
    offset, log = replica.log_start, replica.log
    while offset < log.end_offset:
        batches = await log.read(offset, 10_000)
        for buffer in batches.buffers:
            for position, header in iterate_batches(buffer):
                for record in decode_records(memoryview(buffer)[position : position + header.total_bytes]):
                    if record.value is None:
                        found.pop(record.key, None)
                    else:
                        found[record.key] = record.value
        offset = batches.next_offset
    found.pop(b"filler")
    return found
