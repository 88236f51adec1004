"""`lograft context list|use|set|delete|current|show`: clusters by name, for whoever has more than one."""

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

_NONE = "There are no contexts: `lograft context set NAME --bootstrap HOST:PORT` makes one."

# None of these looks for a cluster: they are what helps if LOGRAFT_CONTEXT names none.
_local_change = command_flags(*FORMATS, asks_cluster=False)
_local_look = command_flags(*FORMATS, has_titles=True, asks_cluster=False)
_local_list = command_flags(*FORMATS, has_titles=True, can_watch=True, asks_cluster=False)
_name = click.argument("name", shell_complete=complete_names(Noun.CONTEXT))


@click.group()
def context() -> None:
    """Clusters by name, for whoever has more than one.

    \b
    lograft context set prod --bootstrap a.example:9092,b.example:9092
    lograft context use prod            from now on, commands mean this one
    lograft get topics --context dev    but not this command

    They are in ~/.config/lograft/config.yaml, or where LOGRAFT_CONFIG says. What counts most comes first: --bootstrap,
    --context, LOGRAFT_BOOTSTRAP, LOGRAFT_CONTEXT, the current context, localhost:9092.

    \b
    Exit code  0  done
               1  there is no such context, or the file cannot be read or written
    """


@context.command("list")
@_local_list
def list_command(settings: Settings) -> None:
    """All contexts, and which is the current one; `lograft get contexts` is the same."""
    show_contexts(settings, [])


def show_contexts(settings: Settings, names: list[str]) -> None:
    """Once, or again whenever the file has changed."""
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
    """One context; the current one, if none is named."""
    show_contexts(settings, [name if name is not None else _current(load_contexts())])


@context.command("current")
def current_command() -> None:
    """The name of the current context."""
    click.echo(_current(load_contexts()))


def _current(contexts: Contexts) -> str:
    if contexts.current is None:
        raise CommandError("there is no current context", "`lograft context use NAME` chooses one")
    return contexts.current


@context.command("use")
@_name
@_local_change
def use_command(settings: Settings, name: str) -> None:
    """Have commands mean this cluster from now on, unless they say otherwise."""
    contexts = load_contexts()
    find_bootstrap(contexts, name)
    changed = contexts.using(name)
    save_contexts(changed)
    _tell(settings, changed, name, "is current")
    _tell_what_overrules()


@context.command("set")
@_name
@click.option("--bootstrap", cls=TypedFlag, required=True, metavar="HOST:PORT,...", help="Some brokers of the cluster.")
@click.option("--use", is_flag=True, help="Make it the current one, too.")
@_local_change
def set_command(settings: Settings, name: str, bootstrap: str, use: bool) -> None:
    """Give a cluster a name, or a name another cluster."""
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
        click.echo(f"`lograft context use {name}` has commands mean it.", err=True)


@context.command("delete")
@_name
@command_flags("name", asks_cluster=False)
def delete_command(settings: Settings, name: str) -> None:
    """Forget a name; the cluster is not asked, and nothing happens to it."""
    contexts = load_contexts()
    find_bootstrap(contexts, name)
    save_contexts(contexts.without(name))
    ChangeReport(settings).tell(Noun.CONTEXT, name, "deleted")
    if contexts.current == name:
        click.echo(f"It was the current one; now there is none in {contexts_path()}.", err=True)


def _tell_what_overrules() -> None:
    """Somebody who has just chosen a context means the next command to go there."""
    for variable in ("LOGRAFT_BOOTSTRAP", "LOGRAFT_CONTEXT"):
        if os.environ.get(variable):
            click.echo(
                f"{variable} ({os.environ[variable]}) counts more than the current context: unset it, or name the "
                "context with --context.",
                err=True,
            )
            return


def _tell(settings: Settings, contexts: Contexts, name: str, how: str) -> None:
    (shown,) = context_resources(contexts, [name])
    report = ChangeReport(settings)
    report.tell(Noun.CONTEXT, name, how, shown)
    report.finish_planned()
