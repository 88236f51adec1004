"""What a history of a live cluster consists of: operations, which begin and end, and events, which happen. Pure.

An operation names the process that called, and its number there, unique in that process; it was `invoked` at a moment,
and its `completion` says what became of it. `Failed` is definite: it did not and will not happen. `Unknown` is all the
rest, above all a call that never returned, and has no moment then.

Every record that is sent has a value of its own; a record that deletes its key has one too, in a header, say. A topic
that is made anew after it was deleted has another name.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.harness.outcome import Outcome
from lograft.clients.types import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """By the machine's monotonic clock, which orders what all its processes do; and by the calendar, for people."""

    monotonic_us: int
    wall_us: int = 0


def digest_of(value: str) -> str:
    """By which a stored record is known to be what was sent."""
    return hashlib.blake2b(value.encode(), digest_size=8).hexdigest()


# -- how operations end


@dataclass(frozen=True, slots=True)
class Done:
    """It happened, and there is nothing else to tell."""

    at: Moment


@dataclass(frozen=True, slots=True)
class Failed:
    """It did not happen, for certain."""

    at: Moment
    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody knows whether it happened, or will. `at` None: it never returned."""

    at: Moment | None = None
    code: str = ""
    message: str = ""


NEVER_RETURNED = Unknown()


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record is stored. `offset` None, `leader_epoch` None: they were not told."""

    at: Moment
    partition: int
    offset: int | None = None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class PolledPartition:
    """What a poll gave of a partition, which may be nothing. `before`, `after`: the consumer's position. `is_fresh`:
    the consumer was given the partition, or sought in it, since it polled last: what is here need not go on from there.
    A position that is not known is None. A consumer polls as soon as it is made, so that it has nothing from before."""

    partition: TopicPartition
    offsets: tuple[int, ...]
    values: tuple[str, ...]
    before: int | None = None
    after: int | None = None
    is_fresh: bool = False
    leader_epoch: int | None = None

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
    """Partitions without a committed offset are left out."""

    at: Moment
    offsets: tuple[CommittedOffset, ...]


@dataclass(frozen=True, slots=True)
class ToldEnd:
    """The high watermark of a partition, as a client was told it. `leader_epoch`: of whoever said so, if known."""

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
    """`leader_epoch`: the epoch that began so. `at`: from then on no leader of an earlier epoch answers anybody."""

    at: Moment
    leader_epoch: int


# -- operations


@dataclass(frozen=True, slots=True)
class Send:
    """`sequence`: how many records the producer had taken before, of whatever partition. `partition_asked` None: the
    producer was to choose one. `deletes`: the record deletes its key, where the topic is compacted. `transaction`: what
    it is part of, if it is."""

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
    """`group` None: the consumer reads what it was told to, and is in no group."""

    process: str
    number: int
    invoked: Moment
    consumer: str
    group: str | None = None
    completion: Polled | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class Commit:
    """`is_reset`: someone chose to set the group's offsets, back or ahead; members that go on reading do not."""

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
    """A client asks where partitions end."""

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
    """Begins, and is healed when it completes."""

    process: str
    number: int
    invoked: Moment
    fault: str
    target: str
    completion: Done | Failed | Unknown = NEVER_RETURNED


@dataclass(frozen=True, slots=True)
class UncleanElection:
    """An operator chose a leader that may lack what was acknowledged: that ends what was promised of the partition."""

    process: str
    number: int
    invoked: Moment
    partition: TopicPartition
    completion: ElectionHeld | Failed | Unknown = NEVER_RETURNED


# -- events


@dataclass(frozen=True, slots=True)
class TopicDeclared:
    """What the topic's configuration allows, at any time of the run: to compact, to delete what is old."""

    at: Moment
    topic: str
    is_compacted: bool = False
    is_limited: bool = False


@dataclass(frozen=True, slots=True)
class TransactionAborted:
    """For certain: nothing of it is ever to be read."""

    at: Moment
    transaction: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """By an operator: what was promised of it ends with it, and nobody has logs of it any more."""

    at: Moment
    topic: str


@dataclass(frozen=True, slots=True)
class StartSeen:
    """A replica's log was seen to start there: it may be lost since, and those that are left start earlier."""

    at: Moment
    partition: TopicPartition
    start_offset: int


@dataclass(frozen=True, slots=True)
class AssignmentChanged:
    """A member was given partitions, or gave them up, or came to a new epoch with what it has. To be noted before
    whoever coordinates the group learns of it."""

    at: Moment
    group: str
    member: str
    gained: tuple[TopicPartition, ...] = ()
    lost: tuple[TopicPartition, ...] = ()
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDrained:
    """The group is to have read all there is of the topic."""

    at: Moment
    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """`seen_by`: who was told, or knows."""

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
    """What a broker has of a partition, when all is healed and nothing is written any more."""

    at: Moment
    partition: TopicPartition
    broker: int
    start_offset: int
    end_offset: int
    records: tuple[StoredRecord, ...]
    is_in_sync: bool = True
    is_compacted: bool = False


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
    """None: for all that is known, it may go on for ever."""
    return None if isinstance(operation.completion, Unknown) else operation.completion.at


def in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Each once, as they began."""
    found: list[Entry] = []
    for entry in sorted(entries, key=began):
        if not any(entry is other for other in found):
            found.append(entry)
    return tuple(found)
