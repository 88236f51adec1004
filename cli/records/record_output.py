"""Write records to standard output: values, formatted, or as JSON."""

import errno
import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import TextIO

from lograft.cli.dump.json_output import bytes_as_json
from lograft.cli.output.escapes import harmless, harmless_json
from lograft.cli.records.format_string import VALUE_LINES, headers_as_json, make_formatter
from lograft.runtime.process.standard_streams import is_reader_gone
from lograft.storage.batch.codec import Record


class RecordWriter:
    """Writes bytes unchanged, except to a terminal, where bytes that are not text are escaped."""

    def __init__(
        self, out: TextIO, formatted: Callable[[Sequence[Record]], bytes], shown: Callable[[bytes], str]
    ) -> None:
        self._out = out
        self._formatted = formatted
        self._shown = shown
        self._is_terminal = out.isatty()

    def write(self, records: Sequence[Record]) -> None:
        """Write and flush the records."""
        content = self._formatted(records)
        if self._is_terminal:
            self._out.write(self._shown(content))
        else:
            self._out.buffer.write(content)
        self._out.flush()

    def check_reader(self) -> None:
        """Raise `BrokenPipeError` if the output is closed, which the next write would notice too late."""
        if is_reader_gone(self._out):
            raise BrokenPipeError(errno.EPIPE, "the output was closed")


def make_writer(out: TextIO, form: str | None, *, is_json: bool) -> RecordWriter:
    if is_json:
        return RecordWriter(out, json_lines, lambda content: harmless_json(content.decode()))
    return RecordWriter(out, make_formatter(VALUE_LINES if form is None else form), harmless)


def json_lines(records: Sequence[Record]) -> bytes:
    """Format records as one JSON object per line."""
    return "".join(map(_json_line, records)).encode()


def _json_line(record: Record) -> str:
    """Format as `json.dumps` would, in a third of the time."""
    topic, partition, offset, timestamp, key, value, headers = record
    shown_headers = json.dumps(headers_as_json(record), ensure_ascii=False) if headers else "[]"
    return (
        f'{{"topic": {encode_basestring(topic)}, "partition": {partition}, "offset": {offset}, '
        f'"timestamp": {timestamp}, "key": {_json(key)}, "value": {_json(value)}, "headers": {shown_headers}}}\n'
    )


def _json(content: bytes | None) -> str:
    if content is None:
        return "null"
    if content.isascii():
        text = content.decode()
        if text.isprintable():
            return encode_basestring(text)
    return json.dumps(bytes_as_json(content), ensure_ascii=False)
