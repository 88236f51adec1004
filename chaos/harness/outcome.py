"""What a client may conclude about a call that it made. Pure."""

from enum import Enum


class Outcome(Enum):
    """FAIL is definite: the call had no effect and never will."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"
