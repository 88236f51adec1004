"""Queries of `lograft describe` that combine several calls, as resources."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from lograft.cli.common.best_effort import ask_soon
from lograft.cli.output.resource_output import Resource, resource
from lograft.cli.resources.cluster_health import broker_problems, cluster_problems, partition_problems
from lograft.cli.resources.cluster_resources import hosted_status, partition_resources, topic_resource
from lograft.cli.resources.disk_resources import disk_status, with_loads
from lograft.cli.resources.group_health import GroupLook, PartitionLook, judge, needs_another_look
from lograft.cli.resources.group_resources import group_resource, judged_resource
from lograft.cli.resources.load_resources import load_status
from lograft.cli.resources.queries import brokers
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.group_types import GroupDescription, GroupListing, GroupOffset
from lograft.clients.admin.model.types import (
    BrokerLoad,
    ClusterDescription,
    ConfigEntry,
    ConfigKind,
    PartitionDescription,
    QuorumDescription,
)
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import Clock

_GROUPS_AT_ONCE = 16

# Consumers commit every five seconds, so six seconds show whether one makes progress.
_LOOK_EVERY_MS = 1000
_MOST_LOOKS = 7


# -- topics


async def described_topic(admin: Admin, name: str) -> Resource:
    """Return a topic with partitions, configuration, and the groups that committed offsets of it. Parts that are not
    available soon are None, so that they do not delay the rest."""
    cluster = await admin.describe_cluster([name])
    (topic,) = cluster.topics
    partitions = partition_resources(topic.partitions, await admin.describe_replicas([name]))
    described = topic_resource(topic)
    described["status"]["partitions"] = [
        {"partition": each["metadata"]["partition"]} | each["status"] for each in partitions
    ]
    (groups, _), (config, _) = await asyncio.gather(
        ask_soon(_groups_of(admin, name)), ask_soon(admin.describe_config(ConfigKind.TOPIC, name))
    )
    described["status"]["problems"] = [*broker_problems(cluster), *partition_problems(cluster)]
    described["status"]["groups"] = groups
    described["status"]["config"] = config_status(config)
    return described


async def _groups_of(admin: Admin, topic: str) -> list[Resource]:
    limit = asyncio.Semaphore(_GROUPS_AT_ONCE)

    async def look(listed: GroupListing) -> Resource | None:
        async with limit:
            offsets = await admin.group_offsets(listed.name)
        of_topic = {name.partition: offset for name, offset in offsets.items() if name.topic == topic}
        return _group_status(listed, of_topic) if of_topic else None

    looks = await asyncio.gather(*(look(listed) for listed in await admin.list_groups()))
    return [found for found in looks if found is not None]


def _group_status(group: GroupListing, offsets: Mapping[int, GroupOffset]) -> Resource:
    lags = [offset.lag for offset in offsets.values()]
    return {
        "name": group.name,
        "state": group.state.value,
        "members": group.members,
        "lag": None if None in lags else sum(lag for lag in lags if lag is not None),
        "partitions": [
            {"partition": number, "committed": offset.committed, "end": offset.end, "lag": offset.lag}
            for number, offset in offsets.items()
        ],
    }


def config_status(entries: Sequence[ConfigEntry] | None) -> list[Resource] | None:
    if entries is None:
        return None
    return [{"key": entry.key, "value": entry.value, "source": entry.source} for entry in entries]


# -- brokers


async def described_brokers(admin: Admin, names: list[str], clock: Clock) -> list[Resource]:
    """Return brokers with their replicas, disks, configuration and current load."""
    cluster = await admin.describe_cluster(include_internal=True)
    found = brokers(cluster, names)
    loads = {load.id: load for load in await admin.describe_load(include_partitions=False)}
    replicas = await admin.describe_replicas(include_internal=True)
    await clock.sleep_ms(_LOOK_EVERY_MS)
    later = {load.id: load for load in await admin.describe_load(include_partitions=False)}
    for each in found:
        broker_id = each["metadata"]["id"]
        each["status"]["disks"] = disk_status(later.get(broker_id))
        each["status"]["load"] = load_status(loads.get(broker_id), later.get(broker_id))
        own = {replica.partition: replica for replica in replicas if replica.broker == broker_id}
        each["status"]["partitions"] = [
            hosted_status(partition, broker_id, own.get(partition.name)) for partition in _hosted(cluster, broker_id)
        ]
        config, _ = await ask_soon(admin.describe_config(ConfigKind.BROKER, each["metadata"]["name"]))
        each["status"]["config"] = config_status(config)
    return found


def _hosted(cluster: ClusterDescription, broker_id: int) -> list[PartitionDescription]:
    partitions = [partition for topic in cluster.topics for partition in topic.partitions]
    return [partition for partition in partitions if broker_id in partition.replicas]


# -- the cluster


async def described_cluster(admin: Admin) -> Resource:
    """Return an overview of the cluster, with its problems by cause."""
    cluster = await admin.describe_cluster(include_internal=True)
    quorum, trouble = await ask_soon(admin.describe_quorum())
    loads = await admin.describe_load(include_partitions=False)
    config, _ = await ask_soon(admin.describe_config(ConfigKind.CLUSTER, ""))
    return cluster_resource(cluster, quorum, loads, config, trouble)


def cluster_resource(
    cluster: ClusterDescription,
    quorum: QuorumDescription | None,
    loads: Sequence[BrokerLoad],
    config: Sequence[ConfigEntry] | None,
    trouble: str = "",
) -> Resource:
    """Return the overview. `trouble`: why there is no `quorum`."""
    partitions = [partition for topic in cluster.topics for partition in topic.partitions]
    # A voter that is behind may be about to receive the latest entries: only `health` waits for that.
    problems = cluster_problems(cluster, quorum, loads, committed=0, trouble=trouble)
    return resource(
        "Cluster",
        {"name": cluster.cluster_id},
        status={
            "healthy": not problems,
            "problems": problems,
            "controller": quorum.leader_id if quorum is not None else None,
            "voters": len(quorum.voters) if quorum is not None else None,
            "brokers": [_broker_status(each) for each in with_loads(brokers(cluster, []), loads)],
            "topics": len(cluster.topics),
            "partitions": len(partitions),
            "underReplicated": sum(not partition.is_in_sync for partition in partitions),
            "offline": sum(partition.leader is None for partition in partitions),
            "config": config_status(config),
        },
    )


def _broker_status(broker: Resource) -> Resource:
    status = broker["status"]
    disks = status["disks"]
    return {
        "id": broker["metadata"]["id"],
        "address": broker["spec"]["address"],
        "state": status["state"],
        "leaders": status["leaders"],
        "replicas": status["replicas"],
        "uptimeMs": status["uptimeMs"],
        "freeBytes": None if disks is None else sum(disk["freeBytes"] for disk in disks),
    }


# -- groups


class SeenGroup(NamedTuple):
    description: GroupDescription
    offsets: Mapping[TopicPartition, GroupOffset]
    look: GroupLook


async def judged_groups(admin: Admin, names: Sequence[str], clock: Clock) -> list[Resource]:
    """Return the named groups, or all, with verdicts. Groups are observed concurrently, because each takes seconds."""
    limit = asyncio.Semaphore(_GROUPS_AT_ONCE)

    async def look(name: str) -> Resource:
        async with limit:
            return await judged_group(admin, name, clock)

    wanted = names or [listed.name for listed in await admin.list_groups()]
    return list(await asyncio.gather(*map(look, wanted)))


async def judged_group(admin: Admin, name: str, clock: Clock) -> Resource:
    """Return a group with a verdict. A group with lag is observed for some seconds."""
    first = last = await _look_at_group(admin, name, clock)
    looks = 1
    while looks < _MOST_LOOKS and needs_another_look(first.look, last.look):
        if looks == 1 and sys.stderr.isatty():
            click.echo(f"Observing the progress of {name} ...", err=True)
        await clock.sleep_ms(_LOOK_EVERY_MS)
        last = await _look_at_group(admin, name, clock)
        looks += 1
    judgements = judge(first.look, last.look)
    return judged_resource(group_resource(last.description, last.offsets), judgements, last.look.state)


async def _look_at_group(admin: Admin, name: str, clock: Clock) -> SeenGroup:
    description = await admin.describe_group(name)
    offsets = await admin.group_offsets(name)
    seen_at_ms = clock.wall_ms()
    held = [partition for member in description.members for partition in member.assigned]
    bounds = await _bounds(admin, [partition for partition in held if partition not in offsets])
    looks = {}
    for partition in sorted({**offsets, **dict.fromkeys(held)}):
        offset = offsets.get(partition)
        start, end = bounds.get(partition, (None, None if offset is None else offset.end))
        looks[partition] = PartitionLook(
            committed=None if offset is None else offset.committed,
            start=start,
            end=end,
            committed_at_ms=seen_at_ms if offset is None else offset.committed_at,
            seen_at_ms=seen_at_ms,
            has_reader=partition in held,
        )
    return SeenGroup(description, offsets, GroupLook(description.state, looks, had_members=description.epoch > 0))


async def _bounds(admin: Admin, names: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int | None]]:
    """Return start and end offsets, which tell whether partitions without committed offsets have records to read."""
    topics = list(dict.fromkeys(name.topic for name in names))
    if not topics:
        return {}
    replicas = await admin.describe_replicas(topics, include_internal=True)
    return {each.partition: (each.start, each.high_watermark) for each in replicas if each.is_leader}
