"""What clients of a simulated cluster did, and what they were told. Pure.

Every record that is ever sent has a mark of its own (`record_marks`); what is called its value here is that.

An unclean election ends what was promised until then, and begins a new *generation* of the partition: whatever leaders
of one generation say holds until the next begins.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from uuid import UUID

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import Entry

PartitionKey = tuple[UUID, int]


def require(condition: bool, rule: str, *what: object) -> None:
    if not condition:
        raise InvariantBroken(rule, " ".join(map(str, what)))


def named(key: PartitionKey) -> str:
    return f"{str(key[0])[:4]}-{key[1]}"


@dataclass(slots=True, eq=False)
class SentRecord:
    """A record that a producer took. `number`: how many it took before, of whatever partition. `leader_epoch`: of the
    leader that acknowledged it at that offset. `settled_us` None: nothing was ever heard of it."""

    key: PartitionKey
    producer: str
    number: int
    value: bytes
    acks: Acks = Acks.ALL
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None
    leader_epoch: int | None = None
    error: str = ""
    invoked_us: int = 0
    settled_us: int | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.outcome is Outcome.OK


@dataclass(frozen=True, slots=True)
class Read:
    """A record that a consumer was given, by the leader of an epoch."""

    key: PartitionKey
    reader: str
    offset: int
    value: bytes
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that a consumer passed over, [start, end), as the leader of an epoch had nothing there."""

    key: PartitionKey
    reader: str
    start: int
    end: int
    leader_epoch: int


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
    value: bytes


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """All of it, when the run is over."""

    start_offset: int
    end_offset: int
    records: Sequence[Stored]


@dataclass(slots=True)
class FinalPartition:
    """A partition when the run is over: who leads, and what each replica in sync has."""

    leader_epoch: int
    logs: dict[int, ReplicaLog]


class ClusterHistory:
    """In the order in which things happened. `entries`: what is written down at once as an entry of a history of live
    clusters; all else is made one in the end (`to_live_history`)."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.sends: dict[bytes, SentRecord] = {}
        self.refused: dict[bytes, str] = {}  # values that no producer took
        self.reads: list[Read] = []
        self.gaps: list[Gap] = []
        self.crossings: list[
            tuple[Read, Read]
        ] = []  # what a consumer got of one generation, and went on with in another
        self.told: list[Told] = []
        self.leaders: dict[tuple[PartitionKey, int], str] = {}  # the process that led in an epoch
        self.leaders_seen_us: dict[tuple[PartitionKey, int, int], int] = {}  # by epoch and broker, when first
        self.unclean_seen_us: dict[tuple[PartitionKey, int], int] = {}  # by the epoch that began
        self.deleted_topics_us: dict[UUID, int] = {}  # those that were to be
        self.settled_us: int | None = None  # all is healed, and who led before does not think that it leads any more
        self.limited_topics: dict[UUID, None] = {}  # whose old records may be deleted
        self.compacted_topics: dict[UUID, None] = {}  # of whose keys only the latest records need be there
        self.starts: dict[PartitionKey, int] = {}  # the greatest log start that any replica had; 0 if there is none
        self._unclean: dict[PartitionKey, list[int]] = {}
        self._numbers = count()

    def next_number(self) -> int:
        """Of an operation among the entries."""
        return next(self._numbers)

    def digest(self) -> str:
        """Equal digests: clients did the same, and were told the same, in the same order."""
        sends = [(send.value, send.outcome.value, send.offset, send.leader_epoch) for send in self.sends.values()]
        return hashlib.sha256(repr((sends, self.reads, self.told)).encode()).hexdigest()

    # -- generations

    def elected_uncleanly(self, key: PartitionKey, leader_epoch: int, now_us: int = 0) -> None:
        """A leader epoch began with an unclean election. It may be told more than once."""
        epochs = self._unclean.setdefault(key, [])
        if not epochs or epochs[-1] < leader_epoch:
            epochs.append(leader_epoch)
            self.unclean_seen_us[key, leader_epoch] = now_us

    def generation(self, key: PartitionKey, leader_epoch: int) -> int:
        """That the leader of an epoch belongs to."""
        return bisect_right(self._unclean.get(key, ()), leader_epoch)

    def last_generation(self, key: PartitionKey) -> int:
        return len(self._unclean.get(key, ()))

    def is_last(self, key: PartitionKey, leader_epoch: int | None) -> bool:
        """Does what the leader of that epoch said still hold?"""
        return leader_epoch is not None and self.generation(key, leader_epoch) == self.last_generation(key)

    # -- topics

    def to_be_deleted(self, topic_id: UUID, now_us: int) -> None:
        """Somebody asked for it, or it was done."""
        self.deleted_topics_us.setdefault(topic_id, now_us)

    # -- log starts

    def starts_at(self, key: PartitionKey, start_offset: int) -> None:
        """A replica's log was seen to start so."""
        if start_offset > self.starts.get(key, 0):
            self.starts[key] = start_offset
