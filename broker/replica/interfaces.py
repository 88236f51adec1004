"""Interfaces of a broker's replicas for its services. For replication streams, see `replication.interfaces`.

A replica raises `ReplicaError`, or storage's errors unchanged; `service_errors` maps all of them for clients.
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
    """When to acknowledge a batch: once all in-sync replicas have it, once the leader has it, or once it has an
    offset."""

    ALL = "all"
    LEADER = "leader"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Appended:
    """The offset of an appended batch. `append_time_ms`: the timestamp of its records, if the topic uses append time.
    `log_start`: the first offset of the log."""

    base_offset: int
    append_time_ms: int | None
    log_start: int


class PendingAppend(Protocol):
    """An appended batch that has its offset. Callers may ignore the outcome, even if it is an error."""

    def done(self) -> bool:
        """Return whether the outcome is known."""
        ...

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, on the event loop, when the outcome is known; if it is known already, call it now or
        soon."""
        ...

    def result(self) -> Appended:
        """Return or raise the outcome, which must be known."""
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
    """`offset`: None if there is no such record. `timestamp_ms`: of the record, if the search was by timestamp."""

    offset: int | None
    timestamp_ms: int | None = None


# -- replicas as services see them


class ServedReplica(Protocol):
    """A replica of one partition on this broker, which may or may not lead it."""

    @property
    def traffic(self) -> PartitionTraffic:
        """The partition's counters. The replica counts incoming batches; services count outgoing ones."""
        ...

    @property
    def log_config(self) -> LogConfig:
        """The configuration for admitting batches."""
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
        """True for internal topics, which clients must not write to."""
        ...

    @property
    def log_start(self) -> int: ...

    @property
    def log_end(self) -> int: ...

    @property
    def cleaned_below(self) -> int:
        """The offset below which compaction may have removed superseded records."""
        ...

    def check_leads(self, leader_epoch: int | None) -> None:
        """Raise unless this broker leads the partition, in that epoch if one is given."""
        ...

    async def confirm_leads(self, leader_epoch: int, timeout_ms: int) -> bool:
        """Return True if no broker led the partition in a later epoch at the time of the call: all replicas that may
        lead next have confirmed that they follow this broker. Return False if one of them runs a version that does not
        answer; then only an append can prove it.

        Raise if this broker no longer leads in that epoch, if too few replicas are in sync, or if the replicas do not
        answer in time. Append nothing.
        """
        ...

    def check_serves(self, leader_epoch: int | None, *, from_follower: bool) -> None:
        """Raise unless this broker may serve a reader: it leads the partition, in that epoch if one is given, or, with
        `from_follower`, it is an in-sync follower."""
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
        """Check the batch and assign its offset at once. The acknowledgement follows.

        Call `when_stored` once, now or later, when this broker itself has stored the batch, when the timeout expires,
        or when this broker no longer leads. Do not call it if this method raises.
        """
        ...

    def reader_parts_at(self, last_epoch: int, offset: int) -> int | None:
        """Call `log_matching.reader_parts_at` with this replica's log."""
        ...

    async def room(self) -> None:
        """Return when the disk is not too far behind. Await it before accepting more batches."""
        ...

    async def read(self, offset: int, max_bytes: int) -> Batches:
        """Return the whole batches from `offset` up to the high watermark, if there are any. Raise `OffsetOutOfRange`
        if `offset` is outside the log."""
        ...

    async def read_stored(self, offset: int, max_bytes: int) -> Batches:
        """Read like `read`, but from the disk, beyond the high watermark, and in any role. Raise `CorruptLog` for
        damaged data."""
        ...

    def when_readable(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, on the event loop, when a record at or after `offset` is below the high watermark, or when
        this replica stops serving readers in this epoch. `wake` must not block. Return a function that cancels the call
        at any time."""
        ...

    async def offsets(self, spec: OffsetSpec) -> FoundOffset:
        """Return the offset. Raise OFFSET_NOT_AVAILABLE, except for EARLIEST, while the high watermark is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """The state of one replica on this broker. `high_watermark`: None while a new leader does not know it."""

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
    """All replicas of this broker."""

    def facts(self) -> Iterator[ReplicaFacts]:
        """Yield the state of all open replicas."""
        ...

    def get(self, topic_id: TopicId, number: int) -> ServedReplica:
        """Return the replica. Raise `ReplicaError` if there is no such partition, or no replica of it here."""
        ...
