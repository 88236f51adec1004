"""The entries of a history: operations, which begin and end, and events, which happen at one moment. Pure.

An operation names the process that called it and its number, unique within that process. It was `invoked` at a moment,
and its `completion` states the result. `Failed` is definite: the operation did not and will not take effect. `Unknown`
covers all other cases, such as a call that never returned; it then has no moment.

Every record sent has a unique value; a record that deletes its key has one too, for example in a header. A topic that
is created again after a deletion has another name.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.harness.outcome import Outcome
from lograft.clients.types import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A time on the machine's monotonic clock, which orders events across its processes, and on the wall clock, for
    readers."""

    monotonic_us: int
    wall_us: int = 0


def digest_of(value: str) -> str:
    """Return the digest that identifies the sent value of a stored record."""
    return hashlib.blake2b(value.encode(), digest_size=8).hexdigest()


# -- how operations end


@dataclass(frozen=True, slots=True)
class Done:
    """The operation took effect and has no further result."""

    at: Moment


@dataclass(frozen=True, slots=True)
class Failed:
    """The operation certainly did not take effect."""

    at: Moment
    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The operation may have taken effect, or may still. `at` None: it never returned."""

    at: Moment | None = None
    code: str = ""
    message: str = ""


NEVER_RETURNED = Unknown()


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record is stored. `offset` or `leader_epoch` None: the answer did not include it."""

    at: Moment
    partition: int
    offset: int | None = None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class PolledPartition:
    """A poll's records of one partition, possibly none. `before`, `after`: the consumer's position, None if unknown.
    `is_fresh`: the partition was assigned to the consumer, or the consumer sought in it, since its last poll, so these
    offsets need not continue the previous ones. A consumer polls as soon as it is created, so it holds no earlier
    records. `log_start`: the highest log start of any replica by then, None if unknown."""

    partition: TopicPartition
    offsets: tuple[int, ...]
    values: tuple[str, ...]
    before: int | None = None
    after: int | None = None
    is_fresh: bool = False
    leader_epoch: int | None = None
    log_start: int | None = None

    def __post_init__(self) -> None:
        assert len(self.offsets) == len(self.values)


@dataclass(frozen=True, slots=True)
class Polled:
    at: Moment
    parts: tuple[PolledPartition, ...]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class OffsetsFetched:
    """Committed offsets; partitions without one are absent."""

    at: Moment
    offsets: tuple[CommittedOffset, ...]


@dataclass(frozen=True, slots=True)
class ToldEnd:
    """The high watermark of a partition, as a broker answered it. `leader_epoch`: of the answering leader, if known."""

    partition: TopicPartition
    offset: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class EndsTold:
    at: Moment
    ends: tuple[ToldEnd, ...]


@dataclass(frozen=True, slots=True)
class ConfigTold:
    """`value` None: it was never set."""

    at: Moment
    value: str | None


@dataclass(frozen=True, slots=True)
class ElectionHeld:
    """`leader_epoch`: the epoch that the election began. `at`: from then on, no leader of an earlier epoch answers."""

    at: Moment
    leader_epoch: int


# -- operations


@dataclass(frozen=True, slots=True)
class Send:
    """`sequence`: the number of records that the producer accepted before this one, across all partitions.
    `partition_asked` None: the producer chose the partition. `deletes`: in a compacted topic, the record deletes its
    key. `transaction`: the record's transaction, if any."""

    process: str
    number: int
    invoked: Moment
    topic: str
    value: str
    producer: str
    sequence: int
    partition_asked: int | None = None
    key: str | None = None
    deletes: bool = False
    acks: Acks = Acks.ALL
    transaction: str | None = None
    completion: Acknowledged | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class Poll:
    """`group` None: the consumer reads assigned partitions without a group."""

    process: str
    number: int
    invoked: Moment
    consumer: str
    group: str | None = None
    completion: Polled | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class Commit:
    """`is_reset`: the offsets were set deliberately, back or ahead, rather than by a member's progress."""

    process: str
    number: int
    invoked: Moment
    group: str
    member: str
    offsets: tuple[CommittedOffset, ...]
    is_reset: bool = False
    completion: Done | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    process: str
    number: int
    invoked: Moment
    group: str
    completion: OffsetsFetched | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class AskEnds:
    """A client asks for the end offsets of partitions."""

    process: str
    number: int
    invoked: Moment
    client: str
    completion: EndsTold | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class ConfigWrite:
    process: str
    number: int
    invoked: Moment
    topic: str
    name: str
    value: str
    completion: Done | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class ConfigRead:
    process: str
    number: int
    invoked: Moment
    topic: str
    name: str
    completion: ConfigTold | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. It begins when invoked, and is healed when it completes."""

    process: str
    number: int
    invoked: Moment
    fault: str
    target: str
    completion: Done | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class UncleanElection:
    """An operator chose a leader that may lack acknowledged records. This ends the promises for the partition."""

    process: str
    number: int
    invoked: Moment
    partition: TopicPartition
    completion: ElectionHeld | Failed | Unknown = NEVER_RETURNED


# -- events


@dataclass(frozen=True, slots=True)
class TopicDeclared:
    """What the topic's configuration permits at any time of the run: compaction, deletion of old records."""

    at: Moment
    topic: str
    is_compacted: bool = False
    is_limited: bool = False


@dataclass(frozen=True, slots=True)
class TransactionAborted:
    """A certainly aborted transaction: no consumer may ever read its records."""

    at: Moment
    transaction: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """An operator deleted the topic. Its promises end, and no broker keeps its logs."""

    at: Moment
    topic: str


@dataclass(frozen=True, slots=True)
class StartSeen:
    """A replica's log started at this offset. The replica may be lost since, and the remaining ones may start
    earlier."""

    at: Moment
    partition: TopicPartition
    start_offset: int


@dataclass(frozen=True, slots=True)
class AssignmentChanged:
    """A member gained or lost partitions, or entered a new epoch with those it has. Record it before the group
    coordinator learns of it."""

    at: Moment
    group: str
    member: str
    gained: tuple[TopicPartition, ...] = ()
    lost: tuple[TopicPartition, ...] = ()
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDrained:
    """The group must have read the whole topic."""

    at: Moment
    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """`seen_by`: the client or broker that learned of the leader."""

    at: Moment
    partition: TopicPartition
    leader_epoch: int
    broker: int
    seen_by: str


@dataclass(frozen=True, slots=True)
class StoredRecord:
    offset: int
    leader_epoch: int
    digest: str


@dataclass(frozen=True, slots=True)
class FinalReplica:
    """A broker's log of a partition, after all faults are healed and all writes have ended. `leader_epoch`: of the
    partition at that time, if known."""

    at: Moment
    partition: TopicPartition
    broker: int
    start_offset: int
    end_offset: int
    records: tuple[StoredRecord, ...]
    is_in_sync: bool = True
    is_compacted: bool = False
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    at: Moment
    text: str


Completion = (
    Done
    | Failed
    | Unknown
    | Acknowledged
    | Polled
    | OffsetsFetched
    | EndsTold
    | ConfigTold
    | ElectionHeld
)  # fmt: skip
Operation = Send | Poll | Commit | FetchOffsets | AskEnds | ConfigWrite | ConfigRead | Fault | UncleanElection
Event = (
    TopicDeclared
    | TopicDeleted
    | StartSeen
    | TransactionAborted
    | AssignmentChanged
    | GroupDrained
    | LeaderSeen
    | FinalReplica
    | Note
)
Entry = Operation | Event

OPERATIONS = (Send, Poll, Commit, FetchOffsets, AskEnds, ConfigWrite, ConfigRead, Fault, UncleanElection)
EVENTS = (
    TopicDeclared, TopicDeleted, StartSeen, TransactionAborted, AssignmentChanged, GroupDrained, LeaderSeen,
    FinalReplica, Note,
)  # fmt: skip
COMPLETIONS = (Done, Failed, Unknown, Acknowledged, Polled, OffsetsFetched, EndsTold, ConfigTold, ElectionHeld)


def outcome_of(operation: Operation) -> Outcome:
    match operation.completion:
        case Failed():
            return Outcome.FAIL
        case Unknown():
            return Outcome.UNKNOWN
        case _:
            return Outcome.OK


def began(entry: Entry) -> Moment:
    return entry.invoked if isinstance(entry, OPERATIONS) else entry.at


def ended(operation: Operation) -> Moment | None:
    """Return when the operation ended; None if it may still take effect."""
    return None if isinstance(operation.completion, Unknown) else operation.completion.at


def in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the distinct entries in the order in which they began."""
    found: list[Entry] = []
    for entry in sorted(entries, key=began):
        if not any(entry is other for other in found):
            found.append(entry)
    return tuple(found)
