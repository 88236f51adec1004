"""What clients of a simulated cluster did, and what they were told. Pure.

Every value that is ever sent is different from all others, so that a record is known by it.
"""

from dataclasses import dataclass
from uuid import UUID

from lograft.chaos.linearizability import Outcome

PartitionKey = tuple[UUID, int]


@dataclass(slots=True, eq=False)
class Send:
    """A record that a producer took. `number`: how many it took before, of whatever partition."""

    key: PartitionKey
    producer: str
    number: int
    value: bytes
    is_for_all: bool = True  # acknowledged by all in sync
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """A record that a consumer was given."""

    key: PartitionKey
    reader: str
    offset: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Told:
    """A high watermark that a client was told by the leader of an epoch, between two moments."""

    key: PartitionKey
    leader_epoch: int
    watermark: int
    asked_us: int
    told_us: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A record in a replica's log."""

    offset: int
    leader_epoch: int
    value: bytes | None


class ClusterHistory:
    """In the order in which things happened."""

    def __init__(self) -> None:
        self.sends: dict[bytes, Send] = {}
        self.refused: dict[bytes, str] = {}  # values that no producer took
        self.reads: list[Read] = []
        self.told: list[Told] = []
        self.leaders: dict[tuple[PartitionKey, int], str] = {}  # the process that led in an epoch
        self.unclean: dict[PartitionKey, int] = {}  # the first leader epoch that began with an unclean election

    @property
    def acknowledged(self) -> int:
        return sum(send.outcome is Outcome.OK for send in self.sends.values())
