"""Session timeouts of group members, and their deadlines for giving up partitions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from lograft.broker.groups.state import Member
from lograft.broker.replica.timers import ReplicaTimers
from lograft.runtime.clock import Clock

_RETRY_MS = 500


class MemberKey(NamedTuple):
    group: str
    member_id: str


@dataclass(slots=True)
class _Deadlines:
    """`gives_up_by_ms`: None while the member has nothing to give up. `alarm_ms`: the next check."""

    silent_until_ms: int
    gives_up_by_ms: int | None = None
    alarm_ms: int | None = None

    @property
    def next_ms(self) -> int:
        return self.silent_until_ms if self.gives_up_by_ms is None else min(self.silent_until_ms, self.gives_up_by_ms)


def _has_to_give_up(member: Member) -> bool:
    if member.is_settled or member.giving_up:
        return bool(member.giving_up)
    target = frozenset(member.target)
    return any(partition not in target for partition in member.assigned)


class GroupSessions:
    """Calls `is_overdue` with a member whose deadline has passed, and the reason. Retries later if it returns False.

    All times are on the monotonic clock of this process: a new coordinator gives every member its full timeout.
    """

    def __init__(self, clock: Clock, alarms: ReplicaTimers, is_overdue: Callable[[MemberKey, str], bool]) -> None:
        self._clock = clock
        self._alarms = alarms
        self._is_overdue = is_overdue
        self._members: dict[MemberKey, _Deadlines] = {}

    def heard(self, group: str, member: Member) -> None:
        """Note a member's call."""
        key = MemberKey(group, member.member_id)
        until_ms = self._clock.monotonic_ms() + member.session_timeout_ms
        deadlines = self._members.get(key)
        if deadlines is None:
            deadlines = self._members[key] = _Deadlines(until_ms)
        deadlines.silent_until_ms = until_ms
        self._note_giving_up(deadlines, member)
        self._set_alarm(key, deadlines)

    def look_at(self, group: str, members: Mapping[str, Member]) -> None:
        """Start or clear the rebalance deadlines of a group's members, after its assignment may have changed."""
        for member in members.values():
            key = MemberKey(group, member.member_id)
            deadlines = self._members.get(key)
            if deadlines is not None:
                self._note_giving_up(deadlines, member)
                self._set_alarm(key, deadlines)

    def _note_giving_up(self, deadlines: _Deadlines, member: Member) -> None:
        if not _has_to_give_up(member):
            deadlines.gives_up_by_ms = None
        elif deadlines.gives_up_by_ms is None:
            deadlines.gives_up_by_ms = self._clock.monotonic_ms() + member.rebalance_timeout_ms

    def forget(self, group: str, member_id: str) -> None:
        self._members.pop(MemberKey(group, member_id), None)

    def close(self) -> None:
        self._members.clear()

    # -- time

    def _set_alarm(self, key: MemberKey, deadlines: _Deadlines) -> None:
        """Keep one alarm per member; when it rings, it sets the next."""
        if deadlines.alarm_ms is None or deadlines.next_ms < deadlines.alarm_ms:
            deadlines.alarm_ms = deadlines.next_ms
            self._alarms.ring_at(deadlines.next_ms, partial(self._ring, key, deadlines))

    def _ring(self, key: MemberKey, deadlines: _Deadlines) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._members.get(key) is not deadlines or deadlines.alarm_ms is None or now_ms < deadlines.alarm_ms:
            return  # the member was replaced, or a later alarm is set
        deadlines.alarm_ms = None
        if now_ms < deadlines.next_ms:
            self._set_alarm(key, deadlines)
            return
        reason = "silent" if now_ms >= deadlines.silent_until_ms else "did not release its partitions in time"
        if self._is_overdue(key, reason):
            self._members.pop(key, None)
        else:
            deadlines.alarm_ms = now_ms + _RETRY_MS
            self._alarms.ring_at(deadlines.alarm_ms, partial(self._ring, key, deadlines))
