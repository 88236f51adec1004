"""How a node shares out the file descriptors it may open, so that no number of connections takes those of its data.
Pure."""

from dataclasses import dataclass

from lograft.runtime.network import ConnectionLimits

_MOST_CLIENTS = 10_000
_MOST_NODES = 1000
_MOST_HTTP = 100
_MOST_SEGMENTS = 1024
_FEWEST = 8
# Logs, the metadata's store, connections to others, what is open for a moment.
_FEWEST_FILES = 64


@dataclass(frozen=True, slots=True)
class Descriptors:
    """`clients`, `nodes`, `controllers`: connections to each address. `http`: at once. `segments`: older segments of a
    data directory that are kept open. `files`: what is left for those, and all else."""

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
    """Of `limit` descriptors. `clients`, `per_address`: as an operator wants it, as far as there are so many; by
    default a half, and of these a half. `unread_bytes`: of clients."""
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
