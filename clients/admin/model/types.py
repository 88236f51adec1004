"""The types that the admin client takes and returns. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from lograft.clients.errors import LograftError
from lograft.clients.types import HIDDEN_PREFIX, TopicPartition

# -- the cluster


class BrokerState(Enum):
    FENCED = "fenced"  # registered, but not alive or not ready
    ACTIVE = "active"
    SHUTTING_DOWN = "shutting-down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker. Each process of the broker has a new `epoch`. `is_cordoned`: it gets no new replicas. `version`: of
    lograft; None if the broker does not report it."""

    id: int
    address: str
    rack: str | None
    state: BrokerState
    epoch: int
    directories: tuple[UUID, ...]
    is_cordoned: bool = False
    version: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition, with brokers named by id. `leader` is None while it has no leader. `elr`: the eligible leader
    replicas, which are out of sync but have every acknowledged record. `unclean_epoch`: the latest leader epoch that
    began with an unclean election. `partition_epoch` rises with every change."""

    topic: str
    number: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    unclean_epoch: int | None
    partition_epoch: int = 0

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.number)

    @property
    def is_in_sync(self) -> bool:
        """True if it has a leader and all its replicas are in sync."""
        return self.leader is not None and set(self.isr) >= set(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. `config`: the settings made on the topic itself."""

    id: UUID
    name: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    config: Mapping[str, str]

    @property
    def is_hidden(self) -> bool:
        """True if lists leave the topic out unless internal topics are asked for: it is internal, or the Spark
        connector keeps it for itself."""
        return self.is_internal or self.name.startswith(HIDDEN_PREFIX)

    @property
    def replication_factor(self) -> int:
        """The lowest replication factor of its partitions; that of a partition under reassignment is its target's."""
        return min((len(p.replicas) - len(p.removing) for p in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster. `controller_id` is None if no active controller is known."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[BrokerDescription, ...]
    topics: tuple[TopicDescription, ...]


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """A broker's copy of a partition: [start, end). Consumers see offsets below the high watermark, which a follower
    learns shortly after the leader. It is None on a new leader that has not determined it yet."""

    partition: TopicPartition
    broker: int
    is_leader: bool
    leader_epoch: int
    start: int
    end: int
    high_watermark: int | None
    size_bytes: int
    directory: UUID


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """A partition's traffic on one broker since the broker started: stored for clients, sent to clients, and replicated
    between brokers. `records_out` counts offsets."""

    partition: TopicPartition
    broker: int
    is_leader: bool
    bytes_in: int
    records_in: int
    bytes_out: int
    records_out: int
    replicated_bytes_in: int
    replicated_bytes_out: int


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """The free space on the disk of a broker's data directory, which other directories may share. `is_full`: free space
    is below the reserve, so the broker accepts no records there, from clients or leaders, until space is freed."""

    directory: UUID
    path: str
    free_bytes: int
    total_bytes: int
    reserve_bytes: int
    is_full: bool


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker's counters since it started, read at `at_ms` of its own clock. Counters never decrease, so two readings
    give rates. If `uptime_ms` is less than the time between two readings, the broker restarted and counts from 0.
    `event_loop_lag_ms`: the worst of the last ten seconds; None if not measured. `partitions`: those with traffic."""

    id: int
    uptime_ms: int
    at_ms: int
    requests: int
    errors: int
    bytes_in: int
    records_in: int
    bytes_out: int
    records_out: int
    replicated_bytes_in: int
    replicated_bytes_out: int
    event_loop_lag_ms: float | None
    open_streams: int
    partitions: tuple[PartitionLoad, ...]
    disks: tuple[DiskRoom, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionVerification:
    """The result of comparing the copies of a partition: [start, end) is the same on all `brokers`, unless `problem`
    describes a difference or why the copies could not be compared. `offset`: the first difference, if any. `damaged`:
    the brokers with damaged copies, which refetch them if another replica is in sync. `left_out`: replicas that were
    not compared because they are out of sync. `undecodable`: the first and last offset of each batch of a compacted
    topic that cannot be decoded; such batches are compared byte by byte."""

    partition: TopicPartition
    brokers: tuple[int, ...]
    start: int
    end: int
    offset: int | None = None
    problem: str | None = None
    damaged: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()
    undecodable: tuple[tuple[int, int], ...] = ()

    @property
    def is_same(self) -> bool:
        """True if all compared copies are the same."""
        return self.problem is None

    @property
    def is_well(self) -> bool:
        """True if all replicas are the same and none was damaged."""
        return self.is_same and not self.damaged and not self.left_out


# -- topics


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. The cluster chooses values that are None. `assignments`: the brokers of each partition, the
    preferred leader first, instead of `partitions` and `replicas`."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    id: UUID
    partitions: int
    replicas: int


# -- configuration


class ConfigKind(Enum):
    TOPIC = "topic"
    BROKER = "broker"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A configuration key. `value` is the effective value, `source` where it is set: topic, broker, cluster or default.
    `setting`: the value set on this resource itself, if any. `kind`: the type in one word; `accepts`: in a phrase.
    `is_of_topics`: the cluster's value is the default for topics."""

    key: str
    value: str | None
    source: str
    default: str | None
    description: str
    kind: str
    accepts: str = ""
    is_of_topics: bool = False
    setting: str | None = None


# -- partitions


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that is moving to other brokers: `target` are its future replicas; `adding_in_sync` have caught
    up."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    adding: tuple[int, ...]
    adding_in_sync: tuple[int, ...]
    removing: tuple[int, ...]


class ElectionKind(Enum):
    PREFERRED = "preferred"
    UNCLEAN = "unclean"  # acknowledged records may be lost


@dataclass(frozen=True, slots=True)
class Election:
    """The result of one partition's election: its current leader, or the error that prevented a change."""

    partition: TopicPartition
    leader: int | None
    leader_epoch: int
    error: LograftError | None


# -- the metadata quorum


@dataclass(frozen=True, slots=True)
class QuorumMember:
    """A member of the metadata quorum. `match_index`: the last entry it is known to have; None if the leader has not
    heard from it. `refusal`: why the leader ignores its answers, such as a store restored from an old copy; None if it
    does not. `silent_ms`: time since it last answered the leader or, if it never did, since the leader began to wait
    for it; None if the server does not report it. `is_unreachable`: silent for longer than an election timeout."""

    node_id: int
    directory_id: UUID | None
    address: str
    is_voter: bool
    match_index: int | None
    refusal: str | None = None
    silent_ms: int | None = None
    is_unreachable: bool = False

    @property
    def is_undecided(self) -> bool:
        """True if the leader was elected too recently to tell whether this silent member is unreachable."""
        return self.match_index is None and self.silent_ms is not None and not self.is_unreachable


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The metadata quorum, as its leader sees it."""

    cluster_id: str
    leader_id: int | None
    term: int
    commit_index: int
    last_index: int
    members: tuple[QuorumMember, ...]

    @property
    def voters(self) -> tuple[QuorumMember, ...]:
        return tuple(member for member in self.members if member.is_voter)
