"""Resource types by any of their names: singular, plural, short. Pure."""

import difflib
from collections.abc import Sequence
from enum import Enum

import click


class Noun(Enum):
    TOPIC = "topic"
    PARTITION = "partition"
    BROKER = "broker"
    GROUP = "group"
    QUORUM = "quorum"
    CONFIG = "config"
    REASSIGNMENT = "reassignment"
    CONTEXT = "context"
    NODE = "node"
    CLUSTER = "cluster"


_NAMES = {
    Noun.TOPIC: ("topic", "topics", "t"),
    Noun.PARTITION: ("partition", "partitions", "p"),
    Noun.BROKER: ("broker", "brokers", "b"),
    Noun.GROUP: ("group", "groups", "g"),
    Noun.QUORUM: ("quorum",),
    Noun.CONFIG: ("config", "configs"),
    Noun.REASSIGNMENT: ("reassignment", "reassignments"),
    Noun.CONTEXT: ("context", "contexts"),
    Noun.NODE: ("node", "nodes"),
    Noun.CLUSTER: ("cluster",),
}
ALL = "all"
CLUSTER = "cluster"
"""The owner of configuration if none is named."""

_MAX_ID = 2**31 - 1
_BY_NAME = {name: noun for noun, names in _NAMES.items() for name in names}


def parse_nouns(words: Sequence[str], allowed: Sequence[Noun]) -> tuple[Noun, list[str]]:
    """Parse `topics a b` or `topic/a topic/b` into a noun and names."""
    first, *rest = words
    if "/" not in first:
        noun = _noun(first, allowed)
        return noun, [_bare(noun, word) for word in rest]
    nouns, names = [], []
    for word in words:
        kind, separator, name = word.partition("/")
        if not separator or not name:
            raise click.UsageError(
                f"{word!r} is not TYPE/NAME, but {first!r} is: use TYPE/NAME for all resources or for none"
            )
        nouns.append(_noun(kind, allowed))
        names.append(name)
    if len(set(nouns)) > 1:
        raise click.UsageError(
            "only one resource type at a time is supported: "
            + " and ".join(noun.value for noun in dict.fromkeys(nouns))
        )
    return nouns[0], names


def parse_types(words: Sequence[str], allowed: Sequence[Noun], every: Sequence[Noun]) -> list[Noun]:
    """Parse `topics,brokers`, or `all`, which stands for `every`. Return nothing if `words` name a single type."""
    first, *names = words
    if "/" in first or ("," not in first and first.lower() != ALL):
        return []
    if names:
        raise click.UsageError(f"several resource types cannot be combined with names: remove {' '.join(names)!r}")
    kinds = [kind for kind in first.split(",") if kind]
    nouns = [noun for kind in kinds for noun in (every if kind.lower() == ALL else [_noun(kind, allowed)])]
    return list(dict.fromkeys(nouns))


def _bare(noun: Noun, word: str) -> str:
    """Treat `topics topic/a` as `topics a`, for types whose names contain no slash."""
    kind, separator, name = word.partition("/")
    is_typed = bool(separator and name) and noun_of(kind) is noun
    return name if is_typed and noun in (Noun.TOPIC, Noun.PARTITION, Noun.BROKER, Noun.NODE, Noun.CONTEXT) else word


def names_like(name: str) -> tuple[str, ...]:
    """Return all names of the noun `name` (singular, plural, short), or none if it is unknown."""
    noun = noun_of(name)
    return _NAMES[noun] if noun is not None else ()


def noun_of(word: str) -> Noun | None:
    return _BY_NAME.get(word.lower())


def names_of(noun: Noun) -> tuple[str, ...]:
    """Return the singular, plural and short names that exist."""
    return _NAMES[noun]


def _noun(word: str, allowed: Sequence[Noun]) -> Noun:
    noun = noun_of(word)
    if noun is not None and noun in allowed:
        return noun
    known = [name for each in allowed for name in _NAMES[each]]
    close = difflib.get_close_matches(word.lower(), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(known)}"
    raise click.UsageError(f"unknown resource type {word!r}: {hint}")


def check_names(noun: Noun, names: Sequence[str]) -> None:
    """Raise `UsageError` for brokers that are not named by id, or several quorums."""
    if noun is Noun.CLUSTER and names:
        raise click.UsageError(f"the cluster takes no name: remove {names[0]!r}")
    if noun is Noun.QUORUM and len(names) > 1:
        raise click.UsageError(f"there is only one quorum: remove {names[1]!r}")
    for name in names if noun in (Noun.BROKER, Noun.NODE) else ():
        parse_id(name, noun.value)


def check_quorum(names: Sequence[str], own: str) -> None:
    """Raise `UsageError` if the quorum is named, but not as `get -o name` prints it."""
    for name in names:
        if name != own:
            raise click.UsageError(f"there is only one quorum, {own!r}: remove {name!r}")


def parse_id(text: str, kind: str = "broker") -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > _MAX_ID:
        raise click.UsageError(f"{text!r} is not a {kind} id: use a number")
    return int(text)
