"""Parse lines of JSON: objects with key fields, or whole records as `lograft consume -o json` prints them. Pure."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from lograft.cli.common.command_error import CommandError
from lograft.cli.records.input_lines import Lines
from lograft.cli.records.text_input import BadLine, InputColumns, Pairs
from lograft.clients.times import BadTime, Moment, parse_moment
from lograft.clients.types import is_text
from lograft.storage.batch.header import MAX_TIMESTAMP

_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class _Parsed(NamedTuple):
    """The parts of a record that its line contains."""

    value: bytes | None
    key: bytes | None
    timestamp: int | None
    headers: Pairs
    partition: int | None


@dataclass(frozen=True, slots=True)
class JsonLineForm:
    """The line is both the value and a JSON object with the record's key and timestamp as fields."""

    key_field: str | None = None
    timestamp_field: str | None = None
    key: bytes | None = None
    null_value: bytes | None = None
    headers: Pairs = ()
    partition: int | None = None

    def columns(self, lines: Lines, now_ms: int) -> Iterator[InputColumns]:
        return _columns(lines, self._parse, now_ms)

    def _parse(self, line: bytes) -> _Parsed:
        content = _object(line, "remove --key-field and --timestamp-field")
        key = self.key if self.key_field is None else _text(_field(content, self.key_field))
        timestamp = None
        if self.timestamp_field is not None and content.get(self.timestamp_field) is not None:
            timestamp = _time(self.timestamp_field, content[self.timestamp_field])
        value = None if line == self.null_value else line
        return _Parsed(value, key, timestamp, self.headers, self.partition)


@dataclass(frozen=True, slots=True)
class JsonRecordForm:
    """The line is a record: an object with a value and optionally key, headers, timestamp and partition. `headers` are
    added to its own; `partition` overrides its own."""

    partition_count: int
    headers: Pairs = ()
    partition: int | None = None

    def columns(self, lines: Lines, now_ms: int) -> Iterator[InputColumns]:
        return _columns(lines, self._parse, now_ms)

    def _parse(self, line: bytes) -> _Parsed:
        content = _object(line, "remove `--input json`")
        unknown = [name for name in content if name not in _FIELDS]
        if unknown:
            raise BadLine(f"has an unknown field {unknown[0]!r}", f"use {', '.join(_FIELDS)}")
        if "value" not in content:
            raise BadLine("has no value", 'add a field "value", which may be null')
        timestamp = content.get("timestamp")
        return _Parsed(
            _bytes(content["value"]),
            _bytes(content.get("key")),
            None if timestamp is None else _time("timestamp", timestamp),
            (*_headers(content.get("headers")), *self.headers),
            self._place(content.get("partition")) if self.partition is None else self.partition,
        )

    def _place(self, partition: Any) -> int | None:
        if partition is None or (type(partition) is int and 0 <= partition < self.partition_count):
            return partition
        raise BadLine(
            f"has partition {partition!r}, but the topic has 0 to {self.partition_count - 1}",
            "remove the field to partition by key (`jq -c 'del(.partition)'`), or pass --partition",
        )


def _columns(lines: Lines, parse: Callable[[bytes], _Parsed], now_ms: int) -> Iterator[InputColumns]:
    by_partition: dict[int | None, tuple[list[int], list[_Parsed]]] = {}
    bad: CommandError | None = None
    for number, line in enumerate(lines.content, start=lines.first):
        try:
            record = parse(line)
        except BadLine as error:
            bad = error.at(lines, number)
            break
        numbers, records = by_partition.setdefault(record.partition, ([], []))
        numbers.append(number)
        records.append(record)
    for partition, (numbers, records) in by_partition.items():
        yield _joined(numbers, records, partition, now_ms)
    if bad is not None:
        raise bad


def _joined(numbers: list[int], records: list[_Parsed], partition: int | None, now_ms: int) -> InputColumns:
    """Omit a column without values, which would cost time to send."""
    values, keys, timestamps, headers, _ = zip(*records, strict=True)
    has_times = any(each is not None for each in timestamps)
    return InputColumns(
        numbers,
        values,
        keys if any(key is not None for key in keys) else None,
        [now_ms if each is None else each for each in timestamps] if has_times else None,
        headers if any(headers) else None,
        partition,
    )


# -- fields


def _object(line: bytes, otherwise: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except ValueError as error:
        # The position in the line; the caller adds the line's number.
        where = f"{error.msg}, at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise BadLine(f"is not JSON: {where}", f"pass JSON, or {otherwise}") from None
    except RecursionError:
        raise BadLine("is too deeply nested", f"simplify it, or {otherwise}") from None
    if not isinstance(content, dict):
        raise BadLine("is not a JSON object", f"pass objects, or {otherwise}")
    return content


def _field(content: dict[str, Any], name: str) -> Any:
    """Raise for a missing field, which is more likely a typo than a record without a key; null means no key."""
    if name not in content:
        raise BadLine(f"has no field {name!r}", "add it (null for no key), or pass another --key-field")
    return content[name]


def _text(value: Any) -> bytes | None:
    """Return a string as it is, null as None, and other values as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="surrogatepass")  # JSON may contain unpaired surrogates


def _bytes(value: Any) -> bytes | None:
    """Return the same, and also decode `{"base64": ...}`."""
    if isinstance(value, dict) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise BadLine(f"has invalid base64 {value['base64']!r}", "correct it") from None
    return _text(value)


def _time(name: str, value: Any) -> int:
    """Parse milliseconds since 1970, or an absolute time."""
    if type(value) is int and 0 <= value <= MAX_TIMESTAMP:
        return value
    try:
        moment = parse_moment(value, 0) if isinstance(value, str) and value[:1].isdigit() else None
    except BadTime:
        moment = None
    if isinstance(moment, Moment):
        return moment.epoch_ms
    raise BadLine(
        f"has an invalid {name} {value!r}", "use milliseconds since 1970, or a time such as 2026-01-01T00:00Z"
    )


def _headers(value: Any) -> Pairs:
    """Parse headers from a list of pairs or from an object."""
    if value is None:
        return ()
    if isinstance(value, dict):
        value = [{"key": name, "value": content} for name, content in value.items()]
    if isinstance(value, list) and all(isinstance(each, dict) and _is_name(each.get("key")) for each in value):
        return [(each["key"], _bytes(each.get("value"))) for each in value]
    raise BadLine(
        f"has invalid headers {value!r}",
        'use a list such as [{"key": "a", "value": "1"}], or an object such as {"a": "1"}',
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and is_text(value)
