"""Plan, start, report and await reassignments, for all commands that move partitions."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import click

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.partition_names import named_partitions
from lograft.cli.output.resource_output import Resource
from lograft.cli.resources.reassignment_resources import progress_resource, records_behind
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import BrokerState, ClusterDescription, PartitionDescription, Reassignment
from lograft.clients.admin.planning.reassignment_plan import CannotPlan, Move
from lograft.clients.errors import LograftError, UnknownTopic
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import Clock, LoopClock

_LOOK_EVERY_MS = 500
_TELL_EVERY_MS = 5000
_NAMED = 3  # partitions listed by name if they share a problem
_MOVES_AT_ONCE = 2000  # a controller takes no more than 100,000 partitions and replicas at once


class Look(NamedTuple):
    """A snapshot of the cluster, its reassignments in progress, and the brokers whose disks are all full."""

    cluster: ClusterDescription
    under_way: list[Reassignment]
    full: tuple[int, ...] = ()


async def look(admin: Admin) -> Look:
    under_way = await admin.list_reassignments()
    loads = await admin.describe_load(include_partitions=False)
    full = tuple(load.id for load in loads if load.disks and all(disk.is_full for disk in load.disks))
    return Look(await admin.describe_cluster(include_internal=True), under_way, full)


class MakePlan(Protocol):
    """Plans moves. `full`: the brokers whose disks are all full."""

    def __call__(
        self, cluster: ClusterDescription, under_way: list[Reassignment], /, *, full: Collection[int]
    ) -> list[Move]: ...


def plan(seen: Look, make: MakePlan, topics: Collection[str] = ()) -> list[Move]:
    """Return the plan that `make` creates. Raise `UnknownTopic` if one of `topics` does not exist."""
    known = [topic.name for topic in seen.cluster.topics]
    for name in topics:
        if name not in known:
            raise UnknownTopic(f"topic {name!r} does not exist")
    try:
        return make(seen.cluster, seen.under_way, full=seen.full)
    except CannotPlan as refused:
        raise CommandError(refused.cause, refused.remedy) from None


async def begin(
    admin: Admin, moves: Sequence[Move], tell: Callable[[str], None], *, dry_run: bool
) -> list[LograftError]:
    """Start the moves, and report each in a line. Return the errors of those that could not be started."""
    failures: list[LograftError] = []
    async for move, error in ask(admin, moves, dry_run=dry_run):
        if error is not None:
            failures.append(error)
        else:
            tell(f"{shown(move.partition)} {how_begun(move, dry_run=dry_run)}")
    return failures


def how_begun(move: Move, *, dry_run: bool) -> str:
    how = "would be reassigned:" if dry_run else "reassignment started:"
    return f"{how} {listed(move.before)} -> {listed(move.after)}"


async def ask(admin: Admin, moves: Sequence[Move], *, dry_run: bool) -> AsyncIterator[tuple[Move, LograftError | None]]:
    """Start the moves. Return each with its error, if any."""
    for first in range(0, len(moves), _MOVES_AT_ONCE):
        some = moves[first : first + _MOVES_AT_ONCE]
        outcome = await admin.reassign({move.partition: move.after for move in some}, validate_only=dry_run)
        for move in some:
            yield move, outcome[move.partition]


def shown(name: TopicPartition) -> str:
    return f"partition/{name.topic}-{name.partition}"


def listed(brokers: Collection[int]) -> str:
    return ",".join(map(str, brokers))


# -- waiting


async def wait_for(admin: Admin, settings: Settings, moves: Sequence[Move], tell: Callable[[str], None]) -> None:
    """Wait until all moves are complete, and report each in a line. Raise `CommandError` if one was cancelled or its
    topic deleted, or at the timeout."""
    waiting = {move.partition: move for move in moves}
    progress = ReassignmentProgress(settings, LoopClock())
    strays: list[str] = []
    while waiting:
        cluster = await admin.describe_cluster(include_internal=True)
        partitions = {partition.name: partition for partition in partitions_of(cluster)}
        for gone in [name for name in waiting if name not in partitions]:
            del waiting[gone]
            strays.append(f"{gone.topic}-{gone.partition} (deleted)")
        for partition in partitions.values():
            move = waiting.get(partition.name)
            if move is None or partition.adding or partition.removing:
                continue
            del waiting[partition.name]
            if partition.replicas == move.after:
                tell(f"{shown(partition.name)} reassigned")
            else:
                strays.append(f"{partition.topic}-{partition.number} ({listed(partition.replicas)})")
        if waiting:
            done = f"{len(moves) - len(waiting)} of {len(moves)} partitions moved"
            await progress.pause(admin, cluster, done)
    if strays:
        raise CommandError(
            f"not placed according to the plan: {', '.join(strays)}; the moves were cancelled or replaced, or the "
            "partitions deleted",
            "create a new plan with `lograft reassign plan`",
        )


def partitions_of(cluster: ClusterDescription) -> list[PartitionDescription]:
    return [partition for topic in cluster.topics for partition in topic.partitions]


class ReassignmentProgress:
    """Reports progress periodically on stderr, and raises at the timeout."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        self._limit_ms = settings.patience_ms
        self._started_ms = clock.monotonic_ms()
        self._told_ms = self._started_ms

    async def pause(self, admin: Admin, cluster: ClusterDescription, done: str) -> None:
        """Pause before the next look at the cluster. `done`: the progress so far."""
        now_ms = self._clock.monotonic_ms()
        if self._limit_ms is not None and now_ms - self._started_ms >= self._limit_ms:
            raise CommandError(
                f"timed out after {self._limit_ms / 1000:g}s: {done}",
                "the moves continue: see progress with `lograft reassign status`, or cancel them with "
                "`lograft reassign cancel`",
            )
        if now_ms - self._told_ms >= _TELL_EVERY_MS:
            self._told_ms = now_ms
            click.echo("; ".join([done, *await self._hindrances(admin, cluster)]), err=True)
        await self._clock.sleep_ms(_LOOK_EVERY_MS)

    async def _hindrances(self, admin: Admin, cluster: ClusterDescription) -> list[str]:
        """Return what the moves wait for: records to copy, and inactive brokers."""
        moving = [partition for partition in partitions_of(cluster) if partition.adding or partition.removing]
        under_way = await progress_of(admin, list(dict.fromkeys(partition.topic for partition in moving)))
        behind = [count for each in under_way if (count := records_behind(each)) is not None]
        return [*([f"{sum(behind)} records to copy"] if behind else []), *hindrances(cluster, moving)]


def hindrances(cluster: ClusterDescription, moving: Sequence[PartitionDescription]) -> list[str]:
    """Describe the brokers and leaders that the moves need."""
    leaderless = [partition for partition in moving if partition.leader is None]
    lost = dict.fromkeys(broker for partition in leaderless for broker in partition.replicas)
    awaited = dict.fromkeys(
        broker
        for partition in moving
        for broker in partition.replicas
        if broker not in partition.isr and broker not in partition.removing
    )
    told = [
        f"waiting for broker {broker.id}, which is {broker.state.value}"
        for broker in cluster.brokers
        if broker.state is not BrokerState.ACTIVE and (broker.id in awaited or broker.id in lost)
    ]
    if leaderless:
        names = [f"{partition.topic}-{partition.number}" for partition in leaderless]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        told.append(f"{', '.join(names[:_NAMED])}{more} have no leader to copy from")
    return told


async def progress_of(
    admin: Admin, topics: Sequence[str], chosen: Collection[TopicPartition] | None = None
) -> list[Resource]:
    """Return reassignments in progress with their progress. Without names, of all topics. `chosen`: only of these."""
    under_way = await admin.list_reassignments(topics)
    wanted = [each for each in under_way if chosen is None or each.partition in chosen]
    if not wanted:
        return []
    names = list(dict.fromkeys(each.partition.topic for each in wanted))
    replicas = await admin.describe_replicas(names, include_internal=True)
    by_place = {(replica.partition, replica.broker): replica for replica in replicas}
    leaders: Mapping[TopicPartition, int] = {
        replica.partition: replica.broker for replica in replicas if replica.is_leader
    }
    return [progress_resource(each, by_place, leaders.get(each.partition)) for each in wanted]


async def reassignments(admin: Admin, names: list[str]) -> list[Resource]:
    """Return reassignments in progress: all, or those of the named topics and partitions."""
    if not names:
        return await progress_of(admin, [])
    chosen = [partition.name for partition in await named_partitions(admin, names, include_internal=True)]
    return await progress_of(admin, list(dict.fromkeys(name.topic for name in chosen)), chosen)
