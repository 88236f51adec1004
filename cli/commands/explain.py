"""`lograft explain TYPE[.FIELD...]`: what resources are made of."""

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
@click.option("--recursive", is_flag=True, help="Fields of fields, too.")
@cluster_command
def explain(settings: Settings, path: str, recursive: bool) -> None:
    """Tell what a resource is made of, as `get -o yaml` shows it and files say it.

    Keys of configuration are asked of the cluster, so that they are those that it has; all else needs none.

    \b
    lograft explain topic
    lograft explain topic.spec.config                every key: type, default, what is accepted
    lograft explain topic.spec.config.retention.ms   one key
    lograft explain config.spec.value                keys of the cluster and of brokers
    lograft explain broker.status.state

    Exit codes: 0 done, 1 the cluster cannot be asked, 2 there is no such type or field.
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
    """By title: those of topics; or those that the cluster and brokers have besides."""
    async with open_admin(settings) as admin:
        entries = await admin.describe_config(ConfigKind.CLUSTER)
        if noun is Noun.TOPIC:
            return {"KEYS": [entry for entry in entries if entry.is_of_topics]}
        some = next((broker for broker in (await admin.describe_cluster()).brokers), None)
        of_brokers = await admin.describe_config(ConfigKind.BROKER, str(some.id)) if some is not None else []
        return {
            "KEYS OF THE CLUSTER, beside those of topics": [entry for entry in entries if not entry.is_of_topics],
            "KEYS OF BROKERS": of_brokers,
        }


# -- fields


def explained(kind: Kind, path: str, *, recursive: bool) -> Iterator[str]:
    """`path`: within the resource; empty for all of it. `UsageError` if there is no such field."""
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
    """`key`: that one; or empty, and all of them. `UsageError` if there is no such key."""
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
    return [entry.description, f"Default: {default}{in_force}. Give {entry.accepts}."]


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
    hint = f"did you mean {close[0]}?" if close else f"`lograft explain {where}` shows those there are"
    return f"{where} has no {name!r}: {hint}"
