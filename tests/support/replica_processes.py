"""Processes of brokers in the life of one partition, the streams between them, and what is said on these."""

from collections import deque
from dataclasses import dataclass, field
from uuid import UUID

from support.replica_logs import Entry

from lograft.broker.replication.follower_core import Acknowledge, FollowerCore, GiveUp, Subscribe, Truncate
from lograft.broker.replication.isr_state import ProposeIsr
from lograft.broker.replication.leader_core import LeaderCore, Subscription
from lograft.broker.replication.log_matching import Reset
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition
from lograft.rpc.coded_error import ControllerError
from lograft.storage.state.epoch_cache import EpochEntry


@dataclass(frozen=True)
class ToldMatched:
    number: int
    high_watermark: int


@dataclass(frozen=True)
class ToldTruncate:
    number: int
    epoch: int
    end_offset: int


@dataclass(frozen=True)
class ToldReset:
    number: int
    reset: Reset


@dataclass(frozen=True)
class ToldRefused:
    number: int


@dataclass(frozen=True)
class FrameSent:
    number: int
    start: int
    entries: tuple[Entry, ...]
    epochs: tuple[EpochEntry, ...]
    high_watermark: int
    log_start: int


@dataclass(frozen=True)
class BarrierSent:
    number: int
    barrier: int


@dataclass(frozen=True)
class BarrierAnswered:
    number: int
    leader_epoch: LeaderEpoch
    barrier: int


Answer = ToldMatched | ToldTruncate | ToldReset | ToldRefused | FrameSent | BarrierSent


@dataclass(eq=False)
class Feed:
    """What a leader's process sends under one subscription that it matched."""

    core: LeaderCore
    subscription: Subscription
    sent_end: int
    sent_watermark: int = -1
    sent_barrier: int = 0


@dataclass(eq=False)
class Stream:
    """From a follower's process to a leader's. Given up by the follower, it may still deliver."""

    follower: "Process"
    leader: "Process"
    requests: deque[Subscribe | Acknowledge | BarrierAnswered] = field(default_factory=deque)
    answers: deque[Answer] = field(default_factory=deque)
    directories: dict[int, UUID] = field(default_factory=dict)  # where the replica was, at each subscription
    feeds: dict[int, Feed] = field(default_factory=dict)


@dataclass(eq=False)
class Process:
    """A broker's. `watermark`: what it knows while it neither leads nor follows."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    view: int
    watermark: int
    directories: tuple[UUID, ...]  # that it can use
    core: LeaderCore | FollowerCore | None = None
    stream: Stream | None = None
    cut: Truncate | GiveUp | Reset | None = None
    subscriptions: int = 0
    reported_at: int | None = None  # what is corrupt here, to the controller
    failed: UUID | None = None  # a directory that is not reported yet, or not known to be
    failure_known_at: int | None = None
    is_running: bool = True


@dataclass(eq=False)
class Request:
    """For another ISR. It is answered once it was delivered, and the answer may be lost."""

    process: Process
    core: LeaderCore
    proposal: ProposeIsr
    outcome: Partition | ControllerError | None = None
    is_awaited: bool = True


@dataclass(eq=False)
class Barrier:
    """A leader asked for it; `led`: the latest epoch in which anybody had led by then."""

    process: Process
    core: LeaderCore
    number: int
    led: LeaderEpoch
