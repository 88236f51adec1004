"""How the nodes of a local cluster are: for people, and for scripts."""

from collections.abc import Sequence
from typing import Any, TextIO

from lograft.clients.dev_cluster import DevCluster
from lograft.clients.dev_node import DevNode, NodeStatus
from lograft.clients.streaming_table import StreamingTable

_TITLES = ("NODE", "STATE", "PID", "ADDRESS", "HTTP", "REASON")
_NUMBERS = (0, 2)


def write_status_table(statuses: Sequence[tuple[DevNode, NodeStatus]], out: TextIO) -> None:
    table = StreamingTable(out, _TITLES, _NUMBERS)
    for node, status in statuses:
        layout, number = node.layout, node.number
        process_id = str(status.process_id) if status.process_id is not None else "-"
        addresses = layout.client_address(number), layout.http_address(number)
        table.row((str(number), status.state, process_id, *addresses, status.reason))
    table.finish()


def status_document(cluster: DevCluster, statuses: Sequence[tuple[DevNode, NodeStatus]]) -> dict[str, Any]:
    """A resource, as JSON has it."""
    layout = cluster.layout
    return {
        "apiVersion": "lograft/v1",
        "kind": "DevCluster",
        "metadata": {"name": layout.cluster_id},
        "spec": {"directory": str(cluster.directory), "nodes": layout.nodes, "port": layout.port},
        "status": {"bootstrap": layout.bootstrap, "nodes": [_node_fields(*one) for one in statuses]},
    }


def _node_fields(node: DevNode, status: NodeStatus) -> dict[str, Any]:
    layout, number = node.layout, node.number
    return {
        "id": number,
        "state": status.state,
        "reason": status.reason or None,
        "processId": status.process_id,
        "address": layout.client_address(number),
        "controllerAddress": layout.controller_address(number),
        "httpAddress": layout.http_address(number),
        "directory": str(node.directory),
    }
