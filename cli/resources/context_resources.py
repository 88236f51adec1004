"""Contexts as resources."""

from lograft.cli.common.context_file import find_bootstrap
from lograft.cli.common.contexts import Contexts
from lograft.cli.output.resource_output import Column, Resource, resource

CONTEXT_COLUMNS = (
    Column("CURRENT", lambda each: "*" if each["status"]["current"] else " "),
    Column("NAME", lambda each: each["metadata"]["name"]),
    Column("BOOTSTRAP", lambda each: each["spec"]["bootstrap"]),
)


def context_resources(contexts: Contexts, names: list[str]) -> list[Resource]:
    """Return the named contexts, or all. Raise `CommandError` if one does not exist."""
    return [
        resource(
            "Context",
            {"name": name},
            spec={"bootstrap": find_bootstrap(contexts, name)},
            status={"current": name == contexts.current},
        )
        for name in names or sorted(contexts.bootstraps)
    ]
