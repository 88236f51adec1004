"""Lines of a node's log: chosen by level and time, and formatted for people. Pure.

2026-01-01T12:00:00.123Z  WARNING  isr_shrunk                topic=orders partition=0 isr=[1,2]
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lograft.clients.times import BadTime, iso_time, parse_iso_time

LEVELS = ("debug", "info", "warning", "error")

_MORE_GRAVE = "critical"
_LEVEL_WIDTH, _EVENT_WIDTH = len("CRITICAL"), 26
_LEVEL_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31;1"}
_DIM, _BOLD, _CYAN = "2", "1", "36"
_TRACEBACK = "exception"
# In front of every line, or the same in all lines of a node.
_LEFT_OUT = ("timestamp", "level", "event", "logger", "node_id", _TRACEBACK)


@dataclass(frozen=True, slots=True)
class LogLine:
    """`fields` are those of an event, or None of a line that is no event: part of a traceback, or another program's."""

    text: str
    fields: Mapping[str, Any] | None
    epoch_ms: int | None = None

    @property
    def level(self) -> str:
        return str(self.fields["level"]) if self.fields is not None else LEVELS[-1]


def parse_line(text: str) -> LogLine:
    try:
        fields = json.loads(text)
        moment = parse_iso_time(fields["timestamp"])
        if isinstance(fields["event"], str) and fields["level"] in (*LEVELS, _MORE_GRAVE):
            return LogLine(text, fields, moment.epoch_ms)
    except (ValueError, TypeError, KeyError, BadTime):
        pass
    return LogLine(text, None)


@dataclass(slots=True)
class LogFilter:
    """Chooses events from `level` up, since `since_ms`. A line that is no event is of the time of the event before it,
    and of the highest level: something went wrong if a node writes one."""

    level: str = LEVELS[0]
    since_ms: int = 0
    _last_ms: int | None = field(default=None, init=False)

    def accepts(self, line: LogLine) -> bool:
        self._last_ms = line.epoch_ms if line.epoch_ms is not None else self._last_ms
        is_recent = self._last_ms is None or self._last_ms >= self.since_ms
        return is_recent and _gravity(line.level) >= _gravity(self.level)


def _gravity(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)


def format_line(line: LogLine, *, is_coloured: bool) -> str:
    """Return the line as people read it; a traceback follows, indented."""
    if line.fields is None:
        return line.text
    assert line.epoch_ms is not None

    def paint(text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if is_coloured else text

    level = line.level
    pairs = [f"{paint(key, _CYAN)}={_value_text(value)}" for key, value in line.fields.items() if key not in _LEFT_OUT]
    head = "  ".join(
        [
            paint(iso_time(line.epoch_ms), _DIM),
            paint(level.upper().ljust(_LEVEL_WIDTH), _LEVEL_COLOURS[level]),
            paint(line.fields["event"].ljust(_EVENT_WIDTH if pairs else 0), _BOLD),
        ]
    )
    traceback = str(line.fields.get(_TRACEBACK, "")).splitlines()
    return "\n".join([" ".join([head, *pairs]), *(f"    {each}" for each in traceback)])


def _value_text(value: Any) -> str:
    """Plain where that is clear, else JSON."""
    if isinstance(value, str) and value and value.isprintable() and not any(each in value for each in " \"'="):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
