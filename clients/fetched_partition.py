"""What a consumer has of one partition: where it is, what came and is not handed out, what stands in its way. Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from lograft.clients.errors import CorruptBatch, LograftError
from lograft.clients.fetch_credit import FetchCredit
from lograft.clients.topic_partition import TopicPartition
from lograft.storage.batch import Record, decode_records, iterate_batches, validate_batch
from lograft.storage.errors import InvalidBatch

Bytes: TypeAlias = bytes | memoryview


class Anchor(Enum):
    """A position that only the broker knows."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Batches as they came from the leader of an epoch, up to `next_offset`, on somebody's credit."""

    batches: Bytes
    next_offset: int
    credit: FetchCredit
    leader_epoch: int


class _Damaged(Exception):
    """Records that cannot be read. The message says why, and if it can how to go on."""


class FetchedPartition:
    """`position`: of the next record that `take` gives; None while that is not known, and `anchor` says how to find it
    out. `fetch_offset`: from where on nothing has come yet. `failure`: nothing more comes until the consumer seeks.
    `generation` grows with each seek and pause: what was asked for before is of no use. `leader_epoch`: of the leader
    that sent what `take` gave last.
    """

    def __init__(self, name: TopicPartition, topic_id: bytes, anchor: Anchor) -> None:
        self.name = name
        self.topic_id = topic_id
        self.position: int | None = None
        self.anchor: Anchor | None = anchor
        self.fetch_offset = -1
        self.is_paused = False
        self.failure: LograftError | None = None
        self.generation = 0
        self.high_watermark: int | None = None
        self.leader_epoch = -1
        self._chunks: deque[_Chunk] = deque()
        self._records: list[Record] = []  # of the chunk that is being handed out
        self._handed_out = 0
        self._after_records = -1  # where it goes on once they are
        self._reset: Anchor | None = None  # where it goes on once all that came is handed out

    # -- where it is

    def seek(self, position: int) -> None:
        self.position, self.anchor = position, None
        self._restart(position)

    def seek_anchor(self, anchor: Anchor) -> None:
        """Go on at an offset that has to be found out first."""
        self.position, self.anchor = None, anchor
        self._restart(-1)

    def found(self, position: int) -> None:
        """What the anchor stands for."""
        assert self.anchor is not None
        self.position, self.anchor, self.fetch_offset = position, None, position

    def gone(self, reset: Anchor) -> None:
        """What follows is not there any more: go on at `reset`, once all that came is handed out."""
        self._reset = reset
        self._reset_if_empty()

    def _reset_if_empty(self) -> None:
        if self._reset is not None and not self.has_more:
            self.seek_anchor(self._reset)

    def pause(self) -> None:
        """Hand out nothing for now. What came is dropped, so that others have its room."""
        self.is_paused = True
        if self.position is not None:  # else nobody knows where to go on, and that stays so
            self._restart(self.position)

    def resume(self) -> None:
        self.is_paused = False

    def _restart(self, fetch_offset: int) -> None:
        self.generation += 1
        self.failure = self._reset = None
        self.fetch_offset = fetch_offset
        self.drop()

    def drop(self) -> None:
        """Let go of what came."""
        for chunk in self._chunks:
            chunk.credit.freed(len(chunk.batches))
        self._chunks.clear()
        self._records, self._handed_out = [], 0

    @property
    def wants_data(self) -> bool:
        return self.position is not None and not self.is_paused and self.failure is None and self._reset is None

    # -- what comes in, and goes out

    def arrived(
        self, batches: Bytes, next_offset: int, high_watermark: int | None, credit: FetchCredit, leader_epoch: int
    ) -> None:
        """Nothing twice, and nothing left out: they begin at `fetch_offset`, or before it."""
        if high_watermark is not None:
            self.high_watermark = high_watermark
        if next_offset <= self.fetch_offset:
            credit.freed(len(batches))
            return
        self.fetch_offset = next_offset
        self._chunks.append(_Chunk(batches, next_offset, credit, leader_epoch))

    @property
    def has_more(self) -> bool:
        """Whether `take` may give something."""
        return bool(self._records or self._chunks)

    def take(self, max_records: int) -> list[Record]:
        """The next records; none if there are none yet. What is damaged becomes the `failure`."""
        while not self._records and self._chunks and self.failure is None:
            self._open_chunk()
        records = self._records[self._handed_out : self._handed_out + max_records]
        self._handed_out += len(records)
        if records and self._handed_out == len(self._records):
            self._records, self._handed_out = [], 0
            self.position = self._after_records
        elif records:
            self.position = records[-1].offset + 1
        self._reset_if_empty()
        return records

    def give_back(self, records: Sequence[Record]) -> None:
        """The last that `take` gave: they come again, before all else."""
        assert self.position is not None
        rest = self._records[self._handed_out :]
        self._records, self._handed_out = [*records, *rest], 0
        self.position = records[0].offset

    def _open_chunk(self) -> None:
        chunk = self._chunks.popleft()
        chunk.credit.freed(len(chunk.batches))
        assert self.position is not None
        after = max(chunk.next_offset, self.position)
        records: list[Record] = []
        try:
            for batch_records in self._decode(chunk.batches, self.position):
                records += batch_records
        except _Damaged as damaged:
            after = records[-1].offset + 1 if records else self.position
            self.failure = CorruptBatch(f"{self.name.topic}-{self.name.partition} from offset {after} on: {damaged}")
            self.drop()
        if records:
            self._records, self._handed_out, self._after_records = records, 0, after
            self.leader_epoch = chunk.leader_epoch
        else:
            self.position = after

    def _decode(self, batches: Bytes, position: int) -> Iterator[list[Record]]:
        """The records from `position` on, a batch at a time. Control batches are not for users."""
        view = memoryview(batches)
        way_out = ""
        try:
            for start, header in iterate_batches(batches):
                if header.next_offset <= position or header.is_control:
                    continue
                way_out = f"; seek to {header.next_offset} to pass over it"
                validate_batch(batches, start)
                batch = view[start : start + header.total_bytes]
                records = decode_records(batch, topic=self.name.topic, partition=self.name.partition)
                if header.base_offset < position:
                    records = [record for record in records if record.offset >= position]
                yield records
                way_out = ""
        except InvalidBatch as error:
            raise _Damaged(f"{error}{way_out}") from error
