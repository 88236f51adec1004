"""Filter resources by their problems: under-replicated, offline, lagging. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import click

from lograft.cli.common.nouns import Noun
from lograft.cli.output.resource_output import Resource

_MEANT_FOR = {
    "under_replicated": (Noun.TOPIC, Noun.PARTITION),
    "offline": (Noun.TOPIC, Noun.PARTITION, Noun.BROKER),
    "under_min_isr": (Noun.PARTITION,),
    "lagging": (Noun.GROUP,),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter flags. If any is set, a resource must match at least one of them."""

    under_replicated: bool = False
    offline: bool = False
    under_min_isr: bool = False
    lagging: bool = False

    @property
    def flags(self) -> list[str]:
        return [field.name for field in fields(self) if getattr(self, field.name)]


def check_selection(selection: Selection, noun: Noun) -> None:
    for flag in selection.flags:
        if noun not in _MEANT_FOR[flag]:
            meant = " and ".join(f"{each.value}s" for each in _MEANT_FOR[flag])
            raise click.UsageError(f"{flag_text(flag)} applies to {meant}, not to {noun.value}s")


def flag_text(name: str) -> str:
    return "--" + name.replace("_", "-")


def select(
    resources: Sequence[Resource], noun: Noun, selection: Selection, min_isrs: Mapping[str, int]
) -> list[Resource]:
    """Return the matching resources. `min_isrs`: min.insync.replicas of under-replicated topics."""
    if not selection.flags:
        return list(resources)
    tests = [_TESTS[noun, flag] for flag in selection.flags]
    return [each for each in resources if any(test(each, min_isrs) for test in tests)]


def is_under_replicated(partition: Resource) -> bool:
    status = partition["status"]
    return is_offline(partition) or any(replica not in status["isr"] for replica in status["replicas"])


def is_offline(partition: Resource) -> bool:
    return partition["status"]["leader"] is None


def _is_under_min_isr(partition: Resource, min_isrs: Mapping[str, int]) -> bool:
    wanted = min_isrs.get(partition["metadata"]["topic"])
    return wanted is not None and len(partition["status"]["isr"]) < wanted


_TESTS: Mapping[tuple[Noun, str], Callable[[Resource, Mapping[str, int]], bool]] = {
    (Noun.TOPIC, "under_replicated"): lambda each, _: each["status"]["underReplicated"] > 0,
    (Noun.TOPIC, "offline"): lambda each, _: each["status"]["offline"] > 0,
    (Noun.PARTITION, "under_replicated"): lambda each, _: is_under_replicated(each),
    (Noun.PARTITION, "offline"): lambda each, _: is_offline(each),
    (Noun.PARTITION, "under_min_isr"): _is_under_min_isr,
    (Noun.BROKER, "offline"): lambda each, _: each["status"]["state"] != "active",
    # Include groups of unknown lag.
    (Noun.GROUP, "lagging"): lambda each, _: each["status"]["lag"] != 0,
}
