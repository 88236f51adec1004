"""The context of a local cluster, which `dev up` writes and `dev down` removes."""

import os
from pathlib import Path

import click

from lograft.cli.common.command_error import CommandError
from lograft.cli.common.context_file import load_contexts, save_contexts
from lograft.cli.common.contexts import Contexts
from lograft.clients.cluster.bootstrap import parse_bootstrap
from lograft.clients.errors import InvalidArgument
from lograft.clients.local.layout import Layout

_LOOPBACK = ("127.0.0.1", "localhost")


def default_directory() -> str:
    data_home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data_home, "lograft", "dev")


def same_directory(directory: Path) -> str:
    """Return the flag that selects the same cluster in another command, or an empty string for the default one."""
    return "" if str(directory) == default_directory() else f" --data-dir {directory}"


def context_name(directory: Path, layout: Layout) -> str:
    return "dev" if str(directory) == default_directory() else f"dev-{layout.port}"


def write_context(directory: Path, layout: Layout) -> None:
    """Write the cluster's context, make it current if none is, and tell the user how commands find the cluster. Failing
    to write it is a warning."""
    name = context_name(directory, layout)
    try:
        contexts = load_contexts()
        changed = _written(contexts, name, layout)
        if changed != contexts:
            save_contexts(changed)
    except CommandError as error:
        _tell(f"Warning: the context {name} was not written: {error.message}")
        _tell(f"So that commands find the cluster: export LOGRAFT_BOOTSTRAP={layout.bootstrap}")
        return
    for line in _how_to_reach(changed, name, layout):
        _tell(line)


def remove_context(directory: Path, layout: Layout) -> None:
    """Remove the cluster's context. Leave one alone that the user made to lead elsewhere."""
    name = context_name(directory, layout)
    try:
        contexts = load_contexts()
        if not _leads_to(contexts.bootstraps.get(name, ""), layout):
            return
        save_contexts(contexts.without(name))
    except CommandError as error:
        _tell(f"Warning: the context {name} was not removed: {error.message}")
        return
    _tell(f"Context {name} removed." if contexts.current != name else f"Context {name} removed; no context is current.")


def _written(contexts: Contexts, name: str, layout: Layout) -> Contexts:
    """Add the context. Raise `CommandError` if the user has one of this name that leads to another machine."""
    former = contexts.bootstraps.get(name)
    if former is not None and not all(host in _LOOPBACK for host, _ in _addresses(former)):
        raise CommandError(f"it exists already, for {former}", "give it another name")
    changed = contexts.with_context(name, layout.bootstrap)
    return changed.using(name) if contexts.current is None else changed


def _how_to_reach(contexts: Contexts, name: str, layout: Layout) -> list[str]:
    bootstrap, context = os.environ.get("LOGRAFT_BOOTSTRAP"), os.environ.get("LOGRAFT_CONTEXT")
    if bootstrap:
        if _leads_to(bootstrap, layout):
            return []
        return [f"Warning: LOGRAFT_BOOTSTRAP ({bootstrap}) overrides contexts: unset it, or pass --context {name}."]
    current = context or contexts.current
    if current == name:
        return [f"Commands use this cluster: the current context is {name}."]
    how = "unset LOGRAFT_CONTEXT" if context else f"run `lograft context use {name}`"
    return [f"Commands use the current context, {current}. For this cluster, pass --context {name}, or {how}."]


def _leads_to(bootstrap: str, layout: Layout) -> bool:
    """Return True if the addresses are those of nodes of the cluster."""
    ports = [int(layout.client_address(number).rpartition(":")[2]) for number in layout.numbers]
    found = _addresses(bootstrap)
    return bool(found) and all(host in _LOOPBACK and port in ports for host, port in found)


def _addresses(bootstrap: str) -> list[tuple[str, int]]:
    try:
        parts = [address.rpartition(":") for address in parse_bootstrap(bootstrap)]
    except InvalidArgument:
        return []
    return [(host, int(port)) for host, _, port in parts]


def _tell(line: str) -> None:
    click.echo(line, err=True)
