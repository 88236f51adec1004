"""Indexes of a history, computed once for all checkers. Pure."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from sys import maxsize

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import (
    Acknowledged,
    Entry,
    FinalReplica,
    Moment,
    Poll,
    Polled,
    PolledPartition,
    Send,
    StartSeen,
    StoredRecord,
    TopicDeclared,
    TopicDeleted,
    UncleanElection,
    digest_of,
    outcome_of,
)
from lograft.chaos.history.generations import Generations
from lograft.chaos.history.history import History
from lograft.clients.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """An acknowledged record and its offset. `is_promise`: it must remain until the generation ends, because all
    in-sync replicas have it, or because the leader that has it leads to the end."""

    send: Send
    partition: TopicPartition
    offset: int
    generation: int | None
    leader_epoch: int | None
    is_promise: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """One poll's records of one partition. `start`: the offset at which it had to continue; None if unknown."""

    poll: Poll
    part: PolledPartition
    at: Moment
    start: int | None
    generation: int | None
    previous: "Piece | None" = field(default=None, repr=False, compare=False)  # in the same run

    @property
    def end(self) -> int | None:
        """The offset at which the next piece has to continue."""
        if self.part.after is not None:
            return self.part.after
        return self.part.offsets[-1] + 1 if self.part.offsets else self.start


@dataclass(frozen=True, slots=True)
class Sight:
    """A value at an offset: from an acknowledgement, a reader, or an in-sync replica."""

    offset: int
    value: str
    generation: int
    source: Entry


class HistoryIndex:
    """Raise `ValueError` if two sends have the same value, which makes the history unjudgeable."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.generations = Generations(history.of(UncleanElection))
        self.sends = history.of(Send)
        self.send_of: dict[str, Send] = {}
        for send in self.sends:
            if self.send_of.setdefault(send.value, send) is not send:
                raise ValueError(f"two sends have the value {send.value!r}: nothing can be told of either")
        self._value_of_digest = {digest_of(send.value): send.value for send in self.sends}
        self.replicas: dict[TopicPartition, list[FinalReplica]] = {}
        self._last_epochs: dict[TopicPartition, int] = {}
        for replica in history.of(FinalReplica):
            if replica.is_in_sync:
                self.replicas.setdefault(replica.partition, []).append(replica)
            if replica.leader_epoch is not None:
                self._last_epochs[replica.partition] = replica.leader_epoch
        declared = history.of(TopicDeclared)
        self._compacted = {one.topic: None for one in declared if one.is_compacted}
        self._compacted |= {one.partition.topic: None for one in history.of(FinalReplica) if one.is_compacted}
        self._limited = {one.topic: None for one in declared if one.is_limited}
        self._starts: dict[TopicPartition, int] = {}
        for seen in history.of(StartSeen):
            self._starts[seen.partition] = max(seen.start_offset, self._starts.get(seen.partition, 0))
        self.deleted_topics = {one.topic: None for one in history.of(TopicDeleted)}
        self._compactions: dict[TopicPartition, Compaction] = {}

    # -- permitted gaps

    def is_compacted(self, partition: TopicPartition) -> bool:
        return partition.topic in self._compacted

    def is_limited(self, partition: TopicPartition) -> bool:
        """Return whether retention may delete old records."""
        return partition.topic in self._limited

    def deleted_to(self, partition: TopicPartition) -> int:
        """Return the offset below which retention may have deleted every record; `maxsize` if there are no final
        logs."""
        if not self.is_limited(partition):
            return 0
        found = max((replica.start_offset for replica in self.replicas.get(partition, ())), default=maxsize)
        return max(found, self._starts.get(partition, 0))

    def is_gone(self, partition: TopicPartition, value: str, offset: int) -> bool:
        """Return whether a record that was there is in no final log, although one of them must have it."""
        if partition not in self.replicas or value in self.stored[partition]:
            return False
        lowest_start = min(replica.start_offset for replica in self.replicas[partition])
        return not self.may_lack(partition, value, offset, lowest_start if self.is_limited(partition) else 0)

    def start_moved_to(self, partition: TopicPartition) -> int:
        """Return the offset below which the log may be empty: retention may have deleted those records, or an unclean
        election of a damaged last copy moved the log start behind the damage."""
        if self.is_limited(partition) or not self.generations.last(partition):
            return self.deleted_to(partition)
        starts = [replica.start_offset for replica in self.replicas.get(partition, ())]
        return max([*starts, self._starts.get(partition, 0)])

    def may_lack(self, partition: TopicPartition, value: str, offset: int, deleted_to: int | None = None) -> bool:
        """Return whether retention or compaction may have removed a record that was there. `deleted_to`: the offset to
        which retention may have deleted by the time in question, if that is not the end."""
        if offset < (self.deleted_to(partition) if deleted_to is None else deleted_to):
            return True
        if not self.is_compacted(partition):
            return False
        if partition not in self._compactions:
            self._compactions[partition] = Compaction(self, partition)
        return self._compactions[partition].may_lack(value, offset)

    # -- sends

    @cached_property
    def acknowledgements(self) -> list[Acknowledgement]:
        """Acknowledged sends with a known offset."""
        found = []
        for send in self.sends:
            told = send.completion
            if isinstance(told, Acknowledged) and told.offset is not None:
                partition = TopicPartition(send.topic, told.partition)
                generation = self.generations.of(partition, told.leader_epoch, send.invoked, told.at)
                is_leader_kept = told.leader_epoch is not None and told.leader_epoch == self._last_epochs.get(partition)
                is_promise = send.acks is Acks.ALL or (send.acks is Acks.LEADER and is_leader_kept)
                found.append(Acknowledgement(send, partition, told.offset, generation, told.leader_epoch, is_promise))
        return found

    @cached_property
    def acknowledged_somewhere(self) -> list[tuple[Send, TopicPartition]]:
        """Sends acknowledged with `acks=all`, without an offset, whose promise still holds."""
        found = []
        for send in self.sends:
            told = send.completion
            if isinstance(told, Acknowledged) and told.offset is None and send.acks is Acks.ALL:
                partition = TopicPartition(send.topic, told.partition)
                generation = self.generations.of(partition, told.leader_epoch, send.invoked, told.at)
                if self.generations.is_last(partition, generation):
                    found.append((send, partition))
        return found

    @cached_property
    def promises(self) -> list[Acknowledgement]:
        """Promised acknowledgements that still hold at the end."""
        return [
            one
            for one in self.acknowledgements
            if one.is_promise and self.generations.is_last(one.partition, one.generation)
        ]

    @cached_property
    def promises_in(self) -> dict[TopicPartition, list[Acknowledgement]]:
        found: dict[TopicPartition, list[Acknowledgement]] = {}
        for one in self.promises:
            found.setdefault(one.partition, []).append(one)
        return found

    # -- reads

    @cached_property
    def pieces(self) -> dict[TopicPartition, list[Piece]]:
        """Pieces in the order of their polls. A consumer's pieces continue each other unless they are fresh."""
        found: dict[TopicPartition, list[Piece]] = {}
        latest: dict[tuple[str, TopicPartition], Piece] = {}
        run_began: dict[tuple[str, TopicPartition], Moment] = {}
        first_polled: dict[str, Moment] = {}
        for poll in self.history.of(Poll):
            first_polled.setdefault(poll.consumer, poll.invoked)
            for part in poll.completion.parts if isinstance(poll.completion, Polled) else ():
                name = (poll.consumer, part.partition)
                before = latest.get(name)
                if part.is_fresh or before is None:
                    run_began[name] = first_polled[poll.consumer] if before is None else before.at
                latest[name] = self._piece(poll, part, None if part.is_fresh else before, run_began[name])
                found.setdefault(part.partition, []).append(latest[name])
        return found

    def _piece(self, poll: Poll, part: PolledPartition, before: Piece | None, run_began: Moment) -> Piece:
        """Return the piece of one poll. Consumers prefetch, so its records may have arrived at any time since the run
        began, which was some time after the partition's previous delivery."""
        assert isinstance(poll.completion, Polled)
        start = part.before if before is None else before.end
        if start is None:
            start = part.before if part.before is not None else next(iter(part.offsets), None)
        at = poll.completion.at
        generation = self.generations.of(part.partition, part.leader_epoch, run_began, at)
        return Piece(poll, part, at, start, generation, before)

    # -- stored records

    def value_of(self, stored: StoredRecord) -> str:
        """Return the sent value of a stored record, or its digest if no client sent it."""
        return self._value_of_digest.get(stored.digest, f"digest {stored.digest}")

    @cached_property
    def stored(self) -> dict[TopicPartition, dict[str, int]]:
        """Values in any in-sync replica, with their offsets."""
        return {
            partition: {self.value_of(one): one.offset for replica in replicas for one in replica.records}
            for partition, replicas in self.replicas.items()
        }

    @cached_property
    def partitions(self) -> list[TopicPartition]:
        """All partitions with acknowledgements, polls or replicas."""
        named = [one.partition for one in self.acknowledgements]
        return sorted({*named, *self.pieces, *self.replicas})

    def sights(self, partition: TopicPartition) -> Iterator[Sight]:
        """Yield sights whose generation is certain. Final logs belong to the last generation."""
        for one in self.acknowledged_in.get(partition, ()):
            if one.is_promise and one.generation is not None:
                yield Sight(one.offset, one.send.value, one.generation, one.send)
        for piece in self.pieces.get(partition, ()):
            if piece.generation is not None:
                for offset, value in zip(piece.part.offsets, piece.part.values, strict=True):
                    yield Sight(offset, value, piece.generation, piece.poll)
        if not self.generations.is_doubtful(partition):
            last = self.generations.last(partition)
            for replica in self.replicas.get(partition, ()):
                for stored in replica.records:
                    yield Sight(stored.offset, self.value_of(stored), last, replica)

    @cached_property
    def acknowledged_in(self) -> dict[TopicPartition, list[Acknowledgement]]:
        found: dict[TopicPartition, list[Acknowledgement]] = {}
        for one in self.acknowledgements:
            found.setdefault(one.partition, []).append(one)
        return found


class Compaction:
    """Records that compaction may have removed: the latest record of each key stays, unless it deletes its key. The
    record that superseded another one may itself be gone."""

    def __init__(self, index: HistoryIndex, partition: TopicPartition) -> None:
        self._sends = index.send_of
        self._latest: dict[str, float] = {}  # highest offset of each key
        last = index.generations.last(partition)
        is_unseen = partition not in index.replicas or index.is_limited(partition)
        for sight in index.sights(partition):
            if sight.generation == last:
                self._note(sight.value, sight.offset)
        for send in index.sends:
            is_here = send.topic == partition.topic and send.partition_asked in (None, partition.partition)
            is_promised = outcome_of(send) is Outcome.OK and send.acks is Acks.ALL
            is_possible = outcome_of(send) is not Outcome.FAIL and not is_promised
            if is_here and is_possible and (send.deletes or is_unseen):
                self._note(send.value, inf)  # its offset is unknown, and it may be gone

    def _note(self, value: str, offset: float) -> None:
        key = self._key_of(value)
        self._latest[key] = max(offset, self._latest.get(key, -1))

    def _key_of(self, value: str) -> str:
        send = self._sends.get(value)
        return f"key {send.key}" if send is not None and send.key is not None else f"value {value}"

    def may_lack(self, value: str, offset: int) -> bool:
        send = self._sends.get(value)
        return (send is not None and send.deletes) or self._latest.get(self._key_of(value), -1) > offset


def only(source: Entry, *offsets: int) -> Entry:
    """Return the entry as evidence: a replica reduced to the records at `offsets`, any other entry unchanged."""
    if not isinstance(source, FinalReplica):
        return source
    places = [bisect_left(source.records, offset, key=lambda one: one.offset) for offset in offsets]
    found = [source.records[place] for place in places if place < len(source.records)]
    return replace(source, records=tuple(one for one in found if one.offset in offsets))
