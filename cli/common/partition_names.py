"""Resolve partition names: `orders` for all partitions of a topic, `orders-0` for one."""

import re

from lograft.clients.admin.cluster_admin import ClusterAdmin
from lograft.clients.admin.model.types import PartitionDescription
from lograft.clients.errors import UnknownPartition

_PARTITION = re.compile(r"(.+)-([0-9]{1,9})", flags=re.ASCII)


async def named_partitions(
    admin: ClusterAdmin, names: list[str], *, include_internal: bool
) -> list[PartitionDescription]:
    """Return the partitions of the named topics, or of all; and single ones, such as `orders-0`."""
    topics = set(await admin.list_topics(include_internal=True)) if any(map(_PARTITION.fullmatch, names)) else set()
    wanted: dict[str, list[int] | None] = {}  # numbers by topic; None: all
    for name in names:
        match = _PARTITION.fullmatch(name) if name not in topics else None
        topic, number = (name, None) if match is None else (match[1], int(match[2]))
        before = wanted.get(topic, [])
        wanted[topic] = None if number is None or before is None else [*before, number]
    cluster = await admin.describe_cluster(wanted, include_internal=include_internal)
    chosen: list[PartitionDescription] = []
    for described in cluster.topics:
        numbers = wanted.get(described.name)
        for number in numbers or ():
            if number >= len(described.partitions):
                raise UnknownPartition(f"topic {described.name!r} has no partition {number}")
        chosen += [each for each in described.partitions if numbers is None or each.number in numbers]
    return chosen
