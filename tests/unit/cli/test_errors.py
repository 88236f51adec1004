"""Every error that the command line can tell is met somewhere: in a transcript, or by a test that is named here. And
those of faults that nobody can type."""

import ast
import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.error_texts import error_texts
from support.transcript_chapters import ROOT, chapters
from support.transcripts import steps

from lograft.cli.commands import dev as dev_commands
from lograft.cli.common.cluster_options import _REMEDIES, Settings, explain
from lograft.cli.common.command_error import CommandError, unforeseen
from lograft.cli.dump.command import open_file
from lograft.cli.main import cli
from lograft.clients.errors import CommitFailed, CorruptBatch, DiskFull, InvalidArgument, LograftError
from lograft.clients.local.errors import LocalClusterError
from lograft.clients.local.layout import new_layout
from lograft.clients.local.local_cluster import LocalCluster, wait_ready
from lograft.clients.local.local_node import LocalNode

HERE = "tests/unit/cli/test_errors.py"

# What is said, and the test in which it is: errors of faults, of races, and of files that root may read.
MET_BY = {
    "the cluster takes no name: remove ": (
        "tests/unit/cli/test_pieces.py::test_several_types_have_neither_names_nor_a_watch"
    ),
    "unknown node ": "tests/unit/cli/test_pieces.py::test_a_node_that_does_not_exist_is_refused",
    "cannot be combined with names: remove ": (
        "tests/unit/cli/test_pieces.py::test_several_types_have_neither_names_nor_a_watch"
    ),
    "-w supports one resource type at a time": (
        "tests/unit/cli/test_pieces.py::test_several_types_have_neither_names_nor_a_watch"
    ),
    "contexts are local": "tests/unit/cli/test_pieces.py::test_several_types_have_neither_names_nor_a_watch",
    "does not die": f"{HERE}::test_a_node_that_does_not_die_is_told_of",
    "not ready after": f"{HERE}::test_nodes_that_are_not_ready_in_time_are_named",
    "read of": f"{HERE}::test_a_disk_that_fails_while_a_file_is_dumped_is_told_of",
    "check the path and the disk it is on": f"{HERE}::test_a_file_that_cannot_be_opened_is_told_of",
    "nested ranges": f"{HERE}::test_a_template_that_is_too_deep_is_refused",
    "nested filters": f"{HERE}::test_a_template_that_is_too_deep_is_refused",
    "report this bug with the traceback": f"{HERE}::test_what_nobody_thought_of_is_told_with_what_to_do",
    "see `--help` for accepted values": f"{HERE}::test_the_remedies_of_what_takes_a_fault",
    "run the same command to continue; the last records may be printed again": (
        f"{HERE}::test_the_remedies_of_what_takes_a_fault"
    ),
    "skip it with `lograft consume TOPIC --offsets PARTITION:START-`": (
        f"{HERE}::test_the_remedies_of_what_takes_a_fault"
    ),
    "has logged nothing yet": "tests/integration/test_dev.py::test_logs_can_be_followed",
    "has ended: ": (
        "tests/integration/test_dev.py::test_a_node_that_does_not_start_is_told_of_and_the_others_are_stopped"
    ),
    "the user that owns the file": "tests/integration/test_dump_log.py::test_a_file_without_permission_is_refused",
    "correct that, then retry": "tests/unit/runtime/process/test_standard_streams.py::FULL",
    "standard input or output is closed": "tests/unit/runtime/process/test_standard_streams.py::CLOSED",
    "not placed according to the plan: ": (
        "tests/unit/cli/operations/test_reassignment_run.py::test_what_is_deleted_meanwhile_is_told_and_not_waited_for"
    ),
    "timed out after ": (
        "tests/unit/cli/operations/test_reassignment_run.py::test_it_is_waited_for_ever_and_told_what_for_unless_a_time_is_said"
    ),
    "the change was made, but its result is not available: ": (
        "tests/unit/cli/resources/test_change_report.py::test_that_it_was_done_is_said_though_it_cannot_be_shown"
    ),
    " is longer than ": (
        "tests/unit/cli/records/test_record_input.py::test_a_line_that_is_too_long_is_named_before_it_fills_memory"
    ),
    "it exists already, for ": (
        "tests/unit/cli/operations/test_dev_context.py::test_a_context_of_the_user_is_left_alone"
    ),
    " of them controllers": "tests/unit/clients/local/test_layout.py::test_what_is_no_layout_is_refused",
    "of format ": "tests/unit/clients/local/test_layout.py::test_a_layout_of_a_later_version_is_refused",
    " is being started by another": (
        "tests/unit/clients/local/test_local_node.py::test_only_one_starts_a_node_at_a_time"
    ),
    " was not started: ": "tests/unit/clients/local/test_local_node.py::test_on_a_full_disk_no_node_is_started",
    "free space on that disk; `lograft get brokers": f"{HERE}::test_the_remedies_of_what_takes_a_fault",
    " cannot be given anything: ": (
        "tests/unit/clients/admin/planning/test_reassignment_plan.py::test_a_broker_that_cannot_be_given_anything_is_refused"
    ),
}

SETTINGS = Settings("localhost:9092", 30_000)


# -- none is forgotten


def transcribed() -> list[str]:
    return [line for chapter in chapters() for step in steps(chapter.text) for line in step.expected]


def test_every_error_is_met_in_a_transcript_or_by_a_test() -> None:
    lines = transcribed()
    found = error_texts()
    assert len(found) > 150, "they are found in the source"
    unmet = [each for each in found if not any(map(each.pattern.search, lines))]
    said = ["".join(each.pieces) for each in unmet] + [each for each in _REMEDIES.values() if not _is_in(each, lines)]
    missing = [each for each in said if not any(part in each for part in MET_BY)]
    assert missing == [], "put them into tests/transcripts/errors, or name the test that meets them"
    needless = [part for part in MET_BY if not any(part in each for each in said)]
    assert needless == [], "transcripts have them by now, or nothing says so any more"


def _is_in(text: str, lines: list[str]) -> bool:
    return any(text in line for line in lines)


@pytest.mark.parametrize("part", MET_BY)
def test_the_test_that_is_named_does_meet_it(part: str) -> None:
    path, _, name = MET_BY[part].partition("::")
    source = (ROOT / path).read_text()
    found = [node for node in ast.parse(source).body if name in _names(node)]
    assert len(found) == 1, f"there is no {MET_BY[part]}"
    assert part.strip() in _text_of(found[0], source)


def _text_of(node: ast.stmt, source: str) -> str:
    """With its decorators, which have a table's cases."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


# -- those that take a fault


@pytest.fixture
def node(tmp_path: Path) -> LocalNode:
    cluster = LocalCluster(tmp_path, new_layout("c", 1, 9092))
    cluster.save()
    return cluster.nodes[0]


def test_a_node_that_does_not_die_is_told_of(node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalNode, "is_up", True)
    monkeypatch.setattr(LocalNode, "send", lambda *_: None)
    monkeypatch.setattr(dev_commands, "wait_until", lambda *_, **__: False)
    result = CliRunner().invoke(cli, ["dev", "kill", "1", "--data-dir", str(node.directory.parent)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: node 1 does not die\nRemedy: ")


def test_nodes_that_are_not_ready_in_time_are_named(node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    class Starting:
        state, reason = "starting", "it has no leader yet"

    monkeypatch.setattr(LocalNode, "status", lambda _: Starting())
    with pytest.raises(LocalClusterError, match="not ready after 0 s: node 1: it has no leader yet") as refusal:
        wait_ready([node], 0.01, lambda: False)
    assert refusal.value.remedy == f"`lograft dev logs 1 --data-dir {node.directory.parent}` shows all it said"


def test_a_disk_that_fails_while_a_file_is_dumped_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = tmp_path / "a.log"
    path.write_bytes(bytes(100))
    monkeypatch.setattr(os, "pread", fail)
    result = CliRunner().invoke(cli, ["dump-log", str(path)])
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: read of {path} failed: Input/output error at byte 0\nRemedy: check the disk it is on\n"
    )


def test_a_file_that_cannot_be_opened_is_told_of() -> None:
    with pytest.raises(CommandError, match="File name too long") as refusal, open_file("a" * 300):
        pass
    assert refusal.value.remedy == "check the path and the disk it is on"


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{range .a}" * 60 + "{end}" * 60, "nested ranges"),
        ("{.a" + "[?(@.a" * 60 + ")]" * 60 + "}", "nested filters"),
    ],
)
def test_a_template_that_is_too_deep_is_refused(template: str, told: str) -> None:
    result = CliRunner().invoke(cli, ["get", "topics", "-o", f"jsonpath={template}"])
    assert result.exit_code == 2
    assert told in result.stderr


def test_what_nobody_thought_of_is_told_with_what_to_do() -> None:
    told = unforeseen(KeyError("a bug"))
    assert (told.message, told.exit_code) == ("unexpected KeyError: 'a bug'", 1)
    assert told.remedy == "report this bug with the traceback from `lograft --debug ...`"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (InvalidArgument("bad"), "see `--help` for accepted values"),
        (CommitFailed("late"), "run the same command to continue; the last records may be printed again"),
        (CorruptBatch("rotten"), "skip it with `lograft consume TOPIC --offsets PARTITION:START-`"),
        (DiskFull("full"), "free space on that disk; `lograft get brokers -o wide` shows free space"),
    ],
)
def test_the_remedies_of_what_takes_a_fault(error: LograftError, remedy: str) -> None:
    told = explain(error, SETTINGS)
    assert (told.message, told.remedy) == (error.message, remedy)


# -- wrong usage is 2, wherever the value comes from


@pytest.mark.parametrize("bootstrap", ["h:0", "h:x", ":9092", "::1", ",", "", "h:70000"])
def test_an_address_that_is_none_is_wrong_usage(bootstrap: str) -> None:
    for words in (["--bootstrap", bootstrap, "get", "topics"], ["get", "topics", "--bootstrap", bootstrap]):
        result = CliRunner().invoke(cli, words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Invalid value for '--bootstrap': " in result.stderr


def test_an_address_that_is_none_is_wrong_usage_of_the_variable() -> None:
    result = CliRunner().invoke(cli, ["get", "topics"], env={"LOGRAFT_BOOTSTRAP": "h:x"})
    assert result.exit_code == 2
    assert "Invalid value for 'LOGRAFT_BOOTSTRAP': 'h:x' is not an address" in result.stderr
