"""Leaders move back to the preferred replicas by themselves. Pure."""

from itertools import chain, islice, zip_longest

from lograft.metadata.config.effective_settings import cluster_setting
from lograft.metadata.decisions.bulk_change import PartitionKey
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.elect_leaders import can_lead, has_room, move_leader
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import PartitionChanged

# Each move is a short pause for who reads and writes the partition: not all at once.
MOVES_AT_ONCE = 100


def rebalance_leaders(
    image: ClusterImage, limit: int = MOVES_AT_ONCE, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[int]:
    """Give leadership back to up to `limit` preferred leaders that are in sync, stay and can take records, the brokers
    taking turns; how many got it. A partition that is being reassigned is left alone.

    Looks at every partition: some milliseconds for 10,000, so not for each change but every half minute or so.
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
    """For each broker, what it could lead and should, but does not."""
    waiting: dict[BrokerId, list[PartitionKey]] = {}
    for topic_id, topic in image.topics.items():
        for number, partition in topic.partitions.items():
            preferred = partition.preferred_leader
            if partition.leader == preferred or partition.is_reassigning:
                continue
            if can_lead(image, partition, preferred) and has_room(image, room, topic_id, partition, preferred):
                waiting.setdefault(preferred, []).append((topic_id, number))
    return waiting
