"""Durations and moments as people type them. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_EPOCH_MS = re.compile(r"[0-9]{13}")

DURATIONS = "500ms, 5s, 10m, 1h or 2d"
MOMENTS = "earliest, latest, now, a time such as 2026-01-01T00:00Z, -10m for ten minutes ago, or epoch milliseconds"


class BadTime(ValueError):
    """A time cannot be parsed; the message has the text and the accepted forms."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first record of the log."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the log, after its last record."""


@dataclass(frozen=True, slots=True)
class Moment:
    epoch_ms: int


def parse_duration(text: str) -> int:
    """Return the duration in milliseconds. Raise `BadTime` if it cannot be parsed."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise BadTime(f"{text!r} is not a duration: give {DURATIONS}")
    return int(match[1]) * _UNITS_MS[match[2]]


def parse_moment(text: str, now_ms: int) -> Earliest | Latest | Moment:
    """Return the moment. A time without an offset is in UTC; a time before 1970 becomes 1970, since no record is
    earlier."""
    text = text.strip()
    if text == "earliest":
        return Earliest()
    if text == "latest":
        return Latest()
    if text == "now":
        return Moment(now_ms)
    if _EPOCH_MS.fullmatch(text):
        return Moment(int(text))
    if text.startswith("-") and _DURATION.fullmatch(text[1:]):
        return Moment(max(0, now_ms - parse_duration(text[1:])))
    try:
        return parse_iso_time(text)
    except BadTime:
        raise BadTime(f"{text!r} is not a time: give {MOMENTS}") from None


def parse_iso_time(text: str) -> Moment:
    """Convert an ISO 8601 date or time, in UTC unless it has an offset. Raise `BadTime` for anything else."""
    # Python also accepts bare digits and week dates; those are more likely a typo than a time.
    if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return Moment(max(0, round(aware.timestamp() * 1000)))
    raise BadTime(f"{text!r} is not a time such as 2026-01-01T00:00Z")


def iso_time(epoch_ms: int) -> str:
    """Return the time as ISO 8601 in UTC with milliseconds, or the plain number if it is out of range."""
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(epoch_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
