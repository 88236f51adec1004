"""Contexts, and the text of the contexts file. Pure.

current: prod
contexts:
  dev: {bootstrap: 'localhost:9092'}
  prod: {bootstrap: 'a.example:9092,b.example:9092'}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lograft.cli.common.input_files import yaml_trouble
from lograft.clients.cluster.bootstrap import parse_bootstrap
from lograft.clients.errors import InvalidArgument

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}", flags=re.ASCII)


class BadContexts(ValueError):
    """Invalid text or name. The message names the problem."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """`bootstraps`: by name. `current`: the default context."""

    bootstraps: Mapping[str, str] = field(default_factory=dict)
    current: str | None = None

    def with_context(self, name: str, bootstrap: str) -> "Contexts":
        return replace(self, bootstraps={**self.bootstraps, check_name(name): _checked(bootstrap, name)})

    def without(self, name: str) -> "Contexts":
        """Remove a context. If it is the current one, no context is current afterwards."""
        kept = {each: bootstrap for each, bootstrap in self.bootstraps.items() if each != name}
        return Contexts(kept, self.current if self.current in kept else None)

    def using(self, name: str) -> "Contexts":
        assert name in self.bootstraps
        return replace(self, current=name)


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadContexts(f"{name!r} is not a valid context name: use letters, digits, and . _ @ - between them")
    return name


def read_contexts(text: str) -> Contexts:
    """Parse the file's text. Raise `BadContexts` if it is invalid."""
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadContexts(f"not valid YAML: {yaml_trouble(error)}") from None
    if content is None:
        return Contexts()
    given = _mapping(content, "the file", ("current", "contexts"))
    entries = given.get("contexts")
    bootstraps = {}
    for name, entry in _mapping({} if entries is None else entries, "contexts", None).items():
        what = f"context {check_name(name)!r}"
        bootstraps[name] = _checked(_mapping(entry, what, ("bootstrap",)).get("bootstrap"), name)
    current = given.get("current")
    if current is not None and current not in list(bootstraps):
        raise BadContexts(f"current is {current!r}, which is not one of its contexts")
    return Contexts(bootstraps, current)


def write_contexts(contexts: Contexts) -> str:
    import yaml

    entries = {name: {"bootstrap": bootstrap} for name, bootstrap in sorted(contexts.bootstraps.items())}
    return str(yaml.safe_dump({"current": contexts.current, "contexts": entries}, sort_keys=False, allow_unicode=True))


def _mapping(content: Any, what: str, keys: tuple[str, ...] | None) -> Mapping[Any, Any]:
    if not isinstance(content, dict):
        raise BadContexts(f"{what} is {content!r:.50}, not a mapping")
    for key in content if keys is not None else ():
        if key not in (keys or ()):
            raise BadContexts(f"{what} has an unknown key {key!r}: allowed keys are {', '.join(keys or ())}")
    return content


def _checked(bootstrap: Any, name: str) -> str:
    if not isinstance(bootstrap, str):
        raise BadContexts(f"the bootstrap of context {name!r} is {bootstrap!r:.50}, not host:port,...")
    try:
        return ",".join(parse_bootstrap(bootstrap))
    except InvalidArgument as error:
        raise BadContexts(f"the bootstrap of context {name!r} is invalid: {error.message}") from None
