"""A member of a consumer group: what it says to the coordinator, what it may read, and when it must stop. Pure.

Three sets of partitions, each within the next:

- `assigned`: what the coordinator's latest answer lets it read.
- `taken`: what the application reads. It takes what is assigned, and gives up what no longer is, when it polls.
- `owned`: both together. That is what the coordinator is told; so nobody else gets a partition that is read here, or
  that may be any moment.

Partitions are lost when the coordinator may have given them to others already: it has put the member out, or has not
been heard of for a session. They are not read from that moment on, and cannot be committed any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from lograft.clients.errors import FencedInstanceId, FencedMemberEpoch, LograftError, UnknownMember

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
PAUSE_EPOCH = -2
"""Of a static member, which will be back."""

# An answer that does not come may have been due two beats after the last that counts was sent: what is left of the
# session must do to find that out, and for another coordinator to take over (a broker's own session is 3 s).
_BEATS_A_SESSION = 5
_SURE_OF_A_SESSION = 7 / 8


class GroupPartition(NamedTuple):
    topic_id: bytes
    partition: int


class MemberState(Enum):
    OUT = "out"  # subscribed to nothing
    JOINING = "joining"
    JOINED = "joined"
    IDLE = "idle"  # the application does not poll: out of the group until it does
    FAILED = "failed"  # for good; poll says why


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """`is_static`: it has an instance id, and its place is kept for it for a session."""

    session_timeout_ms: int = 10_000
    max_poll_interval_ms: int = 300_000
    is_static: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """What a member says. The coordinator answers when it has something else to tell, at the latest after
    `max_wait_ms`."""

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
    """`generation` grows whenever partitions are lost: what was begun before then counts for nothing. `lost`: what the
    application has not been told of yet. `failure`: why the state is FAILED.

    `name` is what no other has. The id under which it is a member is another each time it joins: whatever was said
    before, and arrives late, does not concern it any more.
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
        self._giving_up: dict[GroupPartition, None] = {}  # of `taken`: the application has been told
        self._farewell: Beat | None = None
        self._interval_ms = settings.session_timeout_ms // _BEATS_A_SESSION
        self._said: Beat | None = None  # and was answered, and there was nothing new
        self._said_ms = 0.0
        self._session_over_ms = float("inf")
        self._poll_due_ms = float("inf")
        self._is_in_doubt = False  # whether it is still a member

    # -- the application

    def subscribe(self, topics: Iterable[str], now_ms: float) -> None:
        """Be a member for these topics, and no others."""
        self.topics = tuple(dict.fromkeys(topics))
        if self.state in (MemberState.OUT, MemberState.FAILED):
            self.failure = None
            self._join()
            self._polled(now_ms)

    def unsubscribe(self) -> None:
        """Leave. Whatever is still taken is not the application's any more, and it is not told."""
        was_in_group = self.is_in_group
        self._forget_partitions()
        self.lost = {}
        self.topics = ()
        self.state, self.failure = MemberState.OUT, None
        self._poll_due_ms = float("inf")
        if was_in_group:
            self._leave()

    def poll_began(self, now_ms: float) -> None:
        """The application asks for records: it is alive. It may wait as long as it likes."""
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
        """What the application may begin to read."""
        return [each for each in self.assigned if each not in self.taken]

    def took(self, partitions: Iterable[GroupPartition]) -> None:
        for partition in partitions:
            assert partition in self.assigned
            self.taken[partition] = None

    @property
    def to_give_up(self) -> list[GroupPartition]:
        """What the application must stop reading, and has not begun to."""
        return [each for each in self.taken if each not in self.assigned and each not in self._giving_up]

    def giving_up(self, partitions: Iterable[GroupPartition]) -> None:
        """They are not read any more, but may still be committed."""
        for partition in partitions:
            assert partition in self.taken
            self._giving_up[partition] = None

    def gave_up(self, partitions: Iterable[GroupPartition], generation: int) -> None:
        """Others may have them. `generation`: when that began."""
        if generation != self.generation:
            return
        for partition in partitions:
            assert partition in self._giving_up
            del self._giving_up[partition], self.taken[partition]
            # It may have been assigned anew meanwhile; then it is taken anew.
            if partition not in self.assigned:
                del self.owned[partition]

    def told_lost(self) -> list[GroupPartition]:
        """What the application is told of now."""
        lost, self.lost = list(self.lost), {}
        return lost

    def may_commit(self, partition: GroupPartition) -> bool:
        return partition in self.taken

    # -- the coordinator

    @property
    def beat(self) -> Beat | None:
        """What there is to say. A call that says anything else is of no use any more."""
        if self._farewell is not None:
            return self._farewell
        if not self.is_in_group:
            return None
        return Beat(self.epoch, self.topics, tuple(self.owned), self._interval_ms, self.member_id)

    @property
    def member_id(self) -> str:
        return f"{self._name}-{self._joins}"

    def next_beat(self, now_ms: float) -> Beat | None:
        """What to say now; None: nothing before `due_ms`, unless something changes."""
        beat = self.beat
        # A coordinator that had nothing new to tell, and did not wait, is not asked without end.
        if beat is not None and beat == self._said and now_ms < self._said_ms + self._interval_ms:
            return None
        return beat

    def answered(self, beat: Beat, answer: BeatAnswer, sent_ms: float) -> None:
        """To the latest beat, which was sent at that time."""
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
        # The coordinator's session began later than that, and is longer even if its clock runs fast: when ours is over,
        # theirs is not yet.
        self._session_over_ms = sent_ms + self._settings.session_timeout_ms * _SURE_OF_A_SESSION
        self._said, self._said_ms = beat, sent_ms
        self.assigned = dict.fromkeys(answer.assigned)
        # From now on they may be read, so they are ours; and what was never read needs no giving up.
        self.owned = {**dict.fromkeys(self.taken), **self.assigned}

    def refused(self, beat: Beat, error: LograftError) -> None:
        """The coordinator did not take the latest beat. Whatever may be otherwise the next time changes nothing."""
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
            # Whoever has our name now must not be thrown out by our leaving.
            self._farewell = None
            if not isinstance(error, FencedInstanceId):
                self._leave()

    # -- time

    @property
    def due_ms(self) -> float:
        """When to look again at the latest: `tick`, then `next_beat`."""
        return min(self.over_ms, self._beat_due_ms)

    @property
    def _beat_due_ms(self) -> float:
        return float("inf") if self._said is None else self._said_ms + self._interval_ms

    @property
    def over_ms(self) -> float:
        """When the partitions are lost, unless the coordinator is heard of, or the application polls, before."""
        return min(self._session_over_ms, self._poll_due_ms)

    def tick(self, now_ms: float) -> None:
        if now_ms >= self._session_over_ms:
            # Whether it is put out by now, or another has taken its place, only the coordinator knows. So it goes on,
            # reading nothing any more, until it hears that.
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
        """Or about to be."""
        return self.state in (MemberState.JOINING, MemberState.JOINED)

    def _begin_anew(self) -> None:
        """As another member. What was said as this one, and arrives yet, must not be taken for what that one says."""
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
        """Others may have the partitions by now."""
        self.lost |= {each: None for each in self.taken if each not in self._giving_up}
        self._forget_partitions()

    def _forget_partitions(self) -> None:
        self.generation += 1
        self.owned, self.assigned, self.taken, self._giving_up = {}, {}, {}, {}
        self._session_over_ms = float("inf")
        self._said = None
