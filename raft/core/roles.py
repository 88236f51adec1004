"""What a node is at the moment, each with what only it knows. Pure."""

from dataclasses import dataclass, field

from lograft.raft.core.configuration import Member
from lograft.raft.core.peer_progress import PeerProgress


@dataclass(slots=True)
class Follower:
    """Follows `leader`, once it knows one; `contact_ms` is when it last heard from it."""

    leader: Member | None = None
    contact_ms: int = 0


@dataclass(slots=True)
class PreCandidate:
    """Asks whether it would win, before it disturbs anyone."""

    votes: dict[Member, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Candidate:
    """Stands for election in the node's term."""

    votes: dict[Member, bool] = field(default_factory=dict)


@dataclass(slots=True)
class PendingRead:
    """A read that waits for proof that this node still leads: answers to heartbeat `round` or later from a majority."""

    reader: Member
    read_id: int
    index: int
    round: int


@dataclass(slots=True)
class Transfer:
    """Leadership is being handed to `target`; given up at the deadline."""

    target: Member
    deadline_ms: int


@dataclass(slots=True)
class Leader:
    """Knows how far every other member is. Only it appends."""

    first_index: int  # of its own term: until this is committed, nothing older is known to be
    progress: dict[Member, PeerProgress] = field(default_factory=dict)
    heartbeat_due_ms: int = 0
    round: int = 0
    is_round_wanted: bool = False
    reads: list[PendingRead] = field(default_factory=list)
    early_reads: list[tuple[Member, int]] = field(default_factory=list)  # came before the first commit of the term
    transfer: Transfer | None = None


Role = Follower | PreCandidate | Candidate | Leader
