"""The roles of a node, each with the state only that role has. Pure."""

from dataclasses import dataclass, field

from lograft.raft.core.configuration import Member
from lograft.raft.core.peer_progress import PeerProgress


@dataclass(slots=True)
class Follower:
    """Follows `leader`, once it knows one; `contact_ms` is the time of the leader's last message."""

    leader: Member | None = None
    contact_ms: int = 0


@dataclass(slots=True)
class PreCandidate:
    """Asks whether it would win, before it begins a term."""

    votes: dict[Member, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Candidate:
    """Stands for election in the node's term."""

    votes: dict[Member, bool] = field(default_factory=dict)


@dataclass(slots=True)
class PendingRead:
    """A read that waits for proof of leadership: a majority's answers to heartbeat `round` or later."""

    reader: Member
    read_id: int
    index: int
    round: int


@dataclass(slots=True)
class Transfer:
    """A transfer of leadership to `target`, abandoned at the deadline."""

    target: Member
    deadline_ms: int


@dataclass(slots=True)
class Leader:
    """Tracks the progress of every other member. Only the leader appends."""

    first_index: int  # of its own term: until this one is committed, no older entry is known to be
    progress: dict[Member, PeerProgress] = field(default_factory=dict)
    heartbeat_due_ms: int = 0
    round: int = 0
    is_round_wanted: bool = False
    reads: list[PendingRead] = field(default_factory=list)
    early_reads: list[tuple[Member, int]] = field(default_factory=list)  # arrived before the first commit of the term
    transfer: Transfer | None = None


Role = Follower | PreCandidate | Candidate | Leader
