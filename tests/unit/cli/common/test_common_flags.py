"""The common flags, of every command there is: before the verb or after it they mean the same, or are refused alike."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from lograft.__main__ import MORE_COMMANDS
from lograft.cli.common.cluster_options import Settings, command_flags
from lograft.cli.common.common_flags import COMMON, DOCUMENTS, FORMATS, check_format
from lograft.cli.common.lazy_group import LazyGroup
from lograft.cli.main import COMMANDS, cli


class Takes(NamedTuple):
    """What of the common flags a command has a use for."""

    formats: tuple[str, ...] = ()
    titles: bool = False
    watch: bool = False
    cluster: bool = True


NOTHING = Takes(cluster=False)
CLUSTER = Takes()
SHOWING = Takes(FORMATS, titles=True)
WATCHING = Takes(FORMATS, titles=True, watch=True)
CHANGING = Takes(FORMATS)

EXPECTED = {
    "api-resources": SHOWING,
    "apply": CHANGING,
    "bench consume": SHOWING,
    "bench latency": SHOWING,
    "bench produce": SHOWING,
    "completion": NOTHING,
    "config set": CHANGING,
    "config unset": CHANGING,
    "consume": Takes(("table", "json")),
    "context current": NOTHING,
    "context delete": Takes(("name",), cluster=False),
    "context list": Takes(FORMATS, titles=True, watch=True, cluster=False),
    "context set": Takes(FORMATS, cluster=False),
    "context show": Takes(FORMATS, titles=True, cluster=False),
    "context use": Takes(FORMATS, cluster=False),
    "create": CHANGING,
    "delete": Takes(("name",)),
    "describe": SHOWING,
    "dev down": NOTHING,
    "dev kill": NOTHING,
    "dev logs": Takes(("table", "json"), cluster=False),
    "dev pause": NOTHING,
    "dev restart": NOTHING,
    "dev resume": NOTHING,
    "dev status": Takes(FORMATS, titles=True, cluster=False),
    "dev up": NOTHING,
    "diff": CLUSTER,
    "drain": CHANGING,
    "dump-log": Takes(("table", "json"), cluster=False),
    "edit": CHANGING,
    "elect leaders": CHANGING,
    "explain": CLUSTER,
    "export groups": Takes(("yaml", "json")),
    "export topics": Takes(("yaml", "json", "jsonpath=TEMPLATE")),
    "get": WATCHING,
    "health": Takes(("table", "wide", *DOCUMENTS)),
    "import": SHOWING,
    "mark-restored": NOTHING,
    "offsets": SHOWING,
    "produce": CLUSTER,
    "quorum add": CHANGING,
    "quorum remove": CHANGING,
    "quorum replace": CHANGING,
    "quorum transfer": CHANGING,
    "reassign cancel": CHANGING,
    "reassign plan": SHOWING,
    "reassign run": CHANGING,
    "reassign status": WATCHING,
    "reset": SHOWING,
    "scale": CHANGING,
    "chaos campaign": NOTHING,
    "chaos list": NOTHING,
    "chaos run": NOTHING,
    "chaos simulate": Takes(("table", "json"), cluster=False),
    "server": NOTHING,
    "top": Takes(("table", "wide", *DOCUMENTS), titles=True),
    "verify": SHOWING,
    "version": Takes(("table", *DOCUMENTS), cluster=False),
    "wait": CHANGING,
}

GIVEN: dict[str, list[list[str]]] = {
    "bootstrap": [["--bootstrap", "h:1"]],
    "context": [["--context", "prod"]],
    "timeout": [["--timeout", "7s"]],
    "output": [[flag, each.replace("TEMPLATE", "{.kind}")] for each in FORMATS for flag in ("-o", "--output")],
    "no_headers": [["--no-headers"]],
    "watch": [["-w"], ["--watch"]],
}


@pytest.fixture(autouse=True)
def with_server() -> None:
    assert isinstance(cli, LazyGroup)
    cli.add_lazy(MORE_COMMANDS)


def leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        inner = command.get_command(ctx, name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


LEAVES = {
    " ".join(path): command
    for name, lazy in {**COMMANDS, **MORE_COMMANDS}.items()
    for path, command in leaves(lazy.load(), (name,))
}


def accepts(takes: Takes, name: str, value: str) -> bool:
    match name:
        case "output":
            return value in [each.replace("TEMPLATE", "{.kind}") for each in takes.formats]
        case "no_headers":
            return takes.titles
        case "watch":
            return takes.watch
    return takes.cluster


def test_every_command_is_in_the_table() -> None:
    assert set(LEAVES) == set(EXPECTED)


@pytest.mark.parametrize("path", LEAVES)
def test_a_flag_means_the_same_before_and_after_the_verb_or_is_refused_in_both_places(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    command = LEAVES[path]
    # Nothing is done, and nothing but the flags has to be given.
    monkeypatch.setattr(command, "callback", lambda **params: seen.append(params))
    own = [each for each in command.params if each.required and each.name not in COMMON]
    for each in own:
        monkeypatch.setattr(each, "required", False)
    takes, words = EXPECTED[path], path.split()
    if path == "context set":
        words += ["--bootstrap", "own:1"]

    def outcome(arguments: list[str], name: str) -> tuple[int, str | None, Any]:
        """The exit code, why it was refused, and what the flag comes to."""
        seen.clear()
        result = CliRunner().invoke(cli, arguments)
        message = result.stderr.splitlines()[-1] if result.exit_code else None
        return result.exit_code, message, seen[0].get(name) if seen else None

    for name, ways in GIVEN.items():
        if path == "context set" and name == "bootstrap":
            continue  # its own: see below
        for given in ways:
            before, after = outcome([*given, *words], name), outcome([*words, *given], name)
            assert before == after, given
            exit_code, message, value = before
            if accepts(takes, name, given[-1]):
                assert (exit_code, value) == (0, True if len(given) == 1 else given[1]), given
            else:
                assert exit_code == 2
                assert message is not None
                if name == "output" and takes.formats:
                    assert message.endswith(f"is not supported here: use {', '.join(takes.formats)}")
                else:
                    assert "does not apply" in message


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, arguments, env=environment)


def test_what_is_set_for_others_by_a_variable_does_not_disturb(tmp_path: Any) -> None:
    assert run("completion", "bash", LOGRAFT_BOOTSTRAP="h:1").exit_code == 0
    file = str(tmp_path / "config.yaml")
    refused = run("context", "set", "prod", LOGRAFT_BOOTSTRAP="h:1", LOGRAFT_CONFIG=file)
    assert (refused.exit_code, "Missing option '--bootstrap'" in refused.stderr) == (2, True)


def test_where_a_context_is_may_be_said_before_the_verb_too(tmp_path: Any) -> None:
    file = str(tmp_path / "config.yaml")
    assert run("--bootstrap", "h:1", "context", "set", "prod", LOGRAFT_CONFIG=file).stdout == "context/prod created\n"
    shown = run("context", "show", "prod", "-o", "jsonpath={.spec.bootstrap}", LOGRAFT_CONFIG=file)
    assert shown.stdout.strip() == "h:1"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Settings("localhost:9092", 30_000, 5000)),
        (["-o", "name", "--timeout", "2s"], Settings("localhost:9092", 2000, None, "name")),
        (["--bootstrap", "h:1", "--no-headers", "-w"], Settings("h:1", 30_000, 5000, "table", False, None, True)),
    ],
)
def test_what_a_command_is_told_of_them(
    arguments: list[str], expected: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    told: list[Settings] = []

    @click.command("try")
    @command_flags(*FORMATS, has_titles=True, can_watch=True)
    def try_it(settings: Settings) -> None:
        told.append(settings)

    monkeypatch.setenv("LOGRAFT_CONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("LOGRAFT_BOOTSTRAP", raising=False)
    monkeypatch.setitem(cli.commands, "try", try_it)
    for given in ([*arguments, "try"], ["try", *arguments]):
        assert run(*given).exit_code == 0
    assert told == [expected, expected]


def test_of_one_that_is_given_twice_the_one_after_the_verb_counts(tmp_path: Any) -> None:
    both = run("-o", "json", "context", "list", "-o", "name", LOGRAFT_CONFIG=str(tmp_path / "none"))
    assert (both.exit_code, both.stdout) == (0, "")


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("xml", "'xml' is not an output format: use json, jsonpath=TEMPLATE"),
        ("jsonpath", "'jsonpath' is not an output format"),
        ("jsonpath={", "-o jsonpath: "),
        ("table", "-o table is not supported here: use json, jsonpath=TEMPLATE"),
    ],
)
def test_a_format_that_is_none_is_answered_with_those_there_are(output: str, complaint: str) -> None:
    with pytest.raises(click.UsageError, match=complaint.replace("(", r"\(")):
        check_format(output, ("json", "jsonpath=TEMPLATE"))
