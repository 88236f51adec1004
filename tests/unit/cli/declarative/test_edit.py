"""`lograft edit`: opened, saved, opened again with what is wrong, applied or given up."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from support.deciding_admin import DecidingAdmin
from support.metadata_images import brokers, image_with, partition

from lograft.cli.declarative import edit as edit_module
from lograft.cli.main import cli
from lograft.clients.admin.model.types import ConfigKind


class Desk:
    """An editor that makes one change after the other, then none; `seen` is what it was shown."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.admin = DecidingAdmin(image_with(*brokers(3), topics={"orders": [partition(1), partition(2)]}))
        self.seen: list[str] = []
        self._changes: list[Callable[[str], str]] = []
        monkeypatch.setenv("TMPDIR", str(directory))
        monkeypatch.setattr("tempfile.tempdir", None)
        monkeypatch.setattr(edit_module, "has_terminal", lambda: True)
        monkeypatch.setattr(edit_module, "open_admin", lambda _: self.admin)
        monkeypatch.setattr(edit_module.click, "edit", self._edit)  # type: ignore[attr-defined]

    def _edit(self, filename: str, editor: str) -> None:
        text = Path(filename).read_text()
        self.seen.append(text)
        if self._changes:
            Path(filename).write_text(self._changes.pop(0)(text))

    def edit(self, *changes: Callable[[str], str]) -> Result:
        self._changes = list(changes)
        return CliRunner().invoke(cli, ["edit", "topic/orders"])

    @property
    def kept(self) -> list[Path]:
        return sorted(self.directory.iterdir())

    @property
    def partitions(self) -> int:
        return len(asyncio.run(self.admin.describe_topic("orders")).partitions)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def replacing(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


@pytest.mark.parametrize("change", [lambda text: text, lambda text: "", lambda text: "# only this\n"])
def test_what_is_left_as_it_is_or_empty_is_cancelled(desk: Desk, change: Callable[[str], str]) -> None:
    result = desk.edit(change)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "edit cancelled\n")
    assert (desk.kept, desk.admin.changes) == ([], 0)


def test_what_is_saved_is_applied(desk: Desk) -> None:
    result = desk.edit(replacing("partitions: 2", "partitions: 3"))
    assert (result.exit_code, result.stdout) == (0, "topic/orders edited\n")
    assert (desk.kept, desk.partitions) == ([], 3)
    assert desk.seen[0].startswith("# Edit the resource below")


def test_what_is_wrong_is_told_on_top_with_the_line_where_it_is_then(desk: Desk) -> None:
    result = desk.edit(
        replacing("replicas: 1", "replica: 1\n  partition: 3"), replacing("replica: 1\n  partition: 3", "")
    )
    assert result.exit_code == 0
    told = re.findall(r"# NOT APPLIED: .*, line (\d+): unknown field spec\.(\w+)", desk.seen[1])
    lines = desk.seen[1].splitlines()
    assert [lines[int(line) - 1].strip() for line, _ in told] == ["replica: 1", "partition: 3"]


def test_what_is_given_up_is_kept(desk: Desk) -> None:
    result = desk.edit(replacing("partitions: 2", "partitions: 1"))
    assert result.exit_code == 1
    assert "topic/orders has 2 partitions, and a reduction" in result.stderr
    (file,) = desk.kept
    assert f"your changes are saved in {file}" in result.stderr
    assert "partitions: 1" in file.read_text()
    assert len(desk.seen) == 2


def test_a_topic_cannot_be_renamed(desk: Desk) -> None:
    result = desk.edit(replacing("name: orders", "name: bills"))
    assert (result.exit_code, desk.admin.changes) == (1, 0)
    assert "names cannot be changed" in result.stderr


def test_what_somebody_else_has_set_meanwhile_is_not_undone(desk: Desk) -> None:
    def change(text: str) -> str:
        asyncio.run(desk.admin.alter_config(ConfigKind.TOPIC, "orders", {"retention.ms": "5"}))
        return text.replace("partitions: 2", "partitions: 3")

    result = desk.edit(change)
    assert result.exit_code == 1
    assert "the topic was changed by someone else meanwhile" in result.stderr
    assert (desk.partitions, len(desk.kept)) == (2, 1)


def test_an_editor_that_fails_is_told_with_a_remedy(desk: Desk) -> None:
    def fail(_: str) -> str:
        raise click.ClickException("no such thing")

    result = desk.edit(fail)
    assert result.exit_code == 1
    assert "set LOGRAFT_EDITOR" in result.stderr
    assert desk.kept == [], "nothing was written"


def test_without_a_terminal_there_is_another_way(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    result = CliRunner().invoke(cli, ["edit", "topic/orders", "--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert "`lograft export topics NAME > FILE`" in result.stderr


def test_a_program_that_is_named_as_the_editor_needs_no_terminal_and_is_run_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_module, "has_terminal", lambda: False)
    monkeypatch.setenv("LOGRAFT_EDITOR", "a-program")
    assert desk.edit(replacing("partitions: 2", "partitions: 3")).stdout == "topic/orders edited\n"
    desk.seen.clear()
    refused = desk.edit(replacing("partitions: 3", "partitions: 1"), replacing("partitions: 1", "partitions: 9"))
    assert refused.exit_code == 1
    assert "edit cancelled\nError: " in refused.stderr
    assert (len(desk.seen), desk.partitions, len(desk.kept)) == (1, 3, 1)
