"""Query a cluster for resources, for the commands that share them.

Imports that only some resources need are deferred, because `get` must start fast.
"""

from typing import TYPE_CHECKING

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.nouns import parse_id
from lograft.cli.common.partition_names import named_partitions
from lograft.cli.output.resource_output import Resource
from lograft.cli.resources.cluster_resources import broker_resource, partition_resource, partition_resources
from lograft.clients.admin.cluster_admin import ClusterAdmin
from lograft.clients.admin.model.types import ClusterDescription, ConfigKind
from lograft.clients.errors import UnknownBroker

if TYPE_CHECKING:
    from lograft.clients.admin.aio_admin import Admin


async def partitions(
    admin: ClusterAdmin, settings: Settings, names: list[str], *, include_internal: bool
) -> list[Resource]:
    described = await named_partitions(admin, names, include_internal=include_internal)
    # Narrow tables show no offsets, which cost a call to every broker.
    if settings.output in ("table", "name"):
        return [partition_resource(partition) for partition in described]
    topics = list(dict.fromkeys(partition.topic for partition in described)) if names else []
    return partition_resources(described, await admin.describe_replicas(topics, include_internal=include_internal))


async def groups(admin: "Admin", settings: Settings, names: list[str], *, with_lag: bool) -> list[Resource]:
    from lograft.cli.resources.group_resources import listed_group

    # A listing has all that a narrow table shows; offsets cost a call per group.
    if not names and not with_lag and settings.output in ("table", "name"):
        return [listed_group(group) for group in await admin.list_groups()]
    wanted = names or [group.name for group in await admin.list_groups()]
    return [await described_group(admin, name) for name in wanted]


async def described_group(admin: "Admin", name: str) -> Resource:
    from lograft.cli.resources.group_resources import group_resource

    return group_resource(await admin.describe_group(name), await admin.group_offsets(name))


def brokers(cluster: ClusterDescription, names: list[str]) -> list[Resource]:
    """Return the brokers with these ids, or all. Raise `UnknownBroker` if one does not exist."""
    wanted = [parse_id(name) for name in names]
    by_id = {broker.id: broker for broker in cluster.brokers}
    for broker_id in wanted:
        if broker_id not in by_id:
            raise UnknownBroker(f"broker {broker_id} does not exist")
    return [broker_resource(by_id[broker_id], cluster) for broker_id in wanted or by_id]


async def min_isr(admin: ClusterAdmin, topic: str) -> int:
    (entry,) = await admin.describe_config(ConfigKind.TOPIC, topic, ["min.insync.replicas"])
    assert entry.value is not None
    return int(entry.value)
