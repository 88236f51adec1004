"""What the metadata log consists of: each operation is a few of these, applied together. Pure.

A record says what is true from now on, not how it came to be; replaying all of them gives the image.
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
    """All broker epochs up to `last` were given out; and of each directory in `confirmed`, the one in which it was last
    used. Only in snapshots: a registration, and the change of state to ACTIVE, say it by their epochs."""

    last: BrokerEpoch
    confirmed: tuple[tuple[UUID, BrokerEpoch], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """Its partitions follow."""

    topic_id: TopicId
    name: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """With its partitions and its configuration. The id is remembered for a while, lest a late retry create it anew.

    In a snapshot: such an id.
    """

    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """The partition is now so; it is new if its number was not there."""

    topic_id: TopicId
    number: int
    partition: Partition


class ResourceKind(Enum):
    TOPIC = 1
    BROKER = 2
    CLUSTER = 3


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """What a configuration belongs to. `name`: a topic's id in text (so that a topic of the same name, created later,
    does not inherit it), a broker's id in text, or empty for the cluster."""

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
    """What records and requests the cluster's nodes may use."""

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
    whoever decided it had not seen, whatever became of those proposed before it.
    """

    base_sequence: int
    records: tuple[Record, ...]
