"""The records of the metadata log: each operation is a few of them, applied together. Pure.

A record states the new value, not the reason for it; replaying all of them gives the image.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias
from uuid import UUID

from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Partition, TopicId


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A new incarnation, or the same one with other directories. In a snapshot: the broker as it is."""

    broker: Broker


@dataclass(frozen=True, slots=True)
class BrokerStateChanged:
    """ACTIVE confirms the broker's directories in `epoch`, if its registration named their used epochs."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    state: BrokerState


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class BrokerEpochsUsed:
    """All broker epochs up to `last` were given out; `confirmed` maps directories to the epoch that last used them.
    Only in snapshots: in the log, registrations and changes of state to ACTIVE carry the same by their epochs."""

    last: BrokerEpoch
    confirmed: tuple[tuple[UUID, BrokerEpoch], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A new topic. Its partitions follow."""

    topic_id: TopicId
    name: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """The topic is gone, with its partitions and its configuration. The id is remembered for a while, so that a late
    retry does not create it again.

    In a snapshot: such an id.
    """

    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """The new value of the partition; the partition is new if its number was not there."""

    topic_id: TopicId
    number: int
    partition: Partition


class ResourceKind(Enum):
    TOPIC = 1
    BROKER = 2
    CLUSTER = 3


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """The owner of a configuration. `name`: a topic's id in text (so that a topic of the same name, created later, does
    not inherit it), a broker's id in text, or empty for the cluster."""

    kind: ResourceKind
    name: str = ""


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """`value` None: back to the default."""

    resource: ConfigResource
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """All producer ids below `next_id` are given out."""

    next_id: int


@dataclass(frozen=True, slots=True)
class FeatureLevelChanged:
    """The level that decides which records and requests the cluster's nodes may use."""

    level: int


Record: TypeAlias = (
    BrokerRegistered
    | BrokerStateChanged
    | BrokerUnregistered
    | BrokerEpochsUsed
    | TopicCreated
    | TopicDeleted
    | PartitionChanged
    | ConfigChanged
    | ProducerIdsAllocated
    | FeatureLevelChanged
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One Raft entry: `records`, decided on the image after `base_sequence` operations.

    An image at another sequence ignores it, on every replica alike. So an operation never takes effect on a state that
    its decision had not seen, whatever the fate of the operations proposed before it.
    """

    base_sequence: int
    records: tuple[Record, ...]
