"""`-o jsonpath=...`: select parts of a resource with a template in kubectl's dialect. Pure.

Text is copied, `{.spec.replicas}` is replaced by the values it matches, and `{range .items[*]}...{end}` is repeated for
each match. A missing field is empty, not an error, because resources differ.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Field:
    """A key. As with kubectl, a quoted one may also be a path; a key of that name takes precedence."""

    name: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Every:
    """`*`"""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """`..`: the value and everything in it, at any depth."""


@dataclass(frozen=True, slots=True)
class Slice:
    """`[1:5:2]`. `[2]` and `[-1]` are slices of one element."""

    start: int | None = None
    end: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Union:
    steps: "tuple[Field | Slice, ...]"


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Filter:
    """`[?(left operator right)]`. Without an operator, it matches where `left` exists."""

    left: "Path | Literal"
    operator: str = ""
    right: "Path | Literal | None" = None


Step: TypeAlias = Field | Every | Everywhere | Slice | Union | Filter


@dataclass(frozen=True, slots=True)
class Path:
    """`is_absolute`: starts at the root (`$`), not at the current element of a range or filter."""

    steps: tuple[Step, ...]
    is_absolute: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    path: Path
    body: "Template"


Template: TypeAlias = tuple[Text | Path | Range, ...]

OPERATORS = ("==", "!=", "<=", ">=", "<", ">")


def render(template: Template, content: Any) -> str:
    return "".join(_render(template, content, content))


def _render(template: Template, root: Any, current: Any) -> Iterator[str]:
    for part in template:
        match part:
            case Text(text):
                yield text
            case Path():
                yield " ".join(map(_written, find(part, root, current)))
            case Range(path, body):
                for each in find(path, root, current):
                    yield from _render(body, root, each)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def find(path: Path, root: Any, current: Any) -> list[Any]:
    """Return all values that the path matches."""
    values = [root if path.is_absolute else current]
    for step in path.steps:
        values = [found for value in values for found in _step(step, value, root)]
    return values


def _step(step: Step, value: Any, root: Any) -> Sequence[Any]:
    match step:
        case Field():
            return _field(step, value)
        case Every():
            return _inner(value)
        case Everywhere():
            return list(_descend(value))
        case Slice():
            return value[step.start : step.end : step.step] if isinstance(value, list) else []
        case Union(steps):
            return [found for each in steps for found in _step(each, value, root)]
        case Filter():
            return [each for each in value if _passes(step, root, each)] if isinstance(value, list) else []


def _field(field: Field, value: Any) -> Sequence[Any]:
    if not isinstance(value, dict):
        return []
    if field.name in value:
        return [value[field.name]]
    if not field.is_quoted:
        return []
    for name in field.name.split("."):
        if not isinstance(value, dict) or name not in value:
            return []
        value = value[name]
    return [value]


def _inner(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for each in _inner(value):
        yield from _descend(each)


def _passes(condition: Filter, root: Any, each: Any) -> bool:
    lefts = _values(condition.left, root, each)
    if condition.right is None:
        return bool(lefts)
    rights = _values(condition.right, root, each)
    return bool(lefts and rights) and _compare(lefts[0], condition.operator, rights[0])


def _values(side: Path | Literal, root: Any, each: Any) -> Sequence[Any]:
    return [side.value] if isinstance(side, Literal) else find(side, root, each)


def _compare(left: Any, operator: str, right: Any) -> bool:
    # In Python True equals 1; in JSON it does not.
    is_same = left == right and isinstance(left, bool) == isinstance(right, bool)
    if operator in ("==", "!="):
        return is_same == (operator == "==")
    if not (_is_number(left) and _is_number(right)) and not (isinstance(left, str) and isinstance(right, str)):
        return False
    match operator:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
