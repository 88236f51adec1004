"""The outcome of a call, as far as its client can know. Pure."""

from enum import Enum


class Outcome(Enum):
    """FAIL is definite: the call had no effect and never will."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"
