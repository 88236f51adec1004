"""Serializers and deserializers for keys and values that are not bytes. Pure.

They are never called with None: a missing key stays missing, and a value of None is a tombstone in every topic.
"""

import json
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from lograft.clients.errors import DeserializationError, InvalidArgument, SerializationError

Serializer: TypeAlias = Callable[[str, Any], bytes | None]
"""(topic, key or value) to bytes."""

Deserializer: TypeAlias = Callable[[str, bytes], Any]
"""(topic, bytes) to a key or value."""

_Named: TypeAlias = Literal["bytes", "string", "json"]

SerializerOption: TypeAlias = _Named | Serializer | None
"""How users choose one: `"bytes"` (same as None), `"string"`, `"json"`, or a function."""

DeserializerOption: TypeAlias = _Named | Deserializer | None


def _string_to_bytes(_topic: str, text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"it is of type {type(text).__name__}: give a string, or None")
    return text.encode()


def _json_to_bytes(_topic: str, value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _bytes_to_string(_topic: str, data: bytes) -> str:
    return data.decode()


def _bytes_to_json(_topic: str, data: bytes) -> Any:
    return json.loads(data)


_SERIALIZERS: dict[str, Serializer | None] = {"bytes": None, "string": _string_to_bytes, "json": _json_to_bytes}
_DESERIALIZERS: dict[str, Deserializer | None] = {"bytes": None, "string": _bytes_to_string, "json": _bytes_to_json}


def find_serializer(option: str, given: SerializerOption) -> Serializer | None:
    """Return the serializer chosen by the option named `option`, or None if bytes are passed through. Raise
    `InvalidArgument` for an unknown one."""
    return given if callable(given) else _named(option, given, _SERIALIZERS)


def find_deserializer(option: str, given: DeserializerOption) -> Deserializer | None:
    """Return the deserializer chosen by the option named `option`, like `find_serializer`."""
    return given if callable(given) else _named(option, given, _DESERIALIZERS)


def _named(option: str, given: object, known: dict[str, Any]) -> Any:
    if given is None:
        return None
    if not isinstance(given, str) or given not in known:
        raise InvalidArgument(f"{option} is {given!r}: give {', '.join(map(repr, known))}, a function, or None")
    return known[given]


def serialize(serializer: Serializer | None, topic: str, part: str, value: Any) -> bytes | None:
    """Return `value` as bytes. `part`: whether it is the `key` or the `value` of a record. Raise `SerializationError`
    if the serializer fails or returns anything but bytes or None."""
    if serializer is None or value is None:
        return value  # type: ignore[no-any-return]
    try:
        data = serializer(topic, value)
    except Exception as error:
        raise SerializationError(f"the {part} of a record for topic {topic!r}: {_reason(error)}", part=part) from error
    if data is not None and not isinstance(data, bytes):
        raise SerializationError(
            f"the {part} of a record for topic {topic!r}: the serializer gave {type(data).__name__}, not bytes",
            part=part,
        )
    return data


def deserialize(
    deserializer: Deserializer | None, topic: str, part: str, data: bytes | None, partition: int, offset: int
) -> Any:
    """Return the object for `data`, the `key` or the `value` of the record at this position. Raise
    `DeserializationError`, naming the position, if the deserializer fails."""
    if deserializer is None or data is None:
        return data
    try:
        return deserializer(topic, data)
    except Exception as error:
        raise DeserializationError(
            f"the {part} of the record at offset {offset} of {topic}-{partition}: {_reason(error)}",
            topic=topic,
            partition=partition,
            offset=offset,
            part=part,
        ) from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
