"""Divides a node's file descriptors, so that connections can never exhaust those needed for data. Pure."""

from dataclasses import dataclass

from lograft.runtime.network import ConnectionLimits

_MOST_CLIENTS = 10_000
_MOST_NODES = 1000
_MOST_HTTP = 100
_MOST_SEGMENTS = 1024
_FEWEST = 8
# Logs, the metadata store, outgoing connections, and files open briefly.
_FEWEST_FILES = 64


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The shares. `clients`, `nodes`, `controllers`: connection limits of each listener. `http`: concurrent HTTP
    connections. `segments`: older segments kept open for each data directory. `files`: the rest, which includes the
    segments."""

    clients: ConnectionLimits
    nodes: ConnectionLimits
    controllers: ConnectionLimits
    http: int
    segments: int
    files: int


def share_out(
    limit: int,
    directories: int,
    clients: int | None = None,
    per_address: int | None = None,
    unread_bytes: int | None = None,
) -> Descriptors:
    """Divide `limit` descriptors.

    `clients`, `per_address`: the operator's settings, lowered to the available number; by default half of the limit,
    and half of the clients' share. `unread_bytes`: the clients' limit for unread bytes."""
    nodes = _between(limit // 16, _MOST_NODES)
    http = _between(limit // 32, _MOST_HTTP)
    most_clients = max(_FEWEST, limit - 2 * nodes - http - max(_FEWEST_FILES, limit // 8))
    clients = min(limit // 2, _MOST_CLIENTS, most_clients) if clients is None else min(clients, most_clients)
    per_address = max(1, clients // 2) if per_address is None else min(per_address, clients)
    files = max(_FEWEST_FILES, limit - clients - 2 * nodes - http)
    peers = ConnectionLimits(nodes, max(1, nodes // 2))
    clients_limits = ConnectionLimits(clients, per_address, unread_bytes)
    segments = _between(files // (4 * max(1, directories)), _MOST_SEGMENTS)
    return Descriptors(clients_limits, peers, peers, http, segments, files)


def _between(wanted: int, most: int) -> int:
    return max(_FEWEST, min(wanted, most))
