"""Elections that are requested, or that a timer finds possible; and the return to preferred leaders. Pure.

Elections that follow from a change of the ISR are part of that change (`partition_transition.settle`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice, zip_longest

from lograft.metadata.config.effective_settings import (
    allows_unclean_election,
    cluster_setting,
    conditions_for,
    is_internal,
)
from lograft.metadata.decisions.bulk_change import Change, PartitionResult, change_each, name_of
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.log_ends import NO_LOG_ENDS, LogEnds
from lograft.metadata.decisions.partitions.reassignment import complete_if_due
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, PartitionKey, Replica, TopicId
from lograft.metadata.image.partition_transition import elect_unclean, settle
from lograft.metadata.image.records import PartitionChanged
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

# Each move briefly pauses clients of the partition, so moves are made in small groups.
MOVES_AT_ONCE = 100


def elect_preferred(
    image: ClusterImage, partitions: Iterable[PartitionKey] | None, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[tuple[PartitionResult, ...]]:
    """Make the first replica of each of these partitions its leader.

    None: all partitions with another leader, or none, bit by bit: ask again until there are no records.
    """

    def elect(topic_id: TopicId, number: int, before: Partition) -> Partition:
        _check_preferred(image, room, topic_id, number, before)
        return move_leader(image, topic_id, before, before.preferred_leader)

    if partitions is None:
        return change_each(image, _not_led_by_preferred(image), elect, bit_by_bit=True)
    return change_each(image, partitions, elect)


def elect_unclean_leaders(
    image: ClusterImage, partitions: Iterable[PartitionKey] | None, log_ends: LogEnds
) -> Decision[tuple[PartitionResult, ...]]:
    """Elect a live replica for each of these partitions without a leader: one that has every acknowledged record if
    that is possible by now; else the one with the longest log.

    None: all partitions without a leader, bit by bit: ask again until there are no records. Internal topics must be
    named: a user who gives up records of topics may not know that committed offsets would be lost with them.
    """
    elect = _election_at_any_price(image, log_ends)
    if partitions is None:
        return change_each(image, _leaderless(image), _sparing_internal(image, elect), bit_by_bit=True)
    return change_each(image, partitions, elect)


def elect_allowed_unclean(image: ClusterImage, log_ends: LogEnds) -> Decision[int]:
    """Do the same for every partition without a leader whose topic allows unclean election. Return how many got one.

    A timer calls it. If any got one, ask again: it works bit by bit.
    """
    decision = change_each(image, _allowing_unclean(image), _election_at_any_price(image, log_ends), bit_by_bit=True)
    return Decision(decision.records, len(decision.records))


def elect_possible(image: ClusterImage) -> Decision[int]:
    """Elect a leader for every partition without one if a live replica has every acknowledged record. Return how many
    got one.

    If any did, ask again: it works bit by bit.
    """

    def elect(topic_id: TopicId, _: int, before: Partition) -> Partition:
        return _elect_cleanly(image, topic_id, before)

    decision = change_each(image, _with_live_eligible(image), elect, bit_by_bit=True)
    return Decision(decision.records, len(decision.records))


def move_leader(image: ClusterImage, topic_id: TopicId, before: Partition, leader: BrokerId) -> Partition:
    """Return the partition led by `leader`, which is in sync."""
    assert leader in before.isr
    return settle(before, replace(before, leader=leader), conditions_for(image, topic_id, before))


def can_lead(image: ClusterImage, partition: Partition, broker_id: BrokerId) -> bool:
    """Return whether the broker is in sync, and not shutting down."""
    return broker_id in partition.isr and image.brokers[broker_id].state is BrokerState.ACTIVE


def has_room(image: ClusterImage, room: DiskRoom, topic_id: TopicId, partition: Partition, broker_id: BrokerId) -> bool:
    """Return whether the directory of the partition's replica on that broker can take its records."""
    directory_id = partition.directory_of(broker_id)
    assert directory_id is not None
    return room.takes_records(Replica(broker_id, directory_id), is_internal=is_internal(image, topic_id))


def _not_led_by_preferred(image: ClusterImage) -> Iterator[PartitionKey]:
    for topic_id, topic in image.topics.items():
        for number, partition in topic.partitions.items():
            if partition.leader != partition.preferred_leader:
                yield topic_id, number


def _leaderless(image: ClusterImage) -> Iterator[PartitionKey]:
    for topic_id, number, _ in image.leaderless():
        yield topic_id, number


def _with_live_eligible(image: ClusterImage) -> Iterator[PartitionKey]:
    for topic_id, number, partition in image.leaderless():
        if any(_has_live_copy(image, replica) for replica in partition.elr):
            yield topic_id, number


def _allowing_unclean(image: ClusterImage) -> Iterator[PartitionKey]:
    """Yield partitions without a leader whose topic allows unclean election, if any replica can be elected."""
    allowed: dict[TopicId, bool] = {}
    for topic_id, number, partition in image.leaderless():
        if topic_id not in allowed:
            allowed[topic_id] = allows_unclean_election(image, topic_id)
        if allowed[topic_id] and any(_has_live_copy(image, replica) for replica in partition.replicas):
            yield topic_id, number


def _has_live_copy(image: ClusterImage, replica: Replica) -> bool:
    """Return whether the broker is live, with the replica's directory."""
    broker = image.brokers.get(replica.broker_id)
    return broker is not None and broker.is_live and replica.directory_id in broker.directories


def _check_preferred(image: ClusterImage, room: DiskRoom, topic_id: TopicId, number: int, partition: Partition) -> None:
    preferred = partition.preferred_leader
    if partition.leader == preferred:
        raise ControllerError(
            errors_pb2.ELECTION_NOT_NEEDED,
            f"{name_of(image, topic_id, number)} is led by its preferred leader, broker {preferred}, already",
        )
    is_able = can_lead(image, partition, preferred)
    if is_able and has_room(image, room, topic_id, partition, preferred):
        return
    if is_able:
        why = "has no room on its disk: make room there first"
    elif preferred in partition.isr:
        why = "is shutting down: start it again first"
    elif preferred in image.brokers and image.brokers[preferred].is_live:
        why = "is not in sync: wait until it has caught up"
    else:
        why = "is not running: start it, and wait until it has caught up"
    raise ControllerError(
        errors_pb2.PREFERRED_LEADER_NOT_AVAILABLE,
        f"broker {preferred}, the preferred leader of {name_of(image, topic_id, number)}, {why}",
    )


def _elect_cleanly(image: ClusterImage, topic_id: TopicId, before: Partition) -> Partition:
    """Return the partition with a leader if a live replica has every acknowledged record, else `before`."""
    settled = settle(before, before, conditions_for(image, topic_id, before))
    return complete_if_due(image, topic_id, before, settled)


def _election_at_any_price(image: ClusterImage, log_ends: LogEnds) -> Change:
    def elect(topic_id: TopicId, number: int, before: Partition) -> Partition:
        if before.leader is not None:
            raise ControllerError(
                errors_pb2.ELECTION_NOT_NEEDED,
                f"{name_of(image, topic_id, number)} has a leader, broker {before.leader}: "
                "an unclean election is only for partitions that have none",
            )
        after = _elect_cleanly(image, topic_id, before)
        if after.leader is not None:
            return after
        elected = _longest_log(image, topic_id, number, before, log_ends)
        last_epoch = max(end.last_epoch for end in log_ends[topic_id, number].values())
        return complete_if_due(image, topic_id, before, elect_unclean(before, elected, last_epoch))

    return elect


def _sparing_internal(image: ClusterImage, elect: Change) -> Change:
    def elect_unless_internal(topic_id: TopicId, number: int, before: Partition) -> Partition:
        if not image.topics[topic_id].is_internal:
            return elect(topic_id, number, before)
        after = _elect_cleanly(image, topic_id, before)
        if after.leader is not None:
            return after
        name = name_of(image, topic_id, number)
        raise ControllerError(
            errors_pb2.INVALID_TOPIC,
            f"{name} is the cluster's own, and what consumer groups committed there could be lost: start a broker that "
            f"has its records, or name {name} to give them up",
        )

    return elect_unless_internal


def _longest_log(
    image: ClusterImage, topic_id: TopicId, number: int, partition: Partition, log_ends: LogEnds
) -> BrokerId:
    """Return the live replica that loses least: the one with the greatest (last epoch, end offset).

    Wait for the report of each live replica: one without a report may have more than the others.
    """
    ends = log_ends.get((topic_id, number), NO_LOG_ENDS)
    live = [replica.broker_id for replica in partition.replicas if _has_live_copy(image, replica)]
    candidates: list[tuple[int, int, bool, bool, bool, int, BrokerId]] = []
    for place, broker_id in enumerate(live):
        broker, end = image.brokers[broker_id], ends.get(broker_id)
        if end is None or end.broker_epoch != broker.epoch:
            raise ControllerError(
                errors_pb2.ELIGIBLE_LEADER_NOT_AVAILABLE,
                f"broker {broker_id} has not yet said how much of {name_of(image, topic_id, number)} it has: "
                "it does so within seconds; try again",
            )
        # Of equals, prefer an undamaged log, then a broker that keeps running, then one that keeps the partition, then
        # the first.
        goes_on, keeps_it = broker.state is BrokerState.ACTIVE, broker_id in partition.final_replicas
        is_whole = not end.is_damaged
        candidates.append((end.last_epoch, end.end_offset, is_whole, goes_on, keeps_it, -place, broker_id))
    if not candidates:
        away = ", ".join(str(broker_id) for broker_id in partition.replica_ids)
        raise ControllerError(
            errors_pb2.ELIGIBLE_LEADER_NOT_AVAILABLE,
            f"no replica of {name_of(image, topic_id, number)} is there with its data directory: "
            f"start one of the brokers {away}, or reassign the partition to others first",
        )
    return max(candidates)[-1]


def rebalance_leaders(
    image: ClusterImage, limit: int = MOVES_AT_ONCE, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[int]:
    """Give leadership back to up to `limit` preferred leaders that are in sync, stay and can take records, broker by
    broker in turn. Return how many got it. A partition that is being reassigned is left alone.

    This looks at every partition, some milliseconds for 10,000: call it twice a minute or so, not for each change.
    """
    if cluster_setting(image, "leader.rebalance.enable") == "false":
        return Decision((), 0)
    turns = zip_longest(*_waiting(image, room).values())
    moved = islice((key for key in chain.from_iterable(turns) if key is not None), limit)
    records: list[PartitionChanged] = []
    for topic_id, number in moved:
        before = image.topics[topic_id].partitions[number]
        after = move_leader(image, topic_id, before, before.preferred_leader)
        records.append(PartitionChanged(topic_id, number, after))
    return Decision(tuple(records), len(records))


def _waiting(image: ClusterImage, room: DiskRoom) -> dict[BrokerId, list[PartitionKey]]:
    """Return, for each broker, the partitions that it could lead and should, but does not."""
    waiting: dict[BrokerId, list[PartitionKey]] = {}
    for topic_id, topic in image.topics.items():
        for number, partition in topic.partitions.items():
            preferred = partition.preferred_leader
            if partition.leader == preferred or partition.is_reassigning:
                continue
            if can_lead(image, partition, preferred) and has_room(image, room, topic_id, partition, preferred):
                waiting.setdefault(preferred, []).append((topic_id, number))
    return waiting
