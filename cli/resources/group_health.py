"""Whether a group keeps up, from two looks at it a moment apart: do its commits move, does its lag grow? Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lograft.cli.common.units import count_text, span_text
from lograft.clients.admin.model.group_types import GroupState
from lograft.clients.types import TopicPartition

# Consumers commit every five seconds, unless they are told otherwise; who has missed several of these does not move.
STALLED_AFTER_MS = 30_000

# A Spark query commits after each of its batches, which may be minutes apart, and has no members that could be seen.
UNSEEN_AFTER_MS = 300_000
_NAMED = 3
_MOVES = ", and it is being read"


class GroupVerdict(Enum):
    """From good to bad."""

    KEEPING_UP = "keeping up"
    UNKNOWN = "unknown"
    FALLING_BEHIND = "falling behind"
    STALLED = "stalled"


_RANKS = list(GroupVerdict)


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """A partition, as it was to a group when it was seen. `committed` None: nothing was; `start` and `end` None: not
    known. `committed_at_ms`: by the coordinator's clock. `has_reader`: a member has it."""

    committed: int | None
    start: int | None
    end: int | None
    committed_at_ms: int
    seen_at_ms: int
    has_reader: bool

    @property
    def age_ms(self) -> int:
        """Of what was committed last."""
        return max(0, self.seen_at_ms - self.committed_at_ms)

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(self.end - self.committed, 0)


@dataclass(frozen=True, slots=True)
class GroupLook:
    """`had_members`: ever; else whoever commits does so without being one."""

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
    """`state`, `had_members`: of the group, at the last look. The looks may be one and the same."""
    if last.committed is None and last.end is not None and last.end == last.start:
        return Judgement(GroupVerdict.KEEPING_UP, "there is nothing to read")
    if last.committed is None:
        return Judgement(GroupVerdict.UNKNOWN, "nothing was committed so far")
    if last.lag is None or last.end is None:
        return Judgement(GroupVerdict.UNKNOWN, "where it ends could not be found out")
    if last.lag == 0:
        return Judgement(GroupVerdict.KEEPING_UP, "everything was read")
    left = f"{count_text(last.lag, 'record')} to read"
    if not last.has_reader and state is GroupState.RECONCILING:
        return Judgement(GroupVerdict.UNKNOWN, f"{left}, and it is on its way to another member")
    if _has_moved(first, last):
        pace = _pace(first, last)
        if pace is not None and pace.falls_behind(last.lag):
            return Judgement(GroupVerdict.FALLING_BEHIND, f"{left}; {pace}")
        return Judgement(GroupVerdict.KEEPING_UP, f"{left}{_MOVES}")
    if not last.has_reader and had_members:
        return Judgement(GroupVerdict.STALLED, f"{left}, and nobody reads it")
    if last.age_ms >= (STALLED_AFTER_MS if last.has_reader else UNSEEN_AFTER_MS):
        return Judgement(GroupVerdict.STALLED, f"{left}, and nothing was committed for {span_text(last.age_ms)}")
    return Judgement(GroupVerdict.UNKNOWN, f"{left}; committed {span_text(last.age_ms)} ago, and not since")


def _has_moved(first: PartitionLook, last: PartitionLook) -> bool:
    if first.committed is None or last.committed is None:
        return False
    # Where nobody is known to read, somebody may have set it back.
    return last.committed > first.committed or (last.has_reader and last.committed != first.committed)


@dataclass(frozen=True, slots=True)
class _Pace:
    """From one commit to the next: how many records were read, and how many came in, at the rate that was seen."""

    read: int
    arrived: float
    duration_ms: int

    def falls_behind(self, lag: int) -> bool:
        """What has come in since the last commit may yet be read with the next one: that alone is no lag."""
        return self.arrived > self.read and lag > self.arrived

    def __str__(self) -> str:
        arrived, read = (round(count * 1000 / self.duration_ms) for count in (self.arrived, self.read))
        return f"about {arrived}/s come in, and {read}/s are read"


def _pace(first: PartitionLook, last: PartitionLook) -> _Pace | None:
    """Lag grows between commits, and shrinks with each: that it is less than a moment ago says nothing, if one of the
    looks was before a commit, and the other one after it. So what is read is counted from commit to commit."""
    if first.end is None or last.end is None or first.committed is None or last.committed is None:
        return None
    duration_ms, watched_ms = last.committed_at_ms - first.committed_at_ms, last.seen_at_ms - first.seen_at_ms
    if duration_ms <= 0 or watched_ms <= 0:  # a clock was set
        return None
    arrived = (last.end - first.end) * duration_ms / watched_ms
    return _Pace(last.committed - first.committed, arrived, duration_ms)


def needs_another_look(first: GroupLook, last: GroupLook) -> bool:
    """Nothing is to be learnt by looking again at what is read to its end, or by nobody, or was seen to move."""
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
    """The worst of them, and why."""
    is_empty = state is GroupState.EMPTY
    if not judgements:
        why = "it has no members, and has committed nothing" if is_empty else "it has committed nothing"
        return Judgement(GroupVerdict.UNKNOWN, why)
    worst = max((each.verdict for each in judgements.values()), key=_RANKS.index)
    if worst is GroupVerdict.KEEPING_UP:
        if not is_empty:
            return Judgement(worst, "all partitions are")
        is_moving = any(each.reason.endswith(_MOVES) for each in judgements.values())
        how = "what is read is committed from outside, as Spark does" if is_moving else "everything was read"
        return Judgement(worst, f"{how}, and it has no members")
    bad = [(name, each.reason) for name, each in judgements.items() if each.verdict is worst]
    named = [f"{name.topic}-{name.partition}: {reason}" for name, reason in bad]
    more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    told = "; ".join(named[:_NAMED]) + more
    return Judgement(worst, f"it has no members; {told}" if is_empty else told)
