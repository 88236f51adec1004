"""The actions of clients of a simulated cluster, and the answers they received. Pure.

Every record ever sent has a unique mark (`record_marks`), which is called its value here.

An unclean election ends all earlier promises, and begins a new *generation* of the partition: answers of the leaders of
a generation hold until the next one begins.
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
    """A record that a producer accepted. `number` counts the records it accepted before, over all partitions.
    `leader_epoch` is that of the leader that acknowledged `offset`. `settled_us` is None if no outcome is known."""

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
    """A record that a consumer received from the leader of an epoch."""

    key: PartitionKey
    reader: str
    offset: int
    value: bytes
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Told:
    """A high watermark that the leader of an epoch returned to a client, between two moments."""

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
    """A replica's complete log at the end of the run."""

    start_offset: int
    end_offset: int
    records: Sequence[Stored]


@dataclass(slots=True)
class FinalPartition:
    """A partition at the end of the run: its leader's epoch, and the logs of its in-sync replicas."""

    leader_epoch: int
    logs: dict[int, ReplicaLog]


class ClusterHistory:
    """Events in the order in which they happened. `entries` holds those recorded directly in the form of a live
    cluster's history; the others are converted at the end (`to_live_history`)."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.sends: dict[bytes, SentRecord] = {}
        self.refused: dict[bytes, str] = {}  # values that no producer accepted
        self.reads: list[Read] = []
        self.told: list[Told] = []
        self.leaders: dict[tuple[PartitionKey, int], str] = {}  # the process that led in an epoch
        self.leaders_seen_us: dict[tuple[PartitionKey, int, int], int] = {}  # first time by epoch and broker
        self.unclean_seen_us: dict[tuple[PartitionKey, int], int] = {}  # by the epoch that began
        self.deleted_topics_us: dict[UUID, int] = {}  # deletions requested or done
        self.settled_us: int | None = None  # when all faults had ended, and no former leader still believed that it led
        self.limited_topics: dict[UUID, None] = {}  # retention may delete their old records
        self.compacted_topics: dict[UUID, None] = {}  # only the latest records of their keys must remain
        self.starts: dict[PartitionKey, int] = {}  # the highest log start seen on any replica; 0 if none
        self._unclean: dict[PartitionKey, list[int]] = {}
        self._numbers = count()

    def next_number(self) -> int:
        """Return a number for an operation in `entries`."""
        return next(self._numbers)

    def digest(self) -> str:
        """Return a digest. If two are equal, clients acted equally, and received equal answers in the same order."""
        sends = [(send.value, send.outcome.value, send.offset, send.leader_epoch) for send in self.sends.values()]
        return hashlib.sha256(repr((sends, self.reads, self.told)).encode()).hexdigest()

    # -- generations

    def elected_uncleanly(self, key: PartitionKey, leader_epoch: int, now_us: int = 0) -> None:
        """Note that a leader epoch began with an unclean election. Repeated calls have no effect."""
        epochs = self._unclean.setdefault(key, [])
        if not epochs or epochs[-1] < leader_epoch:
            epochs.append(leader_epoch)
            self.unclean_seen_us[key, leader_epoch] = now_us

    def generation(self, key: PartitionKey, leader_epoch: int) -> int:
        """Return the generation that the leader of an epoch belongs to."""
        return bisect_right(self._unclean.get(key, ()), leader_epoch)

    def last_generation(self, key: PartitionKey) -> int:
        return len(self._unclean.get(key, ()))

    # -- topics

    def to_be_deleted(self, topic_id: UUID, now_us: int) -> None:
        """Note that the deletion of a topic was requested or carried out."""
        self.deleted_topics_us.setdefault(topic_id, now_us)

    # -- log starts

    def starts_at(self, key: PartitionKey, start_offset: int) -> None:
        """Note that a replica's log was seen to start at `start_offset`."""
        if start_offset > self.starts.get(key, 0):
            self.starts[key] = start_offset
