"""What of a simulated cluster's disks was lost for good, and what may be lost next without breaking a promise.

Acknowledged records survive the loss of all members of an ISR but one. So one broker's disks may be lost, or damaged,
if another copy of everything is sound that may lead; and then no other broker's before the cluster has taken note, and
made good what it could. Where a single replica is enough to acknowledge (`min.insync.replicas` of 1) nothing may be.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from lograft.chaos.cluster.checks.continuous import members_of
from lograft.chaos.cluster.checks.history import PartitionKey
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.metadata.config.effective_settings import effective_min_isr
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, TopicId


class ImageSource(Protocol):
    @property
    def image(self) -> ClusterImage:
        """The latest that is committed."""
        ...


@dataclass(frozen=True, slots=True)
class LostDirectories:
    """Disks that were replaced, or are about to be. It is known once nobody counts on them any more."""

    directories: tuple[UUID, ...]

    def is_over(self, image: ClusterImage) -> bool:
        members = (directory for _, _, one in _partitions(image) for _, directory in members_of(one))
        return not any(directory in self.directories for directory in members)


@dataclass(frozen=True, slots=True)
class LostMemory:
    """The page cache of a machine, or what its directories say of themselves. It is known once the broker has
    registered again."""

    broker_id: BrokerId
    broker_epoch: int

    def is_over(self, image: ClusterImage) -> bool:
        broker = image.brokers.get(self.broker_id)
        return broker is not None and broker.epoch > self.broker_epoch


@dataclass(frozen=True, slots=True, eq=False)
class Rot:
    """A bit of a replica's file that is not as it was. It is over when that is not there any more."""

    host: SimulatedHost
    key: PartitionKey
    path: str
    byte: int
    bit: int
    rotten: int  # the byte as it is now

    def is_over(self, image: ClusterImage) -> bool:
        return self.host.files.byte_at(self.path, self.byte) != self.rotten


@dataclass(frozen=True, slots=True, eq=False)
class LostFiles:
    """Files of one replica. The loss is over when the host has the replica open again, or has none any longer."""

    host: SimulatedHost
    key: PartitionKey

    def is_over(self, image: ClusterImage) -> bool:
        partition = image.partition(TopicId(self.key[0]), self.key[1])
        if partition is None or self.host.number not in partition.replica_ids:
            return True
        return self.host.replica(self.key) is not None


Loss = LostDirectories | LostMemory | Rot | LostFiles


class Losses:
    """All of them, in a run."""

    def __init__(self, cluster: ImageSource) -> None:
        self._cluster = cluster
        self._open: list[Loss] = []

    def add(self, loss: Loss) -> None:
        self._open.append(loss)

    def rot(self) -> list[Rot]:
        """That is still there."""
        self._settle()
        return [loss for loss in self._open if isinstance(loss, Rot)]

    def is_damaged(self, host: SimulatedHost) -> bool:
        """What it has is not what was written to it."""
        self._settle()
        return any(isinstance(loss, Rot | LostFiles) and loss.host is host for loss in self._open)

    def may_lose(self, broker_id: int) -> bool:
        """All that a broker has."""
        self._settle()
        image = self._cluster.image
        return not self._open and all(
            _can_do_without(image, topic_id, partition, broker_id) for topic_id, _, partition in _partitions(image)
        )

    def may_damage(self, broker_id: int, key: PartitionKey) -> bool:
        """A broker's replica of one partition."""
        self._settle()
        image = self._cluster.image
        partition = image.partition(TopicId(key[0]), key[1])
        return (
            not self._open and partition is not None and _can_do_without(image, TopicId(key[0]), partition, broker_id)
        )

    def _settle(self) -> None:
        image = self._cluster.image
        self._open = [loss for loss in self._open if not loss.is_over(image)]


def _can_do_without(image: ClusterImage, topic_id: TopicId, partition: Partition, broker_id: int) -> bool:
    """Has another what is acknowledged, and will it be allowed to lead? With a minimum of 2 at least, whoever leaves
    the ISR last is not the only one that may lead."""
    if partition.is_reassigning or effective_min_isr(image, topic_id, partition) < 2:
        return False
    return any(member != broker_id for member, _ in members_of(partition))


def _partitions(image: ClusterImage) -> Iterator[tuple[TopicId, int, Partition]]:
    for topic_id, topic in image.topics.items():
        for number, partition in topic.partitions.items():
            yield topic_id, number, partition
