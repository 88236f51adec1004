"""`lograft wait TYPE/NAME... --for CONDITION`: wait for a condition on resources."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import click

from lograft.cli.common.cluster_options import Settings, changing_command, open_admin, run_async
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.completion_values import complete_choices, complete_words
from lograft.cli.common.nouns import Noun, check_names, parse_id, parse_nouns
from lograft.cli.common.partition_names import named_partitions
from lograft.cli.common.units import count_text
from lograft.cli.operations.offset_changes import bounds_of
from lograft.cli.resources.change_report import ChangeReport
from lograft.cli.resources.cluster_health import broker_problems, partition_problems, quorum_problems
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.group_types import GroupDescription, GroupState
from lograft.clients.admin.model.types import BrokerState, PartitionDescription
from lograft.clients.errors import GroupNotFound, TimedOut, UnknownPartition, UnknownTopic
from lograft.runtime.clock import LoopClock

Look: TypeAlias = Callable[[Admin, str], Awaitable[str]]
"""Return why the condition is not met, or an empty string if it is."""


# -- topics


async def _topic_exists(admin: Admin, name: str) -> str:
    return "" if name in await admin.list_topics(include_internal=True) else "the topic does not exist"


async def _topic_deleted(admin: Admin, name: str) -> str:
    return "it still exists" if not await _topic_exists(admin, name) else ""


async def _topic_in_sync(admin: Admin, name: str) -> str:
    try:
        cluster = await admin.describe_cluster([name])
        return _told([*broker_problems(cluster), *partition_problems(cluster)])
    except UnknownTopic as error:
        return error.message


async def _topic_online(admin: Admin, name: str) -> str:
    try:
        partitions = (await admin.describe_topic(name)).partitions
    except UnknownTopic as error:
        return error.message
    return _told([f"{each.topic}-{each.number} has no leader" for each in partitions if each.leader is None])


# -- partitions


async def _partitions(admin: Admin, name: str) -> list[PartitionDescription] | str:
    """Return the partitions, or why there are none."""
    try:
        return await named_partitions(admin, [name], include_internal=True)
    except (UnknownTopic, UnknownPartition) as error:
        return error.message


async def _partition_in_sync(admin: Admin, name: str) -> str:
    found = await _partitions(admin, name)
    if isinstance(found, str):
        return found
    return _told([f"{each.topic}-{each.number} is not in sync: {each.isr}" for each in found if not each.is_in_sync])


async def _partition_led(admin: Admin, name: str) -> str:
    found = await _partitions(admin, name)
    if isinstance(found, str):
        return found
    return _told([f"{each.topic}-{each.number} has no leader" for each in found if each.leader is None])


async def _partition_exists(admin: Admin, name: str) -> str:
    found = await _partitions(admin, name)
    return found if isinstance(found, str) else ""


# -- brokers


async def _broker_state(admin: Admin, name: str) -> BrokerState | None:
    brokers = (await admin.describe_cluster()).brokers
    return next((broker.state for broker in brokers if broker.id == parse_id(name)), None)


async def _broker_alive(admin: Admin, name: str) -> str:
    state = await _broker_state(admin, name)
    if state is BrokerState.ACTIVE:
        return ""
    return f"it is {state.value}" if state is not None else "it is not registered"


async def _broker_gone(admin: Admin, name: str) -> str:
    state = await _broker_state(admin, name)
    return "" if state in (None, BrokerState.FENCED) else f"it is {state.value}"


async def _broker_deleted(admin: Admin, name: str) -> str:
    state = await _broker_state(admin, name)
    return "" if state is None else f"it is {state.value}"


async def _broker_in_sync(admin: Admin, name: str) -> str:
    trouble = await _broker_alive(admin, name)
    if trouble:
        return trouble
    broker_id = parse_id(name)
    cluster = await admin.describe_cluster(include_internal=True)
    behind = [
        f"{each.topic}-{each.number}"
        for topic in cluster.topics
        for each in topic.partitions
        if broker_id in each.replicas and broker_id not in each.isr
    ]
    return f"it is not in sync with {_told(behind)}" if behind else ""


# -- groups


async def _group(admin: Admin, name: str) -> GroupDescription | None:
    try:
        return await admin.describe_group(name)
    except GroupNotFound:
        return None


async def _group_exists(admin: Admin, name: str) -> str:
    return "" if await _group(admin, name) is not None else "the group does not exist"


async def _group_deleted(admin: Admin, name: str) -> str:
    return "it still exists" if not await _group_exists(admin, name) else ""


async def _group_stable(admin: Admin, name: str) -> str:
    return _in_state(await _group(admin, name), GroupState.STABLE)


async def _group_empty(admin: Admin, name: str) -> str:
    return _in_state(await _group(admin, name), GroupState.EMPTY)


def _in_state(group: GroupDescription | None, wanted: GroupState) -> str:
    if group is None:
        return "the group does not exist"
    members = count_text(len(group.members), "member")
    return "" if group.state is wanted else f"it is {group.state.value}, with {members}"


async def _group_caught_up(admin: Admin, name: str) -> str:
    group = await _group(admin, name)
    if group is None:
        return "the group does not exist"
    offsets = await admin.group_offsets(name)
    if not offsets:
        return "it has committed no offsets"
    behind = {partition: offset.lag for partition, offset in offsets.items() if offset.lag != 0}
    # A group that has not started has committed nothing that could lag.
    untouched = [each for member in group.members for each in member.assigned if each not in offsets]
    bounds = await bounds_of(admin, untouched)
    behind |= {partition: found.end - found.start for partition, found in bounds.items() if found.end > found.start}
    return _told(
        [
            f"{partition.topic}-{partition.partition} has "
            + ("an unknown end offset" if lag is None else f"a lag of {count_text(lag, 'record')}")
            for partition, lag in behind.items()
        ]
    )


# -- the quorum


async def _quorum_led(admin: Admin, name: str) -> str:
    return "" if (await admin.describe_quorum()).leader_id is not None else "it has no leader"


async def _quorum_caught_up(admin: Admin, name: str) -> str:
    return _told(quorum_problems(await admin.describe_quorum(), None, ""))


def _told(problems: Sequence[str]) -> str:
    return "; ".join(problems[:3]) + (f"; and {len(problems) - 3} more" if len(problems) > 3 else "")


_DELETED = "Deleted"
CONDITIONS: dict[Noun, dict[str, Look]] = {
    Noun.TOPIC: {
        "Exists": _topic_exists,
        "Online": _topic_online,
        "InSync": _topic_in_sync,
        _DELETED: _topic_deleted,
    },
    Noun.PARTITION: {"Exists": _partition_exists, "Leader": _partition_led, "InSync": _partition_in_sync},
    Noun.BROKER: {
        "Alive": _broker_alive,
        "InSync": _broker_in_sync,
        "Gone": _broker_gone,
        _DELETED: _broker_deleted,
    },
    Noun.GROUP: {
        "Exists": _group_exists,
        "Stable": _group_stable,
        "Empty": _group_empty,
        "CaughtUp": _group_caught_up,
        _DELETED: _group_deleted,
    },
    Noun.QUORUM: {"Leader": _quorum_led, "CaughtUp": _quorum_caught_up},
}
_ALSO = {"create": "exists", "created": "exists", "delete": "deleted", "active": "alive", "online": "leader"}


def find_condition(noun: Noun, text: str) -> tuple[str, Look]:
    """Return the condition's name and check. Ignore case, and accept kubectl's prefix `condition=`."""
    known = {name.lower(): name for name in CONDITIONS[noun]}
    word = text.lower().removeprefix("condition=")
    name = known.get(word) or known.get(_ALSO.get(word, ""))
    if name is None:
        raise click.UsageError(f"{text!r} is not a condition of a {noun.value}: use one of {', '.join(known.values())}")
    return name, CONDITIONS[noun][name]


@click.command("wait")
@click.argument("words", metavar="TYPE/NAME...", nargs=-1, required=True, shell_complete=complete_words(*CONDITIONS))
@click.option(
    "--for",
    "condition",
    required=True,
    metavar="CONDITION",
    shell_complete=complete_choices(*dict.fromkeys(name for known in CONDITIONS.values() for name in known)),
    help="The condition to wait for.",
)
@changing_command
def wait(settings: Settings, words: Sequence[str], condition: str) -> None:
    """Wait for a condition on one or more resources.

    \b
    Conditions:
      topic      Exists   Online (all partitions have leaders)   InSync   Deleted
      partition  Exists   Leader   InSync
      broker     Alive    InSync (in sync on all partitions it hosts)   Gone (not alive)   Deleted
      group      Exists   Stable   Empty (no members)   CaughtUp (no lag)   Deleted
      quorum     Leader   CaughtUp

    \b
    Examples:
      # Wait for up to a minute until all replicas of a topic are in sync
      lograft wait topic/orders --for InSync --timeout 60s
      # Wait until a broker is active
      lograft wait broker/2 --for Alive
      # Wait until a group has read everything
      lograft wait group/billing --for CaughtUp --timeout 10m
      # Wait until the metadata quorum has a leader
      lograft wait quorum --for Leader

    \b
    Exit code  0  the condition is met
               1  the condition was not met within --timeout
    """
    noun, names = parse_nouns(words, tuple(CONDITIONS))
    if noun is not Noun.QUORUM and not names:
        raise click.UsageError(f"name required: `lograft wait {noun.value}/NAME --for ...`")
    if noun is Noun.QUORUM and names:
        raise click.UsageError(f"the quorum takes no name: remove {names[0]!r}")
    check_names(noun, names)
    name, look = find_condition(noun, condition)
    if name == _DELETED and settings.is_document:
        raise click.UsageError(
            f"-o {settings.output} is not supported with Deleted: only the name of a deleted resource can be printed"
        )
    run_async(_wait(settings, noun, names or [""], name, look))


async def _wait(settings: Settings, noun: Noun, names: Sequence[str], condition: str, look: Look) -> None:
    clock = LoopClock()
    give_up_ms = clock.monotonic_ms() + settings.timeout_ms
    report = ChangeReport(settings)
    async with open_admin(settings) as admin:
        for name in names:
            shown = f"{noun.value}/{name}" if name else noun.value
            trouble = await _wait_for_one(admin, name, look, max(1, give_up_ms - clock.monotonic_ms()))
            if trouble:
                raise CommandError(
                    f"timed out after {settings.timeout_ms / 1000:g}s waiting for {shown} to be {condition}: {trouble}",
                    f"run `lograft describe {noun.value}{f' {name}' if name else ''}`, or wait longer with --timeout",
                )
            report.tell(noun, name, "condition met")
        await report.finish(admin)


async def _wait_for_one(admin: Admin, name: str, look: Look, timeout_ms: int) -> str:
    """Wait until the timeout. Return why the condition is not met, or an empty string if it is."""
    trouble = "no broker could answer"

    async def seen() -> str:
        nonlocal trouble
        trouble = await look(admin, name)
        return trouble

    try:
        return await admin.wait_until(
            seen, lambda trouble: not trouble, "the condition is not met", timeout_ms=timeout_ms
        )
    except TimedOut:
        return trouble
