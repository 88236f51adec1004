"""Converts history entries to plain JSON and back. Pure.

The format follows the dataclasses: the class name (in "is") and the fields that differ from their defaults; a tuple as
a list; a partition as [topic, number].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from lograft.chaos.history.entries import (
    COMPLETIONS,
    EVENTS,
    OPERATIONS,
    CommittedOffset,
    Moment,
    PolledPartition,
    StoredRecord,
    ToldEnd,
)
from lograft.clients.types import TopicPartition

_CLASSES: Mapping[str, type] = {
    one.__name__: one
    for one in (*OPERATIONS, *EVENTS, *COMPLETIONS, Moment, CommittedOffset, PolledPartition, StoredRecord, ToldEnd)
}
_BARE = (Moment, StoredRecord, CommittedOffset)  # frequent, so encoded as lists of their fields


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    default: object
    decode: Callable[[Any], object]


def to_json(value: Any) -> Any:
    """Return a value that `json.dumps` accepts."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _BARE):
        return [to_json(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    name = type(value).__name__
    if name in _FIELDS:
        told = [(each, getattr(value, each.name)) for each in _FIELDS[name]]
        return {"is": name} | {each.name: to_json(one) for each, one in told if one != each.default}
    assert value is None or isinstance(value, str | int), f"{value!r} has no form"
    return value


def from_json(found: Any) -> Any:
    """Decode an entry or a completion. Raise `ValueError` if `found` is neither."""
    if not isinstance(found, dict) or found.get("is") not in _CLASSES:
        raise ValueError(f"neither an entry nor a completion: {str(found)[:80]}")
    kind = _CLASSES[found["is"]]
    known = {each.name: each for each in _FIELDS[kind.__name__]}
    names = [name for name in found if name != "is"]
    if strange := [name for name in names if name not in known]:
        raise ValueError(f"{kind.__name__} has no {strange[0]}")
    try:
        return kind(**{name: known[name].decode(found[name]) for name in names})
    except (TypeError, AssertionError) as error:
        raise ValueError(f"not a whole {kind.__name__}: {error}") from error


def _fields_of(kind: type) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    return tuple(_Field(each.name, each.default, _decoder(hints[each.name])) for each in fields(kind))


def _decoder(hint: Any) -> Callable[[Any], object]:
    if get_origin(hint) in (Union, UnionType):
        inner = [each for each in get_args(hint) if each is not type(None)]
        decode = _decoder(inner[0]) if len(inner) == 1 else from_json
        return lambda found: None if found is None else decode(found)
    if get_origin(hint) is tuple:
        decode_one = _decoder(get_args(hint)[0])
        return lambda found: tuple(decode_one(each) for each in _checked(found, list))
    if hint is TopicPartition:
        return lambda found: TopicPartition(_checked(found[0], str), _checked(found[1], int))
    if hint in _BARE:
        return lambda found: _bare(hint, found)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if hint in (str, int, bool):
        return lambda found: _checked(found, hint)
    return from_json


def _bare(kind: type, found: Any) -> object:
    known = _FIELDS[kind.__name__]
    if len(_checked(found, list)) != len(known):
        raise ValueError(f"not a {kind.__name__}: {found}")
    return kind(*[each.decode(one) for each, one in zip(known, found, strict=True)])


def _checked(found: Any, kind: type) -> Any:
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise ValueError(f"{found!r} is not a {kind.__name__}")
    return found


_FIELDS = {name: _fields_of(kind) for name, kind in _CLASSES.items()}

COMPLETIONS_OF: Mapping[str, tuple[type, ...]] = {
    kind.__name__: get_args(get_type_hints(kind)["completion"]) for kind in OPERATIONS
}
"""The completions that each operation allows, by its name."""
