"""What commands are about: topics, partitions, brokers and so on, by any of their names. Pure."""

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


_NAMES = {
    Noun.TOPIC: ("topic", "topics", "t"),
    Noun.PARTITION: ("partition", "partitions", "p"),
    Noun.BROKER: ("broker", "brokers", "b"),
    Noun.GROUP: ("group", "groups", "g"),
    Noun.QUORUM: ("quorum",),
    Noun.CONFIG: ("config", "configs"),
    Noun.REASSIGNMENT: ("reassignment", "reassignments"),
    Noun.CONTEXT: ("context", "contexts"),
}
CLUSTER = "cluster"
"""Whose configuration it is if nobody is named."""

_MAX_ID = 2**31 - 1
_BY_NAME = {name: noun for noun, names in _NAMES.items() for name in names}


def parse_nouns(words: Sequence[str], allowed: Sequence[Noun]) -> tuple[Noun, list[str]]:
    """`topics a b`, or `topic/a topic/b`: what is meant, and the names."""
    first, *rest = words
    if "/" not in first:
        noun = _noun(first, allowed)
        return noun, [_bare(noun, word) for word in rest]
    nouns, names = [], []
    for word in words:
        kind, separator, name = word.partition("/")
        if not separator or not name:
            raise click.UsageError(f"{word!r} is not TYPE/NAME, as {first!r} is: name all of them so, or none")
        nouns.append(_noun(kind, allowed))
        names.append(name)
    if len(set(nouns)) > 1:
        raise click.UsageError("one kind at a time: " + " and ".join(noun.value for noun in dict.fromkeys(nouns)))
    return nouns[0], names


def _bare(noun: Noun, word: str) -> str:
    """`topics topic/a` means `topics a`, where no name can have a slash in it."""
    kind, separator, name = word.partition("/")
    is_typed = bool(separator and name) and noun_of(kind) is noun
    return name if is_typed and noun in (Noun.TOPIC, Noun.PARTITION, Noun.BROKER, Noun.CONTEXT) else word


def names_like(name: str) -> tuple[str, ...]:
    """All names of the noun that is called so: singular, plural, short. None, if there is no such noun."""
    noun = noun_of(name)
    return _NAMES[noun] if noun is not None else ()


def noun_of(word: str) -> Noun | None:
    return _BY_NAME.get(word.lower())


def names_of(noun: Noun) -> tuple[str, ...]:
    """Singular, plural, short; as far as there are such."""
    return _NAMES[noun]


def _noun(word: str, allowed: Sequence[Noun]) -> Noun:
    noun = noun_of(word)
    if noun is not None and noun in allowed:
        return noun
    known = [name for each in allowed for name in _NAMES[each]]
    close = difflib.get_close_matches(word.lower(), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it can be {', '.join(known)}"
    raise click.UsageError(f"No such thing as {word!r} here: {hint}")


def check_names(noun: Noun, names: Sequence[str]) -> None:
    """Brokers are named by their ids, and the quorum is the only one."""
    if noun is Noun.QUORUM and len(names) > 1:
        raise click.UsageError(f"there is only one quorum: leave {names[1]!r} out")
    for name in names if noun is Noun.BROKER else ():
        parse_id(name)


def check_quorum(names: Sequence[str], own: str) -> None:
    """It need not be named; if it is, then as `get -o name` does it."""
    for name in names:
        if name != own:
            raise click.UsageError(f"there is only one quorum, {own!r}: leave {name!r} out")


def parse_id(text: str, kind: str = "broker") -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > _MAX_ID:
        raise click.UsageError(f"{text!r} is not the id of a {kind}: give a number")
    return int(text)
