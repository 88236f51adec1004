"""`lograft get TYPE [NAME...]`: list resources.

The most frequent command: imports that only some types need are deferred.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

from lograft.cli.common.cluster_options import (
    NOT_CONFIRMED,
    Settings,
    open_admin,
    open_cluster_admin,
    run_async,
    watching_command,
)
from lograft.cli.common.completion_values import complete_words
from lograft.cli.common.nouns import CLUSTER, Noun, check_names, check_quorum, parse_nouns, parse_types
from lograft.cli.output.resource_filters import Selection, check_selection, flag_text, is_under_replicated, select
from lograft.cli.output.resource_output import Column, Resource, resource_name, write_resources
from lograft.cli.resources.cluster_resources import (
    BROKER_COLUMNS,
    PARTITION_COLUMNS,
    QUORUM_COLUMNS,
    TOPIC_COLUMNS,
    quorum_resource,
    topic_resource,
)
from lograft.cli.resources.disk_resources import with_loads
from lograft.cli.resources.queries import brokers, groups, min_isr, partitions
from lograft.clients.admin.cluster_admin import ClusterAdmin
from lograft.runtime.clock import LoopClock

if TYPE_CHECKING:
    from lograft.clients.admin.aio_admin import Admin

_NOUNS = tuple(noun for noun in Noun if noun is not Noun.CLUSTER)
_ALL = (Noun.BROKER, Noun.TOPIC, Noun.GROUP, Noun.QUORUM, Noun.REASSIGNMENT)


@click.command("get")
@click.argument(
    "words", metavar="TYPE[,TYPE] [NAME]...", nargs=-1, required=True, shell_complete=complete_words(*_NOUNS)
)
@click.option("--internal", is_flag=True, help="Include internal topics.")
@click.option("--under-replicated", is_flag=True, help="Only topics and partitions with replicas that are not in sync.")
@click.option(
    "--under-min-isr", is_flag=True, help="Only partitions with fewer in-sync replicas than min.insync.replicas."
)
@click.option("--offline", is_flag=True, help="Only partitions without a leader, their topics, and inactive brokers.")
@click.option("--lagging", is_flag=True, help="Only groups with lag.")
@watching_command
def get(settings: Settings, words: Sequence[str], internal: bool, **flags: bool) -> None:
    """List resources of one or more types.

    TYPE is a resource type: singular, plural, or short (t, p, b, g). Use TYPE,TYPE for several types and `all` for
    topics, brokers, groups, the quorum, and reassignments. Resources can also be named as TYPE/NAME. With several
    filter flags, a resource must match at least one of them.

    \b
    Examples:
      # List all topics
      lograft get topics
      # List everything
      lograft get all
      # List topics and brokers with more columns
      lograft get topics,brokers -o wide
      # List the partitions of a topic, or a single partition
      lograft get partitions orders
      lograft get partition orders-0
      # List partitions with missing replicas, internal topics included
      lograft get partitions --under-replicated --internal
      # Watch the brokers
      lograft get brokers -w
      # List the groups with lag
      lograft get groups --lagging
      # Print the quorum as JSON, or the names of all topics
      lograft get quorum -o json
      lograft get topics -o jsonpath='{.items[*].metadata.name}'
      # List configuration of the cluster, or of a topic and a broker
      lograft get configs
      lograft get configs topic/orders broker/1
      # Print one configuration key
      lograft get config topic/orders/retention.ms

    \b
    Exit code    0  success, even if nothing was found
                 1  a named resource does not exist, or the cluster is unreachable
               130  -w was interrupted by Ctrl+C
    """
    selection = Selection(**flags)
    if nouns := parse_types(words, _NOUNS, _ALL):
        _show_several(settings, nouns, selection, internal)
        return
    noun, names = parse_nouns(words, _NOUNS)
    check_names(noun, names)
    check_selection(selection, noun)
    if noun is Noun.CONFIG:
        names = names or [CLUSTER]  # cluster values are the defaults of all others
    if noun is Noun.CONTEXT:
        from lograft.cli.commands.context import show_contexts

        show_contexts(settings, names)
        return
    wanted = Wanted(noun, names, selection, internal)
    if settings.is_watching:
        from lograft.cli.output.watch import run_until_interrupted

        run_until_interrupted(_watch(settings, wanted))
        return
    resources = run_async(_look_once(settings, wanted))
    if not resources and settings.is_table:
        click.echo(wanted.none, err=True)
        return
    is_one = noun is Noun.QUORUM or (
        len(names) == len(resources) == 1 and not selection.flags and is_single(noun, names[0], resources[0])
    )
    write_resources(sys.stdout, resources, columns_of(wanted), settings, is_one=is_one)


class Wanted(NamedTuple):
    """A query. Without names, it selects all resources of the type."""

    noun: Noun
    names: list[str]
    selection: Selection
    include_internal: bool

    @property
    def none(self) -> str:
        which = " or ".join(flag_text(flag).removeprefix("--") for flag in self.selection.flags)
        return f"No {f'{which} ' if which else ''}{self.noun.value}s found."


def _show_several(settings: Settings, nouns: Sequence[Noun], selection: Selection, internal: bool) -> None:
    """Print a table for each type that has resources, or one list of all."""
    if settings.is_watching:
        raise click.UsageError("-w supports one resource type at a time")
    for noun in nouns:
        check_selection(selection, noun)
        if noun is Noun.CONTEXT:
            raise click.UsageError("contexts are local and cannot be combined with resources of a cluster")
    wanted = [Wanted(noun, [CLUSTER] if noun is Noun.CONFIG else [], selection, internal) for noun in nouns]
    found = run_async(_look_at_several(settings, wanted))
    if not settings.is_table:
        write_resources(sys.stdout, [each for resources in found for each in resources], (), settings, is_one=False)
        return
    tables = [(each, resources) for each, resources in zip(wanted, found, strict=True) if resources]
    if not tables:
        click.echo("No resources found.", err=True)
    for number, (each, resources) in enumerate(tables):
        if number:
            click.echo()
        columns = [Column("NAME", resource_name), *columns_of(each)[1:]]
        write_resources(sys.stdout, resources, columns, settings, is_one=False)


async def _look_at_several(settings: Settings, wanted: Sequence[Wanted]) -> list[list[Resource]]:
    async with open_admin(settings) as admin:
        return [await _look(admin, settings, each) for each in wanted]


def columns_of(wanted: Wanted) -> Sequence[Column]:
    match wanted.noun:
        case Noun.TOPIC:
            return TOPIC_COLUMNS
        case Noun.PARTITION:
            return PARTITION_COLUMNS
        case Noun.BROKER:
            return BROKER_COLUMNS
        case Noun.QUORUM:
            return QUORUM_COLUMNS
        case Noun.GROUP:
            from lograft.cli.resources.group_resources import GROUP_COLUMNS

            # --lagging selects by lag, so show it even in narrow tables.
            return (
                [replace(each, is_wide=False) for each in GROUP_COLUMNS] if wanted.selection.lagging else GROUP_COLUMNS
            )
        case Noun.CONFIG:
            from lograft.cli.resources.config_resources import CONFIG_COLUMNS

            return CONFIG_COLUMNS
        case Noun.REASSIGNMENT:
            from lograft.cli.resources.reassignment_resources import PROGRESS_COLUMNS

            return PROGRESS_COLUMNS
        case Noun.NODE:
            from lograft.cli.resources.node_resources import NODE_COLUMNS

            return NODE_COLUMNS
    raise AssertionError(f"{wanted.noun} is not of a cluster")


def is_single(noun: Noun, name: str, found: Resource) -> bool:
    """Whether `name` names a single resource. A topic's partitions are a list even if there is one."""
    if noun is Noun.CONFIG:
        return bool(name == found["metadata"]["name"])
    return noun not in (Noun.PARTITION, Noun.REASSIGNMENT) or name != found["metadata"]["topic"]


async def _watch(settings: Settings, wanted: Wanted) -> None:
    from lograft.cli.output.watch import watch

    async with _open(settings, wanted.noun) as admin:
        doubts: list[str] = []
        admin.when_not_confirmed = lambda: doubts.append(NOT_CONFIRMED)

        async def look() -> list[Resource]:
            doubts.clear()
            return await _look(admin, settings, wanted)

        def doubt() -> str:
            return doubts[0] if doubts else ""

        await watch(look, columns_of(wanted), settings, LoopClock(), none=wanted.none, doubt=doubt)


def _open(settings: Settings, noun: Noun) -> ClusterAdmin:
    return open_admin(settings) if noun in (Noun.GROUP, Noun.REASSIGNMENT) else open_cluster_admin(settings)


async def _look_once(settings: Settings, wanted: Wanted) -> list[Resource]:
    async with _open(settings, wanted.noun) as admin:
        return await _look(admin, settings, wanted)


async def _look(admin: ClusterAdmin, settings: Settings, wanted: Wanted) -> list[Resource]:
    found = await _look_at_all(admin, settings, wanted)
    min_isrs = await _min_isrs(admin, found) if wanted.selection.under_min_isr else {}
    return select(found, wanted.noun, wanted.selection, min_isrs)


async def _look_at_all(admin: ClusterAdmin, settings: Settings, wanted: Wanted) -> list[Resource]:
    noun, names, selection, include_internal = wanted
    match noun:
        case Noun.TOPIC:
            cluster = await admin.describe_cluster(names, include_internal=include_internal)
            return [topic_resource(topic) for topic in cluster.topics]
        case Noun.PARTITION:
            return await partitions(admin, settings, names, include_internal=include_internal)
        case Noun.BROKER:
            found = brokers(await admin.describe_cluster(include_internal=True), names)
            # Narrow tables show no disks, which cost a call to every broker. Watched, they would change all the time.
            if settings.output in ("table", "name") or settings.is_watching:
                return found
            return with_loads(found, await admin.describe_load(include_partitions=False))
        case Noun.GROUP:
            return await groups(_of_all(admin), settings, names, with_lag=selection.lagging)
        case Noun.QUORUM:
            quorum = quorum_resource(await admin.describe_quorum())
            check_quorum(names, quorum["metadata"]["name"])
            return [quorum]
        case Noun.CONFIG:
            return await _config_entries(admin, names)
        case Noun.REASSIGNMENT:
            from lograft.cli.operations.reassignment_run import reassignments

            return await reassignments(_of_all(admin), names)
        case Noun.NODE:
            from lograft.cli.resources.node_resources import nodes

            return await nodes(admin, names)
    raise AssertionError(f"{noun} is not of a cluster")


def _of_all(admin: ClusterAdmin) -> "Admin":
    """Return the full client that `_open` created for this noun."""
    from lograft.clients.admin.aio_admin import Admin

    assert isinstance(admin, Admin)
    return admin


async def _min_isrs(admin: ClusterAdmin, found: Sequence[Resource]) -> dict[str, int]:
    """Return min.insync.replicas by topic, for topics that are under-replicated: no other can be below it."""
    topics = dict.fromkeys(each["metadata"]["topic"] for each in found if is_under_replicated(each))
    return {topic: await min_isr(admin, topic) for topic in topics}


async def _config_entries(admin: ClusterAdmin, names: Sequence[str]) -> list[Resource]:
    from lograft.cli.resources.config_resources import entry_resource, parse_setting

    return [
        entry_resource(owner, entry)
        for owner, keys in map(parse_setting, names)
        for entry in await admin.describe_config(owner.kind, owner.name, keys)
    ]
