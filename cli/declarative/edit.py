"""`lograft edit topic NAME`: edit topics in an editor and apply the result."""

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
    "# Edit the resource below, save it, and close the editor to apply it. An unchanged or empty file",
    "# cancels the edit. `lograft explain topic.spec` documents the fields.",
)


@click.command("edit")
@click.argument("words", metavar="topic NAME...", nargs=-1, required=True, shell_complete=complete_words(Noun.TOPIC))
@changing_command
def edit(settings: Settings, words: Sequence[str]) -> None:
    """Edit topics in an editor, and apply the saved file as `lograft apply` does.

    If the file is rejected, the editor opens again with the reasons at the top. If you then leave it unchanged, the
    edit is cancelled and the file is kept.

    The editor is LOGRAFT_EDITOR, VISUAL, or EDITOR, or else vi. The command requires a terminal unless LOGRAFT_EDITOR
    is set, which may name a non-interactive program.

    \b
    Examples:
      # Edit a topic
      lograft edit topic orders
      # Edit two topics in nano
      LOGRAFT_EDITOR=nano lograft edit topic/orders topic/bills
      # Edit a topic from a script
      LOGRAFT_EDITOR="sed -i s/86400000/3600000/" lograft edit topic orders

    \b
    Exit code  0  applied or unchanged
               1  cancelled, rejected, or failed
               2  invalid usage
    """
    _, names = parse_nouns(words, [Noun.TOPIC])
    if not names:
        raise click.UsageError("topic name required: `lograft edit topic NAME`")
    if not has_terminal() and not os.environ.get(_OWN_VARIABLE):
        raise CommandError(
            "stdin and stdout are not a terminal, so no editor can be opened",
            "run `lograft export topics NAME > FILE`, edit the file, then `lograft apply -f FILE`; or set "
            f"{_OWN_VARIABLE} to a non-interactive program",
        )
    original = run_async(_export(settings, names))
    descriptor, path = tempfile.mkstemp(prefix="lograft-edit-", suffix=".yaml")
    os.close(descriptor)
    _Editing(settings, names, original, Path(path)).run()


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


class _Editing:
    """An edit session: the file is opened until it can be applied or the user cancels."""

    def __init__(self, settings: Settings, names: Sequence[str], original: str, path: Path) -> None:
        self._settings = settings
        self._names = names
        self._original = original
        self._path = path

    def run(self) -> None:
        """Run the session. Delete the file afterwards, unless it has changes that were not applied."""
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
                self._cancel(body, problems)  # no user can correct it
        self._path.unlink()

    def _open(self, body: str, problems: Sequence[str]) -> str:
        self._path.write_text("".join(f"{line}\n" for line in header(problems)) + body)
        variables = (_OWN_VARIABLE, "VISUAL", "EDITOR")
        editor = next((chosen for name in variables if (chosen := os.environ.get(name))), "vi")
        try:
            click.edit(filename=str(self._path), editor=editor)
        except click.ClickException:
            cause, remedy = f"the editor {editor!r} failed", "set LOGRAFT_EDITOR to another editor, such as nano"
            if self._read() != self._original:
                raise self._failure(cause, remedy) from None
            self._path.unlink()
            raise CommandError(cause, remedy) from None
        return self._read()

    def _read(self) -> str:
        try:
            return body_of(self._path.read_text())
        except FileNotFoundError:
            raise CommandError("the editor deleted the file, so nothing was applied", "edit it again") from None
        except UnicodeDecodeError:
            raise self._failure("the edited file is not text", "edit it again") from None

    def _cancel(self, body: str, problems: Sequence[str]) -> None:
        click.echo("edit cancelled", err=True)
        if problems and body.strip() and body != self._original:
            raise self._failure(problems[0], f"correct the file, then run `lograft apply -f {self._path}`")
        self._path.unlink()

    def _problems(self, body: str) -> list[str]:
        """Apply the text, and return why it was rejected, if so. Line numbers are those of the next version of the
        file."""
        problems = self._try(body, 0)
        return self._try(body, len(header(problems))) if problems else []

    def _try(self, body: str, lines_before: int) -> list[str]:
        try:
            desired = read_manifests([(self._path.name, "\n" * lines_before + body)])
        except BadManifest as bad:
            return list(bad.problems)
        if sorted(each.label for each in desired) != sorted(f"topic/{name}" for name in self._names):
            return [f"the file must contain {', '.join(self._names)} exactly once: names cannot be changed"]
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
            # A config is applied as a whole, which would unset keys that someone else has set meanwhile.
            if await _exported(admin, self._names) != self._original:
                raise self._failure(
                    "the topic was changed by someone else meanwhile",
                    f"check the changes with `lograft diff -f {self._path}`, then apply the file or edit again",
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
        return CommandError(f"{cause}; your changes are saved in {self._path}", remedy)


async def _export(settings: Settings, names: Sequence[str]) -> str:
    async with open_admin(settings) as admin:
        return await _exported(admin, names)


async def _exported(admin: Admin, names: Sequence[str]) -> str:
    return yaml_documents([export_of(topic) for topic in (await admin.describe_cluster(names)).topics])


def header(problems: Sequence[str]) -> list[str]:
    """Return the comments at the top of the file."""
    return [*_HELP, *(["#", *(f"# NOT APPLIED: {problem}" for problem in problems)] if problems else []), "#"]


def body_of(text: str) -> str:
    """Return the text without the comments at the top."""
    lines = text.splitlines(keepends=True)
    first = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(lines[first:])
