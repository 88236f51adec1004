"""`apply`, `diff` and `export` as they are typed: which files are read, and how failing is told, without a cluster."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lograft.cli.declarative import diff as diff_module
from lograft.cli.declarative.desired_state import Desired
from lograft.cli.declarative.manifest_files import read_files
from lograft.cli.main import cli

NOWHERE = ("--bootstrap", "127.0.0.1:1", "--timeout", "100ms")


def run(*arguments: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [*NOWHERE, *arguments], input=text)


def topic(name: str) -> str:
    return f"apiVersion: lograft/v1\nkind: Topic\nmetadata: {{name: {name}}}\n"


def labels(desired: list[Desired]) -> list[str]:
    return [each.label for each in desired]


def test_a_directory_is_read_in_order_without_what_is_no_resource_file(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("b.yaml", "a.yml", "c.json", "inner/d.yaml", ".hidden.yaml", "readme.md"):
        (tmp_path / name).write_text(topic(Path(name).stem.strip(".")))
    assert labels(read_files([str(tmp_path)], recursive=False)) == ["topic/a", "topic/b", "topic/c"]
    assert labels(read_files([str(tmp_path)], recursive=True)) == ["topic/a", "topic/b", "topic/c", "topic/d"]
    several = [str(tmp_path / "readme.md"), str(tmp_path / "inner")]
    assert labels(read_files(several, recursive=False)) == ["topic/readme", "topic/d"]


@pytest.mark.parametrize("verb", ["apply", "diff"])
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing option '-f'"),
        (["-f", "/nowhere/a.yaml"], "file or directory '/nowhere/a.yaml' does not exist"),
        (["-f", "-", "-x"], "No such option"),
    ],
)
def test_wrong_usage(verb: str, arguments: list[str], complaint: str) -> None:
    result = run(verb, *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_an_empty_directory_is_most_likely_the_wrong_one(tmp_path: Path) -> None:
    result = run("apply", "-f", str(tmp_path))
    assert result.exit_code == 2
    assert "contains no files ending in .yaml, .yml, .json; pass -R to process its subdirectories" in result.stderr


@pytest.mark.parametrize(("verb", "exit_code"), [("apply", 1), ("diff", 2)])
def test_one_means_of_a_diff_that_something_differs_and_never_that_it_failed(verb: str, exit_code: int) -> None:
    unreadable = run(verb, "-f", "-", text="x: [")
    assert unreadable.exit_code == exit_code
    assert "Error: standard input, document 1, line 2: not valid YAML" in unreadable.stderr
    assert "\nRemedy: correct" in unreadable.stderr
    not_text = run(verb, "-f", "-", text=topic("a").encode() + b"# \xff\n")
    assert not_text.exit_code == exit_code
    assert "Error: standard input, line 4: not UTF-8 text" in not_text.stderr
    nobody = run(verb, "-f", "-", text=topic("a"))
    assert nobody.exit_code == exit_code
    assert "Remedy: start a cluster" in nobody.stderr


def test_what_nobody_thought_of_is_no_difference_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(diff_module, "read_files", fail)
    result = run("diff", "-f", "-")
    assert result.exit_code == 2
    assert "Error: unexpected KeyError: 'a bug'" in result.stderr


@pytest.mark.parametrize(("verb", "message"), [("apply", "The files contain no resources.\n"), ("diff", "")])
def test_nothing_to_do_needs_no_cluster(verb: str, message: str) -> None:
    result = run(verb, "-f", "-", text="apiVersion: lograft/v1\nkind: List\nitems: []\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", message)


@pytest.mark.parametrize("words", [["topics", "a"], ["topic", "a"], ["t", "a"], ["topic/a"], ["Topics", "a"]])
def test_an_export_is_asked_for_by_any_name_of_the_noun(words: list[str]) -> None:
    assert "nothing could be learnt of the cluster" in run("export", *words).stderr


def test_an_export_is_a_file_and_no_table() -> None:
    assert "is not supported here: use yaml, json" in run("export", "topics", "-o", "wide").stderr
    assert "Did you mean 'topics'?" in run("export", "topisc").stderr
