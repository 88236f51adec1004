"""Command groups that import a command when it is used."""

import difflib
import errno
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from lograft.cli.common.command_error import CommandError, show_traceback, unforeseen
from lograft.cli.common.common_flags import refuse_others
from lograft.clients.local.errors import LocalClusterError

_NO_LIMIT = 1000


class LazyCommand(NamedTuple):
    """A command's location (`module:attribute`) and its summary, so that help need not import it."""

    target: str
    summary: str

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        refuse_others(command)
        _tell_whole(command)
        return command


def _tell_whole(command: click.Command) -> None:
    """Let help show the whole first sentence of subcommands instead of truncating it."""
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        each.short_help = each.get_short_help_str(limit=_NO_LIMIT)
        _tell_whole(each)


class LazyGroup(click.Group):
    """A group that loads its commands from a table. Help lists them by section, the others last."""

    def __init__(
        self,
        *args: Any,
        lazy_commands: Mapping[str, LazyCommand] | None = None,
        sections: Mapping[str, tuple[str, ...]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy_commands or {})
        self._sections = dict(sections or {})

    def add_lazy(self, commands: Mapping[str, LazyCommand]) -> None:
        self._lazy.update(commands)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        return super().get_command(ctx, cmd_name) if lazy is None else lazy.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        close = difflib.get_close_matches(name, known, n=3)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise click.UsageError(f"No such command {name!r}.{hint}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete as click does, but without importing every command for its summary."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self._summary(ctx, name)) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        known = self.list_commands(ctx)
        listed = {name for names in self._sections.values() for name in names}
        sections = {**self._sections, "Commands": tuple(name for name in known if name not in listed)}
        # One column width for all sections.
        width = max(map(len, known), default=0)
        for title, names in sections.items():
            rows = [(f"{name:<{width}}", self._summary(ctx, name)) for name in names if name in known]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _summary(self, ctx: click.Context, name: str) -> str:
        if name in self._lazy:
            return self._lazy[name].summary
        command = self.get_command(ctx, name)
        assert command is not None
        return command.get_short_help_str()

    def invoke(self, ctx: click.Context) -> Any:
        """Report any error without a traceback, unless --debug is set."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort) as error:
            show_traceback(ctx, error)
            raise
        except LocalClusterError as error:
            refusal = CommandError(str(error), error.remedy)
            show_traceback(ctx, refusal)
            raise refusal from error
        except Exception as error:
            is_reader_gone = isinstance(error, OSError) and error.errno == errno.EPIPE
            if is_reader_gone or ctx.find_root().params.get("debug"):
                raise
            raise unforeseen(error) from error
