"""A consumer's options and their validation. Pure."""

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Literal, Self, TypeAlias, TypedDict

from lograft.clients.consumer.reading.fetched_partition import Ago, Anchor, Start
from lograft.clients.consumer.reading.record_queue import Deserializers
from lograft.clients.errors import InvalidArgument
from lograft.clients.option_checks import check_client_id, check_integer, check_names, check_rack
from lograft.clients.records.serializers import DeserializerOption, find_deserializer
from lograft.clients.times import DURATIONS, BadTime, parse_duration
from lograft.clients.types import is_text

_RESETS: dict[str, Anchor | None] = {"earliest": Anchor.EARLIEST, "latest": Anchor.LATEST, "none": None}
ON_BAD_BATCH = ("raise", "skip")
_MILLISECOND = timedelta(milliseconds=1)

# The values that coordinators accept.
ASSIGNORS = ("uniform", "range", "roundrobin")
MAX_GROUP_NAME = 249
SESSION_MS = (1000, 30 * 60_000)
POLL_INTERVAL_MS = (1000, 24 * 3_600_000)


AssignorOption: TypeAlias = Literal["uniform", "range", "roundrobin"]
ResetOption: TypeAlias = Literal["earliest", "latest", "none"] | str | timedelta
BadBatchOption: TypeAlias = Literal["raise", "skip"]


class ConsumerKeywords(TypedDict, total=False):
    """The keyword arguments of a consumer, explained in its docstring."""

    group: str | None
    instance_id: str | None
    assignor: AssignorOption | None
    auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int
    max_poll_interval_ms: int
    auto_offset_reset: ResetOption
    key_deserializer: DeserializerOption
    value_deserializer: DeserializerOption
    max_poll_records: int
    fetch_buffer_bytes: int
    fetch_partition_bytes: int
    request_timeout_ms: int
    client_id: str
    rack: str | None
    first_contact_ms: int | None
    on_bad_batch: BadBatchOption


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The validated options of a consumer, explained in its docstring."""

    auto_offset_reset: ResetOption = "latest"
    key_deserializer: DeserializerOption = None
    value_deserializer: DeserializerOption = None
    max_poll_records: int = 500
    fetch_buffer_bytes: int = 16 * 1024 * 1024
    fetch_partition_bytes: int = 1024 * 1024
    request_timeout_ms: int = 30_000
    client_id: str = "lograft-python"
    rack: str | None = None
    first_contact_ms: int | None = None
    group: str | None = None
    instance_id: str | None = None
    assignor: AssignorOption | None = None
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5000
    session_timeout_ms: int = 10_000
    max_poll_interval_ms: int = 300_000
    on_bad_batch: BadBatchOption = "raise"

    @classmethod
    def of(cls, given: ConsumerKeywords) -> Self:
        """Validate the keyword arguments of a consumer. Raise `TypeError` for an unknown one, `InvalidArgument` for an
        invalid value."""
        check_names("Consumer", given, (each.name for each in fields(cls)))
        return cls(**given)

    def __post_init__(self) -> None:
        self._check_group()
        _ = self.reset, self.deserializers  # InvalidArgument
        for name in ("max_poll_records", "fetch_buffer_bytes", "fetch_partition_bytes", "request_timeout_ms"):
            check_integer(name, getattr(self, name), 1)
        check_client_id(self.client_id)
        check_rack(self.rack)
        if self.first_contact_ms is not None:
            check_integer("first_contact_ms", self.first_contact_ms, 1)

        if self.on_bad_batch not in ON_BAD_BATCH:
            raise InvalidArgument(f"on_bad_batch is {self.on_bad_batch!r}: give {' or '.join(ON_BAD_BATCH)}")

    @property
    def skips_bad_batches(self) -> bool:
        return self.on_bad_batch == "skip"

    def _check_group(self) -> None:
        for name in ("group", "instance_id"):
            text = getattr(self, name)
            is_named = isinstance(text, str) and 0 < len(text) <= MAX_GROUP_NAME and is_text(text)
            if text is not None and not is_named:
                raise InvalidArgument(f"{name} is {text!r:.100}: give 1 to {MAX_GROUP_NAME} characters, or None")
        if self.instance_id is not None and self.group is None:
            raise InvalidArgument("instance_id is for members of a group: give a group, too")
        if self.assignor is not None and self.assignor not in ASSIGNORS:
            raise InvalidArgument(f"assignor is {self.assignor!r}: give {', '.join(ASSIGNORS)}")
        if not isinstance(self.auto_commit, bool):
            raise InvalidArgument(f"auto_commit is {self.auto_commit!r}: give True or False")
        check_integer("auto_commit_interval_ms", self.auto_commit_interval_ms, 1)
        check_integer("session_timeout_ms", self.session_timeout_ms, *SESSION_MS)
        check_integer("max_poll_interval_ms", self.max_poll_interval_ms, *POLL_INTERVAL_MS)

    @property
    def reset(self) -> Start | None:
        given = self.auto_offset_reset
        if isinstance(given, timedelta) and given >= timedelta():
            return Ago(given // _MILLISECOND)
        if isinstance(given, str):
            if given in _RESETS:
                return _RESETS[given]
            try:
                return Ago(parse_duration(given))
            except BadTime:
                pass
        raise InvalidArgument(
            f"auto_offset_reset is {given!r}: give {', '.join(_RESETS)}, or a duration: a timedelta, {DURATIONS}"
        )

    @property
    def deserializers(self) -> Deserializers:
        return (
            find_deserializer("key_deserializer", self.key_deserializer),
            find_deserializer("value_deserializer", self.value_deserializer),
        )


def poll_limit(given: int | None, default: int) -> int:
    """Return the most records that a poll may return. Raise `InvalidArgument` for an invalid limit."""
    if given is None:
        return default
    if not isinstance(given, int) or given < 1:
        raise InvalidArgument(f"max_records is {given!r}: give a number above 0")
    return given
