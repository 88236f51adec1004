"""The context of a local cluster: written, made current if none is, removed, and never in the way."""

import os
from pathlib import Path

import pytest

from lograft.cli.common.context_file import load_contexts, save_contexts
from lograft.cli.common.contexts import Contexts
from lograft.cli.operations.dev_context import context_name, default_directory, remove_context, write_context
from lograft.clients.local.layout import new_layout

LAYOUT = new_layout("dev-1", 3, 9092)
OURS = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
ELSEWHERE = "a.example:9092"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The contexts file of this test, which is not there yet."""
    path = tmp_path / "home" / "config.yaml"
    monkeypatch.setenv("LOGRAFT_CONFIG", str(path))
    for variable in ("LOGRAFT_BOOTSTRAP", "LOGRAFT_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    return path


@pytest.fixture
def default() -> Path:
    return Path(default_directory())


def test_the_default_cluster_is_dev_and_others_have_their_port(tmp_path: Path, default: Path) -> None:
    assert context_name(default, LAYOUT) == "dev"
    assert context_name(tmp_path, LAYOUT) == "dev-9092"


def test_it_is_current_if_none_is(default: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_context(default, LAYOUT)
    assert load_contexts() == Contexts({"dev": OURS}, "dev")
    assert file.stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr() == ("", "Commands use this cluster: the current context is dev.\n")
    remove_context(default, LAYOUT)
    assert load_contexts() == Contexts()
    assert capsys.readouterr() == ("", "Context dev removed; no context is current.\n")


def test_another_that_is_current_stays_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_contexts(Contexts({"prod": ELSEWHERE}, "prod"))
    write_context(tmp_path, LAYOUT)
    assert load_contexts() == Contexts({"prod": ELSEWHERE, "dev-9092": OURS}, "prod")
    assert capsys.readouterr().err == (
        "Commands use the current context, prod. For this cluster, pass --context dev-9092, or run "
        "`lograft context use dev-9092`.\n"
    )
    remove_context(tmp_path, LAYOUT)
    assert load_contexts() == Contexts({"prod": ELSEWHERE}, "prod")
    assert capsys.readouterr().err == "Context dev-9092 removed.\n"


def test_it_knows_the_nodes_that_are_added(default: Path) -> None:
    write_context(default, LAYOUT)
    write_context(default, LAYOUT.grown(4))
    assert load_contexts().bootstraps["dev"] == f"{OURS},127.0.0.1:9095"


def test_variables_that_decide_are_named(
    default: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGRAFT_CONTEXT", "prod")
    write_context(default, LAYOUT)
    assert capsys.readouterr().err == (
        "Commands use the current context, prod. For this cluster, pass --context dev, or unset LOGRAFT_CONTEXT.\n"
    )
    monkeypatch.setenv("LOGRAFT_BOOTSTRAP", ELSEWHERE)
    write_context(default, LAYOUT)
    assert capsys.readouterr().err == (
        "Warning: LOGRAFT_BOOTSTRAP (a.example:9092) overrides contexts: unset it, or pass --context dev.\n"
    )
    monkeypatch.setenv("LOGRAFT_BOOTSTRAP", "localhost:9093")
    write_context(default, LAYOUT)
    assert capsys.readouterr().err == "", "it leads to the cluster, too"


def test_a_context_of_the_user_is_left_alone(default: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = Contexts({"dev": ELSEWHERE}, "dev")
    save_contexts(own)
    write_context(default, LAYOUT)
    assert load_contexts() == own
    told = capsys.readouterr().err
    assert told.startswith("Warning: the context dev was not written: it exists already, for a.example:9092\n")
    assert f"export LOGRAFT_BOOTSTRAP={OURS}\n" in told
    remove_context(default, LAYOUT)
    assert load_contexts() == own
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["contexts: [", "current: prod", "contexts: {dev: {port: 1}}"])
def test_a_malformed_file_is_a_warning(
    default: Path, file: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.parent.mkdir()
    file.write_text(text)
    write_context(default, LAYOUT)
    told = capsys.readouterr().err
    assert told.startswith(f"Warning: the context dev was not written: the contexts file {file} cannot be read: ")
    assert f"export LOGRAFT_BOOTSTRAP={OURS}\n" in told
    remove_context(default, LAYOUT)
    assert capsys.readouterr().err.startswith("Warning: the context dev was not removed: the contexts file ")
    assert file.read_text() == text


@pytest.mark.parametrize("path", [os.devnull, f"{os.devnull}/none"])
def test_a_file_that_cannot_be_written_is_a_warning(
    default: Path, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGRAFT_CONFIG", path)
    write_context(default, LAYOUT)
    assert capsys.readouterr().err.startswith("Warning: the context dev was not written: the contexts file ")
