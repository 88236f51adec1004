"""Log ends that replicas of a partition without a leader report. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, PartitionKey


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a replica's log ends, as the process with that broker epoch reported. `last_epoch` -1: the log is empty.
    `is_damaged`: records before that end are missing."""

    broker_epoch: BrokerEpoch
    last_epoch: LeaderEpoch
    end_offset: int
    is_damaged: bool = False


LogEnds: TypeAlias = Mapping[PartitionKey, Mapping[BrokerId, LogEnd]]
"""Log ends of partitions with a leader must be forgotten: a leader has logs truncated."""

NO_LOG_ENDS: Mapping[BrokerId, LogEnd] = {}
