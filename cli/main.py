"""The command line: `lograft COMMAND ...`. A command's module is imported when the command is used, not before.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage. Data goes to stdout, all else to stderr.
"""

import difflib
import errno
import importlib
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import click

from lograft.cli.common.common_flags import refuse_others
from lograft.runtime.process.standard_streams import finish_output, open_missing_streams

PROGRAM = "lograft"
_NO_LIMIT = 1000

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
        refuse_others(command)
        _tell_whole(command)
        return command


def _tell_whole(command: click.Command) -> None:
    """What help says of commands that are in another: the first sentence, not as much of it as fits on a line."""
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        each.short_help = each.get_short_help_str(limit=_NO_LIMIT)
        _tell_whole(each)


COMMANDS: Mapping[str, LazyCommand] = {
    "api-resources": LazyCommand(
        "lograft.cli.commands.api_resources:api_resources", "List the nouns, and what can be done with each."
    ),
    "apply": LazyCommand("lograft.cli.declarative.apply:apply", "Have the cluster be as resource files say."),
    "bench": LazyCommand("lograft.cli.commands.bench:bench", "Measure a cluster: producing, consuming, latency."),
    "completion": LazyCommand(
        "lograft.cli.commands.completion:completion", "Have the Tab key of a shell know commands and names."
    ),
    "config": LazyCommand("lograft.cli.commands.config:config", "Set and unset keys of a configuration."),
    "consume": LazyCommand("lograft.cli.records.consume:consume", "Write the records of a topic to standard output."),
    "context": LazyCommand("lograft.cli.commands.context:context", "Give clusters names, and choose one of them."),
    "create": LazyCommand("lograft.cli.commands.create:create", "Create topics."),
    "delete": LazyCommand("lograft.cli.commands.delete:delete", "Delete topics or groups, or forget brokers."),
    "describe": LazyCommand(
        "lograft.cli.commands.describe:describe", "Tell all about a topic, a broker, the quorum and more."
    ),
    "dev": LazyCommand("lograft.cli.commands.dev:dev", "Run a cluster of real processes on this machine."),
    "diff": LazyCommand("lograft.cli.declarative.diff:diff", "Show what `lograft apply` would change."),
    "drain": LazyCommand("lograft.cli.operations.drain:drain", "Move everything off a broker."),
    "dump-log": LazyCommand(
        "lograft.cli.dump.command:dump_log", "Show what a data file holds, and whether it is sound."
    ),
    "edit": LazyCommand("lograft.cli.declarative.edit:edit", "Change topics in an editor."),
    "elect": LazyCommand("lograft.cli.commands.elect:elect", "Have other replicas lead."),
    "explain": LazyCommand("lograft.cli.commands.explain:explain", "Tell what resources and their settings mean."),
    "export": LazyCommand("lograft.cli.declarative.export:export", "Write resource files of what there is."),
    "get": LazyCommand("lograft.cli.commands.get:get", "Show topics, partitions, brokers and more, a line each."),
    "health": LazyCommand("lograft.cli.commands.health:health", "Say whether all is well with the cluster."),
    "offsets": LazyCommand(
        "lograft.cli.commands.offsets:offsets", "Show where partitions start and end, or where a time is."
    ),
    "import": LazyCommand(
        "lograft.cli.declarative.import_groups:import_command", "Have groups go on where a file says."
    ),
    "produce": LazyCommand("lograft.cli.records.produce:produce", "Store lines of standard input, or of files."),
    "quorum": LazyCommand("lograft.cli.commands.quorum:quorum", "Change who votes on the metadata, and who leads."),
    "reassign": LazyCommand("lograft.cli.operations.reassign:reassign", "Move partitions to other brokers."),
    "reset": LazyCommand("lograft.cli.operations.reset:reset", "Have a group go on at other offsets."),
    "scale": LazyCommand(
        "lograft.cli.operations.scale:scale", "Give topics more partitions, or more or fewer replicas."
    ),
    "top": LazyCommand("lograft.cli.top.command:top", "Show what the cluster is doing, live."),
    "verify": LazyCommand("lograft.cli.commands.verify:verify", "Say whether all replicas have the same records."),
    "wait": LazyCommand("lograft.cli.commands.wait:wait", "Return when something has come to be so."),
}

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "A cluster on this machine": ("dev", "server", "chaos"),
    "Look at a cluster": (
        "get", "describe", "health", "top", "wait", "offsets", "verify", "explain", "api-resources",
    ),
    "Records": ("produce", "consume", "bench", "dump-log"),
    "Change topics, groups and settings": (
        "create", "delete", "edit", "scale", "config", "apply", "diff", "export", "reset", "import",
    ),
    "Operate a cluster": ("elect", "reassign", "drain", "quorum", "mark-restored"),
    "Settings of this command line": ("context", "completion"),
}  # fmt: skip
"""In which help lists them."""


class LazyGroup(click.Group):
    """A group whose commands are in a table. Help lists them in sections, and those in none of these in the end."""

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
        """As click does it, but without importing every command for its summary."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self._summary(ctx, name)) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        known = self.list_commands(ctx)
        listed = {name for names in self._sections.values() for name in names}
        sections = {**self._sections, "Commands": tuple(name for name in known if name not in listed)}
        # All columns alike, whatever is in a section.
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
        """No traceback unless asked for, whatever goes wrong."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort) as error:
            show_traceback(ctx, error)
            raise
        except Exception as error:
            is_reader_gone = isinstance(error, OSError) and error.errno == errno.EPIPE
            if is_reader_gone or ctx.find_root().params.get("debug"):
                raise
            raise unforeseen(error) from error


def show_traceback(ctx: click.Context, error: Exception) -> None:
    """Of what is told in two lines, to whoever wants to know how it came to that."""
    if isinstance(error, CommandError) and ctx.find_root().params.get("debug"):
        import traceback

        traceback.print_exception(error)


def unforeseen(error: Exception) -> CommandError:
    """How a failure is told that nobody thought of."""
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return CommandError("standard input or output is closed", "give it some: `< FILE`, `> FILE`, or a pipe")
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return CommandError(f"{where}{error.strerror}", "mend that, and try again")
    cause = f"unexpected {type(error).__name__}: {error}"
    return CommandError(cause, "run `lograft --debug ...` for the traceback, and report it")


def _complete_contexts(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    from lograft.cli.common.completion_values import complete_names
    from lograft.cli.common.nouns import Noun

    return complete_names(Noun.CONTEXT)(ctx, parameter, incomplete)


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name=PROGRAM, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback when something goes wrong.")
@click.option("--bootstrap", envvar="LOGRAFT_BOOTSTRAP", metavar="HOST:PORT,...", help="Some brokers of the cluster.")
@click.option(
    "--context",
    envvar="LOGRAFT_CONTEXT",
    metavar="NAME",
    shell_complete=_complete_contexts,
    help="Which cluster, by its name in `lograft context list`.",
)
@click.option("--timeout", metavar="DURATION", help="How long to try: 500ms, 5s, 10m, 1h.")
@click.option("-o", "--output", metavar="FORMAT", help="How to show it: table, wide, json, yaml, name, jsonpath=...")
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever it has changed.")
@click.option("--no-headers", is_flag=True, help="Leave the titles of tables out.")
def cli(**_common: object) -> None:
    """lograft: a replicated log service, and its tools.

    \b
    lograft dev up --detach                a cluster of three nodes on this machine
    lograft create topic orders --partitions 3
    seq 1000 | lograft produce orders
    lograft consume orders --exit          what is there; without --exit, what comes
    lograft dev kill 2                     a broker dies, and is soon missed:
    lograft get partitions --under-replicated
    lograft dev restart 2                  and comes back
    lograft wait topic/orders --for InSync
    lograft dev down

    `lograft COMMAND --help` tells what a command can do, with examples.
    """


def run(more_commands: Mapping[str, LazyCommand]) -> NoReturn:
    """Run the command that the process was started with, and exit. `more_commands`: beside those that are here."""
    assert isinstance(cli, LazyGroup)
    cli.add_lazy(more_commands)
    open_missing_streams()
    code: Any = 0
    trouble: OSError | None = None
    try:
        cli.main(prog_name=PROGRAM)
    except SystemExit as ended:
        code = ended.code
    except OSError as error:  # of help, which is written before there is a command
        if "--debug" in sys.argv:
            raise
        trouble = error
    unwritten = finish_output()
    if not code and (trouble := trouble or unwritten) is not None:
        code = 1
        if trouble.errno != errno.EPIPE:
            unforeseen(trouble).show()
    sys.exit(code)
