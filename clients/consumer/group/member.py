"""A member of a consumer group: its heartbeats, the partitions it may read, and when it must stop. Pure.

A member has three sets of partitions:

- `assigned`: those that the coordinator's latest answer lets it read.
- `taken`: those that the application reads. While polling, it takes assigned partitions and gives up revoked ones.
- `owned`: the union of both. Heartbeats report it, so the coordinator assigns no partition to another member while this
  one reads it or may start to at any moment.

Partitions are lost when the coordinator may already have reassigned them: it removed the member, or did not answer for
a session timeout. From then on, the member no longer reads or commits them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from lograft.clients.errors import FencedInstanceId, FencedMemberEpoch, LograftError, UnknownMember

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
PAUSE_EPOCH = -2
"""Sent by a static member that leaves and will return."""

# A missing answer may be noticed only two beats after the last successful beat was sent. The rest of the session must
# suffice to detect that, and for another coordinator to take over (a broker's own session is 3 s).
_BEATS_A_SESSION = 5
_SURE_OF_A_SESSION = 7 / 8


class GroupPartition(NamedTuple):
    topic_id: bytes
    partition: int


class MemberState(Enum):
    OUT = "out"  # no subscription
    JOINING = "joining"
    JOINED = "joined"
    IDLE = "idle"  # left the group because the application does not poll; rejoins when it does
    FAILED = "failed"  # permanently; poll raises the reason


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """`is_static`: it has an instance id, so its assignment is kept for a session timeout after it leaves."""

    session_timeout_ms: int = 10_000
    max_poll_interval_ms: int = 300_000
    is_static: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat. The coordinator answers when the assignment changes, at the latest after `max_wait_ms`."""

    epoch: int
    topics: tuple[str, ...] = ()
    owned: tuple[GroupPartition, ...] = ()
    max_wait_ms: int = 0
    member_id: str = ""

    @property
    def is_farewell(self) -> bool:
        return self.epoch < JOIN_EPOCH


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    epoch: int
    assigned: tuple[GroupPartition, ...]
    heartbeat_interval_ms: int


class GroupMember:
    """`generation` rises whenever partitions are lost, which invalidates all earlier work. `lost`: lost partitions not
    yet reported to the application. `failure`: why the state is FAILED.

    `name` is unique. The member id changes each time it joins, so requests from an earlier membership that arrive late
    do not affect the current one.
    """

    def __init__(self, settings: MemberSettings, name: str = "member") -> None:
        self._settings = settings
        self._name = name
        self._joins = 0
        self.state = MemberState.OUT
        self.epoch = JOIN_EPOCH
        self.generation = 0
        self.topics: tuple[str, ...] = ()
        self.owned: dict[GroupPartition, None] = {}
        self.assigned: dict[GroupPartition, None] = {}
        self.taken: dict[GroupPartition, None] = {}
        self.lost: dict[GroupPartition, None] = {}
        self.failure: LograftError | None = None
        self._giving_up: dict[GroupPartition, None] = {}  # the part of `taken` already revoked in the application
        self._farewell: Beat | None = None
        self._interval_ms = settings.session_timeout_ms // _BEATS_A_SESSION
        self._said: Beat | None = None  # the last answered beat
        self._said_ms = 0.0
        self._session_over_ms = float("inf")
        self._poll_due_ms = float("inf")
        self._is_in_doubt = False  # the coordinator may have removed it

    # -- the application

    def subscribe(self, topics: Iterable[str], now_ms: float) -> None:
        """Subscribe to exactly these topics; join if not in the group."""
        self.topics = tuple(dict.fromkeys(topics))
        if self.state in (MemberState.OUT, MemberState.FAILED):
            self.failure = None
            self._join()
            self._polled(now_ms)

    def unsubscribe(self) -> None:
        """Leave the group. The application loses all partitions without a notification."""
        was_in_group = self.is_in_group
        self._forget_partitions()
        self.lost = {}
        self.topics = ()
        self.state, self.failure = MemberState.OUT, None
        self._poll_due_ms = float("inf")
        if was_in_group:
            self._leave()

    def poll_began(self, now_ms: float) -> None:
        """The application polls, so it is alive. The poll interval does not run while it waits."""
        self.tick(now_ms)
        self._poll_due_ms = float("inf")
        if self.state is MemberState.IDLE:
            self._join()

    def poll_ended(self, now_ms: float) -> None:
        self._polled(now_ms)

    def _polled(self, now_ms: float) -> None:
        self._poll_due_ms = now_ms + self._settings.max_poll_interval_ms

    # -- partitions that come and go

    @property
    def to_take(self) -> list[GroupPartition]:
        """The partitions that the application may begin to read."""
        return [each for each in self.assigned if each not in self.taken]

    def took(self, partitions: Iterable[GroupPartition]) -> None:
        for partition in partitions:
            assert partition in self.assigned
            self.taken[partition] = None

    @property
    def to_give_up(self) -> list[GroupPartition]:
        """The revoked partitions that the application still reads."""
        return [each for each in self.taken if each not in self.assigned and each not in self._giving_up]

    def giving_up(self, partitions: Iterable[GroupPartition]) -> None:
        """The application no longer reads these, but may still commit them."""
        for partition in partitions:
            assert partition in self.taken
            self._giving_up[partition] = None

    def gave_up(self, partitions: Iterable[GroupPartition], generation: int) -> None:
        """Release these for other members. `generation`: the generation in which giving up began."""
        if generation != self.generation:
            return
        for partition in partitions:
            assert partition in self._giving_up
            del self._giving_up[partition], self.taken[partition]
            # It may have been assigned again meanwhile; then it stays owned and is taken again.
            if partition not in self.assigned:
                del self.owned[partition]

    def told_lost(self) -> list[GroupPartition]:
        """Return the lost partitions to report to the application, once."""
        lost, self.lost = list(self.lost), {}
        return lost

    def may_commit(self, partition: GroupPartition) -> bool:
        return partition in self.taken

    # -- the coordinator

    @property
    def beat(self) -> Beat | None:
        """The beat that describes the current state. A call with a different beat is outdated."""
        if self._farewell is not None:
            return self._farewell
        if not self.is_in_group:
            return None
        return Beat(self.epoch, self.topics, tuple(self.owned), self._interval_ms, self.member_id)

    @property
    def member_id(self) -> str:
        return f"{self._name}-{self._joins}"

    def next_beat(self, now_ms: float) -> Beat | None:
        """Return the beat to send now, or None if none is due before `due_ms` unless the member changes."""
        beat = self.beat
        # Do not send in a tight loop if the coordinator answers at once with no change.
        if beat is not None and beat == self._said and now_ms < self._said_ms + self._interval_ms:
            return None
        return beat

    def answered(self, beat: Beat, answer: BeatAnswer, sent_ms: float) -> None:
        """Apply the answer to the latest beat, which was sent at `sent_ms`."""
        if beat.is_farewell:
            self._farewell = None
            return
        assert self.is_in_group
        if self._is_in_doubt:
            self._begin_anew()
            return
        self.state = MemberState.JOINED
        self.epoch = answer.epoch
        longest_ms = self._settings.session_timeout_ms // _BEATS_A_SESSION
        self._interval_ms = max(min(answer.heartbeat_interval_ms or longest_ms, longest_ms), 1)
        # The coordinator's session begins later than `sent_ms`, and is longer even if its clock runs fast, so the
        # member's session always ends before the coordinator's.
        self._session_over_ms = sent_ms + self._settings.session_timeout_ms * _SURE_OF_A_SESSION
        self._said, self._said_ms = beat, sent_ms
        self.assigned = dict.fromkeys(answer.assigned)
        # Assigned partitions may be read from now on, so they are owned; those never taken need not be given up.
        self.owned = {**dict.fromkeys(self.taken), **self.assigned}

    def refused(self, beat: Beat, error: LograftError) -> None:
        """Apply the refusal of the latest beat. A retriable error changes nothing."""
        if beat.is_farewell:
            if not error.retriable:
                self._farewell = None
        elif isinstance(error, UnknownMember):
            self._lose()
            self._join()
        elif isinstance(error, FencedMemberEpoch):
            self._begin_anew()
        elif not error.retriable:
            self._lose()
            self.state, self.failure = MemberState.FAILED, error
            # If another process uses our instance id now, leaving must not remove it.
            self._farewell = None
            if not isinstance(error, FencedInstanceId):
                self._leave()

    # -- time

    @property
    def due_ms(self) -> float:
        """When to call `tick` and `next_beat` again at the latest."""
        return min(self.over_ms, self._beat_due_ms)

    @property
    def _beat_due_ms(self) -> float:
        return float("inf") if self._said is None else self._said_ms + self._interval_ms

    @property
    def over_ms(self) -> float:
        """When the partitions are lost unless the coordinator answers, or the application polls, before that."""
        return min(self._session_over_ms, self._poll_due_ms)

    def tick(self, now_ms: float) -> None:
        if now_ms >= self._session_over_ms:
            # Only the coordinator knows whether the member was removed or replaced. Stop reading, but keep sending
            # heartbeats until it answers.
            self._lose()
            self._is_in_doubt = True
        if now_ms >= self._poll_due_ms:
            self._poll_due_ms = float("inf")
            if self.is_in_group:
                self._lose()
                self.state = MemberState.IDLE
                self._leave()

    # -- changes of state

    @property
    def is_in_group(self) -> bool:
        """True if the member is in the group or joining it."""
        return self.state in (MemberState.JOINING, MemberState.JOINED)

    def _begin_anew(self) -> None:
        """Rejoin under a new member id, so that late requests of this membership cannot be mistaken for the next's."""
        self._lose()
        self._leave()
        self._join()

    def _join(self) -> None:
        assert not self.owned
        self.state, self.epoch = MemberState.JOINING, JOIN_EPOCH
        self._joins += 1
        self._said = None
        self._is_in_doubt = False

    def _leave(self) -> None:
        epoch = PAUSE_EPOCH if self._settings.is_static else LEAVE_EPOCH
        self._farewell = Beat(epoch, member_id=self.member_id)

    def _lose(self) -> None:
        """Drop all partitions, because other members may already have them."""
        self.lost |= {each: None for each in self.taken if each not in self._giving_up}
        self._forget_partitions()

    def _forget_partitions(self) -> None:
        self.generation += 1
        self.owned, self.assigned, self.taken, self._giving_up = {}, {}, {}, {}
        self._session_over_ms = float("inf")
        self._said = None
