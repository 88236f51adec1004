"""The command line: `lograft COMMAND ...`. A command's module is imported when the command is used, not before.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage. Data goes to stdout, all else to stderr.
"""

import difflib
import errno
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import click

PROGRAM = "lograft"

EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
"""As shells have it, of what is ended by Ctrl+C, or by SIGTERM, in the ordinary course of things."""


class CommandError(click.ClickException):
    """A command that cannot be done: one line says why, one what can be done about it. Exit code 1."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.message}", err=True)
        click.echo(f"Remedy: {self.remedy}", err=True)


class LazyCommand(NamedTuple):
    """Where a command is (`module:attribute`), and what help says of it, so that help need not import it."""

    target: str
    summary: str

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


COMMANDS: Mapping[str, LazyCommand] = {
    "bench": LazyCommand("lograft.clients.cli_bench:bench", "Measure a cluster: producing, consuming, latency."),
    "config": LazyCommand("lograft.clients.cli_config:config", "Set and unset keys of a configuration."),
    "consume": LazyCommand("lograft.clients.cli_consume:consume", "Write the records of a topic to standard output."),
    "create": LazyCommand("lograft.clients.cli_create:create", "Create topics."),
    "delete": LazyCommand("lograft.clients.cli_delete:delete", "Delete topics, or forget brokers."),
    "describe": LazyCommand(
        "lograft.clients.cli_describe:describe", "Tell all about a topic, a broker, the quorum and more."
    ),
    "dev": LazyCommand("lograft.clients.dev_commands:dev", "Run a cluster of real processes on this machine."),
    "drain": LazyCommand("lograft.clients.cli_drain:drain", "Move everything off a broker."),
    "dump-log": LazyCommand(
        "lograft.clients.dump_log:dump_log", "Show what a data file holds, and whether it is sound."
    ),
    "elect": LazyCommand("lograft.clients.cli_elect:elect", "Have other replicas lead."),
    "get": LazyCommand("lograft.clients.cli_get:get", "Show topics, partitions, brokers and more, a line each."),
    "health": LazyCommand("lograft.clients.cli_health:health", "Say whether all is well with the cluster."),
    "produce": LazyCommand("lograft.clients.cli_produce:produce", "Store each line of standard input as a record."),
    "quorum": LazyCommand("lograft.clients.cli_quorum:quorum", "Change who votes on the metadata, and who leads."),
    "reassign": LazyCommand("lograft.clients.cli_reassign:reassign", "Move partitions to other brokers."),
    "scale": LazyCommand("lograft.clients.cli_scale:scale", "Give topics more partitions, or more or fewer replicas."),
    "verify": LazyCommand("lograft.clients.cli_verify:verify", "Say whether all replicas have the same records."),
}


class LazyGroup(click.Group):
    """A group whose commands are in a table."""

    def __init__(self, *args: Any, lazy_commands: Mapping[str, LazyCommand] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy_commands or {})

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._summary(ctx, name)) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def _summary(self, ctx: click.Context, name: str) -> str:
        if name in self._lazy:
            return self._lazy[name].summary
        command = self.get_command(ctx, name)
        assert command is not None
        return command.get_short_help_str()

    def invoke(self, ctx: click.Context) -> Any:
        """No traceback unless asked for, whatever goes wrong."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            is_reader_gone = isinstance(error, OSError) and error.errno == errno.EPIPE
            if is_reader_gone or ctx.params.get("debug"):
                raise
            if isinstance(error, OSError) and error.strerror:
                where = f"{error.filename}: " if error.filename else ""
                raise CommandError(f"{where}{error.strerror}", "mend that, and try again") from error
            cause = f"unexpected {type(error).__name__}: {error}"
            raise CommandError(cause, "run `lograft --debug ...` for the traceback, and report it") from error


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=PROGRAM, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback when something unexpected goes wrong.")
@click.option("--bootstrap", envvar="LOGRAFT_BOOTSTRAP", metavar="HOST:PORT,...", help="Some brokers of the cluster.")
@click.option("--timeout", metavar="DURATION", help="How long to try: 500ms, 5s, 10m, 1h.")
@click.option("-o", "--output", metavar="FORMAT", help="How to show it: table, wide, json, yaml, name.")
@click.option("--no-headers", is_flag=True, help="Leave the titles of tables out.")
def cli(**_common: object) -> None:
    """lograft: a replicated log service, and its tools."""


def run(more_commands: Mapping[str, LazyCommand]) -> NoReturn:
    """Run the command that the process was started with, and exit. `more_commands`: beside those that are here."""
    assert isinstance(cli, LazyGroup)
    cli.add_lazy(more_commands)
    cli.main(prog_name=PROGRAM)
    raise AssertionError("click exits by itself")
