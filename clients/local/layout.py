"""A local cluster on paper: its nodes' addresses, files and configuration. Pure."""

import json
from dataclasses import dataclass, replace

HOST = "127.0.0.1"
DEFAULT_NODES = 3
DEFAULT_PORT = 9092
MAX_NODES = 10  # the ports of each kind are as many apart
MAX_CONTROLLERS = 3
PORTS = 51
"""In a row, from that of the first node's clients. Kafka's from the thirtieth on, and the console's, are kept free."""

HIGHEST_PORT = 65535 - PORTS + 1

_CONTROLLER_PORTS = 10
_HTTP_PORTS = 20
_NODE_PORTS = 40
_FORMAT = "lograft-dev-1"


class UnknownLayout(ValueError):
    """Not what a cluster is described by."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes are 1 to `nodes`. The first `controllers` of them are controllers and brokers, the others brokers only.
    `port` is node 1's client port, and the others follow.

    `controllers` never changes: every node's configuration names them, and a cluster keeps its voters as it grows.
    """

    cluster_id: str
    nodes: int
    port: int
    controllers: int

    def grown(self, nodes: int) -> "Layout":
        """Return the same cluster with more nodes."""
        assert nodes >= self.nodes
        return replace(self, nodes=nodes)

    def moved(self, port: int) -> "Layout":
        """Return the same cluster on other ports."""
        return replace(self, port=port)

    @property
    def numbers(self) -> range:
        return range(1, self.nodes + 1)

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.client_address, self.numbers))

    def client_address(self, number: int) -> str:
        return f"{HOST}:{self.port + number - 1}"

    def controller_address(self, number: int) -> str:
        return f"{HOST}:{self.port + _CONTROLLER_PORTS + number - 1}"

    def http_address(self, number: int) -> str:
        return f"{HOST}:{self.port + _HTTP_PORTS + number - 1}"

    def nodes_address(self, number: int) -> str:
        return f"{HOST}:{self.port + _NODE_PORTS + number - 1}"

    def roles(self, number: int) -> tuple[str, ...]:
        return ("controller", "broker") if number <= self.controllers else ("broker",)

    def addresses(self, number: int) -> dict[str, str]:
        """Return the addresses that the node listens on, by purpose."""
        controllers = {"controllers": self.controller_address(number)} if number <= self.controllers else {}
        return {
            "clients": self.client_address(number),
            **controllers,
            "HTTP": self.http_address(number),
            "other brokers": self.nodes_address(number),
        }

    def node_config(self, number: int, data_directory: str, secret_file: str) -> dict[str, object]:
        """The keys of the node's configuration."""
        controller_numbers = range(1, self.controllers + 1)
        listen = {"controller_listen": self.controller_address(number)} if number in controller_numbers else {}
        return {
            "node_id": number,
            "cluster_id": self.cluster_id,
            "cluster_secret_file": secret_file,
            "roles": list(self.roles(number)),
            "data_dirs": [data_directory],
            "listen": self.client_address(number),
            "advertised": self.client_address(number),
            "controllers": [f"{one}@{self.controller_address(one)}" for one in controller_numbers],
            **listen,
            "nodes_listen": self.nodes_address(number),
            "http": self.http_address(number),
            # As at the first start of the cluster: a node warns about settings that differ from the cluster's.
            "cluster": {"offsets.topic.replication.factor": min(3, self.controllers)},
        }

    def to_json(self) -> str:
        fields = {
            "format": _FORMAT,
            "cluster_id": self.cluster_id,
            "nodes": self.nodes,
            "port": self.port,
            "controllers": self.controllers,
        }
        return json.dumps(fields, indent=2) + "\n"


def new_layout(cluster_id: str, nodes: int, port: int) -> Layout:
    """Return the layout of a new cluster."""
    return Layout(cluster_id, nodes, port, controllers=min(MAX_CONTROLLERS, nodes))


def layout_from_json(text: str) -> Layout:
    """Parse what `to_json` returns. Raise `UnknownLayout` if the text is something else.

    lograft 0.1.0 wrote no `controllers`: all its nodes were controllers, and their quorum still has them as voters.
    """
    try:
        fields = json.loads(text)
        if fields["format"] != _FORMAT:
            raise UnknownLayout(f"of format {fields['format']!r}")
        nodes = int(fields["nodes"])
        layout = Layout(str(fields["cluster_id"]), nodes, int(fields["port"]), int(fields.get("controllers", nodes)))
    except (KeyError, TypeError, ValueError) as error:
        raise error if isinstance(error, UnknownLayout) else UnknownLayout(str(error)) from None
    if not 1 <= layout.controllers <= layout.nodes <= MAX_NODES:
        raise UnknownLayout(f"{layout.nodes} nodes, {layout.controllers} of them controllers")
    return layout


def to_toml(config: dict[str, object]) -> str:
    """Keys first, then tables: TOML's order."""
    plain = [f"{key} = {_value(value)}\n" for key, value in config.items() if not isinstance(value, dict)]
    tables = [
        f"\n[{name}]\n" + "".join(f"{_value(key)} = {_value(value)}\n" for key, value in table.items())
        for name, table in config.items()
        if isinstance(table, dict)
    ]
    return "".join(plain + tables)


def _value(value: object) -> str:
    # TOML writes numbers, texts and lists as JSON does; but for DEL, which JSON leaves as it is.
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
