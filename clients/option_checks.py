"""Validation of client options. Pure."""

import difflib
from collections.abc import Iterable

from lograft.clients.errors import InvalidArgument

MAX_INT32 = 2**31 - 1


def check_integer(name: str, value: object, least: int, most: int = MAX_INT32) -> None:
    """Raise `InvalidArgument`, naming the option, unless `value` is an integer within these bounds."""
    if not isinstance(value, int) or not least <= value <= most:
        raise InvalidArgument(f"{name} is {value!r}: give a whole number from {least} to {most}")


def check_duration(name: str, value: object) -> None:
    """Like `check_integer`, for a duration that may be fractional or 0."""
    if not isinstance(value, int | float) or not value >= 0:
        raise InvalidArgument(f"{name} is {value!r}: give 0 or more")


def check_client_id(value: object) -> None:
    if not isinstance(value, str) or not value.isprintable() or len(value) > 1000:
        raise InvalidArgument(f"client_id is {value!r:.100}: give a short text")


def check_rack(value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value or not value.isprintable()):
        raise InvalidArgument(f"rack is {value!r:.100}: give the name of one, as brokers have it, or None")


# Names that users of Kafka's clients try first.
_KAFKA_NAMES = {
    "auto_offset": "auto_offset_reset",
    "batch_size": "batch_bytes",
    "buffer_memory": "buffer_bytes",
    "compression_type": "compression",
    "enable_auto_commit": "auto_commit",
    "fetch_max_bytes": "fetch_buffer_bytes",
    "group_id": "group",
    "group_instance_id": "instance_id",
    "max_block": "max_block_ms",
    "max_partition_fetch_bytes": "fetch_partition_bytes",
    "partition_assignment_strategy": "assignor",
    "client_rack": "rack",
}


def check_names(client: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `TypeError` for an option that `client` does not have, suggesting the closest one."""
    known = list(known)
    for name in given:
        if name not in known:
            plain = name.replace(".", "_").replace("-", "_").lower()
            renamed = _KAFKA_NAMES.get(plain)
            close = [renamed] if renamed in known else difflib.get_close_matches(plain, known, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else f"its options are {', '.join(known)}"
            raise TypeError(f"{client}() has no option {name!r}: {remedy}")
