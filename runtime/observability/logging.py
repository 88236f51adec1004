"""Log events: `log = get_logger(__name__)`, then `log.info("isr_shrunk", topic=topic, isr=isr)`.

Silent until `configure_logging` is called: a program that uses lograft as a library decides, and its own configuration
of the standard `logging` also gets these events. structlog renders them, and is imported only when configured.
"""

import logging
import sys
from collections.abc import MutableMapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TextIO, TypeAlias

from lograft.runtime.observability.log_levels import ROOT, parse_levels

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}

ExceptionInformation: TypeAlias = (
    bool | BaseException | tuple[type[BaseException], BaseException, TracebackType | None] | None
)

# Without a handler of its own, the standard library prints warnings of an unconfigured logger to stderr.
logging.getLogger(ROOT).addHandler(logging.NullHandler())

_set_apart: dict[str, None] = {}  # loggers with levels set by `set_own_levels`

_context: ContextVar[dict[str, Any]] = ContextVar("lograft_log_context", default={})  # noqa: B039 (never changed)


class LogEvent:
    """The message of a log record: an event and its fields. As text: `event key=value ...`."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{key}={value!r}" for key, value in self.fields.items())])


class Logger:
    """Logs events with fields, and with those given to `bind`."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, fields: dict[str, Any]) -> None:
        self._logger = logger
        self._fields = fields

    def bind(self, **fields: Any) -> "Logger":
        """Return a logger that adds `fields` to its events."""
        return Logger(self._logger, {**self._fields, **fields})

    def is_enabled_for(self, level: str) -> bool:
        """Return True if an event of `level` would be emitted. Check it before computing expensive fields."""
        return self._logger.isEnabledFor(_level_number(level))

    def debug(self, event: str, /, **fields: Any) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, *, exc_info: ExceptionInformation = None, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields, exc_info)

    def error(self, event: str, /, *, exc_info: ExceptionInformation = None, **fields: Any) -> None:
        self._log(logging.ERROR, event, fields, exc_info)

    def exception(self, event: str, /, **fields: Any) -> None:
        """Log an error with the exception being handled."""
        self._log(logging.ERROR, event, fields, True)

    def critical(self, event: str, /, *, exc_info: ExceptionInformation = None, **fields: Any) -> None:
        self._log(logging.CRITICAL, event, fields, exc_info)

    def _log(
        self, level: int, event: str, fields: dict[str, Any], exception_information: ExceptionInformation = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            message = LogEvent(event, {**_context.get(), **self._fields, **fields})
            self._logger.log(level, message, exc_info=exception_information, stacklevel=3)


def get_logger(name: str, **fields: Any) -> Logger:
    """Return the logger of a module. Pass its `__name__`."""
    return Logger(logging.getLogger(name), fields)


def bind_context(**fields: Any) -> None:
    """Add `fields`, such as a node's `node_id`, to all events of the current task and of tasks it starts later."""
    _context.set({**_context.get(), **fields})


def set_level(logger_name: str, level: str | None) -> None:
    """Set the level of one logger and those below it. None inherits the level above. May be called at any time."""
    logging.getLogger(logger_name).setLevel(logging.NOTSET if level is None else _level_number(level))


def set_own_levels(text: str) -> None:
    """Set the levels of lograft's loggers from text such as `info,lograft.raft=debug`. Loggers without a level inherit
    the one above; the default for `lograft` is `info`."""
    named = parse_levels(text)
    if named is None:
        raise ValueError(f"unknown log level {text!r}: one of {', '.join(_LEVELS)}")
    levels = {ROOT: "info", **named}
    for name in [name for name in _set_apart if name not in levels]:
        set_level(name, None)
        del _set_apart[name]
    for name, level in levels.items():
        set_level(name, level)
        if name != ROOT:
            _set_apart[name] = None


def configure_logging(level: str = "info", stream: TextIO | None = None, json: bool | None = None) -> None:
    """Write lograft's events from `level` up, and the warnings of libraries, to `stream`; by default to stderr.

    Write one JSON object a line. With `json` false, which is the default on a terminal, write readable lines, coloured
    on a terminal. Another call replaces the configuration.
    """
    stream = sys.stderr if stream is None else stream
    is_terminal = stream.isatty()
    handler = _Handler(stream)
    handler.setFormatter(_formatter(json=not is_terminal if json is None else json, colours=is_terminal))
    set_own_levels(level)
    root = logging.getLogger()
    for former in [former for former in root.handlers if isinstance(former, _Handler)]:
        root.removeHandler(former)
    root.addHandler(handler)


class _Handler(logging.StreamHandler[TextIO]):
    """The handler of `configure_logging`, distinguishable from others."""


def _formatter(*, json: bool, colours: bool) -> logging.Formatter:
    import structlog

    before: list[Any] = [
        _unfold_event,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if json:
        rendering: list[Any] = [
            structlog.processors.format_exc_info,
            _order_fields,
            structlog.processors.JSONRenderer(ensure_ascii=False, default=_plain),
        ]
    else:
        traceback = structlog.dev.plain_traceback
        rendering = [structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=traceback)]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=before,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
    )


def _unfold_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the fields of a LogEvent to the event. They do not replace the common fields."""
    record: logging.LogRecord = event["_record"]
    if isinstance(record.msg, LogEvent):
        event["event"] = record.msg.event
        for key, value in record.msg.fields.items():
            event.setdefault(key, value)
    return event


def _order_fields(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the common fields first, to make the JSON readable."""
    first = {key: event.pop(key) for key in ("timestamp", "level", "logger", "event")}
    return {**first, **event}


def _plain(value: Any) -> Any:
    """Return a JSON-compatible form of a value."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return str(value)


def _level_number(level: str) -> int:
    try:
        return _LEVELS[level.lower()]
    except KeyError:
        raise ValueError(f"unknown log level {level!r}: one of {', '.join(_LEVELS)}") from None
