"""Leaders leave full disks: leadership goes to an in-sync replica that can take records. Pure."""

from collections.abc import Iterator

from lograft.metadata.config.effective_settings import effective_min_isr, is_internal
from lograft.metadata.decisions.bulk_change import change_each
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.elect_leaders import has_room, move_leader
from lograft.metadata.decisions.topics.disk_room import DiskRoom
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, PartitionKey, TopicId


def leave_full_disks(image: ClusterImage, room: DiskRoom) -> Decision[int]:
    """Hand each partition whose leader's directory takes no records to a member of the ISR whose directory does; return
    how many were handed over. If any were, ask again: it works bit by bit.

    Leadership stays where it is unless the members of the ISR that can take records are at least the effective minimum
    ISR. With fewer, the new leader could not have a write acknowledged either, and producers would wait for a time-out
    instead of hearing DISK_FULL at once.
    """

    def hand_over(topic_id: TopicId, _: int, before: Partition) -> Partition:
        successor = _successor(image, room, topic_id, before)
        return before if successor is None else move_leader(image, topic_id, before, successor)

    decision = change_each(image, _to_hand_over(image, room), hand_over, bit_by_bit=True)
    return Decision(decision.records, len(decision.records))


def _to_hand_over(image: ClusterImage, room: DiskRoom) -> Iterator[PartitionKey]:
    for broker_id in room.brokers():
        for topic_id, number, partition in image.hosted_by(broker_id):
            if partition.leader == broker_id and _successor(image, room, topic_id, partition) is not None:
                yield topic_id, number


def _successor(image: ClusterImage, room: DiskRoom, topic_id: TopicId, partition: Partition) -> BrokerId | None:
    """Return the next leader; None: the present one can take records, or too few others can."""
    if partition.leader is None or has_room(image, room, topic_id, partition, partition.leader):
        return None
    able = room.in_sync_with_room(image, partition, is_internal=is_internal(image, topic_id))
    return able[0] if able and len(able) >= effective_min_isr(image, topic_id, partition) else None
