"""Output of `lograft dev status`."""

import sys
from collections.abc import Sequence
from typing import Any

from lograft.cli.common.cluster_options import Settings
from lograft.cli.output.resource_output import Column, Resource, resource, table_lines, write_resources
from lograft.clients.local.local_cluster import LocalCluster
from lograft.clients.local.local_node import LocalNode, NodeStatus

_COLUMNS = (
    Column("NODE", lambda node: node["id"], is_number=True),
    Column("STATE", lambda node: node["state"]),
    Column("PID", lambda node: node["processId"], is_number=True),
    Column("ADDRESS", lambda node: node["address"]),
    Column("HTTP", lambda node: node["httpAddress"]),
    Column("ROLES", lambda node: node["roles"], is_wide=True),
    Column("CONTROLLER", lambda node: node["controllerAddress"], is_wide=True),
    Column("DIRECTORY", lambda node: node["directory"], is_wide=True),
    Column("REASON", lambda node: node["reason"]),
)


def write_status(cluster: LocalCluster, statuses: Sequence[tuple[LocalNode, NodeStatus]], settings: Settings) -> None:
    """Print the cluster as one resource, or as a table of its nodes."""
    shown = status_resource(cluster, statuses)
    if settings.is_table:
        sys.stdout.writelines(table_lines(shown["status"]["nodes"], _COLUMNS, settings))
    else:
        write_resources(sys.stdout, [shown], (), settings, is_one=True)


def status_resource(cluster: LocalCluster, statuses: Sequence[tuple[LocalNode, NodeStatus]]) -> Resource:
    layout = cluster.layout
    return resource(
        "DevCluster",
        {"name": layout.cluster_id},
        spec={"directory": str(cluster.directory), "nodes": layout.nodes, "port": layout.port},
        status={"bootstrap": layout.bootstrap, "nodes": [_node_fields(*one) for one in statuses]},
    )


def _node_fields(node: LocalNode, status: NodeStatus) -> dict[str, Any]:
    layout, number = node.layout, node.number
    return {
        "id": number,
        "roles": list(layout.roles(number)),
        "state": status.state,
        "reason": status.reason or None,
        "processId": status.process_id,
        "address": layout.client_address(number),
        "controllerAddress": layout.addresses(number).get("controllers"),
        "httpAddress": layout.http_address(number),
        "directory": str(node.directory),
    }
