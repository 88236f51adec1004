r"""Format records by strings such as `%p %o %k %{v:hex}\n`. Pure."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import click

from lograft.cli.dump.json_output import bytes_as_json
from lograft.cli.output.escapes import unescape
from lograft.clients.times import iso_time
from lograft.storage.batch.codec import Record

Part: TypeAlias = Callable[[Record], bytes]
"""Formats one part of a record."""

VALUE_LINES = r"%v\n"
"""The default format."""


def make_formatter(form: str) -> Callable[[Sequence[Record]], bytes]:
    """Formats a sequence of records."""
    parts = parse_format(form)
    if form == VALUE_LINES:
        return _value_lines

    def formatted(records: Sequence[Record]) -> bytes:
        return b"".join([part(record) for record in records for part in parts])

    return formatted


def _value_lines(records: Sequence[Record]) -> bytes:
    """Format values only: the same result as the generic parts, several times as fast."""
    values = [record[5] for record in records]
    try:
        return b"\n".join(values) + b"\n" if values else b""  # type: ignore[arg-type]
    except TypeError:  # there are nulls
        return b"".join([(value or b"") + b"\n" for value in values])


def parse_format(form: str) -> list[Part]:
    """Parse a format into parts."""
    return list(_parts(form))


def _parts(form: str) -> Iterator[Part]:
    for piece in re.findall(r"%\{[^}]*\}?|%.?|[^%]+", form, flags=re.DOTALL):
        if not piece.startswith("%"):
            yield _literal(unescape(piece))
            continue
        field = _FIELDS.get(piece) or _FIELDS.get(re.sub(r"^%\{(.)\}$", r"%\1", piece))
        if field is None:
            raise click.UsageError(f"unknown field {piece!r} in the format: use {' '.join(_FIELDS)}")
        yield field


def _literal(content: bytes) -> Part:
    return lambda _: content


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


def _json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


def headers_as_json(record: Record) -> list[dict[str, Any]]:
    return [{"key": name, "value": bytes_as_json(content)} for name, content in record.headers]


_FIELDS: dict[str, Part] = {
    "%t": lambda record: record.topic.encode(),
    "%p": lambda record: b"%d" % record.partition,
    "%o": lambda record: b"%d" % record.offset,
    "%k": lambda record: record.key or b"",
    "%v": lambda record: record.value or b"",
    "%T": lambda record: iso_time(record.timestamp).encode(),
    "%h": _headers,
    "%%": _literal(b"%"),
    "%{k:hex}": lambda record: (record.key or b"").hex().encode(),
    "%{v:hex}": lambda record: (record.value or b"").hex().encode(),
    "%{k:base64}": lambda record: base64.b64encode(record.key or b""),
    "%{v:base64}": lambda record: base64.b64encode(record.value or b""),
    "%{k:json}": lambda record: _json(bytes_as_json(record.key)),
    "%{v:json}": lambda record: _json(bytes_as_json(record.value)),
    "%{h:json}": lambda record: _json(headers_as_json(record)),
    "%{T:ms}": lambda record: b"%d" % record.timestamp,
}
