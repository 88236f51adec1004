"""Configuration keys: accepted values, their stored spelling, and defaults. Pure."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.observability.log_levels import ACCEPTS, normal_levels

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

# In ASCII alone, and short: `int` and `float` would take much more than a configuration should mean.
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_RATIO = re.compile(r"([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE]-?[0-9]{1,3})?")

_SHOWN_CHARACTERS = 60
_SHOWN_PROBLEMS = 5


class Kind(Protocol):
    """A type of value. `normalise` returns the stored spelling of an acceptable value, or None for any other text;
    `accepts` describes acceptable values to a person."""

    @property
    def name(self) -> str: ...

    @property
    def accepts(self) -> str: ...

    def normalise(self, text: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Flag:
    name: str = "boolean"
    accepts: str = "true or false"

    def normalise(self, text: str) -> str | None:
        lowered = text.lower()
        return lowered if lowered in ("true", "false") else None


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within two inclusive bounds. `note` explains a special value."""

    lowest: int
    highest: int
    note: str = ""
    name: str = "integer"

    @property
    def accepts(self) -> str:
        bounds = f"a whole number from {self.lowest} to {self.highest}"
        return f"{bounds} ({self.note})" if self.note else bounds

    def normalise(self, text: str) -> str | None:
        if not _WHOLE.fullmatch(text) or not self.lowest <= int(text) <= self.highest:
            return None
        return str(int(text))


@dataclass(frozen=True, slots=True)
class Ratio:
    name: str = "ratio"
    accepts: str = "a number from 0 to 1"

    def normalise(self, text: str) -> str | None:
        if not _RATIO.fullmatch(text) or not 0 <= float(text) <= 1:
            return None
        return repr(float(text))


@dataclass(frozen=True, slots=True)
class OneOf:
    """One word of a list, in any case. A `synonym` is accepted, too, and stored as the word it stands for."""

    choices: tuple[str, ...]
    synonyms: tuple[tuple[str, str], ...] = ()
    name: str = "choice"

    @property
    def accepts(self) -> str:
        return f"one of {', '.join(self.choices)}"

    def normalise(self, text: str) -> str | None:
        spellings = {choice.lower(): choice for choice in self.choices}
        return dict(self.synonyms).get(text.lower()) or spellings.get(text.lower())


@dataclass(frozen=True, slots=True)
class SomeOf:
    """One or more words of a list, separated by commas; stored in the order of `choices`."""

    choices: tuple[str, ...]
    name: str = "list"

    @property
    def accepts(self) -> str:
        return f"one or more of {', '.join(self.choices)}, with commas between"

    def normalise(self, text: str) -> str | None:
        words = [word.strip().lower() for word in text.split(",")]
        if any(word not in self.choices for word in words):
            return None
        return ",".join(choice for choice in self.choices if choice in words)


@dataclass(frozen=True, slots=True)
class LogLevels:
    name: str = "log levels"
    accepts: str = ACCEPTS

    def normalise(self, text: str) -> str | None:
        return normal_levels(text)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """`default` is in the stored spelling; None if it depends on the resource."""

    name: str
    kind: Kind
    default: str | None
    description: str


def by_name(*keys: ConfigKey) -> dict[str, ConfigKey]:
    return {key.name: key for key in keys}


def check_changes(
    keys: Mapping[str, ConfigKey], changes: Mapping[str, str | None], owner: str
) -> dict[str, str | None]:
    """Return the changes with values in their stored spelling, in order. Raise INVALID_CONFIG that names every unknown
    key and every unacceptable value. None, which resets a key to its default, is acceptable for every key.

    `owner` names the configured thing, such as "a topic". White space around a value is ignored.
    """
    normal: dict[str, str | None] = {}
    problems: list[str] = []
    for name, value in sorted(changes.items()):
        key = keys.get(name)
        if key is None:
            problems.append(_unknown_key(keys, name, owner))
            continue
        normal[name] = key.kind.normalise(value.strip()) if value is not None else None
        if value is not None and normal[name] is None:
            problems.append(f"{name} cannot be {_shown(value)}: expected {key.kind.accepts}")
    _refuse(problems)
    return normal


def check_keys(keys: Mapping[str, ConfigKey], names: Iterable[str], owner: str) -> None:
    """Raise INVALID_CONFIG unless all `names` are keys."""
    check_changes(keys, dict.fromkeys(names), owner)


def _refuse(problems: list[str]) -> None:
    if not problems:
        return
    left_out = len(problems) - _SHOWN_PROBLEMS
    more = [f"and {left_out} more"] if left_out > 0 else []
    raise ControllerError(errors_pb2.INVALID_CONFIG, "; ".join(problems[:_SHOWN_PROBLEMS] + more))


def _unknown_key(keys: Mapping[str, ConfigKey], name: str, owner: str) -> str:
    # A long name is like none of ours, and comparing it costs its length squared.
    near = difflib.get_close_matches(name.strip().lower(), keys, n=1) if len(name) <= _SHOWN_CHARACTERS else []
    remedy = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(sorted(keys))}"
    return f"{owner} has no key {_shown(name)}: {remedy}"


def _shown(text: str) -> str:
    return ascii(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!a}..."
