"""Records the polls of a simulated cluster's consumers as entries of a live cluster's history."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from lograft.chaos.cluster.checks.history import ClusterHistory, PartitionKey, Read
from lograft.chaos.history.entries import Failed, Moment, Poll, Polled, PolledPartition, Unknown
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.reading.record_run import Position
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition


class PollEnvironment(Protocol):
    history: ClusterHistory

    @property
    def now_us(self) -> int: ...

    def note_replicas(self) -> None: ...


def partition_name(key: PartitionKey) -> TopicPartition:
    """Name a partition by its topic's id: a topic that is recreated under the same name is another one."""
    return TopicPartition(str(key[0])[:8], key[1])


def failure(error: LograftError, now_us: int) -> Failed | Unknown:
    """Return the outcome that an error implies."""
    kind = Unknown if error.outcome_unknown else Failed
    return kind(Moment(now_us), error.code, error.message)


class PollNotes:
    """Records for one consumer. `first` is its initial offset in an assigned partition, or None if unknown."""

    def __init__(self, name: str, stage: PollEnvironment, group: str | None = None, first: int | None = None) -> None:
        self._name = name
        self._stage = stage
        self._group = group
        self._first = first
        self._after: dict[PartitionKey, int | None] = {}

    def begin_anew(self, keys: Iterable[PartitionKey] | None = None) -> None:
        """Forget the positions in these partitions, or in all: the next records need not continue from there."""
        for key in list(self._after) if keys is None else keys:
            self._after.pop(key, None)

    def begin_all_but(self, keys: Container[PartitionKey]) -> None:
        """Forget the positions in all partitions but these."""
        self.begin_anew([key for key in self._after if key not in keys])

    def note(self, asked_us: int, reads: Sequence[Read], positions: Mapping[PartitionKey, Position]) -> None:
        """Record a poll: its records, and the consumer's positions after it."""
        given: dict[PartitionKey, list[Read]] = {key: [] for key in positions}
        for read in reads:
            given.setdefault(read.key, []).append(read)
        if any(self._has_gap(key, some, positions.get(key)) for key, some in given.items()):
            self._stage.note_replicas()  # log starts may have moved since the last look
        parts = tuple(self._part(key, some, positions.get(key)) for key, some in given.items())
        completion = Polled(Moment(self._stage.now_us), parts)
        number = self._stage.history.next_number()
        self._stage.history.entries.append(
            Poll(self._name, number, Moment(asked_us), self._name, self._group, completion)
        )

    def _has_gap(self, key: PartitionKey, reads: Sequence[Read], position: Position | None) -> bool:
        offsets = [read.offset for read in reads]
        if position is not None:
            offsets.append(position.offset)
        ends = [self._after.get(key, self._first), *(read.offset + 1 for read in reads)]
        return any(offset != end for offset, end in zip(offsets, ends, strict=False) if end is not None)

    def _part(self, key: PartitionKey, reads: Sequence[Read], position: Position | None) -> PolledPartition:
        is_fresh = key not in self._after
        before = self._first if is_fresh else self._after[key]
        after = position.offset if position is not None else None
        self._after[key] = after if after is not None else (reads[-1].offset + 1 if reads else before)
        epoch = reads[-1].leader_epoch if reads else None
        return PolledPartition(
            partition_name(key),
            tuple(read.offset for read in reads),
            tuple(read.value.decode() for read in reads),
            before=before,
            after=after,
            is_fresh=is_fresh,
            leader_epoch=epoch or None,
            log_start=self._stage.history.starts.get(key, 0),
        )


def note_plain_read(stage: PollEnvironment, name: str, asked_us: int, start: int, reads: Sequence[Read]) -> None:
    """Record a read by a single call, which does not continue an earlier one."""
    if reads:
        number = stage.history.next_number()
        PollNotes(f"{name}#{number}", stage, first=start).note(asked_us, reads, {})


def positions_of(consumer: Consumer) -> dict[PartitionKey, Position]:
    """Return a consumer's positions by topic id instead of name."""
    reader = consumer._reader
    reading = reader.partitions
    return {(UUID(bytes=reading[name].topic_id), name.partition): at for name, at in reader.positions().items()}
