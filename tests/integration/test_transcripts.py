"""Types the transcripts of docs/cli.md, docs/cli-errors.md and docs/runbooks.md again, and compares the answers."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.quick_shell import QuickShell
from support.transcript_chapters import BOOKS, Book, Chapter, chapters
from support.transcript_shell import Shell, shell, start_cluster
from support.transcripts import Step, matches, steps, with_answers

from lograft.cli.main import cli

CHAPTERS = chapters()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A cluster for all chapters that change only what they made themselves."""
    with shell(tmp_path_factory.mktemp("transcripts") / "home") as opened:
        start_cluster(opened)
        yield opened


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.path.stem)
def test_it_is_answered_as_it_is_written(chapter: Chapter, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if chapter.is_alone:
        with shell(tmp_path / "home", knows_cluster=chapter.knows_cluster) as opened:
            _type(chapter, opened)
    else:
        opened = request.getfixturevalue("shared")
        _type(chapter, opened.as_kind(QuickShell) if chapter.is_quick else opened)


def _type(chapter: Chapter, opened: Shell) -> None:
    for step in steps(chapter.text):
        answer = opened.run(step)
        if not step.accepts(answer):
            told = "\n".join(difflib.unified_diff(step.expected, answer, "expected", "answered", lineterm=""))
            pytest.fail(f"{chapter.path.name}: $ {step.command}\n{told}", pytrace=False)


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.document.stem)
def test_the_document_is_made_of_the_chapters(book: Book) -> None:
    assert book.document.read_text() == book.text(), "run `make transcripts`, and look at what changed"


# -- the transcripts themselves

SAMPLE = """Prose.

```console
$ one
1 of …
$ two \\
> more
…
[exit 1]
```
"""


def test_steps_are_read_and_written_back() -> None:
    assert steps(SAMPLE) == [Step("one", ("1 of …",)), Step("two \\\nmore", ("…", "[exit 1]"))]
    assert with_answers(SAMPLE, lambda step: step.expected) == SAMPLE


@pytest.mark.parametrize(
    ("expected", "actual", "is_match"),
    [
        ([], [], True),
        ([], ["a"], False),
        (["a"], [], False),
        (["a…c", "d"], ["abbbc", "d"], True),
        (["a…c"], ["abd"], False),
        (["a.c"], ["abc"], False),
        (["…"], [], True),
        (["…", "z"], ["a", "b", "z"], True),
        (["…", "z"], ["a", "b"], False),
    ],
)
def test_what_stands_for_anything(expected: list[str], actual: list[str], is_match: bool) -> None:
    assert matches(expected, actual) is is_match


def test_digits_may_differ_where_that_is_said() -> None:
    assert Step("get  # or the like", ("leader 1",)).accepts(["leader 2"])
    assert not Step("get  # or the like", ("leader 1",)).accepts(["leader -"])
    assert not Step("get", ("leader 1",)).accepts(["leader 2"])


# Those of processes that do not end, or that torment a cluster for long, are run by tests of their own.
ELSEWHERE = ("chaos campaign", "chaos list", "chaos run", "chaos simulate", "top")


def test_every_command_is_typed_somewhere() -> None:
    typed = [step.command for chapter in CHAPTERS for step in steps(chapter.text)]
    text = "\n".join(re.sub(r"lograft( --?[a-z-]+( [^ |]+)?)*? (?=[a-z])", "lograft ", command) for command in typed)
    named = {path: path.removesuffix("s") for path in command_paths()}  # nouns may be singular
    missing = [path for path, name in named.items() if f"lograft {name}" not in text and path not in ELSEWHERE]
    assert missing == []


def command_paths() -> Iterator[str]:
    """Of all commands that have none below them."""
    waiting: list[tuple[str, click.Command]] = [("", cli)]
    while waiting:
        path, command = waiting.pop()
        if not isinstance(command, click.Group):
            yield path
            continue
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            waiting.append((f"{path} {name}".strip(), found))
