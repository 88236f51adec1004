"""The logs of groups at the end of a simulated run: any next coordinator must know the same groups."""

from collections.abc import Container, Mapping

from lograft.broker.groups.record_codec import decode_change
from lograft.broker.groups.replay import GroupReplay
from lograft.chaos.cluster.checks.history import PartitionKey, named, require
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.storage.batch.codec import decode_records, iterate_batches
from lograft.storage.errors import CorruptLog, InvalidBatch
from lograft.storage.inspect.batch_check import check_batches
from lograft.storage.log.partition_log import PartitionLog

_READ_BYTES = 1 << 20


async def check_group_logs(key: PartitionKey, logs: Mapping[int, PartitionLog], rotten: Container[int] = ()) -> None:
    """Check that all in-sync replicas yield the same groups, whatever was compacted. `rotten` names brokers with a
    damaged file that may not have been detected."""
    groups: dict[int, dict[str, object]] = {}
    for broker_id, log in logs.items():
        try:
            groups[broker_id] = await _groups_in(log)
        except (CorruptLog, InvalidBatch):
            if broker_id not in rotten:
                raise
    (first, expected), *others = groups.items()
    for broker_id, found in others:
        require(found == expected, "replicas have the same groups", named(key), broker_id, found, first, expected)


async def _groups_in(log: PartitionLog) -> dict[str, object]:
    replay = GroupReplay()
    offset = log.start_offset
    while offset < log.end_offset:
        batches = await log.read(offset, _READ_BYTES)
        check_batches(batches.buffers, log.epochs)
        for buffer in batches.buffers:
            for position, header in iterate_batches(buffer):
                for record in decode_records(memoryview(buffer)[position : position + header.total_bytes]):
                    replay.take(record.key or b"", decode_change(record.key, record.value))
        offset = batches.next_offset
    groups = replay.table().groups
    return {name: (group.epoch, group.empty_since_ms, group.members, group.offsets) for name, group in groups.items()}


def members_left(hosts: list[SimulatedHost]) -> str:
    """Return a group that still has members. Nothing is written once the sessions of dead members have ended."""
    for host in hosts:
        broker = host.node.broker if host.node is not None else None
        for partition in broker._groups.partitions.values() if broker is not None else ():
            for group in partition.groups:
                if group.members:
                    return f"{group.name} has members: {list(group.members)}"
    return ""
