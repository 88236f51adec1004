"""What the admin client takes and gives back. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition

# -- the cluster


class BrokerState(Enum):
    FENCED = "fenced"  # registered, but not alive or not ready
    ACTIVE = "active"
    SHUTTING_DOWN = "shutting-down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """`epoch` is new with each process of the broker. `is_cordoned`: nothing new is placed there."""

    id: int
    address: str
    rack: str | None
    state: BrokerState
    epoch: int
    directories: tuple[UUID, ...]
    is_cordoned: bool = False


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Brokers are named by their ids. `leader` None: nobody leads it at the moment. `elr`: not in sync, but with every
    acknowledged record all the same. `unclean_epoch`: the latest leader epoch that began with an unclean election.
    `partition_epoch`: another with every change."""

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
        """It has a leader, and all its replicas are in sync."""
        return self.leader is not None and set(self.isr) >= set(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. `config`: the settings of the topic itself."""

    id: UUID
    name: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    config: Mapping[str, str]

    @property
    def replication_factor(self) -> int:
        """The lowest of its partitions'; of one that is being reassigned, what it will be."""
        return min((len(p.replicas) - len(p.removing) for p in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """`controller_id` None: no active controller is known."""

    cluster_id: str
    controller_id: int | None
    brokers: tuple[BrokerDescription, ...]
    topics: tuple[TopicDescription, ...]


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """A broker's copy of a partition: [start, end), of which readers see offsets below the high watermark. A follower
    hears of that a little after it moves; None: a new leader, which does not know it yet."""

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
    """What went in and out of a partition at one broker since that started: stored for clients, sent to clients, and
    between brokers. Records that go out are counted by offsets."""

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
    """The free space on the disk of a broker's data directory, which others may share. `is_full`: it is less than the
    reserve, so the broker takes no records there, neither from clients nor from leaders, until there is room."""

    directory: UUID
    path: str
    free_bytes: int
    total_bytes: int
    reserve_bytes: int
    is_full: bool


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker has had to do since it started, at `at_ms` of a clock of its own: counts never go back, so two of
    these make rates. `uptime_ms` less than what lies between them: it was started anew meanwhile, and has counted from
    0. `event_loop_lag_ms`: the worst of the last ten seconds; None if it is not measured. `partitions`: those with any
    traffic."""

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
    """What comparing the copies of a partition came to: [start, end) on `brokers` is the same, unless `problem` says
    what is not, or why that cannot be known. `offset`: where they differ first, if they do. `damaged`: whose copies
    were found to be, and are made anew if another is in sync. `left_out`: who is not in sync, and was not compared.
    `undecodable`: the first and the last offset of each batch of a compacted topic that nobody can decode; such batches
    are compared as they are stored."""

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
        """All that were compared are."""
        return self.problem is None

    @property
    def is_well(self) -> bool:
        """All replicas are the same, and were to begin with."""
        return self.is_same and not self.damaged and not self.left_out


# -- topics


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. The cluster decides what is None. `assignments`: the brokers of each partition, the preferred
    leader first, instead of `partitions` and `replicas`."""

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
    """`value` is in force, `source` says where it is set: topic, broker, cluster or default. `setting` is what is set
    there itself, if anything is. `kind` is the type of value in a word, `accepts` in a phrase. `is_of_topics`: what the
    cluster sets is the default of topics."""

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
    """A partition on its way to other brokers: `target` is what it will have, `adding_in_sync` have caught up."""

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
    """What came of one partition's: its leader now, or why nothing was changed."""

    partition: TopicPartition
    leader: int | None
    leader_epoch: int
    error: LograftError | None


# -- the metadata quorum


@dataclass(frozen=True, slots=True)
class QuorumMember:
    """`match_index`: how much of the log it is known to have; None if the leader has not heard of it yet. `refusal`:
    why the leader takes nothing from it, as when its store is from the past; None if it does. `silent_ms`: how long ago
    it last answered the leader, or if it never did, how long the leader has listened; None if the server does not say.
    `is_unreachable`: it has been silent for longer than an election timeout."""

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
        """True if the leader, elected just now, has not heard from it, and has not listened for long enough yet."""
        return self.match_index is None and self.silent_ms is not None and not self.is_unreachable


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """As its leader sees it."""

    cluster_id: str
    leader_id: int | None
    term: int
    commit_index: int
    last_index: int
    members: tuple[QuorumMember, ...]

    @property
    def voters(self) -> tuple[QuorumMember, ...]:
        return tuple(member for member in self.members if member.is_voter)
