"""A broker is fenced, unfenced, or shut down in good order. Pure.

Each is one operation: the broker's new state together with every leader and ISR that follows from it.
"""

from collections.abc import Iterator
from dataclasses import replace

from lograft.metadata.config.effective_settings import conditions_for, effective_min_isr
from lograft.metadata.decisions.checks import check_broker_epoch
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.leave_isr import Hosted, leave_isrs
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.metadata.image.partition_transition import Conditions, settle
from lograft.metadata.image.records import BrokerStateChanged, PartitionChanged, Record


def fence(image: ClusterImage, broker_id: BrokerId, epoch: BrokerEpoch) -> Decision[None]:
    """Fence a broker that has fallen silent: it leaves every ISR, and what it led gets another leader or none."""
    broker = check_broker_epoch(image, broker_id, epoch)
    return Decision(_fencing(image, broker) if broker.is_live else (), None)


def unfence(image: ClusterImage, broker_id: BrokerId, epoch: BrokerEpoch) -> Decision[BrokerState]:
    """Unfence a broker that is ready: partitions without a leader that it may lead get it. A broker that is shutting
    down stays as it is."""
    broker = check_broker_epoch(image, broker_id, epoch)
    if broker.is_live:
        return Decision((), broker.state)
    active = replace(broker, state=BrokerState.ACTIVE)
    brokers = {**image.brokers, broker_id: active}
    records: list[Record] = [_change_of(active)]
    for topic_id, number, partition in image.hosted_by(broker_id):
        if partition.leader is None:
            conditions = Conditions(brokers, effective_min_isr(image, topic_id, partition))
            after = settle(partition, partition, conditions)
            if after is not partition:
                records.append(PartitionChanged(topic_id, number, after))
    return Decision(tuple(records), BrokerState.ACTIVE)


def shut_down(image: ClusterImage, broker_id: BrokerId, epoch: BrokerEpoch) -> Decision[bool]:
    """Decide whether a broker that wants to stop may stop now. The broker asks until it may.

    It first gets no new replicas, and its leaders move to others. It may stop once that harms nothing: it leads nothing
    that another broker could lead, and no partition falls below its minimum while a remaining replica is still catching
    up. Then it is fenced in the same operation, so that nobody waits for its session to end.
    """
    broker = check_broker_epoch(image, broker_id, epoch)
    if not broker.is_live:
        return Decision((), True)
    going = replace(broker, state=BrokerState.SHUTTING_DOWN)
    moves = tuple(_moves_of_leaders(image, going))
    if broker.state is BrokerState.ACTIVE:
        return Decision((_change_of(going), *moves), False)
    if moves:
        return Decision(moves, False)
    if any(_must_wait(image, broker_id, one) for one in image.hosted_by(broker_id)):
        return Decision((), False)
    return Decision(_fencing(image, broker), True)


def _fencing(image: ClusterImage, broker: Broker) -> tuple[Record, ...]:
    fenced = replace(broker, state=BrokerState.FENCED)
    brokers = {**image.brokers, broker.broker_id: fenced}
    return (_change_of(fenced), *leave_isrs(image, broker.broker_id, image.hosted_by(broker.broker_id), brokers))


def _moves_of_leaders(image: ClusterImage, going: Broker) -> Iterator[PartitionChanged]:
    brokers = {**image.brokers, going.broker_id: going}
    for topic_id, number, partition in image.hosted_by(going.broker_id):
        if partition.leader == going.broker_id:
            conditions = Conditions(brokers, effective_min_isr(image, topic_id, partition))
            after = settle(partition, partition, conditions, avoid_leader=going.broker_id)
            if after is not partition:
                yield PartitionChanged(topic_id, number, after)


def _must_wait(image: ClusterImage, broker_id: BrokerId, hosted: Hosted) -> bool:
    topic_id, _, partition = hosted
    if broker_id not in partition.isr:
        return False
    conditions = conditions_for(image, topic_id, partition)
    if len(partition.isr) - 1 >= conditions.min_isr:
        return False
    return any(
        replica not in partition.isr and conditions.state_of(replica) is BrokerState.ACTIVE
        for replica in partition.final_replicas
    )


def _change_of(broker: Broker) -> BrokerStateChanged:
    return BrokerStateChanged(broker.broker_id, broker.epoch, broker.state)
