"""lograft: a Raft-replicated log service."""

from importlib import metadata as _metadata

__version__ = _metadata.version("lograft")
