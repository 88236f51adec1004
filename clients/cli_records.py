"""Records as text: one value a line, by a format, or as JSON."""

import json
import re
from collections.abc import Callable
from typing import Protocol, TextIO

import click

from lograft.clients.cli_times import iso_time
from lograft.clients.dump_json import bytes_as_json
from lograft.storage.batch import Record

_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\0": "\0", r"\\": "\\"}


class RecordWriter(Protocol):
    def write(self, record: Record) -> None: ...

    def flush(self) -> None: ...


def make_writer(out: TextIO, form: str | None, *, is_json: bool) -> RecordWriter:
    """Bytes go out as they are, unless to a terminal: there what is not text is escaped."""
    if is_json:
        return _JsonWriter(out)
    return _FormatWriter(out, parse_format(form if form is not None else r"%v\n"))


class _JsonWriter:
    """An object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, record: Record) -> None:
        fields = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": bytes_as_json(record.key),
            "value": bytes_as_json(record.value),
            "headers": [{"key": name, "value": bytes_as_json(content)} for name, content in record.headers],
        }
        self._out.write(json.dumps(fields, ensure_ascii=False) + "\n")

    def flush(self) -> None:
        self._out.flush()


class _FormatWriter:
    def __init__(self, out: TextIO, parts: "list[Callable[[Record], bytes]]") -> None:
        self._out = out
        self._parts = parts
        self._is_terminal = out.isatty()

    def write(self, record: Record) -> None:
        content = b"".join([part(record) for part in self._parts])
        if self._is_terminal:
            self._out.write(_harmless(content))
        else:
            self._out.buffer.write(content)

    def flush(self) -> None:
        self._out.flush()


def _harmless(content: bytes) -> str:
    """What would do something to a terminal is escaped."""
    text = content.decode(errors="backslashreplace")
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )


def parse_format(form: str) -> "list[Callable[[Record], bytes]]":
    """The parts that follow one another for each record."""
    parts: list[Callable[[Record], bytes]] = []
    for piece in re.findall(r"%.?|\\.|[^%\\]+|\\", form, flags=re.DOTALL):
        if piece.startswith("%"):
            field = _FIELDS.get(piece)
            if field is None:
                raise click.UsageError(f"{piece!r} in the format means nothing: there are {' '.join(_FIELDS)}")
            parts.append(field)
        else:
            parts.append(_literal(_ESCAPES.get(piece, piece).encode(errors="surrogateescape")))
    return parts


def _literal(content: bytes) -> Callable[[Record], bytes]:
    return lambda _: content


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


_FIELDS: dict[str, Callable[[Record], bytes]] = {
    "%t": lambda record: record.topic.encode(),
    "%p": lambda record: b"%d" % record.partition,
    "%o": lambda record: b"%d" % record.offset,
    "%k": lambda record: record.key or b"",
    "%v": lambda record: record.value or b"",
    "%T": lambda record: iso_time(record.timestamp).encode(),
    "%h": _headers,
    "%%": _literal(b"%"),
}
