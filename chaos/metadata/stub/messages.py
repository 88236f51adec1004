"""Messages between simulated brokers: a follower fetches, its leader answers. Pure."""

from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from lograft.chaos.metadata.rules.facts import PartitionKey
from lograft.chaos.metadata.stub.log import Entry
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch


@dataclass(frozen=True, slots=True)
class Fetch:
    """The follower's log ends at `end`, with an entry of `last_epoch`. If the leader's log agrees, this is also an
    acknowledgement. `partition_epoch` is from the follower's image."""

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
    """The entries that follow the follower's log."""

    asked: Fetch
    entries: tuple[Entry, ...]
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Diverged:
    """The follower's log is not a prefix of the leader's. `epoch` is the last one that both may have; in the leader's
    log it ends at `end`."""

    asked: Fetch
    epoch: LeaderEpoch
    end: int


StubMessage: TypeAlias = Fetch | Fetched | Diverged
