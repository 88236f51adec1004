"""`lograft context list|use|set|delete|current|show`: manage named clusters."""

import os
import sys

import click

from lograft.cli.common.cluster_options import Settings, command_flags
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.common_flags import FORMATS, TypedFlag
from lograft.cli.common.completion_values import complete_names
from lograft.cli.common.context_file import contexts_path, find_bootstrap, load_contexts, save_contexts
from lograft.cli.common.contexts import BadContexts, Contexts
from lograft.cli.common.nouns import Noun
from lograft.cli.output.resource_output import Resource, write_resources
from lograft.cli.resources.change_report import ChangeReport
from lograft.cli.resources.context_resources import CONTEXT_COLUMNS, context_resources

_NONE = "No contexts found. Create one with `lograft context set NAME --bootstrap HOST:PORT`."

# None of these resolves a cluster: they must work even if LOGRAFT_CONTEXT names a missing context.
_local_change = command_flags(*FORMATS, asks_cluster=False)
_local_look = command_flags(*FORMATS, has_titles=True, asks_cluster=False)
_local_list = command_flags(*FORMATS, has_titles=True, can_watch=True, asks_cluster=False)
_name = click.argument("name", shell_complete=complete_names(Noun.CONTEXT))


@click.group()
def context() -> None:
    """Manage contexts. A context is a name for a cluster.

    Contexts are stored in ~/.config/lograft/config.yaml, or in the file named by LOGRAFT_CONFIG. A command selects its
    cluster by the first of these that is set: --bootstrap, --context, LOGRAFT_BOOTSTRAP, LOGRAFT_CONTEXT, the current
    context, localhost:9092.

    \b
    Examples:
      # Create a context and make it the current one
      lograft context set prod --bootstrap a.example:9092,b.example:9092
      lograft context use prod
      # Use another context for one command
      lograft get topics --context dev

    \b
    Exit code  0  success
               1  the context does not exist, or the file cannot be read or written
    """


@context.command("list")
@_local_list
def list_command(settings: Settings) -> None:
    """List all contexts and mark the current one. Same as `lograft get contexts`."""
    show_contexts(settings, [])


def show_contexts(settings: Settings, names: list[str]) -> None:
    """Print contexts once, or whenever the file changes if the settings say to watch."""
    if settings.is_watching:
        from lograft.cli.output.watch import run_until_interrupted

        run_until_interrupted(_watch(settings, names))
        return
    found = context_resources(load_contexts(), names)
    if not found and settings.is_table:
        click.echo(_NONE, err=True)
        return
    write_resources(sys.stdout, found, CONTEXT_COLUMNS, settings, is_one=len(names) == 1)


async def _watch(settings: Settings, names: list[str]) -> None:
    from lograft.cli.output.watch import watch
    from lograft.runtime.clock import LoopClock

    async def look() -> list[Resource]:
        return context_resources(load_contexts(), names)

    await watch(look, CONTEXT_COLUMNS, settings, LoopClock(), none=_NONE)


@context.command("show")
@click.argument("name", required=False, shell_complete=complete_names(Noun.CONTEXT))
@_local_look
def show_command(settings: Settings, name: str | None) -> None:
    """Show a context. Defaults to the current one."""
    show_contexts(settings, [name if name is not None else _current(load_contexts())])


@context.command("current")
def current_command() -> None:
    """Print the name of the current context."""
    click.echo(_current(load_contexts()))


def _current(contexts: Contexts) -> str:
    if contexts.current is None:
        raise CommandError("there is no current context", "select one with `lograft context use NAME`")
    return contexts.current


@context.command("use")
@_name
@_local_change
def use_command(settings: Settings, name: str) -> None:
    """Set the current context."""
    contexts = load_contexts()
    find_bootstrap(contexts, name)
    changed = contexts.using(name)
    save_contexts(changed)
    _tell(settings, changed, name, "is current")
    _tell_what_overrules()


@context.command("set")
@_name
@click.option(
    "--bootstrap", cls=TypedFlag, required=True, metavar="HOST:PORT,...", help="Addresses of one or more brokers."
)
@click.option("--use", is_flag=True, help="Also make it the current context.")
@_local_change
def set_command(settings: Settings, name: str, bootstrap: str, use: bool) -> None:
    """Create or change a context."""
    contexts = load_contexts()
    try:
        changed = contexts.with_context(name, bootstrap)
    except BadContexts as error:
        raise click.UsageError(str(error)) from None
    how = "created" if name not in contexts.bootstraps else "unchanged" if changed == contexts else "changed"
    changed = changed.using(name) if use else changed
    save_contexts(changed)
    _tell(settings, changed, name, how)
    if use:
        _tell_what_overrules()
    if changed.current is None:
        click.echo(f"To make it the current context, run `lograft context use {name}`.", err=True)


@context.command("delete")
@_name
@command_flags("name", asks_cluster=False)
def delete_command(settings: Settings, name: str) -> None:
    """Delete a context. The cluster itself is not contacted or changed."""
    contexts = load_contexts()
    find_bootstrap(contexts, name)
    save_contexts(contexts.without(name))
    ChangeReport(settings).tell(Noun.CONTEXT, name, "deleted")
    if contexts.current == name:
        click.echo(f"{name} was the current context. {contexts_path()} has no current context now.", err=True)


def _tell_what_overrules() -> None:
    """Warn if an environment variable overrides the context that the user has just selected."""
    for variable in ("LOGRAFT_BOOTSTRAP", "LOGRAFT_CONTEXT"):
        if os.environ.get(variable):
            click.echo(
                f"Warning: {variable} ({os.environ[variable]}) overrides the current context; unset it, or pass "
                "--context.",
                err=True,
            )
            return


def _tell(settings: Settings, contexts: Contexts, name: str, how: str) -> None:
    (shown,) = context_resources(contexts, [name])
    report = ChangeReport(settings)
    report.tell(Noun.CONTEXT, name, how, shown)
    report.finish_planned()
