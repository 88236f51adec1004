"""The final content of each replica, read from its broker's own log, not from the leader's."""

from typing import Any

from lograft.chaos.history.entries import FinalReplica, StoredRecord, digest_of
from lograft.chaos.history.recorder import Recorder
from lograft.chaos.live.clients.base import value_of
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.errors import LograftError, error_of_stream
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import READ_RANGE
from lograft.runtime.clock import LoopClock
from lograft.runtime.network import StreamError
from lograft.storage.batch.codec import decode_records, iterate_batches, validate_batch

_PATIENCE_MS = 60_000
_AGAIN_MS = 200


async def note_final_replicas(admin: Admin, cluster: ClusterClient, recorder: Recorder, topic: str) -> None:
    """Record every in-sync replica of `topic`. No client writes by now, but leadership may still move back to preferred
    leaders. If a partition's leader changes meanwhile, it is read again."""
    deadline_ms = LoopClock().monotonic_ms() + _PATIENCE_MS
    for number in range(len((await admin.describe_topic(topic)).partitions)):
        while True:
            try:
                found = await _replicas_of(admin, cluster, topic, number)
                break
            except LograftError as error:
                if not error.retriable or LoopClock().monotonic_ms() >= deadline_ms:
                    raise
            await LoopClock().sleep_ms(_AGAIN_MS)
        for fields in found:
            recorder.happened(FinalReplica, **fields)


async def _replicas_of(admin: Admin, cluster: ClusterClient, topic: str, number: int) -> list[dict[str, Any]]:
    """Return the fields to record for each replica."""
    partition = (await admin.describe_topic(topic)).partitions[number]
    view = await cluster.topic_as_of_now(topic)
    replicas = {(each.partition, each.broker): each for each in await admin.describe_replicas([topic])}
    noted = []
    for broker in partition.replicas:
        found = replicas.get((partition.name, broker))
        if found is None:
            continue
        is_in_sync = broker in partition.isr
        records = await _read(cluster, view.id, partition.name, broker, found.start, found.end) if is_in_sync else ()
        noted.append(
            {
                "partition": partition.name,
                "broker": broker,
                "start_offset": found.start,
                "end_offset": found.end,
                "records": records,
                "is_in_sync": is_in_sync,
            }
        )
    return noted


async def _read(
    cluster: ClusterClient, topic_id: bytes, name: TopicPartition, broker: int, start: int, end: int
) -> tuple[StoredRecord, ...]:
    if start == end:
        return ()
    request = pb.ReadRangeRequest(topic_id=topic_id, partition=name.partition, start=start, end=end, from_follower=True)
    stream = (await cluster.connect(broker)).open(READ_RANGE)
    stored: list[StoredRecord] = []
    try:
        await stream.send(request.SerializeToString())
        await stream.half_close()
        while (data := await stream.receive()) is not None:
            stored += _records(pb.ReadRangeResponse.FromString(data), start, end)
    except StreamError as error:
        raise error_of_stream(error) from None
    finally:
        stream.reset()
    return tuple(stored)


def _records(answer: pb.ReadRangeResponse, start: int, end: int) -> list[StoredRecord]:
    view = memoryview(answer.batches)
    found = []
    for at, header in iterate_batches(view):
        validate_batch(view, at)
        for record in decode_records(view[at : at + header.total_bytes]):
            if start <= record.offset < end:
                found.append(StoredRecord(record.offset, header.leader_epoch, digest_of(value_of(record))))
    return found
