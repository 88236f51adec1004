"""What simulated brokers say to each other: a follower asks, its leader answers. Pure."""

from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from lograft.chaos.metadata.rules.facts import PartitionKey
from lograft.chaos.metadata.stub.log import Entry
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch


@dataclass(frozen=True, slots=True)
class Fetch:
    """A follower has all up to `end`, and its last entry is of `last_epoch`: if that is so at the leader, too, this is
    an acknowledgement. `partition_epoch` is that of the partition as the follower knows it."""

    key: PartitionKey
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    sender: BrokerId
    broker_epoch: BrokerEpoch
    directory_id: UUID
    end: int
    last_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class Fetched:
    """What follows `asked`."""

    asked: Fetch
    entries: tuple[Entry, ...]
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Diverged:
    """A log that ends as `asked` says is no beginning of the leader's, where `epoch` is the last that both may have,
    and ends at `end`."""

    asked: Fetch
    epoch: LeaderEpoch
    end: int


StubMessage: TypeAlias = Fetch | Fetched | Diverged
