"""Clusters by name: the file that holds them, and which of all that is said counts."""

import os
import stat
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from lograft.cli.common import prompts as confirming
from lograft.cli.common.cluster_options import Settings, cluster_command
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.context_file import contexts_path, load_contexts, save_contexts
from lograft.cli.common.contexts import BadContexts, Contexts, read_contexts, write_contexts
from lograft.cli.common.prompts import confirm
from lograft.cli.main import cli


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("LOGRAFT_BOOTSTRAP", raising=False)
    monkeypatch.delenv("LOGRAFT_CONTEXT", raising=False)
    monkeypatch.setenv("LOGRAFT_CONFIG", str(tmp_path / "made" / "config.yaml"))
    return tmp_path / "made" / "config.yaml"


def lograft(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_a_contexts_life(path: Path) -> None:
    assert lograft("context", "set", "dev", "--bootstrap", "localhost").stdout == "context/dev created\n"
    assert lograft("context", "current").exit_code == 1
    assert lograft("context", "set", "prod", "--bootstrap", "a:1,b:2", "--use").stdout == "context/prod created\n"
    assert lograft("context", "current").stdout == "prod\n"
    assert lograft("context", "use", "dev").stdout == "context/dev is current\n"
    assert lograft("context", "set", "prod", "--bootstrap", "a:1,b:2").stdout == "context/prod unchanged\n"
    assert lograft("context", "set", "prod", "--bootstrap", "a:1").stdout == "context/prod changed\n"
    table = "CURRENT   NAME   BOOTSTRAP\n*         dev    localhost:9092\n          prod   a:1\n"
    assert lograft("context", "list").stdout == lograft("get", "contexts").stdout == table
    assert lograft("context", "show", "-o", "jsonpath={.spec.bootstrap}").stdout == "localhost:9092"
    assert lograft("get", "context/prod", "-o", "name").stdout == "context/prod\n"
    assert lograft("context", "delete", "dev").stdout == "context/dev deleted\n"
    refused = lograft("context", "use", "dev")
    assert (refused.exit_code, "context 'dev' does not exist" in refused.stderr) == (1, True)
    assert "known contexts: prod" in refused.stderr
    assert path.read_text() == "current: null\ncontexts:\n  prod:\n    bootstrap: a:1\n"


def test_the_file_is_its_owners_alone_and_replaced_whole(path: Path) -> None:
    save_contexts(Contexts().with_context("a", "h:1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.stat().st_ino
    save_contexts(Contexts().with_context("b", "h:1"))
    assert path.stat().st_ino != before
    assert os.listdir(path.parent) == ["config.yaml"]


def test_a_link_to_the_file_stays_one(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere.yaml")
    save_contexts(Contexts().with_context("a", "h:1"))
    assert path.is_symlink()
    assert load_contexts().bootstraps == {"a": "h:1"}


def test_what_is_no_ordinary_file_is_not_replaced(path: Path) -> None:
    """As root, `LOGRAFT_CONFIG=/dev/null lograft context set ...` made a file of the device."""
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(CommandError, match="it is not a regular file"):
        save_contexts(Contexts().with_context("a", "h:1"))
    assert path.is_fifo()


def test_a_file_that_cannot_be_read_or_written_is_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOGRAFT_CONFIG", str(tmp_path / "file" / "config.yaml"))
    for arguments in (["context", "list"], ["context", "set", "a", "--bootstrap", "h:1"]):
        refused = lograft(*arguments)
        assert refused.exit_code == 1
        assert refused.stderr.startswith(f"Error: the contexts file {tmp_path}/file/config.yaml cannot be ")
        assert "Remedy: fix its permissions, or set LOGRAFT_CONFIG to another file" in refused.stderr
    with pytest.raises(CommandError, match="cannot be written: "):
        save_contexts(Contexts())


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGRAFT_CONFIG")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    assert contexts_path() == Path("/home/me/.config/lograft/config.yaml")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/settings")
    assert contexts_path() == Path("/settings/lograft/config.yaml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not valid YAML"),
        ("- a", "not a mapping"),
        ("contexts: []", "contexts is .* not a mapping"),
        ("contexts: {a: h:1}", "context 'a' is .* not a mapping"),
        ("contexts: {a: {bootstrap: 5}}", "bootstrap of context 'a' is 5"),
        ("contexts: {a: {bootstrap: 'h:x'}}", "'h:x' is not an address"),
        ("contexts: {a: {}}", "bootstrap of context 'a' is None"),
        ("contexts: {a: {bootstrap: h, tls: yes}}", "unknown key 'tls': allowed keys are bootstrap"),
        ("contexts: {'a b': {bootstrap: h}}", "'a b' is not a valid context name"),
        ("contexts: {5: {bootstrap: h}}", "5 is not a valid context name"),
        ("current: a", "current is 'a', which is not one of its contexts"),
        ("current: [a]", "not one of its contexts"),
        ("curent: a", "unknown key 'curent'"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_name_and_a_remedy(
    text: str, complaint: str, path: Path
) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(BadContexts, match=complaint):
        read_contexts(text)
    refused = lograft("get", "topics")
    assert refused.exit_code == 1
    assert str(path) in refused.stderr
    assert "Remedy: correct it, or move it away" in refused.stderr


def test_a_file_that_is_no_text_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="cannot be read"):
        load_contexts()


def test_what_is_written_is_read_back() -> None:
    contexts = Contexts().with_context("b", "h:1, [::1]:2").with_context("a", "x").using("a")
    assert read_contexts(write_contexts(contexts)) == contexts
    assert read_contexts("") == read_contexts("contexts:\n") == Contexts()


# -- what counts


@click.command()
@cluster_command
def where(settings: Settings) -> None:
    click.echo(f"{settings.bootstrap} {settings.context}")


@pytest.mark.parametrize(
    ("before", "after", "variables", "current", "expected"),
    [
        ("", "", "", "", "localhost:9092 None"),
        ("", "", "", "dev", "dev:9092 dev"),
        ("--context prod", "", "", "dev", "prod:9092 prod"),
        ("", "--context prod", "", "dev", "prod:9092 prod"),
        ("--context dev", "--context prod", "", "dev", "prod:9092 prod"),
        ("", "", "BOOTSTRAP=v:1", "dev", "v:1 None"),
        ("", "", "CONTEXT=prod", "dev", "prod:9092 prod"),
        ("", "", "CONTEXT=prod", "", "prod:9092 prod"),
        ("", "", "CONTEXT=", "dev", "dev:9092 dev"),
        ("", "", "BOOTSTRAP=v:1 CONTEXT=prod", "dev", "v:1 None"),
        ("", "", "BOOTSTRAP=v:1 CONTEXT=nope", "dev", "v:1 None"),
        ("--context prod", "", "BOOTSTRAP=v:1", "dev", "prod:9092 prod"),
        ("", "--context prod", "BOOTSTRAP=v:1", "dev", "prod:9092 prod"),
        ("", "--context prod", "BOOTSTRAP=v:1 CONTEXT=dev", "dev", "prod:9092 prod"),
        ("--context prod", "", "CONTEXT=nope", "dev", "prod:9092 prod"),
        ("--bootstrap f:1 --context prod", "", "BOOTSTRAP=v:1", "dev", "f:1 None"),
        ("--context prod", "--bootstrap f:1", "", "dev", "f:1 None"),
        ("--bootstrap f:1", "--context prod", "", "dev", "f:1 None"),
        ("--bootstrap f:1", "--bootstrap g:1", "BOOTSTRAP=v:1", "dev", "g:1 None"),
        ("--bootstrap f:1", "", "CONTEXT=nope", "dev", "f:1 None"),
    ],
)
def test_which_cluster_is_meant(
    before: str, after: str, variables: str, current: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cli.commands, "where", where)
    contexts = Contexts().with_context("dev", "dev").with_context("prod", "prod")
    save_contexts(contexts.using(current) if current else contexts)
    for each in variables.split():
        name, _, value = each.partition("=")
        monkeypatch.setenv(f"LOGRAFT_{name}", value)
    result = lograft(*before.split(), "where", *after.split())
    assert (result.exit_code, result.stdout) == (0, expected + "\n"), result.stderr


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        ("get topics --context nope", ""),
        ("--context nope get topics", ""),
        ("get topics", "CONTEXT=nope"),
        ("get topics --context nope", "BOOTSTRAP=v:1"),
        ("get topics --context nope", "CONTEXT=dev"),
        ("get topics --context nope --bootstrap v:1", ""),
        ("delete topic a --yes --context nope", "BOOTSTRAP=v:1"),
        ("context use nope", ""),
        ("context use nope", "BOOTSTRAP=v:1"),
        ("context show nope", ""),
        ("bench produce --context nope", "BOOTSTRAP=v:1"),
        ("verify replicas --context nope", "BOOTSTRAP=v:1"),
    ],
)
def test_a_context_that_is_not_there_is_refused(
    arguments: str, variables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_contexts(Contexts().with_context("dev", "127.0.0.1:1").using("dev"))
    for each in variables.split():
        name, _, value = each.partition("=")
        monkeypatch.setenv(f"LOGRAFT_{name}", value)
    refused = lograft(*arguments.split())
    assert refused.exit_code == 1
    assert "context 'nope' does not exist" in refused.stderr
    assert "known contexts: dev" in refused.stderr
    assert load_contexts().current == "dev"


def test_a_broken_file_of_contexts_is_of_no_account_to_whoever_names_brokers(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cli.commands, "where", where)
    path.parent.mkdir()
    path.write_text("contexts: [")
    assert lograft("where", "--bootstrap", "f:1").stdout == "f:1 None\n"
    monkeypatch.setenv("LOGRAFT_BOOTSTRAP", "v:1")
    assert lograft("where").stdout == "v:1 None\n"
    assert lograft("where", "--context", "prod").exit_code == 1


def test_contexts_can_be_looked_at_and_chosen_whatever_a_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    save_contexts(Contexts().with_context("dev", "dev"))
    monkeypatch.setenv("LOGRAFT_CONTEXT", "nope")
    for arguments in (["list"], ["use", "dev"], ["show"], ["current"], ["delete", "dev"]):
        assert lograft("context", *arguments).exit_code == 0


@pytest.mark.parametrize("variable", ["LOGRAFT_BOOTSTRAP", "LOGRAFT_CONTEXT"])
def test_whoever_chooses_a_context_hears_what_counts_more(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save_contexts(Contexts().with_context("dev", "dev"))
    assert "overrides" not in lograft("context", "use", "dev").stderr
    monkeypatch.setenv(variable, "other")
    told = f"Warning: {variable} (other) overrides the current context; unset it, or pass --context.\n"
    assert lograft("context", "use", "dev").stderr == told
    assert lograft("context", "set", "dev", "--bootstrap", "dev", "--use").stderr == told
    assert "overrides" not in lograft("context", "set", "more", "--bootstrap", "dev").stderr


def test_a_confirmation_names_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(click, "confirm", lambda question, err: not asked.append(question))
    monkeypatch.setattr(confirming, "check_may_ask", lambda **_: None)
    confirm("Delete topic a", Settings("a:1,b:2", 1000, context="prod"), is_given=False)
    confirm("Delete topic a", Settings("a:1", 1000), is_given=False)
    assert asked == [
        "Delete topic a, in the cluster at a:1,b:2 (context prod)?",
        "Delete topic a, in the cluster at a:1?",
    ]
