"""The group that all commands hang from: how they are found, and how they fail."""

import click
import pytest
from click.testing import CliRunner

from lograft.__main__ import MORE_COMMANDS
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.lazy_group import LazyCommand, LazyGroup
from lograft.cli.main import COMMANDS, SECTIONS


@click.command()
def bug() -> None:
    raise KeyError("a bug")


@click.command()
def refusal() -> None:
    raise CommandError("the disk is full", "make room")


@click.group(
    cls=LazyGroup,
    lazy_commands={"absent": LazyCommand("lograft.no_such_module:command", "Never imported by help.")},
)
@click.option("--debug", is_flag=True)
def group(debug: bool) -> None:
    """A group."""


group.add_command(bug)
group.add_command(refusal)


def test_a_refusal_is_a_cause_and_a_remedy() -> None:
    result = CliRunner().invoke(group, ["refusal"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: the disk is full\nRemedy: make room\n"


def test_a_bug_shows_no_traceback_unless_debug_asks_for_it() -> None:
    result = CliRunner().invoke(group, ["bug"])
    assert result.exit_code == 1
    assert "Error: unexpected KeyError: 'a bug'" in result.stderr
    assert "--debug" in result.stderr
    debugged = CliRunner().invoke(group, ["--debug", "bug"])
    assert isinstance(debugged.exception, KeyError)


def test_help_imports_no_command() -> None:
    result = CliRunner().invoke(group, ["--help"])
    assert result.exit_code == 0
    assert "Never imported by help." in result.output


@pytest.mark.parametrize(("typed", "meant"), [("bgu", "'bug'"), ("refusals", "'refusal'")])
def test_a_mistyped_command_is_answered_with_the_close_ones(typed: str, meant: str) -> None:
    result = CliRunner().invoke(group, [typed])
    assert result.exit_code == 2
    assert f"Did you mean {meant}?" in result.stderr


def test_help_has_every_command_in_one_section() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted({**COMMANDS, **MORE_COMMANDS})


@click.group("outer")
def outer() -> None:
    """A group of a command."""


@outer.command("inner")
def inner() -> None:
    """What it does is said in a sentence that is much longer than a line of help would be, and ends here. No more."""


def test_what_help_says_of_a_command_is_a_whole_sentence() -> None:
    result = CliRunner().invoke(LazyCommand(f"{__name__}:outer", "").load(), ["--help"])
    assert "a line of help would be, and ends here." in " ".join(result.stdout.split())
    assert "No more" not in result.stdout
