"""Room on data directories, as brokers have reported it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, Replica


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """`full`: the directories that take no records of users' topics; the value is True where they take none of internal
    topics either. A directory without a report has room."""

    full: Mapping[Replica, bool] = field(default_factory=dict)

    def takes_records(self, replica: Replica, *, is_internal: bool) -> bool:
        """Return whether a replica there can take records of an internal topic, or of a user's."""
        is_critical = self.full.get(replica)
        return is_critical is None or (is_internal and not is_critical)

    def has_place_on(self, broker: Broker, *, is_internal: bool = False) -> bool:
        """Return whether any directory of the broker takes records of an internal topic, or of a user's."""
        return any(
            self.takes_records(Replica(broker.broker_id, directory_id), is_internal=is_internal)
            for directory_id in broker.directories
        )

    def brokers(self) -> list[BrokerId]:
        """Return those with a full directory, in order."""
        return sorted(dict.fromkeys(replica.broker_id for replica in self.full))

    def in_sync_with_room(self, image: ClusterImage, partition: Partition, *, is_internal: bool) -> list[BrokerId]:
        """Return the members of the ISR that keep running and whose directory takes the partition's records, in the
        order of preference for leading it."""
        by_id = {replica.broker_id: replica for replica in partition.replicas}
        return [
            broker_id
            for broker_id in dict.fromkeys((*partition.final_replicas, *partition.replica_ids))
            if broker_id in partition.isr
            and image.brokers[broker_id].state is BrokerState.ACTIVE
            and self.takes_records(by_id[broker_id], is_internal=is_internal)
        ]


ROOM_EVERYWHERE = DiskRoom()

FindRoom: TypeAlias = Callable[[ClusterImage], DiskRoom]
"""Return the room that the presently registered brokers have reported."""


def nothing_reported(_: ClusterImage) -> DiskRoom:
    return ROOM_EVERYWHERE
