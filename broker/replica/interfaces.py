"""Interfaces of a broker's replicas for its services; for replication streams see `replication.interfaces`.

A replica raises `ReplicaError`, or storage's errors unchanged: `service_errors` maps each of them for clients.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol
from uuid import UUID

from lograft.broker.replica.traffic import PartitionTraffic
from lograft.metadata.image.partition import TopicId
from lograft.storage.log.admission import Admitted
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.log_reader import Batches

# -- appending


class Acks(Enum):
    """When a batch counts as stored: on every replica in sync, on the leader, or as soon as it has an offset."""

    ALL = "all"
    LEADER = "leader"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch is, and where the log starts. `append_time_ms`: of all its records, if the topic stamps them."""

    base_offset: int
    append_time_ms: int | None
    log_start: int


class PendingAppend(Protocol):
    """A batch that has its offset. Callers may ignore it: an outcome that nobody reads is no error."""

    def done(self) -> bool:
        """Return whether the outcome is known."""
        ...

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, on the loop, when the outcome is known; now, or soon, if it already is."""
        ...

    def result(self) -> Appended:
        """Return or raise the outcome, once it is known."""
        ...

    async def outcome(self) -> Appended:
        """Wait for the outcome, then return or raise it."""
        ...


# -- offsets


class OffsetKind(Enum):
    """EARLIEST: the log's start. LATEST: the high watermark. AT_TIME: the first record at or after a time.
    GREATEST_TIME: the first record with the greatest time."""

    EARLIEST = 1
    LATEST = 2
    AT_TIME = 3
    GREATEST_TIME = 4


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    kind: OffsetKind
    timestamp_ms: int = 0  # with AT_TIME


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """`offset` None: there is no such record. `timestamp_ms`: of the record, where one was looked for."""

    offset: int | None
    timestamp_ms: int | None = None


# -- what services need


class ServedReplica(Protocol):
    """One partition on this broker, led by it or not."""

    @property
    def traffic(self) -> PartitionTraffic:
        """Counters. The replica counts incoming batches; senders count outgoing ones."""
        ...

    @property
    def log_config(self) -> LogConfig:
        """The configuration that admits batches."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The latest epoch that this broker knows."""
        ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def watermark_is_known(self) -> bool:
        """False for a new leader whose watermark may be behind what clients have seen."""
        ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def is_internal(self) -> bool:
        """True for the cluster's own topics: clients write nothing there."""
        ...

    @property
    def log_start(self) -> int: ...

    @property
    def log_end(self) -> int: ...

    @property
    def cleaned_below(self) -> int:
        """Compaction may have removed superseded records below this offset."""
        ...

    def check_leads(self, leader_epoch: int | None) -> None:
        """Raise unless this broker leads the partition, in that epoch if one is given."""
        ...

    async def confirm_leads(self, leader_epoch: int, timeout_ms: int) -> bool:
        """Return True if no broker led the partition in a later epoch when this was called: every replica that may lead
        next was asked, and followed. False: one of them is of a version that does not answer; appending a record tells.

        Raise if this broker does not lead in that epoch any more, if too few replicas are in sync, or if it could not
        be found out in time. Nothing is appended.
        """
        ...

    def check_serves(self, leader_epoch: int | None, *, from_follower: bool) -> None:
        """Raise unless a reader may be served here: this broker leads the partition, in that epoch if one is given; or
        follows it, in sync, if the reader is content with that."""
        ...

    def begin_append(
        self,
        batch: Admitted,
        *,
        acks: Acks,
        leader_epoch: int | None,
        timeout_ms: int,
        when_stored: Callable[[], None] | None = None,
    ) -> PendingAppend:
        """Check the batch and give it an offset, at once; its acknowledgement follows.

        Call `when_stored` once, now or later, when this broker has stored the batch, whether followers have it or not;
        or when the time is over, or this broker no longer leads. If this raises, it is not called.
        """
        ...

    def reader_parts_at(self, last_epoch: int, offset: int) -> int | None:
        """Compare like `log_matching.reader_parts_at`, with this replica's log."""
        ...

    async def room(self) -> None:
        """Return when the disk is not too far behind: await it before taking in more."""
        ...

    async def read(self, offset: int, max_bytes: int) -> Batches:
        """Return whole batches from `offset` on, below the watermark; none if there are none. Raise `OffsetOutOfRange`
        if it is below the log's start, or above its end."""
        ...

    async def read_stored(self, offset: int, max_bytes: int) -> Batches:
        """Read from the disk, committed or not, in any role; else like `read`. Raise `CorruptLog` for damaged data."""
        ...

    def when_readable(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, on the loop, when a record at or after `offset` is below the watermark, or when this
        replica stops serving readers in this epoch. `wake` only takes note. Return a function that cancels this, at any
        time."""
        ...

    async def offsets(self, spec: OffsetSpec) -> FoundOffset:
        """Raise OFFSET_NOT_AVAILABLE for all but EARLIEST while the watermark is not known."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One partition's state on this broker. `high_watermark` None: a new leader does not know it yet."""

    topic_id: TopicId
    number: int
    is_leader: bool
    leader_epoch: int
    log_start: int
    log_end: int
    high_watermark: int | None
    size_bytes: int
    directory_id: UUID


class ServedReplicas(Protocol):
    """All partitions of this broker."""

    def facts(self) -> Iterator[ReplicaFacts]:
        """Yield the state of all open replicas."""
        ...

    def get(self, topic_id: TopicId, number: int) -> ServedReplica:
        """Return the replica. Raise if there is no such partition, or no replica of it here."""
        ...
