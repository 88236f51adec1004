"""Report changes as `-o` says: a line per change, names, or finally all changed resources as `lograft get` prints
them."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.nouns import Noun
from lograft.cli.output.resource_output import Resource, resource_name, write_resources
from lograft.cli.resources.cluster_resources import partition_resources, quorum_resource, topic_resource
from lograft.cli.resources.config_resources import entry_resource, parse_owner
from lograft.clients.errors import LograftError

if TYPE_CHECKING:
    from lograft.clients.admin.aio_admin import Admin


class _Told(NamedTuple):
    """A reported resource. `planned`: its state after the change, for a dry run."""

    noun: Noun
    name: str
    planned: Resource | None


class ChangeReport:
    """Collects and prints changes. `is_list`: print a list even for one resource, because the request does not
    determine their number."""

    def __init__(self, settings: Settings, *, is_list: bool = False) -> None:
        self._settings = settings
        self._is_list = is_list
        self._told: dict[tuple[Noun, str], _Told] = {}

    def note(self, line: str) -> None:
        """Print a line, for people only."""
        if self._settings.is_table:
            click.echo(line)

    def tell(self, noun: Noun, name: str, how: str = "", planned: Resource | None = None) -> None:
        """Report a change. Without `how`, no line is printed. The quorum's name is empty."""
        if how:
            self.note(f"{noun.value}/{name} {how}" if name else f"{noun.value} {how}")
        if self._settings.output == "name" and name and (noun, name) not in self._told:
            click.echo(f"{noun.value}/{name}")
        self._told[noun, name] = _Told(noun, name, planned)

    async def finish(self, admin: "Admin", failures: Sequence[LograftError] = ()) -> None:
        """Print documents once all changes are made. Then raise the first failure, after printing the others."""
        if self._told or not failures:
            await self._write_resources(admin)
        raise_first(failures)

    def finish_planned(self) -> None:
        """Print documents of planned changes."""
        if self._settings.is_document:
            self._write([told.planned for told in self._told.values() if told.planned is not None])

    async def _write_resources(self, admin: "Admin") -> None:
        is_named_late = self._settings.output == "name" and any(not told.name for told in self._told.values())
        if not self._settings.is_document and not is_named_late:
            return
        try:
            found = [told.planned for told in self._told.values() if told.planned is not None]
            found += await _look(admin, [told for told in self._told.values() if told.planned is None])
        except LograftError as error:
            raise CommandError(
                f"the change was made, but its result is not available: {error.message}",
                "show the result later with `lograft get`",
            ) from error
        if is_named_late:
            click.echo("\n".join(map(resource_name, found)))
        else:
            self._write(found)

    def _write(self, found: Sequence[Resource]) -> None:
        write_resources(sys.stdout, found, (), self._settings, is_one=len(found) == 1 and not self._is_list)


async def _look(admin: "Admin", told: Sequence[_Told]) -> list[Resource]:
    """Query the resources, all of one type at once, since there may be thousands of partitions."""
    found: dict[tuple[Noun, str], Resource] = {}
    for noun in dict.fromkeys(each.noun for each in told):
        names = [each.name for each in told if each.noun is noun]
        resources = await _look_at(admin, noun, names)
        found |= {(noun, name): each for name, each in zip(names, resources, strict=True)}
    return [found[each.noun, each.name] for each in told]


async def _look_at(admin: "Admin", noun: Noun, names: list[str]) -> list[Resource]:
    """Return the resources in the order of the names."""
    from lograft.cli.resources.queries import brokers, described_group

    match noun:
        case Noun.TOPIC:
            topics = {each.name: each for each in (await admin.describe_cluster(names)).topics}
            return [topic_resource(topics[name]) for name in names]
        case Noun.PARTITION:
            return await _partitions(admin, names)
        case Noun.BROKER:
            return brokers(await admin.describe_cluster(include_internal=True), names)
        case Noun.GROUP:
            return [await described_group(admin, name) for name in names]
        case Noun.QUORUM:
            return [quorum_resource(await admin.describe_quorum())]
        case Noun.CONFIG:
            return [await _setting(admin, name) for name in names]
    raise AssertionError(f"no command changes a {noun.value} of a cluster")


async def _partitions(admin: "Admin", names: Sequence[str]) -> list[Resource]:
    topics = list(dict.fromkeys(name.rpartition("-")[0] for name in names))
    described = [each for topic in (await admin.describe_cluster(topics)).topics for each in topic.partitions]
    by_name = {f"{each.topic}-{each.number}": each for each in described}
    replicas = await admin.describe_replicas(topics, include_internal=True)
    return partition_resources([by_name[name] for name in names], replicas)


async def _setting(admin: "Admin", name: str) -> Resource:
    whose, _, key = name.rpartition("/")
    owner = parse_owner(whose)
    (entry,) = await admin.describe_config(owner.kind, owner.name, [key])
    return entry_resource(owner, entry)


def raise_first(failures: Sequence[LograftError]) -> None:
    """Raise the first failure, if any, after printing the others. Print equal messages once."""
    messages = dict.fromkeys(failure.message for failure in failures)
    for message in list(messages)[1:]:
        click.echo(f"Error: {message}", err=True)
    if failures:
        raise failures[0]
