"""Assignors: functions that distribute partitions over a group's members. Pure.

An assignor takes the members and the topics, and returns each member's partitions. It assigns each partition to exactly
one of the members that subscribe to its topic, if there are any.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import cycle
from typing import TypeAlias

from lograft.broker.groups.state import SubscribedTopic
from lograft.metadata.image.partition import PartitionKey


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member. `name`: the sort key, which a member inherits with its place. `wants`: names of topics. `had`: its
    previous target."""

    member_id: str
    name: str
    wants: frozenset[str]
    had: tuple[PartitionKey, ...] = ()


Targets: TypeAlias = dict[str, list[PartitionKey]]
"""Partitions by member id; every member has an entry."""


def uniform(members: Sequence[Candidate], topics: Sequence[SubscribedTopic]) -> Targets:
    """Assign as evenly as possible, and move only what must move.

    If all members want the same topics, no member has two partitions more than another.
    """
    wanted_by = _wanted_by(members, topics)
    want_the_same = all(member.wants == members[0].wants for member in members)
    targets = _kept(members, wanted_by, want_the_same=want_the_same)
    taken = {partition for member in members for partition in targets[member.member_id]}
    queues: dict[tuple[str, ...], _FewestFirst] = {}
    for partition, wanting in _hardest_first(wanted_by):
        if partition not in taken:
            queue = queues.get(wanting)
            if queue is None:
                queue = queues[wanting] = _FewestFirst(wanting, targets)
            targets[queue.next()].append(partition)
    if not want_the_same:
        _even_out(targets, wanted_by)
    return targets


def _wanted_by(members: Sequence[Candidate], topics: Sequence[SubscribedTopic]) -> dict[PartitionKey, tuple[str, ...]]:
    """Return the members that want each partition, in order; unwanted partitions are left out."""
    wanted_by: dict[PartitionKey, tuple[str, ...]] = {}
    for topic in topics:
        wanting = tuple(member.member_id for member in members if topic.name in member.wants)
        if wanting:
            wanted_by.update(((topic.topic_id, number), wanting) for number in range(topic.partitions))
    return wanted_by


def _kept(
    members: Sequence[Candidate], wanted_by: Mapping[PartitionKey, tuple[str, ...]], *, want_the_same: bool
) -> Targets:
    """Return what each member may keep of its previous target: at most its share, if all want the same."""
    share, over = divmod(len(wanted_by), len(members)) if members else (0, 0)
    targets: Targets = {}
    for member in sorted(members, key=lambda one: (-len(one.had), one.name)):
        kept = [partition for partition in member.had if member.member_id in wanted_by.get(partition, ())]
        if want_the_same:
            most = share + (over > 0)  # `over` more members may have one partition above the share
            over -= len(kept) >= most and over > 0
            del kept[most:]
        targets[member.member_id] = kept
    return targets


class _FewestFirst:
    """Finds the member with the fewest partitions; of several, the first."""

    def __init__(self, members: Sequence[str], targets: Targets) -> None:
        self._targets = targets
        self._heap = [(len(targets[member]), place, member) for place, member in enumerate(members)]
        heapify(self._heap)

    def next(self) -> str:
        """Return the member that gets the next partition."""
        while True:
            count, place, member = self._heap[0]
            actual = len(self._targets[member])  # another queue may have added some
            heapreplace(self._heap, (actual + (actual == count), place, member))
            if actual == count:
                return member


def _hardest_first(wanted_by: Mapping[PartitionKey, tuple[str, ...]]) -> list[tuple[PartitionKey, tuple[str, ...]]]:
    """Return the partitions that the fewest members want first: the others are easier to place."""
    return sorted(wanted_by.items(), key=lambda item: len(item[1]))


def _even_out(targets: Targets, wanted_by: Mapping[PartitionKey, tuple[str, ...]]) -> None:
    """Move partitions, one at a time, from a member with more to one that wants them and has at least two fewer.

    Each move lowers the sum of squares, so the loop ends.
    """
    is_moving = True
    while is_moving:
        is_moving = False
        for giver in sorted(targets, key=lambda one: (-len(targets[one]), one)):
            for partition in list(reversed(targets[giver])):
                taker = min(wanted_by[partition], key=lambda one: (len(targets[one]), one))
                if len(targets[taker]) + 1 < len(targets[giver]):
                    targets[giver].remove(partition)
                    targets[taker].append(partition)
                    is_moving = True


def range_of_each(members: Sequence[Candidate], topics: Sequence[SubscribedTopic]) -> Targets:
    """Give each member a contiguous range of each topic's partitions, in order of member name. If they do not divide
    evenly, the first members get one more."""
    targets: Targets = {member.member_id: [] for member in members}
    for topic in topics:
        wanting = [member for member in sorted(members, key=lambda one: one.name) if topic.name in member.wants]
        start = 0
        for place, member in enumerate(wanting):
            count = topic.partitions // len(wanting) + (place < topic.partitions % len(wanting))
            targets[member.member_id] += [(topic.topic_id, number) for number in range(start, start + count)]
            start += count
    return targets


def round_robin(members: Sequence[Candidate], topics: Sequence[SubscribedTopic]) -> Targets:
    """Assign partitions one by one, in turn, to the members that want them."""
    targets: Targets = {member.member_id: [] for member in members}
    turns = cycle(sorted(members, key=lambda one: one.name))
    for topic in topics:
        if any(topic.name in member.wants for member in members):
            for number in range(topic.partitions):
                member = next(one for one in turns if topic.name in one.wants)
                targets[member.member_id].append((topic.topic_id, number))
    return targets


UNIFORM = "uniform"
ASSIGNORS: Mapping[str, Callable[[Sequence[Candidate], Sequence[SubscribedTopic]], Targets]] = {
    UNIFORM: uniform,
    "range": range_of_each,
    "roundrobin": round_robin,
}
