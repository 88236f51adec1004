"""How gRPC waits for sockets in a node.

Since 1.66 it has a pool of threads for that by default: a message is handed from the thread that sees it to another
that reads it, to grpc.aio's own, to the loop's. Without, grpc.aio's thread reads it itself. Measured with 1.85, on two
cores: a message and its answer cost 0.6 as much processor time when idle, and take 0.75 as long.
"""

import os
import re
from importlib.util import find_spec

_WITHOUT_POOL = "-event_engine_client,-event_engine_listener"
# The versions that are known to have the older way; others would complain on stderr of what they do not know.
_FIRST, _LAST = (1, 71), (1, 85)
_VERSION_FILE = "_grpcio_metadata.py"


def wait_without_pool() -> None:
    """For all of this process, if gRPC is not imported yet and `GRPC_EXPERIMENTS` is not set."""
    version = _grpc_version()
    if version is not None and _FIRST <= version <= _LAST:
        os.environ.setdefault("GRPC_EXPERIMENTS", _WITHOUT_POOL)


def _grpc_version() -> tuple[int, int] | None:
    """Without importing it, which would be too late; nor importlib.metadata, which takes a fifth as long as gRPC."""
    spec = find_spec("grpc")
    if spec is None or spec.origin is None:
        return None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), _VERSION_FILE), encoding="utf-8") as file:
            found = re.search(r"__version__ = \W*(\d+)\.(\d+)\.", file.read())
    except OSError:
        return None
    return (int(found[1]), int(found[2])) if found is not None else None
