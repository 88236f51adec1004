"""Messages between members, one class each. `term` is the sender's. Pure."""

from dataclasses import dataclass

from lograft.raft.core.configuration import Member
from lograft.raft.core.entries import Entry, SnapshotMetadata


@dataclass(frozen=True, slots=True)
class PreVoteRequest:
    """Ask whether the recipient would vote for the sender in `term`, which has not begun. Changes no state."""

    sender: Member
    term: int
    last_index: int
    last_term: int


@dataclass(frozen=True, slots=True)
class PreVoteResponse:
    """`term` is the requested one if granted, the voter's own if refused."""

    sender: Member
    term: int
    is_granted: bool


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Ask for a vote. `is_transfer`: the leader itself asked the sender to stand, so do not protect that leader."""

    sender: Member
    term: int
    last_index: int
    last_term: int
    is_transfer: bool = False


@dataclass(frozen=True, slots=True)
class VoteResponse:
    sender: Member
    term: int
    is_granted: bool


@dataclass(frozen=True, slots=True)
class AppendRequest:
    """The entries after (`previous_index`, `previous_term`), and how far the leader has committed."""

    sender: Member
    term: int
    previous_index: int
    previous_term: int
    entries: tuple[Entry, ...]
    commit_index: int


@dataclass(frozen=True, slots=True)
class AppendResponse:
    """The sender's log agrees with the leader's up to `match_index`, durably."""

    sender: Member
    term: int
    match_index: int


@dataclass(frozen=True, slots=True)
class AppendRefusal:
    """The sender does not have (`previous_index`, its term). Its log may agree up to `hint_index`, whose term is
    `hint_term`."""

    sender: Member
    term: int
    previous_index: int
    hint_index: int
    hint_term: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The leader's heartbeat. `round` numbers them, so that an answer proves leadership after the heartbeat was
    sent."""

    sender: Member
    term: int
    commit_index: int
    round: int


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    sender: Member
    term: int
    round: int


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """A whole snapshot, assembled from its chunks by the transport; `data` is the state machine's."""

    sender: Member
    term: int
    metadata: SnapshotMetadata
    data: bytes


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """Ask the recipient to stand at once: the leader hands over to it."""

    sender: Member
    term: int


@dataclass(frozen=True, slots=True)
class ReadIndexRequest:
    """Ask the leader for the index of a linearizable read. `read_id` is the sender's."""

    sender: Member
    term: int
    read_id: int


@dataclass(frozen=True, slots=True)
class ReadIndexResponse:
    """`index` is None if the sender does not lead."""

    sender: Member
    term: int
    read_id: int
    index: int | None


FromLeader = AppendRequest | Heartbeat | InstallSnapshot | TimeoutNow
Message = (
    PreVoteRequest
    | PreVoteResponse
    | VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | AppendRefusal
    | Heartbeat
    | HeartbeatResponse
    | InstallSnapshot
    | TimeoutNow
    | ReadIndexRequest
    | ReadIndexResponse
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message and its recipient."""

    recipient: Member
    message: Message
