"""A local cluster on paper: its nodes' addresses, files and configuration. Pure."""

import json
from dataclasses import dataclass

HOST = "127.0.0.1"
DEFAULT_NODES = 3
DEFAULT_PORT = 9092
MAX_NODES = 10  # the ports of each kind are as many apart
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
    """Nodes are 1 to `nodes`, each with both roles. `port` is node 1's client port, and the others follow."""

    cluster_id: str
    nodes: int
    port: int

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

    def addresses(self, number: int) -> dict[str, str]:
        """All that the node listens on, by what it is for."""
        return {
            "clients": self.client_address(number),
            "controllers": self.controller_address(number),
            "HTTP": self.http_address(number),
            "other brokers": self.nodes_address(number),
        }

    def node_config(self, number: int, data_directory: str, secret_file: str) -> dict[str, object]:
        """The keys of the node's configuration."""
        return {
            "node_id": number,
            "cluster_id": self.cluster_id,
            "cluster_secret_file": secret_file,
            "roles": ["controller", "broker"],
            "data_dirs": [data_directory],
            "listen": self.client_address(number),
            "advertised": self.client_address(number),
            "controllers": [f"{one}@{self.controller_address(one)}" for one in self.numbers],
            "controller_listen": self.controller_address(number),
            "nodes_listen": self.nodes_address(number),
            "http": self.http_address(number),
            "cluster": {"offsets.topic.replication.factor": min(3, self.nodes)},
        }

    def to_json(self) -> str:
        fields = {"format": _FORMAT, "cluster_id": self.cluster_id, "nodes": self.nodes, "port": self.port}
        return json.dumps(fields, indent=2) + "\n"


def layout_from_json(text: str) -> Layout:
    """The inverse of `to_json`, or `UnknownLayout`."""
    try:
        fields = json.loads(text)
        if fields["format"] != _FORMAT:
            raise UnknownLayout(f"of format {fields['format']!r}")
        return Layout(str(fields["cluster_id"]), int(fields["nodes"]), int(fields["port"]))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise UnknownLayout(str(error)) from None


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
