"""The layout of a live cluster: a local one whose nodes are reached through relays. Pure."""

from dataclasses import dataclass

from lograft.clients.local.layout import HOST, Layout

PORTS = 90
"""A layout's own ports are the first sixty; those of the relays follow."""

_CLIENT_RELAYS = 60
_CONTROLLER_RELAYS = 70
_NODE_RELAYS = 80


@dataclass(frozen=True, slots=True)
class LiveLayout:
    """A layout with relays. `own` has the real addresses of the nodes."""

    own: Layout

    @property
    def numbers(self) -> range:
        return self.own.numbers

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(map(self.client_relay, self.numbers))

    def client_relay(self, number: int) -> str:
        return f"{HOST}:{self.own.port + _CLIENT_RELAYS + number - 1}"

    def controller_relay(self, number: int) -> str:
        return f"{HOST}:{self.own.port + _CONTROLLER_RELAYS + number - 1}"

    def nodes_relay(self, number: int) -> str:
        return f"{HOST}:{self.own.port + _NODE_RELAYS + number - 1}"

    def node_config(self, number: int, data_directory: str, secret_file: str) -> dict[str, object]:
        """Return a configuration as a user would write it. It advertises only the node's relays."""
        return self.own.node_config(number, data_directory, secret_file) | {
            "advertised": self.client_relay(number),
            "nodes_advertised": self.nodes_relay(number),
            "controllers": [f"{one}@{self.controller_relay(one)}" for one in self.numbers],
            # Low limits, so that floods need not be large.
            "max_connections": 300,
            "max_connections_per_address": 200,
            "network_buffer_bytes": 16 * 1024 * 1024,
        }
