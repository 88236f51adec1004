"""Commands that documents, help and error messages tell people to type: they exist, with the flags that are named."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lograft.__main__ import MORE_COMMANDS
from lograft.cli.main import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("broker", "clients", "lograft", "metadata", "raft", "runtime", "storage")

# In backquotes, within a line. What code puts together, {here}, is left out.
_NAMED = re.compile(r"`lograft ([a-z][^`\n]*)`")


def named_commands() -> Iterator[tuple[str, str]]:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    modules = [path for room in ROOMS for path in (ROOT / room).glob("**/*.py")]
    for path in sorted([*documents, *modules]):
        for match in _NAMED.finditer(path.read_text()):
            yield str(path.relative_to(ROOT)), re.sub(r"\{[^}]*\}", "", match[1])


NAMED = sorted(set(named_commands()))


def test_there_are_some() -> None:
    assert len(NAMED) > 50


@pytest.mark.parametrize(("path", "text"), NAMED)
def test_it_exists(path: str, text: str) -> None:
    """`plan|run` stands for each of them."""
    words = text.split()
    for verb in words[0].split("|"):
        lazy = {**COMMANDS, **MORE_COMMANDS}.get(verb)
        assert lazy is not None, f"{path} names `lograft {text}`, and there is no {verb!r}"
        _check(lazy.load(), words[1:])


def _check(command: click.Command, words: list[str]) -> None:
    if isinstance(command, click.Group):
        if not words or words[0] == "...":
            return
        for name in words[0].split("|"):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None, f"`{command.name}` has no {name!r}"
            _check(inner, words[1:])
        return
    known = {
        option
        for parameter in (*command.params, *cli.params)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    flags = [part for word in words for part in word.strip("[]").split("|") if re.match(r"--?[a-z]", part)]
    for flag in flags:
        assert flag.split("=")[0] in known | {"--help"}, f"`{command.name}` has no {flag}"
