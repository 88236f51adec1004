"""What nodes say to each other. One class each; `term` is the sender's, `sender` who says it. Pure."""

from dataclasses import dataclass

from lograft.raft.core.configuration import Member
from lograft.raft.core.entries import Entry, SnapshotMetadata


@dataclass(frozen=True, slots=True)
class PreVoteRequest:
    """Would you vote for me in `term`, which I have not begun? Asking disturbs no one."""

    sender: Member
    term: int
    last_index: int
    last_term: int


@dataclass(frozen=True, slots=True)
class PreVoteResponse:
    """Granted: `term` is the one asked for. Refused: it is the voter's own."""

    sender: Member
    term: int
    is_granted: bool


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Vote for me. `is_transfer`: the leader itself asked me to stand, so do not protect it."""

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
    """My log agrees with yours up to `match_index`, durably."""

    sender: Member
    term: int
    match_index: int


@dataclass(frozen=True, slots=True)
class AppendRefusal:
    """I do not have (`previous_index`, its term). My log may agree up to `hint_index`, whose term is `hint_term`."""

    sender: Member
    term: int
    previous_index: int
    hint_index: int
    hint_term: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """I lead. `round` numbers the heartbeats, so that an answer proves leadership after it was sent."""

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
    """A whole snapshot has arrived (its chunks were put together on the way); `data` is the state machine's."""

    sender: Member
    term: int
    metadata: SnapshotMetadata
    data: bytes


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """Stand for election at once: I hand leadership over to you."""

    sender: Member
    term: int


@dataclass(frozen=True, slots=True)
class ReadIndexRequest:
    """As of which index may I answer a linearizable read? `read_id` is the asker's."""

    sender: Member
    term: int
    read_id: int


@dataclass(frozen=True, slots=True)
class ReadIndexResponse:
    """`index` is None if the one asked does not lead."""

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
    """A message and whom it is for."""

    recipient: Member
    message: Message
