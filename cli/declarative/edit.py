"""`lograft edit topic NAME`: a topic in an editor, and what is saved is applied."""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from lograft.cli.common.cluster_options import Settings, changing_command, explain, open_admin, run_async
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.completion_values import complete_words
from lograft.cli.common.nouns import Noun, parse_nouns
from lograft.cli.declarative.apply_run import Refused, carry_out, prepare
from lograft.cli.declarative.desired_state import Desired
from lograft.cli.declarative.export import export_of
from lograft.cli.declarative.manifest_parser import BadManifest, read_manifests
from lograft.cli.resources.change_report import ChangeReport
from lograft.cli.resources.manifest_writer import yaml_documents
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import LograftError

_OWN_VARIABLE = "LOGRAFT_EDITOR"
_HELP = (
    "# Change what is below, save it and leave the editor, and it is applied; leave it as it is, or empty, and",
    "# nothing is done. `lograft explain topic.spec` tells what the fields mean.",
)


@click.command("edit")
@click.argument("words", metavar="topic NAME...", nargs=-1, required=True, shell_complete=complete_words(Noun.TOPIC))
@changing_command
def edit(settings: Settings, words: Sequence[str]) -> None:
    """Open topics in an editor, and apply what is saved.

    As `lograft apply` does it: everything is checked first, and what is not safe refused. What is refused is opened
    again with the reasons on top; if it is then left as it is, it is given up, and the file is kept.

    The editor is what LOGRAFT_EDITOR, VISUAL or EDITOR says, or else vi. It needs a terminal, unless LOGRAFT_EDITOR is
    set: that may be a program that does it alone.

    \b
    lograft edit topic orders
    LOGRAFT_EDITOR=nano lograft edit topic/orders topic/bills
    LOGRAFT_EDITOR="sed -i s/86400000/3600000/" lograft edit topic orders

    Exit codes: 0 done, or nothing was changed; 1 given up, refused or failed; 2 usage.
    """
    _, names = parse_nouns(words, [Noun.TOPIC])
    if not names:
        raise click.UsageError("which? `lograft edit topic NAME`")
    if not has_terminal() and not os.environ.get(_OWN_VARIABLE):
        raise CommandError(
            "there is no terminal to show an editor on",
            "`lograft export topics NAME > FILE`, change the file, then `lograft apply -f FILE`; or have "
            f"{_OWN_VARIABLE} name a program that needs none",
        )
    original = run_async(_export(settings, names))
    descriptor, path = tempfile.mkstemp(prefix="lograft-edit-", suffix=".yaml")
    os.close(descriptor)
    _Editing(settings, names, original, Path(path)).run()


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


class _Editing:
    """One file, opened until what it says can be done, or it is given up."""

    def __init__(self, settings: Settings, names: Sequence[str], original: str, path: Path) -> None:
        self._settings = settings
        self._names = names
        self._original = original
        self._path = path

    def run(self) -> None:
        """The file is gone afterwards, unless somebody may miss what is in it."""
        body, problems = self._original, list[str]()
        while True:
            before, body = body, self._open(body, problems)
            if not body.strip() or body in (before, self._original):
                self._cancel(body, problems)
                return
            problems = self._problems(body)
            if not problems:
                break
            if not has_terminal():
                self._cancel(body, problems)  # nobody is there to mend it
        self._path.unlink()

    def _open(self, body: str, problems: Sequence[str]) -> str:
        self._path.write_text("".join(f"{line}\n" for line in header(problems)) + body)
        variables = (_OWN_VARIABLE, "VISUAL", "EDITOR")
        editor = next((chosen for name in variables if (chosen := os.environ.get(name))), "vi")
        try:
            click.edit(filename=str(self._path), editor=editor)
        except click.ClickException:
            cause, remedy = f"the editor {editor!r} failed", "choose another with LOGRAFT_EDITOR=nano, or the like"
            if self._read() != self._original:
                raise self._failure(cause, remedy) from None
            self._path.unlink()
            raise CommandError(cause, remedy) from None
        return self._read()

    def _read(self) -> str:
        try:
            return body_of(self._path.read_text())
        except FileNotFoundError:
            raise CommandError("the editor left no file behind, and nothing is done", "edit it again") from None
        except UnicodeDecodeError:
            raise self._failure("the editor left no text behind", "edit it again") from None

    def _cancel(self, body: str, problems: Sequence[str]) -> None:
        click.echo("edit cancelled", err=True)
        if problems and body.strip() and body != self._original:
            raise self._failure(problems[0], f"mend it, and `lograft apply -f {self._path}`")
        self._path.unlink()

    def _problems(self, body: str) -> list[str]:
        """What is wrong with it; if nothing is, it is done now. Lines are counted as they will be on the next look."""
        problems = self._try(body, 0)
        return self._try(body, len(header(problems))) if problems else []

    def _try(self, body: str, lines_before: int) -> list[str]:
        try:
            desired = read_manifests([(self._path.name, "\n" * lines_before + body)])
        except BadManifest as bad:
            return list(bad.problems)
        if sorted(each.label for each in desired) != sorted(f"topic/{name}" for name in self._names):
            return [f"it must be about {', '.join(self._names)}, each once: names cannot be changed"]
        try:
            run_async(self._apply(desired))
        except Refused as refused:
            return [f"{refusal.cause}; {refusal.remedy}" for refusal in refused.refusals]
        except LograftError as error:
            told = explain(error, self._settings)
            raise self._failure(told.message, told.remedy) from error
        return []

    async def _apply(self, desired: Sequence[Desired]) -> None:
        async with open_admin(self._settings) as admin:
            # A config is applied as a whole: what somebody else has set meanwhile would be unset.
            if await _exported(admin, self._names) != self._original:
                raise self._failure(
                    "somebody else has changed it meanwhile",
                    f"`lograft diff -f {self._path}` shows what it would change now; apply it, or edit again",
                )
            changes = await prepare(admin, self._settings, desired)
            report = ChangeReport(self._settings)
            failures: list[LograftError] = []
            async for change, error in carry_out(admin, changes):
                if error is not None:
                    failures.append(error)
                else:
                    how = "unchanged" if change.verdict == "unchanged" else "edited"
                    report.tell(change.desired.noun, change.desired.name, how)
            await report.finish(admin, failures)

    def _failure(self, cause: str, remedy: str) -> CommandError:
        return CommandError(f"{cause}; what you wrote is in {self._path}", remedy)


async def _export(settings: Settings, names: Sequence[str]) -> str:
    async with open_admin(settings) as admin:
        return await _exported(admin, names)


async def _exported(admin: Admin, names: Sequence[str]) -> str:
    return yaml_documents([export_of(topic) for topic in (await admin.describe_cluster(names)).topics])


def header(problems: Sequence[str]) -> list[str]:
    """What stands on top of the file."""
    return [*_HELP, *(["#", *(f"# NOT APPLIED: {problem}" for problem in problems)] if problems else []), "#"]


def body_of(text: str) -> str:
    """All of it but the comments on top."""
    lines = text.splitlines(keepends=True)
    first = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(lines[first:])
