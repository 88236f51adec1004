"""`lograft explain TYPE[.FIELD...]`: show documentation for resources and fields."""

import difflib
import textwrap
from collections.abc import Iterator, Mapping, Sequence

import click

from lograft.cli.common.cluster_options import Settings, cluster_command, open_admin, run_async
from lograft.cli.common.nouns import Noun, parse_nouns
from lograft.cli.output.resource_output import API_VERSION
from lograft.cli.resources.field_docs import CONFIG_KEYS, KINDS, FieldDoc, Kind
from lograft.clients.admin.model.types import ConfigEntry, ConfigKind

_WIDTH = 100


@click.command("explain")
@click.argument("path", metavar="TYPE[.FIELD]...")
@click.option("--recursive", is_flag=True, help="Also list nested fields.")
@cluster_command
def explain(settings: Settings, path: str, recursive: bool) -> None:
    """Show documentation for a resource type or one of its fields.

    Documentation of configuration keys comes from the cluster. Everything else works without one.

    \b
    Examples:
      # List the fields of topics
      lograft explain topic
      # List the configuration keys of topics with type, default, and accepted values
      lograft explain topic.spec.config
      # Explain one key
      lograft explain topic.spec.config.retention.ms
      # List the configuration keys of the cluster and of brokers
      lograft explain config.spec.value
      # Explain one field
      lograft explain broker.status.state

    \b
    Exit code  0  success
               1  the cluster is unreachable
               2  the type or field does not exist
    """
    word, _, rest = path.partition(".")
    noun, _ = parse_nouns([word], list(KINDS))
    keys_at = CONFIG_KEYS.get(noun)
    lines: Iterator[str]
    if keys_at is not None and (rest == keys_at or rest.startswith(f"{keys_at}.")):
        keys = run_async(_config_keys(settings, noun))
        lines = explained_keys(KINDS[noun], keys_at, rest.removeprefix(keys_at).removeprefix("."), keys)
    else:
        lines = explained(KINDS[noun], rest, recursive=recursive)
    for line in lines:
        click.echo(line)


async def _config_keys(settings: Settings, noun: Noun) -> dict[str, list[ConfigEntry]]:
    """Return configuration keys by title: those of topics, or the additional ones of the cluster and of brokers."""
    async with open_admin(settings) as admin:
        entries = await admin.describe_config(ConfigKind.CLUSTER)
        if noun is Noun.TOPIC:
            return {"KEYS": [entry for entry in entries if entry.is_of_topics]}
        some = next((broker for broker in (await admin.describe_cluster()).brokers), None)
        of_brokers = await admin.describe_config(ConfigKind.BROKER, str(some.id)) if some is not None else []
        return {
            "CLUSTER KEYS (in addition to topic keys)": [entry for entry in entries if not entry.is_of_topics],
            "BROKER KEYS": of_brokers,
        }


# -- fields


def explained(kind: Kind, path: str, *, recursive: bool) -> Iterator[str]:
    """Explain the field at `path`, or the whole resource if it is empty. Raise `UsageError` if it does not exist."""
    if path and path not in kind.fields:
        raise click.UsageError(_unknown(kind.name.lower(), path, list(kind.fields)))
    found = kind.fields.get(path)
    yield from _heading(kind, path, found)
    yield from _described(found.text if found is not None else kind.text)
    inner = _fields_in(kind.fields, path, recursive=recursive)
    if inner:
        yield ""
        yield "FIELDS:"
        for name, field in inner.items():
            depth = name.count(".") - (path.count(".") + 1 if path else 0)
            yield from _listed(name.rpartition(".")[2], field.type, [field.text], depth)


def _fields_in(fields: Mapping[str, FieldDoc], path: str, *, recursive: bool) -> dict[str, FieldDoc]:
    prefix = f"{path}." if path else ""
    inner = {name: field for name, field in fields.items() if name.startswith(prefix) and name != path}
    return {name: field for name, field in inner.items() if recursive or "." not in name.removeprefix(prefix)}


# -- keys of configuration


def explained_keys(kind: Kind, keys_at: str, key: str, keys: Mapping[str, Sequence[ConfigEntry]]) -> Iterator[str]:
    """Explain `key`, or all keys if it is empty. Raise `UsageError` if it does not exist."""
    by_key = {entry.key: entry for entries in keys.values() for entry in entries}
    if key and key not in by_key:
        raise click.UsageError(_unknown(f"{kind.name.lower()}.{keys_at}", key, list(by_key)))
    if key:
        entry = by_key[key]
        yield from _heading(kind, f"{keys_at}.{key}", FieldDoc(entry.kind, entry.description))
        yield from _described(*_meaning(entry))
        return
    yield from _heading(kind, keys_at, kind.fields[keys_at])
    yield from _described(kind.fields[keys_at].text)
    for title, entries in keys.items():
        yield ""
        yield f"{title}:"
        for entry in entries:
            yield from _listed(entry.key, entry.kind, _meaning(entry), 0)


def _meaning(entry: ConfigEntry) -> list[str]:
    default = entry.default if entry.default is not None else "depends on the topic"
    in_force = f", but the cluster sets {entry.setting}" if entry.is_of_topics and entry.setting is not None else ""
    return [entry.description, f"Default: {default}{in_force}. Accepts {entry.accepts}."]


# -- texts


def _heading(kind: Kind, path: str, field: FieldDoc | None) -> Iterator[str]:
    yield f"KIND:     {kind.name}"
    yield f"VERSION:  {API_VERSION}"
    yield ""
    if field is not None:
        yield f"FIELD: {path} <{field.type}>"
        yield ""


def _described(*texts: str) -> Iterator[str]:
    yield "DESCRIPTION:"
    for text in texts:
        yield from textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _listed(name: str, of_type: str, texts: Sequence[str], depth: int) -> Iterator[str]:
    indent = "  " * (depth + 1)
    yield f"{indent}{name} <{of_type}>"
    for text in texts:
        yield from textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}  ", subsequent_indent=f"{indent}  ")


def _unknown(where: str, name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"run `lograft explain {where}` to list its fields"
    return f"{where} has no field {name!r}: {hint}"
