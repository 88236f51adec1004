"""One partition in the metadata. Pure."""

from dataclasses import dataclass
from typing import NewType, TypeAlias
from uuid import UUID

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
TopicId = NewType("TopicId", UUID)

PartitionKey: TypeAlias = tuple[TopicId, int]
"""A topic's id and a partition's number."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A copy of a partition: its broker, and its directory there."""

    broker_id: BrokerId
    directory_id: UUID


@dataclass(frozen=True, slots=True)
class Partition:
    """Its state, changed only as a whole, by a record.

    - `replicas`: the first is the preferred leader. During a reassignment: the original ones, in their order, then
      those being added.
    - `isr`: the brokers in sync. None of them is fenced. Empty only when there is no leader.
    - `elr`: eligible for leadership without being in sync: they left the ISR when it fell below the effective minimum,
      so nothing was acknowledged without them since. Tied to the directory that has the data.
    - `leader_epoch` grows whenever the leader changes, to none included; `partition_epoch` with every change.
    - `target`: what a reassignment under way is to arrive at, in that order; empty when there is none.
    - `adding`: the replicas that this reassignment added.
    - `unclean_epoch`: the latest leader epoch that began with an unclean election. A replica whose own last epoch is
      lower may truncate below its high watermark; no other ever may.
    """

    replicas: tuple[Replica, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    elr: tuple[Replica, ...] = ()
    target: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    unclean_epoch: LeaderEpoch | None = None

    @property
    def replica_ids(self) -> tuple[BrokerId, ...]:
        return tuple(replica.broker_id for replica in self.replicas)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.target)

    @property
    def removing(self) -> tuple[BrokerId, ...]:
        """The replicas that the reassignment under way will remove."""
        return tuple(broker for broker in self.replica_ids if broker not in self.target) if self.target else ()

    @property
    def original(self) -> tuple[BrokerId, ...]:
        """The replicas before the reassignment under way, in their order."""
        return tuple(broker for broker in self.replica_ids if broker not in self.adding)

    @property
    def final_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas after the reassignment under way, if there is one: their number is the replication factor."""
        return self.target or self.replica_ids

    @property
    def replication_factor(self) -> int:
        return len(self.final_replicas)

    @property
    def preferred_leader(self) -> BrokerId:
        return self.final_replicas[0]

    def directory_of(self, broker_id: BrokerId) -> UUID | None:
        for replica in self.replicas:
            if replica.broker_id == broker_id:
                return replica.directory_id
        return None

    def is_eligible(self, broker_id: BrokerId) -> bool:
        return any(replica.broker_id == broker_id for replica in self.elr)
