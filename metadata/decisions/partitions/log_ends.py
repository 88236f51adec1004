"""How far the replicas of a partition without a leader say that they are. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, PartitionKey


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a replica's log ends, as the process with that broker epoch said. `last_epoch` -1: the log is empty.
    `is_damaged`: records before that end are missing."""

    broker_epoch: BrokerEpoch
    last_epoch: LeaderEpoch
    end_offset: int
    is_damaged: bool = False


LogEnds: TypeAlias = Mapping[PartitionKey, Mapping[BrokerId, LogEnd]]
"""Who keeps them forgets those of a partition that has a leader: under it logs are cut."""

NO_LOG_ENDS: Mapping[BrokerId, LogEnd] = {}
