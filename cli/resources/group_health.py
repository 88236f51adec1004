"""Judge whether a group keeps up, from two observations: whether its commits move and its lag grows. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lograft.cli.common.units import count_text, span_text
from lograft.clients.admin.model.group_types import GroupState
from lograft.clients.types import TopicPartition

# Consumers commit every five seconds by default. One that missed several commits makes no progress.
STALLED_AFTER_MS = 30_000

# A Spark query commits after each batch, possibly minutes apart, and has no members.
UNSEEN_AFTER_MS = 300_000
_NAMED = 3
_MOVES = ", and it is being read"


class GroupVerdict(Enum):
    """Verdicts, from best to worst."""

    KEEPING_UP = "keeping up"
    UNKNOWN = "unknown"
    FALLING_BEHIND = "falling behind"
    STALLED = "stalled"


_RANKS = list(GroupVerdict)


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """An observation of a partition for a group. `committed` is None without a commit; `start` and `end` are None if
    unknown. `committed_at_ms`: by the coordinator's clock. `has_reader`: a member reads it."""

    committed: int | None
    start: int | None
    end: int | None
    committed_at_ms: int
    seen_at_ms: int
    has_reader: bool

    @property
    def age_ms(self) -> int:
        """The age of the last commit."""
        return max(0, self.seen_at_ms - self.committed_at_ms)

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(self.end - self.committed, 0)


@dataclass(frozen=True, slots=True)
class GroupLook:
    """An observation of a group. `had_members`: ever; otherwise offsets are committed without membership."""

    state: GroupState
    partitions: Mapping[TopicPartition, PartitionLook]
    had_members: bool = True


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: GroupVerdict
    reason: str


def judge_partition(
    first: PartitionLook, last: PartitionLook, state: GroupState, *, had_members: bool = True
) -> Judgement:
    """Judge a partition. `state`, `had_members`: of the group, at the last observation. Both may be the same."""
    if last.committed is None and last.end is not None and last.end == last.start:
        return Judgement(GroupVerdict.KEEPING_UP, "no records to read")
    if last.committed is None:
        return Judgement(GroupVerdict.UNKNOWN, "no offset committed yet")
    if last.lag is None or last.end is None:
        return Judgement(GroupVerdict.UNKNOWN, "its end offset is unknown")
    if last.lag == 0:
        return Judgement(GroupVerdict.KEEPING_UP, "all records were read")
    left = f"{count_text(last.lag, 'record')} to read"
    if not last.has_reader and state is GroupState.RECONCILING:
        return Judgement(GroupVerdict.UNKNOWN, f"{left}, and the partition is moving to another member")
    if _has_moved(first, last):
        pace = _pace(first, last)
        if pace is not None and pace.falls_behind(last.lag):
            return Judgement(GroupVerdict.FALLING_BEHIND, f"{left}; {pace}")
        return Judgement(GroupVerdict.KEEPING_UP, f"{left}{_MOVES}")
    if not last.has_reader and had_members:
        return Judgement(GroupVerdict.STALLED, f"{left}, and no member reads it")
    if last.age_ms >= (STALLED_AFTER_MS if last.has_reader else UNSEEN_AFTER_MS):
        return Judgement(GroupVerdict.STALLED, f"{left}, and no offset was committed for {span_text(last.age_ms)}")
    return Judgement(GroupVerdict.UNKNOWN, f"{left}; last committed {span_text(last.age_ms)} ago")


def _has_moved(first: PartitionLook, last: PartitionLook) -> bool:
    if first.committed is None or last.committed is None:
        return False
    # Without a known reader, the offset may have been reset.
    return last.committed > first.committed or (last.has_reader and last.committed != first.committed)


@dataclass(frozen=True, slots=True)
class _Pace:
    """Records read between two commits, and records that arrived in that time at the observed rate."""

    read: int
    arrived: float
    duration_ms: int

    def falls_behind(self, lag: int) -> bool:
        """Whether lag exceeds the records that arrived since the last commit, which the next one may cover."""
        return self.arrived > self.read and lag > self.arrived

    def __str__(self) -> str:
        arrived, read = (round(count * 1000 / self.duration_ms) for count in (self.arrived, self.read))
        return f"about {arrived}/s arrive, and {read}/s are read"


def _pace(first: PartitionLook, last: PartitionLook) -> _Pace | None:
    """Measure the pace from commit to commit. Lag grows between commits and shrinks with each, so two observations on
    different sides of a commit cannot be compared."""
    if first.end is None or last.end is None or first.committed is None or last.committed is None:
        return None
    duration_ms, watched_ms = last.committed_at_ms - first.committed_at_ms, last.seen_at_ms - first.seen_at_ms
    if duration_ms <= 0 or watched_ms <= 0:  # the clock was adjusted
        return None
    arrived = (last.end - first.end) * duration_ms / watched_ms
    return _Pace(last.committed - first.committed, arrived, duration_ms)


def needs_another_look(first: GroupLook, last: GroupLook) -> bool:
    """Whether another observation can help: not if all is read, no member reads, or progress was seen."""
    for name, each in last.partitions.items():
        before = first.partitions.get(name, each)
        may_move = each.has_reader or (not last.had_members and each.age_ms < UNSEEN_AFTER_MS)
        if may_move and each.lag and before.committed == each.committed:
            return True
    return False


def judge(first: GroupLook, last: GroupLook) -> dict[TopicPartition, Judgement]:
    return {
        name: judge_partition(first.partitions.get(name, each), each, last.state, had_members=last.had_members)
        for name, each in last.partitions.items()
    }


def sum_up(judgements: Mapping[TopicPartition, Judgement], state: GroupState) -> Judgement:
    """Return the worst verdict and its reason."""
    is_empty = state is GroupState.EMPTY
    if not judgements:
        why = "it has no members and no committed offsets" if is_empty else "it has committed no offsets"
        return Judgement(GroupVerdict.UNKNOWN, why)
    worst = max((each.verdict for each in judgements.values()), key=_RANKS.index)
    if worst is GroupVerdict.KEEPING_UP:
        if not is_empty:
            return Judgement(worst, "all partitions are")
        is_moving = any(each.reason.endswith(_MOVES) for each in judgements.values())
        how = "offsets are committed without members, as Spark does" if is_moving else "all records were read"
        return Judgement(worst, f"{how}, and the group has no members")
    bad = [(name, each.reason) for name, each in judgements.items() if each.verdict is worst]
    named = [f"{name.topic}-{name.partition}: {reason}" for name, reason in bad]
    more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    told = "; ".join(named[:_NAMED]) + more
    return Judgement(worst, f"it has no members; {told}" if is_empty else told)
