"""How gRPC waits for sockets in a node.

Since 1.66 it has a pool of threads for that by default: a message is handed from the thread that sees it to another
that reads it, to grpc.aio's own, to the loop's. Without, grpc.aio's thread reads it itself. Measured with 1.85, on two
cores: a message and its answer cost 0.6 as much processor time when idle, and take 0.75 as long.
"""

import os
from importlib.metadata import PackageNotFoundError, version

_WITHOUT_POOL = "-event_engine_client,-event_engine_listener"
# The versions that are known to have the older way; others would complain on stderr of what they do not know.
_FIRST, _LAST = (1, 71), (1, 85)


def wait_without_pool() -> None:
    """For all of this process, if gRPC is not imported yet and `GRPC_EXPERIMENTS` is not set."""
    try:
        major, minor, *_ = version("grpcio").split(".")
        is_known = _FIRST <= (int(major), int(minor)) <= _LAST
    except (PackageNotFoundError, ValueError):
        is_known = False
    if is_known:
        os.environ.setdefault("GRPC_EXPERIMENTS", _WITHOUT_POOL)
