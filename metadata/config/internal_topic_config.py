"""The configuration of the cluster's own topics: the values that prevent loss are in force, whatever is set. Pure.

The cluster's defaults for topics do not apply to them, and only a few of their keys can be changed. A value that an
earlier version accepted is not in force either.
"""

from collections.abc import Mapping

from lograft.metadata.config.topic_config import MIN_ISR, default_of
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

MAX_MESSAGE = "max.message.bytes"

CHANGEABLE = ("delete.retention.ms", "min.cleanable.dirty.ratio", "segment.bytes")
"""How they are compacted, and in what pieces: no value of these loses a record that counts."""

WITH_LEAST = (MAX_MESSAGE, MIN_ISR)
"""Of these, a value below the default would refuse or endanger what the cluster itself writes."""

LARGEST_BATCH_BYTES = 16 * 1024 * 1024  # all of a group that changes at once

_NEEDED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    MAX_MESSAGE: str(LARGEST_BATCH_BYTES),
    "segment.bytes": str(16 * 1024 * 1024),
}
"""Where these topics differ from the defaults of others."""


def internal_default_of(key: str) -> str | None:
    """Return the default of `key` for an internal topic; None for `min.insync.replicas`."""
    return _NEEDED.get(key, default_of(key))


def internal_setting(own: Mapping[str, str], key: str) -> str | None:
    """Return the value in force for an internal topic that sets `own`; None for a `min.insync.replicas` that is not
    set."""
    default = internal_default_of(key)
    if key in CHANGEABLE or key == MIN_ISR:
        return own.get(key, default)
    if key == MAX_MESSAGE:
        return str(max(int(own.get(key, LARGEST_BATCH_BYTES)), LARGEST_BATCH_BYTES))
    return default


def check_internal_change(
    topic: str,
    key: str,
    value: str | None,
    present: str | None,
    *,
    wanted: int | None = None,
    least: int | None = None,
) -> None:
    """Raise INVALID_CONFIG unless the change keeps the cluster's topic `topic` safe.

    `value`: None to unset the key. `present`: the value in force. `wanted`, `least`: for a key of `WITH_LEAST`, the
    effective value after the change, and the least one allowed.
    """
    if key in CHANGEABLE:
        return
    if key in WITH_LEAST:
        assert wanted is not None
        assert least is not None
        if wanted >= least:
            return
        how = f"be {wanted}, below its default of {least}"
    elif value is not None and value == present:
        return
    else:
        how = "be unset" if value is None else f"be {value}"
    raise ControllerError(
        errors_pb2.INVALID_CONFIG,
        f"{key} of {topic} cannot {how}: the topic is the cluster's own, and what consumer groups committed could be "
        f"lost; of its settings {', '.join(CHANGEABLE)} can be changed, and {' and '.join(WITH_LEAST)} to anything "
        "from the default up",
    )
