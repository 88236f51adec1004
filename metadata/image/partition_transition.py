"""Transitions of a partition: every change of ISR, replicas, leader or minimum goes through `settle`. Pure.

Nothing else computes an ELR, elects a leader or counts up an epoch. Invariants of `settle`:

- the leader is in the ISR, and there is none only if the ISR is empty;
- below the effective minimum ISR, nobody leaves ISR ∪ ELR except brokers in `dropped` and former replicas;
- a clean leader comes from the ISR or, if that is empty, from the ELR.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition, PartitionEpoch, Replica

NO_EPOCH = LeaderEpoch(-1)
"""Of a log that is empty."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a partition's change: the brokers as they are after it, and the effective minimum ISR."""

    brokers: Mapping[BrokerId, Broker]
    min_isr: int

    def state_of(self, broker_id: BrokerId) -> BrokerState:
        broker = self.brokers.get(broker_id)
        return broker.state if broker is not None else BrokerState.FENCED

    def is_live(self, broker_id: BrokerId) -> bool:
        return self.state_of(broker_id) is not BrokerState.FENCED

    def has_directory(self, broker_id: BrokerId, directory_id: UUID) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and directory_id in broker.directories


def settle(
    before: Partition,
    wanted: Partition,
    conditions: Conditions,
    *,
    dropped: Collection[BrokerId] = (),
    avoid_leader: BrokerId | None = None,
) -> Partition:
    """Return `before` itself if nothing changes, or the partition with `wanted`'s replicas, target and ISR, and with
    the leader, ELR and epochs that follow.

    `dropped`: brokers whose data no longer counts (corrupt, or lost). `avoid_leader`: the broker that leads only if
    nobody else in the ISR can.
    """
    isr = _in_replica_order(wanted, [broker for broker in wanted.isr if broker not in dropped])
    assert all(conditions.is_live(broker) for broker in isr), f"a fenced broker in {isr}"
    leader = _keep_or_elect(wanted, isr, conditions, avoid_leader)
    if leader is None:
        assert not isr
        leader = _eligible_leader(before, wanted, conditions, dropped)
        if leader is not None:
            isr = (leader,)
    elr = _elr(before, wanted, isr, conditions.min_isr, dropped)
    return _with_epochs(before, replace(wanted, isr=isr, elr=elr, leader=leader))


def elect_unclean(before: Partition, elected: BrokerId, last_epoch: LeaderEpoch = NO_EPOCH) -> Partition:
    """Make `elected` the leader although it may lack acknowledged records.

    `last_epoch`: the latest that any replica has in its log. Metadata restored from a copy may not know it, and two
    leaders must not share an epoch.
    """
    assert elected in before.replica_ids
    after = _with_epochs(before, replace(before, isr=(elected,), elr=(), leader=elected))
    epoch = LeaderEpoch(max(after.leader_epoch, last_epoch + 1))
    return replace(after, leader_epoch=epoch, unclean_epoch=epoch)


def renew(before: Partition) -> Partition:
    """Return the same partition in another partition epoch, so that requests made in the old one come too late."""
    return replace(before, partition_epoch=PartitionEpoch(before.partition_epoch + 1))


def _with_epochs(before: Partition, after: Partition) -> Partition:
    if after == before:
        return before
    leader_epoch = before.leader_epoch + (after.leader != before.leader)
    return replace(
        after,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(before.partition_epoch + 1),
    )


def _in_replica_order(partition: Partition, brokers: Collection[BrokerId]) -> tuple[BrokerId, ...]:
    return tuple(broker for broker in partition.replica_ids if broker in brokers)


def _keep_or_elect(
    wanted: Partition, isr: tuple[BrokerId, ...], conditions: Conditions, avoid_leader: BrokerId | None
) -> BrokerId | None:
    if wanted.leader in isr and wanted.leader != avoid_leader:
        return wanted.leader
    candidates = [broker for broker in (*wanted.final_replicas, *wanted.replica_ids) if broker in isr]
    for broker in candidates:
        if conditions.state_of(broker) is BrokerState.ACTIVE and broker != avoid_leader:
            return broker
    # Someone who is about to leave is better than nobody; and rather who leads already than a change for nothing.
    if wanted.leader in isr:
        return wanted.leader
    return candidates[0] if candidates else None


def _eligible_leader(
    before: Partition, wanted: Partition, conditions: Conditions, dropped: Collection[BrokerId]
) -> BrokerId | None:
    eligible = _eligible(before, wanted, dropped)
    for state in (BrokerState.ACTIVE, BrokerState.SHUTTING_DOWN):
        for replica in eligible:
            broker, directory = replica.broker_id, replica.directory_id
            has_data = conditions.has_directory(broker, directory) and wanted.directory_of(broker) == directory
            if has_data and conditions.state_of(broker) is state:
                return broker
    return None


def _eligible(before: Partition, wanted: Partition, dropped: Collection[BrokerId]) -> list[Replica]:
    """(old ISR ∪ old ELR) ∩ replicas, each with the directory that has the data."""
    former = {replica.broker_id: replica for replica in before.elr}
    former.update({replica.broker_id: replica for replica in before.replicas if replica.broker_id in before.isr})
    return [former[broker] for broker in wanted.replica_ids if broker in former and broker not in dropped]


def _elr(
    before: Partition, wanted: Partition, isr: tuple[BrokerId, ...], min_isr: int, dropped: Collection[BrokerId]
) -> tuple[Replica, ...]:
    if len(isr) >= min_isr:
        return ()
    return tuple(replica for replica in _eligible(before, wanted, dropped) if replica.broker_id not in isr)
