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


_NAMES = {
    Noun.TOPIC: ("topic", "topics", "t"),
    Noun.PARTITION: ("partition", "partitions", "p"),
    Noun.BROKER: ("broker", "brokers", "b"),
    Noun.GROUP: ("group", "groups", "g"),
    Noun.QUORUM: ("quorum",),
    Noun.CONFIG: ("config", "configs"),
    Noun.REASSIGNMENT: ("reassignment", "reassignments"),
}
_MAX_ID = 2**31 - 1
_BY_NAME = {name: noun for noun, names in _NAMES.items() for name in names}


def parse_nouns(words: Sequence[str], allowed: Sequence[Noun]) -> tuple[Noun, list[str]]:
    """`topics a b`, or `topic/a topic/b`: what is meant, and the names."""
    first, *rest = words
    if "/" not in first:
        return _noun(first, allowed), list(rest)
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


def _noun(word: str, allowed: Sequence[Noun]) -> Noun:
    noun = _BY_NAME.get(word.lower())
    if noun is not None and noun in allowed:
        return noun
    known = [name for each in allowed for name in _NAMES[each]]
    close = difflib.get_close_matches(word.lower(), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it can be {', '.join(known)}"
    raise click.UsageError(f"No such thing as {word!r} here: {hint}")


def check_names(noun: Noun, names: Sequence[str]) -> None:
    """Brokers are named by their ids, and the quorum is the only one."""
    if noun is Noun.QUORUM and names:
        raise click.UsageError(f"there is only one quorum: leave {names[0]!r} out")
    for name in names if noun is Noun.BROKER else ():
        parse_id(name)


def parse_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > _MAX_ID:
        raise click.UsageError(f"{text!r} is not the id of a broker: give a number")
    return int(text)
