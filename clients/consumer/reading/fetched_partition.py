"""A consumer's state of one partition: its position, received batches not yet returned, and its failure. Pure."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, TypeAlias

from lograft.clients.consumer.reading.fetch_credit import FetchCredit
from lograft.clients.consumer.reading.fetched_chunk import Bytes, Damaged, FetchedChunk, NotAsStored, open_batch
from lograft.clients.consumer.reading.record_run import Position, RecordRun
from lograft.clients.errors import CorruptBatch, LograftError, LogTruncated
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import BatchHeader, Columns, arrow_of, decode_columns

MOST_REFETCHES = 6
"""How often damaged records are fetched again, each time from another replica if there is one."""


class Anchor(Enum):
    """A start position that only the broker can resolve."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Ago:
    """A start position: the first record at most this old, or the end if all are older."""

    duration_ms: int


Start: TypeAlias = Anchor | Ago

_NONE = Columns([], [], [], [], [])


class FetchedPartition:
    """`where`: the position of the next record to return; None while it is unknown, and `anchor` says how to look it
    up. `fetch_offset`: the next offset to fetch. `failure`: the partition returns nothing more until the consumer
    seeks. `passed_over` is called for each batch that cannot be decoded, which is then skipped; without it, such a
    batch becomes the failure. A batch damaged since it was stored is fetched again: `refetches` counts the attempts for
    the next batch, and `damaged_source` is the broker that sent it last.
    `generation` rises with each seek, pause and refetch, which invalidates earlier requests. `leader_epoch`: that of
    the leader that sent the records now being returned. `decoded_records`: the total.
    """

    def __init__(
        self,
        name: TopicPartition,
        topic_id: bytes,
        anchor: Start | None,
        passed_over: Callable[[TopicPartition, Damaged], None] | None = None,
    ) -> None:
        self._passed_over = passed_over
        self.name = name
        self.topic_id = topic_id
        self.anchor: Start | None = anchor
        self.fetch_offset = -1
        self.is_paused = False
        self.failure: LograftError | None = None
        self.generation = 0
        self.high_watermark: int | None = None
        self.leader_epoch = -1
        self.decoded_records = 0
        self.refetches = 0
        self.damaged_source = -1
        self._run: RecordRun | None = None  # None while the position is unknown
        self._chunks: deque[FetchedChunk] = deque()  # received batches after the run
        self._reset: Start | None = None  # where to continue once everything received was returned
        self._reset_is_forward = False
        self._least_offset = 0  # the lowest offset that an anchor may resolve to

    # -- position

    @property
    def where(self) -> Position | None:
        return None if self._run is None else self._run.position

    @property
    def position(self) -> int | None:
        return None if self._run is None else self._run.position.offset

    def epoch_before(self, offset: int) -> int | None:
        """Return the leader epoch of the last record before `offset` if it was returned recently, else None."""
        return None if self._run is None else self._run.epoch_before(offset)

    @property
    def fetch_epoch(self) -> int | None:
        """The leader epoch of the last record before `fetch_offset`, if known."""
        if self._chunks:
            return self._chunks[-1].last_epoch()
        return None if self._run is None else self._run.after.leader_epoch

    @property
    def lag(self) -> int | None:
        """How many offsets the position is behind the high watermark, if known."""
        if self._run is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self._run.position.offset)

    def seek(self, position: Position) -> None:
        self.anchor = None
        self._restart(position)

    def seek_anchor(self, anchor: Start) -> None:
        """Continue at an offset that must be looked up first."""
        self.anchor = anchor
        self._restart(None)

    def found(self, offset: int) -> None:
        """Continue at the offset that the anchor resolved to."""
        assert self.anchor is not None
        offset = max(offset, self._least_offset)
        self.anchor, self.fetch_offset, self._run = None, offset, self._nothing_at(Position(offset))

    def gone(self, reset: Start, *, is_below_start: bool) -> None:
        """The offsets to fetch no longer exist: continue at `reset` once everything received was returned. If they are
        below the log start, never move back: a new leader's log may begin earlier."""
        self._reset, self._reset_is_forward = reset, is_below_start
        self._reset_if_empty()

    def truncated(self, valid_end: int, *, may_go_back: bool) -> bool:
        """An unclean election truncated the log at `valid_end`. Return True if records from there on were already
        returned: then go back to `valid_end` if `may_go_back`, else fail."""
        assert self._run is not None
        position = self._run.withdraw().position
        if position.offset <= valid_end:
            self._restart(position)
            return False
        self._restart(Position(valid_end) if may_go_back else position)
        if not may_go_back:
            self.failure = LogTruncated(
                f"what was read of {self.name.topic}-{self.name.partition} before offset {position.offset} is gone: an "
                f"unclean election has cut it at {valid_end}; seek there to go on",
                valid_end=valid_end,
            )
        return True

    def _reset_if_empty(self) -> None:
        if self._reset is not None and not self._chunks and (self._run is None or not self._run.left):
            least_offset = self.fetch_offset if self._reset_is_forward else 0
            self.seek_anchor(self._reset)
            self._least_offset = least_offset

    def pause(self) -> None:
        """Return nothing for now. Drop received data, so that other partitions can use its credit."""
        self.is_paused = True
        if self._run is not None:  # else the position is unknown and stays so
            self._restart(self._run.withdraw().position)

    def resume(self) -> None:
        self.is_paused = False

    def _restart(self, position: Position | None) -> None:
        self.drop()
        self.generation += 1
        self.failure = self._reset = None
        self.refetches = 0
        self._least_offset = 0
        self.fetch_offset = -1 if position is None else position.offset
        self._run = None if position is None else self._nothing_at(position)

    def drop(self) -> None:
        """Return nothing more, and release received data."""
        if self._run is not None:
            self._run.withdraw()
        self._drop_chunks()

    def _drop_chunks(self) -> None:
        for chunk in self._chunks:
            chunk.release()
        self._chunks.clear()

    @property
    def wants_data(self) -> bool:
        return self._run is not None and not self.is_paused and self.failure is None and self._reset is None

    # -- input

    def arrived(
        self,
        batches: Bytes,
        next_offset: int,
        high_watermark: int | None,
        credit: FetchCredit,
        leader_epoch: int,
        source: int,
    ) -> None:
        """Add received batches, which begin at or before `fetch_offset`. Ignore those already received."""
        if high_watermark is not None:
            self.high_watermark = high_watermark
        if next_offset <= self.fetch_offset:
            credit.freed(len(batches))
            return
        self.fetch_offset = next_offset
        self._chunks.append(FetchedChunk(batches, next_offset, credit, leader_epoch, source))

    @property
    def has_more(self) -> bool:
        """True if there may be records to return, or a reset to carry out now that all are returned."""
        return bool(self._chunks) or self._reset is not None or (self._run is not None and self._run.left > 0)

    # -- output

    def open_run(self, at_least: int) -> RecordRun | None:
        """Return the run of the next records, or None if there are none yet. Once all of its records are taken, open
        another one of at least `at_least` received records, all from the same leader. Set `failure` if records cannot
        be decoded."""
        while self._run is not None and not self._run.left and self._chunks:
            self._run = self._decode_some(self._run.position, at_least)
        self._reset_if_empty()
        return self._run if self._run is not None and self._run.left else None

    def recall(self) -> None:
        """Withdraw the current run: its holder gets no more records, and the rest becomes a new run."""
        if self._run is not None:
            self._run = self._run.withdraw()

    def give_back(self, run: RecordRun, index: int) -> None:
        """Return the records of `run` from `index` on again, unless the position was changed since."""
        if self._run is not None and self._run.is_rest_of(run):
            self._run.give_back(index)

    def _decode_some(self, before: Position, at_least: int) -> RecordRun:
        chunk = self._chunks[0]
        self.leader_epoch = chunk.leader_epoch
        decoded: list[Columns] = []
        epochs: list[tuple[int, int]] = []
        position = before
        while at_least > 0:
            try:
                batch = chunk.batch_at(position.offset)
                if batch is None:
                    position = self._end_chunk(position)
                    break
                header, view = batch
                decoded.append(_decode(header, view, position.offset))
            except Damaged as error:
                behind = self._behind(position, error)
                if behind is None:
                    break
                position = behind
                continue
            self.refetches = 0
            at_least -= len(decoded[-1].offsets)
            self.decoded_records += len(decoded[-1].offsets)
            epochs.append((header.base_offset, header.leader_epoch))
            position = Position(header.next_offset, header.leader_epoch)
        return RecordRun(self.name, before, _joined(decoded), position, epochs)

    def take_arrow(self, limit: int) -> list[Any]:
        """Return the next records, at most `limit`, as Arrow RecordBatches."""
        if self._run is None:
            return []
        batches: list[Any] = []
        if self._run.left:
            batches.append(arrow_of(self._run.take_columns(limit)))
            limit -= batches[0].num_rows
        if limit and not self._run.left:
            self._run = self._nothing_at(self._decode_arrow(self._run.position, limit, batches))
        self._reset_if_empty()
        return batches

    def _decode_arrow(self, position: Position, limit: int, into: list[Any]) -> Position:
        """Append RecordBatches to `into`. Return the position after them."""
        while limit and self._chunks:
            chunk = self._chunks[0]
            self.leader_epoch = chunk.leader_epoch
            try:
                found = chunk.arrow_at(position.offset)
            except Damaged as error:
                behind = self._behind(position, error)
                if behind is None:
                    break
                position = behind
                continue
            if found is None:
                position = self._end_chunk(position)
                continue
            header, batch = found
            self.refetches = 0
            position = Position(header.next_offset, header.leader_epoch)
            if batch.num_rows > limit:
                position = Position(batch.column("offset")[limit].as_py(), header.leader_epoch)
                batch = batch.slice(0, limit)
            if batch.num_rows:
                into.append(batch)
                limit -= batch.num_rows
                self.decoded_records += batch.num_rows
        return position

    def _end_chunk(self, position: Position) -> Position:
        """Release the first chunk, which has no records left. Return the position after it."""
        chunk = self._chunks.popleft()
        chunk.release()
        epoch = position.leader_epoch if chunk.walked_epoch is None else chunk.walked_epoch
        return Position(max(chunk.next_offset, position.offset), epoch)

    def _nothing_at(self, position: Position) -> RecordRun:
        return RecordRun(self.name, position, _NONE, position)

    def _behind(self, position: Position, error: Damaged) -> Position | None:
        """Return the position after a damaged batch if it is skipped; None if it is refetched or becomes a failure."""
        if isinstance(error, NotAsStored):
            self._fetch_again(position, error)
            return None
        self.refetches = 0
        if self._passed_over is not None and error.batch is not None:
            self._passed_over(self.name, error)
            return Position(error.batch.next_offset, error.batch.leader_epoch)
        self._fail(position, str(error))
        return None

    def _fetch_again(self, position: Position, error: NotAsStored) -> None:
        """Fetch the records again, from another replica that may have them intact; fail after `MOST_REFETCHES`."""
        if self.refetches == MOST_REFETCHES:
            self._fail(
                position,
                f"{error}. It was fetched {MOST_REFETCHES} times more, from other replicas where there are any in "
                f"sync: `lograft verify replicas {self.name.topic}` names the damaged ones",
            )
            return
        self.damaged_source = self._chunks[0].source
        self._drop_chunks()
        self.refetches += 1
        self.generation += 1
        self.fetch_offset = position.offset

    def _fail(self, position: Position, reason: str) -> None:
        self._drop_chunks()
        self.failure = CorruptBatch(
            f"{self.name.topic}-{self.name.partition} from offset {position.offset} on: {reason}"
        )


def _decode(header: BatchHeader, batch: memoryview, first: int) -> Columns:
    """Return the batch's records from offset `first` on."""
    columns = open_batch(header, lambda: decode_columns(batch))
    return columns if header.base_offset >= first else columns.part(bisect_left(columns.offsets, first))


def _joined(parts: Sequence[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    joined = Columns([], [], [], [], [])
    for into, *columns in zip(joined, *parts, strict=True):
        assert isinstance(into, list)
        into.extend(chain.from_iterable(columns))
    return joined
