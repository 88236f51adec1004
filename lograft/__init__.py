"""lograft: a Raft-replicated log service."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> str:
    # Looked up when asked for: the machinery behind it takes longer to import than all else here.
    if name == "__version__":
        from importlib.metadata import version

        return version("lograft")
    raise AttributeError(f"module 'lograft' has no attribute {name!r}")
