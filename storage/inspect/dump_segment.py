"""A walk over a segment that may be damaged: every recognizable batch, its problems, and skipped bytes. Blocking.

Recovery stops at the first unsound batch; an operator who inspects a damaged file wants to see the rest, too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from lograft.storage.batch.codec import decode_columns, validate_batch
from lograft.storage.batch.header import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    MAGIC_COLUMNS,
    BatchHeader,
    check_crc,
    parse_header,
)
from lograft.storage.batch.record import Columns
from lograft.storage.errors import BadCrc, BadRecord, InvalidBatch, TruncatedBatch, UnknownCompression

CHUNK_BYTES = 1024 * 1024
TORN_TAIL = "TornTail"
OFFSETS_FALL = "OffsetsFall"
EPOCHS_FALL = "EpochsFall"

# The largest batch to search damage for: in random bytes, a larger one is nearly always a false positive.
_LARGEST_SOUGHT_BYTES = 128 * 1024 * 1024

# A header's magic, followed by its other constrained bytes: attributes below 0x80, a last offset delta of at least 0.
_MAGIC_AT = 16
_LIKELY_MAGIC = re.compile(rb"[\x02\x03](?=.{4}\x00[\x00-\x7f]{2})", re.DOTALL)


class Readable(Protocol):
    """The part of a file that the walk needs."""

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes from `position` on; fewer only where the file ends."""
        ...

    def size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at byte `position`; `cause` is a short name for programs, often that of a storage error."""

    position: int
    cause: str
    message: str
    skipped_bytes: int = 0  # bytes of no recognizable batch


class Crc(Enum):
    """The result of checking a batch's CRC-32C."""

    OK = "ok"
    BAD = "BAD"
    CUT = "cut"  # the batch is incomplete, so its CRC cannot be computed


@dataclass(frozen=True, slots=True)
class DumpedBatch:
    """A batch as found. `records` is set if it was requested and could be decoded."""

    position: int
    header: BatchHeader
    crc: Crc
    records: Columns | None
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class SegmentTotals:
    """Totals of a segment's items; records and offsets count batches with a correct CRC only."""

    batches: int = 0
    invalid_batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    skipped_bytes: int = 0

    def add(self, item: DumpedBatch | Problem) -> None:
        if isinstance(item, Problem):
            self.skipped_bytes += item.skipped_bytes
            return
        self.batches += 1
        self.invalid_batches += bool(item.problems)
        self.skipped_bytes += sum(problem.skipped_bytes for problem in item.problems)
        if item.crc is Crc.OK:
            self.records += item.header.record_count
            if self.first_offset is None:
                self.first_offset = item.header.base_offset
            self.last_offset = item.header.last_offset


def layout_name(header: BatchHeader) -> str:
    return "columns" if header.magic == MAGIC_COLUMNS else "rows"


def codec_name(header: BatchHeader) -> str:
    """Return the compression's name, or its number where no codec has it."""
    try:
        return header.compression.name.lower()
    except UnknownCompression:
        return f"unknown-{header.attributes & COMPRESSION_MASK}"


def walk_segment(file: Readable, *, deep: bool = False) -> Iterator[DumpedBatch | Problem]:
    """Yield every batch of `file` in order, each with its problems; a lone `Problem` stands for bytes that are no
    batch.

    With `deep`, decode every record. Damage never raises.
    """
    return _Walk(file, deep).items()


class Window:
    """Reads a file forward in chunks, and hands out views of them."""

    def __init__(self, file: Readable, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._file = file
        self._chunk_bytes = chunk_bytes
        self._chunk = memoryview(b"")
        self._start = 0

    def view(self, position: int, size: int) -> memoryview:
        """Return the bytes [position, position + size), fewer where the file ends."""
        at = position - self._start
        if at < 0 or at + size > len(self._chunk):
            self._chunk = memoryview(self._file.read(position, max(size, self._chunk_bytes)))
            self._start, at = position, 0
        return self._chunk[at : at + size]


class _Walk:
    def __init__(self, file: Readable, deep: bool) -> None:
        self._file = file
        self._deep = deep
        self._end = file.size()
        self._window = Window(file)
        self._previous: BatchHeader | None = None  # the last batch whose CRC was right

    def items(self) -> Iterator[DumpedBatch | Problem]:
        position = 0
        while position < self._end:
            try:
                header = parse_header(self._window.view(position, min(HEADER_BYTES, self._end - position)))
            except InvalidBatch as error:
                lost = self._lose(position, error)
                yield lost
                position += lost.skipped_bytes
                continue
            batch, position = self._examine(position, header)
            yield batch

    def _examine(self, position: int, header: BatchHeader) -> tuple[DumpedBatch, int]:
        """Return the batch at `position`, and the position to continue at."""
        if header.total_bytes > self._end - position:
            return self._examine_overlong(position, header)
        content = self._window.view(position, header.total_bytes)
        records = None
        problems = []
        try:
            validate_batch(content)
            records = self._decode(content, header)
        except (BadCrc, TruncatedBatch) as error:
            return self._examine_damaged(position, header, error)
        except InvalidBatch as error:
            problems.append(Problem(position, type(error).__name__, str(error)))
        problems += self._order_problems(position, header)
        self._previous = header
        return DumpedBatch(position, header, Crc.OK, records, tuple(problems)), position + header.total_bytes

    def _decode(self, content: memoryview, header: BatchHeader) -> Columns | None:
        if not self._deep:
            return None
        records = decode_columns(content)
        if records.timestamps and max(records.timestamps) != header.max_timestamp:
            latest = max(records.timestamps)
            raise BadRecord(f"the largest timestamp is {latest}, the header says {header.max_timestamp}")
        return records

    def _order_problems(self, position: int, header: BatchHeader) -> Iterator[Problem]:
        """Check what the CRC does not cover: offsets rise, epochs never fall."""
        previous = self._previous
        if previous is None:
            return
        if header.base_offset < previous.next_offset:
            message = f"base offset {header.base_offset} follows a batch that ends with {previous.last_offset}"
            yield Problem(position, OFFSETS_FALL, message)
        if header.leader_epoch < previous.leader_epoch:
            message = f"leader epoch {header.leader_epoch} follows leader epoch {previous.leader_epoch}"
            yield Problem(position, EPOCHS_FALL, message)

    # -- damage

    def _examine_damaged(self, position: int, header: BatchHeader, error: InvalidBatch) -> tuple[DumpedBatch, int]:
        """Return a batch with a wrong CRC. Trust its length only if a batch could start after it."""
        following = position + header.total_bytes
        message, skipped = _reason(error), 0
        if following < self._end and not self._could_start_at(following):
            found = find_sound_batch(self._file, position + 1, following, self._end)
            if found is not None:
                following, skipped = found, found - position
                message += f"; its length is wrong too, and {skipped} bytes are skipped to the next sound batch"
        problem = Problem(position, type(error).__name__, message, skipped)
        return DumpedBatch(position, header, Crc.BAD, None, (problem,)), following

    def _examine_overlong(self, position: int, header: BatchHeader) -> tuple[DumpedBatch, int]:
        """Return a batch that would reach past the end: the last one, cut, or one whose length is wrong."""
        left = self._end - position
        message = f"the batch needs {header.total_bytes} bytes, and {left} are left"
        found = find_sound_batch(self._file, position + 1, self._end, self._end)
        if found is None:
            problem = Problem(position, TORN_TAIL, f"{message}: a write that was cut short")
            return DumpedBatch(position, header, Crc.CUT, None, (problem,)), self._end
        skipped = found - position
        message += f": its length is wrong, and {skipped} bytes are skipped to the next sound batch"
        problem = Problem(position, "BadBatchLength", message, skipped)
        return DumpedBatch(position, header, Crc.BAD, None, (problem,)), found

    def _could_start_at(self, position: int) -> bool:
        try:
            parse_header(self._window.view(position, min(HEADER_BYTES, self._end - position)))
        except InvalidBatch:
            return False
        return True

    def _lose(self, position: int, error: InvalidBatch) -> Problem:
        """Skip bytes that belong to no batch, up to the next sound batch or the end."""
        left = self._end - position
        if left < HEADER_BYTES:
            return Problem(position, TORN_TAIL, f"{left} bytes are left, too few for a batch header", left)
        found = find_sound_batch(self._file, position + 1, self._end, self._end)
        if found is not None:
            skipped = found - position
            message = f"{_reason(error)}; {skipped} bytes are skipped to the next sound batch"
            return Problem(position, type(error).__name__, message, skipped)
        if _is_zero(self._file, position, self._end):
            return Problem(position, TORN_TAIL, f"the last {left} bytes are zeros: space that was never written", left)
        message = f"{_reason(error)}; no sound batch follows, and the last {left} bytes are skipped"
        return Problem(position, type(error).__name__, message, left)


def find_sound_batch(file: Readable, start: int, limit: int, end: int) -> int | None:
    """Return the first position in [start, limit) where a batch with a right CRC lies that ends by `end`."""
    for chunk_start in range(start, limit, CHUNK_BYTES):
        # Read a header's size more, so that a header that begins in this chunk is complete.
        chunk = memoryview(file.read(chunk_start, min(CHUNK_BYTES + HEADER_BYTES, end - chunk_start)))
        for match in _LIKELY_MAGIC.finditer(chunk, _MAGIC_AT):
            at = match.start() - _MAGIC_AT
            if at >= min(CHUNK_BYTES, limit - chunk_start):
                break
            if _is_sound(file, chunk[at : at + HEADER_BYTES], chunk_start + at, end):
                return chunk_start + at
    return None


def _is_sound(file: Readable, start_of_batch: memoryview, position: int, end: int) -> bool:
    try:
        header = parse_header(start_of_batch)
        if header.total_bytes > min(end - position, _LARGEST_SOUGHT_BYTES):
            return False
        check_crc(file.read(position, header.total_bytes), 0, header)
    except InvalidBatch:
        return False
    return True


def _is_zero(file: Readable, start: int, end: int) -> bool:
    for position in range(start, end, CHUNK_BYTES):
        chunk = file.read(position, min(CHUNK_BYTES, end - position))
        if chunk.count(0) != len(chunk):
            return False
    return True


def _reason(error: InvalidBatch) -> str:
    """Return the error's text without its buffer position, which would contradict the position in the file."""
    return str(error).replace(" at 0 ", " ")
