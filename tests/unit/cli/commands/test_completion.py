"""What the Tab key offers, and that it never complains."""

import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from lograft.cli.common import completion_values as completing
from lograft.cli.common.context_file import save_contexts
from lograft.cli.common.contexts import Contexts
from lograft.cli.common.lazy_group import LazyCommand
from lograft.cli.common.nouns import Noun
from lograft.cli.main import COMMANDS, cli

THERE = {
    Noun.TOPIC: ["orders", "other", "payments"],
    Noun.PARTITION: ["orders-0", "orders-1"],
    Noun.BROKER: ["1", "2"],
    Noun.GROUP: ["billing"],
    Noun.CONFIG: ["topic/orders", "cluster"],
    Noun.REASSIGNMENT: ["orders-1"],
    Noun.QUORUM: [],
}


@pytest.fixture(autouse=True)
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGRAFT_BOOTSTRAP", raising=False)
    monkeypatch.setenv("LOGRAFT_CONFIG", str(tmp_path / "config.yaml"))
    save_contexts(Contexts().with_context("dev", "127.0.0.1:1").with_context("prod", "127.0.0.1:1").using("dev"))


def offered(typed: str) -> list[str]:
    """What is, for the word at the end."""
    *words, incomplete = typed.split(" ")
    complete = BashComplete(cli, {}, "lograft", "_LOGRAFT_COMPLETE")
    return [item.value for item in complete.get_completions(words, incomplete)]


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "_ask", lambda ctx, noun, incomplete: THERE[noun])


@pytest.mark.usefixtures("alive")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("de", ["delete", "describe", "dev"]),
        ("context ", ["current", "delete", "list", "set", "show", "use"]),
        ("get re", ["reassignments"]),
        ("delete ", ["topics", "groups", "brokers"]),
        ("describe q", ["quorum"]),
        ("get topics o", ["orders", "other"]),
        ("get topics orders o", ["orders", "other"]),
        ("--debug get t o", ["orders", "other"]),
        ("get t/", ["t/orders", "t/other", "t/payments"]),
        ("wait broker/", ["broker/1", "broker/2"]),
        ("wait topic/orders --for I", ["InSync"]),
        ("get nonsense ", []),
        ("get nonsense/", []),
        ("delete quorum/", []),
        ("describe g ", ["billing"]),
        ("produce pay", ["payments"]),
        ("consume orders ot", ["other"]),
        ("consume orders --group ", ["billing"]),
        ("offsets p", ["payments"]),
        ("elect leaders orders-", ["orders-0", "orders-1"]),
        ("reassign cancel ", ["orders-1"]),
        ("config set ", ["cluster", "topic/", "broker/"]),
        ("config set to", ["topic/orders", "topic/other", "topic/payments"]),
        ("config set cl", ["cluster"]),
        ("config set topic/p", ["topic/payments"]),
        ("reset group billing --topic or", ["orders"]),
        ("get topics --context ", ["dev", "prod"]),
        ("--context p", ["prod"]),
        ("context use d", ["dev"]),
        ("get contexts p", ["prod"]),
        ("get -o j", ["json", "jsonpath="]),
        ("get topics --under", ["--under-replicated", "--under-min-isr"]),
    ],
)
def test_what_is_offered(typed: str, expected: list[str]) -> None:
    assert offered(typed) == expected


def test_without_a_cluster_nothing_is_offered_and_nothing_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert offered("get topics ") == []
    assert offered("get topics --bootstrap :::: ") == []
    assert offered("get topics --context nope ") == []
    assert capfd.readouterr() == ("", "")


def test_contexts_that_cannot_be_read_are_no_reason_to_complain(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text("{")
    assert offered("context use ") == offered("get topics ") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_takes_its_script(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"_LOGRAFT_COMPLETE={shell}_complete" in result.stdout
    assert shell != "fish" or "string split --max 1" in result.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.stdout, text=True, check=True, timeout=60)


def test_commands_are_offered_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(lazy: LazyCommand) -> click.Command:
        raise AssertionError(f"{lazy.target} is imported for its summary")

    monkeypatch.setattr(LazyCommand, "load", load)
    assert set(offered("")) >= {*COMMANDS}
