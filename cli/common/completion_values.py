"""Shell completion of nouns and of current resource names. Without a cluster, it quickly returns nothing."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from lograft.cli.common.nouns import Noun, names_of, noun_of
from lograft.clients.types import HIDDEN_PREFIX

if TYPE_CHECKING:
    from lograft.clients.admin.aio_admin import Admin

Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[Any]]

_PATIENCE_MS = 1500


def complete_words(*nouns: Noun) -> Completion:
    """Complete a noun, then its names; or TYPE/NAME."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        given: Sequence[str] = ctx.params.get(parameter.name or "") or ()
        kind, separator, _ = incomplete.partition("/")
        if separator:
            return _typed(ctx, kind, nouns, incomplete)
        if not given:
            return _starting([names_of(noun)[:2][-1] for noun in nouns], incomplete)
        noun = noun_of(given[0])
        return _live(ctx, noun, incomplete) if noun in nouns and noun is not None else []

    return complete


def complete_names(*nouns: Noun) -> Completion:
    """Complete names of a fixed noun."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        return [name for noun in nouns for name in _live(ctx, noun, incomplete)]

    return complete


def complete_types(*nouns: Noun, also: Sequence[str] = ()) -> Completion:
    """Complete TYPE/NAME only. `also`: words without a name, such as `cluster`.

    Offer names as soon as the type is unambiguous, because shells append a space to a single candidate."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        kind, separator, _ = incomplete.partition("/")
        if separator:
            return _typed(ctx, kind, nouns, incomplete)
        found = _starting([*also, *(f"{noun.value}/" for noun in nouns)], incomplete)
        if len(found) == 1 and found[0] not in also:
            return _typed(ctx, found[0].removesuffix("/"), nouns, found[0]) or found
        return found

    return complete


def complete_choices(*choices: str) -> Completion:
    return lambda ctx, parameter, incomplete: _starting(choices, incomplete)


def _typed(ctx: click.Context, kind: str, nouns: Sequence[Noun], incomplete: str) -> list[str]:
    noun = noun_of(kind)
    if noun is None or noun not in nouns:
        return []
    return _starting([f"{kind}/{name}" for name in _live(ctx, noun, incomplete.partition("/")[2])], incomplete)


def _starting(candidates: Sequence[str], incomplete: str) -> list[str]:
    return [candidate for candidate in candidates if candidate.startswith(incomplete)]


# -- what there is


def _live(ctx: click.Context, noun: Noun, incomplete: str) -> list[str]:
    """Return nothing on any error: completion must not print errors."""
    try:
        return _starting(_contexts() if noun is Noun.CONTEXT else _ask(ctx, noun, incomplete), incomplete)
    except Exception:
        return []


def _contexts() -> list[str]:
    from lograft.cli.common.context_file import load_contexts

    return sorted(load_contexts().bootstraps)


def _ask(ctx: click.Context, noun: Noun, incomplete: str) -> list[str]:
    import asyncio

    from lograft.cli.common.cluster_options import find_cluster
    from lograft.clients.admin.aio_admin import Admin

    _, bootstrap = find_cluster(ctx)

    async def ask() -> list[str]:
        async with (
            asyncio.timeout(_PATIENCE_MS / 1000),
            Admin(bootstrap, timeout_ms=_PATIENCE_MS, first_contact_ms=_PATIENCE_MS) as admin,
        ):
            return await _names(admin, noun, include_internal=incomplete.startswith(("_", HIDDEN_PREFIX)))

    return asyncio.run(ask())


async def _names(admin: "Admin", noun: Noun, *, include_internal: bool) -> list[str]:
    if noun is Noun.GROUP:
        return [group.name for group in await admin.list_groups()]
    if noun is Noun.REASSIGNMENT:
        return [f"{each.partition.topic}-{each.partition.partition}" for each in await admin.list_reassignments()]
    cluster = await admin.describe_cluster(include_internal=include_internal)
    brokers = [str(broker.id) for broker in cluster.brokers]
    topics = [topic.name for topic in cluster.topics]
    match noun:
        case Noun.TOPIC:
            return topics
        case Noun.PARTITION:
            return [f"{topic.name}-{each.number}" for topic in cluster.topics for each in topic.partitions]
        case Noun.BROKER:
            return brokers
        case Noun.CONFIG:
            return [*(f"topic/{name}" for name in topics), *(f"broker/{name}" for name in brokers), "cluster"]
        case _:
            return []
