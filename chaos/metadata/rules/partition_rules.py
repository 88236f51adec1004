"""The changes that one operation may make to a partition, derived from the design alone. Pure.

Written without reference to the controller's code. The two must agree, so only a mistake made twice goes unnoticed.
"""

from dataclasses import dataclass
from uuid import UUID

from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.metadata.rules.facts import Facts, PartitionKey
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, TopicId
from lograft.metadata.image.records import ConfigResource, ResourceKind

_CLUSTER = ConfigResource(ResourceKind.CLUSTER)


def require(holds: bool, rule: str, *what: object) -> None:
    """Raise `InvariantBroken` unless `holds`. The evidence, `what`, is only formatted in that case."""
    if not holds:
        raise InvariantBroken(rule, " ".join(str(part) for part in what))


def setting_of(image: ClusterImage, topic_id: TopicId, key: str) -> str | None:
    """Return the topic's setting, else the cluster's, else None."""
    own = image.configs.get(ConfigResource(ResourceKind.TOPIC, str(topic_id)), {}).get(key)
    return own if own is not None else image.configs.get(_CLUSTER, {}).get(key)


def least_in_sync(image: ClusterImage, topic_id: TopicId, partition: Partition) -> int:
    """Return the effective minimum ISR: during a reassignment, the lower of the values before and after it."""
    factors = [len(partition.target) or len(partition.replicas)]
    if partition.target:
        factors.append(len(partition.replicas) - len(partition.adding))
    setting = setting_of(image, topic_id, "min.insync.replicas")
    return min(factor // 2 + 1 if setting is None else min(int(setting), factor) for factor in factors)


@dataclass(frozen=True, slots=True)
class Change:
    """One partition before and after an operation, in the images before and after it."""

    key: PartitionKey
    before: Partition
    after: Partition
    old: ClusterImage
    new: ClusterImage
    facts: Facts

    def __str__(self) -> str:
        return f"{self.key[0]}-{self.key[1]}: {self.before} became {self.after}"

    @property
    def is_unclean(self) -> bool:
        return self.after.unclean_epoch != self.before.unclean_epoch

    @property
    def eligible_before(self) -> tuple[BrokerId, ...]:
        return tuple(replica.broker_id for replica in self.before.elr)

    @property
    def joined(self) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in self.after.isr if broker not in self.before.isr)


# -- valid states


def check_state(image: ClusterImage, key: PartitionKey, partition: Partition) -> None:
    def holds(fact: bool, rule: str) -> None:
        if not fact:
            raise InvariantBroken(rule, f"{key[0]}-{key[1]}: {partition} with {list(image.brokers.values())}")

    replica_ids = partition.replica_ids
    eligible = [replica.broker_id for replica in partition.elr]
    holds(len(replica_ids) > 0, "a partition has replicas")
    holds(len(dict.fromkeys(replica_ids)) == len(replica_ids), "replicas are on distinct brokers")
    holds(all(broker in image.brokers for broker in replica_ids), "replicas are on registered brokers")
    holds(all(broker in replica_ids for broker in partition.isr), "the ISR is among the replicas")
    holds(len(dict.fromkeys(partition.isr)) == len(partition.isr), "nobody is in an ISR twice")
    holds((partition.leader is None) == (not partition.isr), "there is a leader if anybody is in sync")
    holds(partition.leader is None or partition.leader in partition.isr, "the leader is in the ISR")
    for broker in partition.isr:
        holds(image.brokers[broker].state is not BrokerState.FENCED, "no fenced broker is in an ISR")
        directory = partition.directory_of(broker)
        holds(directory in image.brokers[broker].directories, "who is in sync has the directory")
    holds(all(broker in replica_ids for broker in eligible), "the ELR is among the replicas")
    holds(not any(broker in partition.isr for broker in eligible), "nobody is in both the ISR and the ELR")
    enough = len(partition.isr) >= least_in_sync(image, key[0], partition)
    holds(not (enough and eligible), "the ELR is empty unless the ISR is below its minimum")
    if partition.target:
        added = replica_ids[len(replica_ids) - len(partition.adding) :]
        holds(added == partition.adding, "replicas that are added come last")
        holds(all(broker in partition.target for broker in partition.adding), "only what is in the target is added")
        holds(all(broker in replica_ids for broker in partition.target), "the target is among the replicas")
    else:
        holds(not partition.adding, "nothing is added but by a reassignment")


# -- valid changes


def check_change(change: Change) -> None:
    _check_epochs(change)
    _check_kept(change)
    if change.is_unclean:
        _check_unclean(change)
    else:
        _check_joined(change)
        _check_leader(change)
    if change.after.replica_ids != change.before.replica_ids or change.after.target != change.before.target:
        _check_moved(change)


def _check_epochs(change: Change) -> None:
    before, after = change.before, change.after
    require(after.partition_epoch == before.partition_epoch + 1, "partition epochs count changes", change)
    leaders = 1 if after.leader != before.leader else 0
    require(after.leader_epoch == before.leader_epoch + leaders, "leader epochs count leaders", change)


def _check_kept(change: Change) -> None:
    """Check that below the minimum, ISR ∪ ELR loses no replica without a reason, and keeps each replica's directory."""
    before, after = change.before, change.after
    if len(after.isr) >= least_in_sync(change.new, change.key[0], after):
        return
    data = {replica.broker_id: replica.directory_id for replica in before.elr}
    data |= {broker.broker_id: broker.directory_id for broker in before.replicas if broker.broker_id in before.isr}
    kept = {replica.broker_id: replica.directory_id for replica in after.elr}
    for broker, directory in data.items():
        if broker in after.isr or broker not in after.replica_ids or change.is_unclean:
            continue
        if broker not in kept:
            require(_may_be_dropped(change, broker, directory), "below the minimum nobody is dropped", change)
        else:
            require(kept[broker] == directory, "who is eligible is so with its directory", change)
    require(all(broker in data for broker in kept), "eligible is only who was in sync", change)


def _may_be_dropped(change: Change, broker: BrokerId, directory: UUID) -> bool:
    if (change.key, broker) in change.facts.corrupt_replicas:
        return True
    started, stopped = change.new.brokers[broker], change.old.brokers[broker]
    if started.incarnation == stopped.incarnation or setting_of(change.old, change.key[0], "flush.mode") != "os":
        return False
    if directory in started.directories and directory not in stopped.directories:
        return True  # nobody knows the data's history while it was away
    was_clean = change.facts.clean_epochs[started.incarnation] == stopped.epoch
    return started.boot_id != stopped.boot_id and not was_clean


def _check_unclean(change: Change) -> None:
    before, after = change.before, change.after
    leader = after.leader
    require(before.leader is None, "an unclean election is for who has no leader", change)
    require(leader is not None and after.isr == (leader,), "the elected is alone in sync", change)
    require(after.elr == (), "an unclean election leaves nobody eligible", change)
    require(after.unclean_epoch == after.leader_epoch, "an unclean election is recorded", change)
    allowed = setting_of(change.old, change.key[0], "unclean.leader.election.enable") == "true"
    asked = change.facts.unclean_elections[change.key] > 0
    require(allowed or asked, "nobody is elected uncleanly unless allowed or asked for", change)
    for replica in before.elr:
        broker = change.new.brokers[replica.broker_id]
        could_lead = (
            broker.is_live
            and replica.directory_id in broker.directories
            and after.directory_of(replica.broker_id) == replica.directory_id
        )
        require(not could_lead, "nobody is elected uncleanly where one can cleanly", change)


def _check_joined(change: Change) -> None:
    """Check new members: only a leader knows which replicas are in sync, and only active brokers may join."""
    before, after = change.before, change.after
    if not change.joined or (before.leader is None and after.isr == (after.leader,)):
        return
    if before.leader is not None and after.isr == (after.leader,) and after.leader in change.eligible_before:
        return  # the ISR is gone, and an eligible replica is elected in the same operation
    require(before.leader is not None, "who joins was found in sync by a leader", change)
    for broker in change.joined:
        state = change.new.brokers[broker].state
        require(state is BrokerState.ACTIVE, "only an active broker joins an ISR", broker, ",", change)


def _check_leader(change: Change) -> None:
    before, after = change.before, change.after
    leader = after.leader
    if leader is None or leader == before.leader:
        return
    is_finished = before.is_reassigning and not after.is_reassigning
    if leader in before.isr or (is_finished and before.leader is not None and leader in change.joined):
        _check_not_leaving(change, leader)  # from the ISR, or just found in sync by the previous leader
        return
    eligible = {replica.broker_id: replica.directory_id for replica in before.elr}
    require(leader in eligible, "a leader was in sync, or is eligible", change)
    require(after.directory_of(leader) == eligible[leader], "who is eligible leads with its data", change)
    for broker in before.isr:
        require(_cannot_lead(change, broker), "the eligible lead only if nobody is in sync", change)


def _check_not_leaving(change: Change, leader: BrokerId) -> None:
    states = {broker: change.new.brokers[broker].state for broker in change.after.isr}
    is_last_resort = BrokerState.ACTIVE not in states.values()
    require(states[leader] is BrokerState.ACTIVE or is_last_resort, "who is leaving is not elected", change)


def _cannot_lead(change: Change, broker: BrokerId) -> bool:
    registered = change.new.brokers[broker]
    return (
        not registered.is_live
        or broker not in change.after.replica_ids
        or change.before.directory_of(broker) not in registered.directories
        or (change.key, broker) in change.facts.corrupt_replicas
    )


def _check_moved(change: Change) -> None:
    """Check that replicas change only as requested, and that none is removed before the added ones are in sync."""
    key, before, after, facts = change.key, change.before, change.after, change.facts
    if after.target:
        require(facts.is_target(key, after.target), "a reassignment was asked for", change)
        original = tuple(broker for broker in before.replica_ids if broker not in before.adding)
        now = tuple(broker for broker in after.replica_ids if broker not in after.adding)
        require(now == original, "nobody is removed before those added are in sync", change)
    elif facts.is_target(key, after.replica_ids):
        added = [broker for broker in after.replica_ids if broker not in before.original]
        in_sync = all(broker in after.isr for broker in added)
        require(in_sync, "nobody is removed before those added are in sync", change)
    else:
        require(bool(before.target), "a reassignment is exactly what was asked for", change)
        is_back = after.replica_ids == before.original and facts.cancels[key] > 0
        require(is_back, "a finished reassignment is exactly what was asked for", change)
    require(before.leader is None or after.leader is not None, "a reassignment leaves a leader", change)
