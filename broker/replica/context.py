"""A replica's view of the broker around it."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from lograft.broker.replica.timers import ReplicaTimers
from lograft.broker.replica.traffic import Traffic
from lograft.broker.replication.interfaces import PartitionFollower
from lograft.broker.replication.isr_requests import IsrLeader
from lograft.broker.replication.isr_state import ProposeIsr
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.partition import BrokerId, Partition, PartitionKey
from lograft.metadata.image.topic_names import INTERNAL_PREFIX
from lograft.runtime.clock import Clock
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.storage.errors import CorruptLog


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """The partition, the broker and the directory of a replica. `name`: the partition's name for logs and messages."""

    key: PartitionKey
    name: str
    broker_id: BrokerId
    directory_id: UUID

    @property
    def is_internal(self) -> bool:
        """Return whether the topic is an internal one."""
        return self.name.startswith(INTERNAL_PREFIX)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partition in the image, with its effective settings. `min_isr`: the minimum ISR. `lag_time_max_ms`: how long
    a follower in the ISR may lag."""

    partition: Partition
    min_isr: int
    lag_time_max_ms: int


class FailureListener(Protocol):
    """Called on the event loop, at most once for a replica. Implementations must not block."""

    def found_corrupt(self, key: PartitionKey, error: CorruptLog) -> None: ...

    def disk_failed(self, key: PartitionKey, error: DiskFailed) -> None: ...


@dataclass(slots=True)
class ReplicaCounts:
    """Counters of this broker's replicas since its start: elections as leader, unclean ones among them, and brokers
    that left or joined the ISR of a partition led here."""

    elections: int = 0
    unclean_elections: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0

    def isr_changed(self, before: Collection[BrokerId], after: Collection[BrokerId]) -> None:
        self.isr_shrinks += sum(one not in after for one in before)
        self.isr_expands += sum(one not in before for one in after)


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """The parts of the broker that replicas share.

    - `brokers()`: the brokers in the image.
    - `ask_for_isr(key, proposal, leader)`: ask the controller for another ISR.
    - `role_changed(key)`: called when the replica begins or ceases to lead.
    - `watermark_goes_back(key, high_watermark)`: return once a restart after a crash would find no higher watermark.
    """

    clock: Clock
    alarms: ReplicaTimers
    sink: PartitionFollower
    failures: FailureListener
    brokers: Callable[[], Mapping[BrokerId, Broker]]
    ask_for_isr: Callable[[PartitionKey, ProposeIsr, IsrLeader], None]
    role_changed: Callable[[PartitionKey], None]
    watermark_goes_back: Callable[[PartitionKey, int], Awaitable[None]]
    traffic: Traffic
    counts: ReplicaCounts
