"""Permanent losses of a simulated cluster's disks, and the further losses that would break no promise.

Acknowledged records survive the loss of all but one member of an ISR. Therefore one broker's disks may be lost or
damaged if another intact copy of everything may lead. After that, no other broker's disks may be lost until the cluster
has noticed, and repaired as much as it can. Where one replica suffices for an acknowledgement (`min.insync.replicas` of
1), nothing may be lost.
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
        """The latest committed image."""
        ...


@dataclass(frozen=True, slots=True)
class LostDirectories:
    """Disks that were replaced, or are about to be. The loss is over once no partition counts on them."""

    directories: tuple[UUID, ...]

    def is_over(self, image: ClusterImage) -> bool:
        members = (directory for _, _, one in _partitions(image) for _, directory in members_of(one))
        return not any(directory in self.directories for directory in members)


@dataclass(frozen=True, slots=True)
class LostMemory:
    """A machine's page cache, or a directory's notes about itself. The loss is over once the broker registers again."""

    broker_id: BrokerId
    broker_epoch: int

    def is_over(self, image: ClusterImage) -> bool:
        broker = image.brokers.get(self.broker_id)
        return broker is not None and broker.epoch > self.broker_epoch


@dataclass(frozen=True, slots=True, eq=False)
class Rot:
    """A flipped bit in a file of a replica. The loss is over once the damaged byte is gone."""

    host: SimulatedHost
    key: PartitionKey
    path: str
    byte: int
    bit: int
    rotten: int  # the present, damaged byte

    def is_over(self, image: ClusterImage) -> bool:
        return self.host.files.byte_at(self.path, self.byte) != self.rotten


@dataclass(frozen=True, slots=True, eq=False)
class LostFiles:
    """Lost files of one replica. The loss is over once the host has opened the replica again, or has none."""

    host: SimulatedHost
    key: PartitionKey

    def is_over(self, image: ClusterImage) -> bool:
        partition = image.partition(TopicId(self.key[0]), self.key[1])
        if partition is None or self.host.number not in partition.replica_ids:
            return True
        return self.host.replica(self.key) is not None


Loss = LostDirectories | LostMemory | Rot | LostFiles


class Losses:
    """All losses of a run."""

    def __init__(self, cluster: ImageSource) -> None:
        self._cluster = cluster
        self._open: list[Loss] = []

    def add(self, loss: Loss) -> None:
        self._open.append(loss)

    def rot(self) -> list[Rot]:
        """Return the damage that still exists."""
        self._settle()
        return [loss for loss in self._open if isinstance(loss, Rot)]

    def is_damaged(self, host: SimulatedHost) -> bool:
        """Return whether files of a host differ from the data written to them."""
        self._settle()
        return any(isinstance(loss, Rot | LostFiles) and loss.host is host for loss in self._open)

    def may_lose(self, broker_id: int) -> bool:
        """Return whether a broker may lose all its data."""
        self._settle()
        image = self._cluster.image
        return not self._open and all(
            _can_do_without(image, topic_id, partition, broker_id) for topic_id, _, partition in _partitions(image)
        )

    def may_damage(self, broker_id: int, key: PartitionKey) -> bool:
        """Return whether a broker's replica of one partition may be damaged."""
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
    """Return whether another replica has all acknowledged records and may lead. With a minimum ISR of at least 2, the
    last member to leave the ISR is not the only one that may lead."""
    if partition.is_reassigning or effective_min_isr(image, topic_id, partition) < 2:
        return False
    return any(member != broker_id for member, _ in members_of(partition))


def _partitions(image: ClusterImage) -> Iterator[tuple[TopicId, int, Partition]]:
    for topic_id, topic in image.topics.items():
        for number, partition in topic.partitions.items():
            yield topic_id, number, partition
