"""The small files of a partition and of a data directory, decoded as far as damage allows."""

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

from lograft.storage.files.file_names import INDEX_SUFFIX, PRODUCERS_SUFFIX, TIME_INDEX_SUFFIX
from lograft.storage.files.sealed_file import seal
from lograft.storage.files.segment_index import (
    OFFSET_INDEX_KIND,
    TIME_INDEX_KIND,
    SegmentSummary,
    decode_offset_index,
    decode_time_index,
)
from lograft.storage.inspect.dump_segment import Problem, Readable
from lograft.storage.log.recovery import PRODUCERS_KIND
from lograft.storage.state.checkpoint import (
    CHECKPOINT_FILE,
    CHECKPOINT_KIND,
    EPOCHS_FILE,
    EPOCHS_KIND,
    Checkpoint,
    decode_epochs,
)
from lograft.storage.state.producer_state import WINDOW_BATCHES, ProducerState

SUMMARY_BYTES = 40
INDEX_ENTRY_BYTES = {OFFSET_INDEX_KIND: 8, TIME_INDEX_KIND: 12}
OFFSET_INDEX_COLUMNS = ("offset", "position")
TIME_INDEX_COLUMNS = ("timestamp", "offset")
LARGEST_SEALED_BYTES = 256 * 1024 * 1024

_LONGEST_SEAL_BYTES = 128
_SEAL = re.compile(rb"crc32c ([0-9a-f]{8}) ([a-z0-9-]{1,100})\n\Z")
_DAMAGED_SEAL = re.compile(rb"crc32c[^\n]{0,110}\n?\Z")
_KIND_BY_SUFFIX = {
    INDEX_SUFFIX: OFFSET_INDEX_KIND,
    TIME_INDEX_SUFFIX: TIME_INDEX_KIND,
    PRODUCERS_SUFFIX: PRODUCERS_KIND,
    CHECKPOINT_FILE: CHECKPOINT_KIND,
    EPOCHS_FILE: EPOCHS_KIND,
}


class Timestamp(int):
    """Milliseconds since 1970; negative if absent."""


Cell: TypeAlias = int | str | None


@dataclass(frozen=True, slots=True)
class SealedDocument:
    """A small file: single fields, and rows under named columns. Names are lower camel case."""

    kind: str
    fields: tuple[tuple[str, Cell], ...] = ()
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[Cell, ...]] = ()
    problems: tuple[Problem, ...] = ()
    note: str = ""


_LEAST = {"cleanedInEpoch": -1}  # the smallest valid number of a checkpoint's field; 0 for the others


def read_sealed(file: Readable) -> SealedDocument | None:
    """Return the sealed file, if its seal is whole and right; None if the file is damaged or of another kind."""
    parts = _split(file)
    if parts is None:
        return None
    content, at, match = parts
    kind = match[2].decode()
    return _decode(kind, content[:at], ()) if seal(kind, content[:at]) == content else None


def read_damaged_sealed(file: Readable, name: str) -> SealedDocument | None:
    """Return a file with a broken seal as far as it is readable; None if nothing suggests a sealed file.

    The seal's text decides its kind or, if that is gone, the file's name.
    """
    parts = _split(file)
    if parts is not None:
        content, at, match = parts
        kind = match[2].decode()
        right = seal(kind, content[:at])[at:].split(b" ")[1].decode()
        message = f"the seal says crc32c {match[1].decode()}, and the content has {right}: one of them was changed"
        return _decode(kind, content[:at], (Problem(at, "BrokenSeal", message),))
    size = file.size()
    tail_start = max(0, size - _LONGEST_SEAL_BYTES)
    remains = _DAMAGED_SEAL.search(file.read(tail_start, _LONGEST_SEAL_BYTES))
    named = kind_by_name(name)
    guess = named if remains is None else _kind_of_remains(remains[0], named)
    if guess is None or size > LARGEST_SEALED_BYTES:
        return None
    at = size if remains is None else tail_start + remains.start()
    message = "the seal, the last line, is missing or damaged: the file was cut short or changed"
    return _decode(guess, file.read(0, at), (Problem(at, "BrokenSeal", message),))


def kind_by_name(name: str) -> str | None:
    """Return the kind of sealed file that bears such a name."""
    return next((kind for suffix, kind in _KIND_BY_SUFFIX.items() if name.endswith(suffix)), None)


def short_kind(kind: str) -> str:
    """`lograft-offset-index-1` is an `offset-index`."""
    match = re.fullmatch(r"lograft-(.+)-\d+", kind)
    return match[1] if match else kind


def _split(file: Readable) -> tuple[bytes, int, re.Match[bytes]] | None:
    """Return the file, where its seal begins, and the seal; None if it does not end with one."""
    size = file.size()
    tail = file.read(max(0, size - _LONGEST_SEAL_BYTES), _LONGEST_SEAL_BYTES)
    if size > LARGEST_SEALED_BYTES or (match := _SEAL.search(tail)) is None:
        return None
    return file.read(0, size), size - len(match[0]), match


def _kind_of_remains(remains: bytes, named: str | None) -> str | None:
    words = remains.split()
    last = words[-1].decode("ascii", "replace")
    likely = [kind for kind in _KIND_BY_SUFFIX.values() if kind.startswith(last)]
    return likely[0] if len(likely) == 1 else named


# -- contents


def _decode(kind: str, body: bytes, problems: tuple[Problem, ...]) -> SealedDocument:
    """Return the document in `body`, without its seal; show what cannot be decoded as lines of text."""
    decode = _DECODERS.get(kind, _decode_text)
    try:
        return decode(kind, body, problems)
    except (ValueError, TypeError, struct.error) as error:
        malformed = Problem(0, "Malformed", f"not the content of a {short_kind(kind)} file: {error}")
        return _decode_text(kind, body, (*problems, malformed))


def _decode_index(kind: str, body: bytes, problems: tuple[Problem, ...]) -> SealedDocument:
    entry_bytes = INDEX_ENTRY_BYTES[kind]
    excess = max(0, len(body) - SUMMARY_BYTES) % entry_bytes
    if excess:
        message = f"{excess} bytes after the last whole entry"
        problems = (*problems, Problem(len(body) - excess, "Malformed", message))
    sealed = seal(kind, body[: len(body) - excess])
    rows: list[tuple[Cell, ...]]
    if kind == OFFSET_INDEX_KIND:
        summary, entries = decode_offset_index(sealed)
        rows = [(summary.base_offset + relative, position) for relative, position in entries]
        columns = OFFSET_INDEX_COLUMNS
        found = _offset_entry_problems(summary, entries)
    else:
        summary, entries = decode_time_index(sealed)
        rows = [(Timestamp(timestamp), summary.base_offset + relative) for timestamp, relative in entries]
        columns = TIME_INDEX_COLUMNS
        found = _order_problems(entries, lambda i: SUMMARY_BYTES + entry_bytes * i, "timestamp", "offset")
    problems = (*problems, *_summary_problems(summary), *found)
    return SealedDocument(short_kind(kind), _summary_fields(summary), columns, rows, problems)


def _summary_fields(summary: SegmentSummary) -> tuple[tuple[str, Cell], ...]:
    return (
        ("baseOffset", summary.base_offset),
        ("nextOffset", summary.next_offset),
        ("segmentBytes", summary.size_bytes),
        ("firstAppend", Timestamp(summary.first_append_ms)),
        ("maxTimestamp", Timestamp(summary.max_timestamp)),
    )


def _summary_problems(summary: SegmentSummary) -> Iterator[Problem]:
    if not 0 <= summary.base_offset <= summary.next_offset or summary.size_bytes < 0:
        message = f"offsets {summary.base_offset} to {summary.next_offset} in {summary.size_bytes} bytes cannot be"
        yield Problem(0, "Malformed", message)


def _offset_entry_problems(summary: SegmentSummary, entries: Sequence[tuple[int, int]]) -> Iterator[Problem]:
    def position_of(i: int) -> int:
        return SUMMARY_BYTES + INDEX_ENTRY_BYTES[OFFSET_INDEX_KIND] * i

    yield from _order_problems(entries, position_of, "offset", "position")
    for i, (_, position) in enumerate(entries):
        if position >= summary.size_bytes:
            message = f"position {position} is not below the segment's {summary.size_bytes} bytes"
            yield Problem(position_of(i), "EntryOutOfRange", message)


def _order_problems(
    entries: Iterable[tuple[int, int]], position_of: Callable[[int], int], first: str, second: str
) -> Iterator[Problem]:
    """Yield a problem for each entry that does not rise in both halves."""
    previous: tuple[int, int] | None = None
    for i, entry in enumerate(entries):
        if previous is not None and not (previous[0] < entry[0] and previous[1] < entry[1]):
            message = f"{first} {entry[0]}, {second} {entry[1]} follow {previous[0]} and {previous[1]}: both must rise"
            yield Problem(position_of(i), "EntriesFall", message)
        previous = entry


def _decode_checkpoint(kind: str, body: bytes, problems: tuple[Problem, ...]) -> SealedDocument:
    checkpoint = Checkpoint.decode(seal(kind, body))
    pairs = tuple((_camel(field.name), getattr(checkpoint, field.name)) for field in fields(checkpoint))
    negative = [Problem(0, "Malformed", f"{name} is {value}") for name, value in pairs if value < _LEAST.get(name, 0)]
    return SealedDocument(short_kind(kind), pairs, problems=(*problems, *negative))


def _decode_epochs(kind: str, body: bytes, problems: tuple[Problem, ...]) -> SealedDocument:
    entries = decode_epochs(seal(kind, body))
    starts = _line_starts(body)
    falls = []
    for i in range(1, len(entries)):
        before, entry = entries[i - 1], entries[i]
        if not (before.epoch < entry.epoch and before.start_offset <= entry.start_offset):
            message = f"epoch {entry.epoch} from {entry.start_offset} follows {before.epoch} from {before.start_offset}"
            falls.append(Problem(starts[i], "EpochsFall", message))
    return SealedDocument(short_kind(kind), (), ("epoch", "startOffset"), entries, (*problems, *falls))


def _line_starts(body: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(rb"\n", body))]


def _decode_producers(kind: str, body: bytes, problems: tuple[Problem, ...]) -> SealedDocument:
    state = ProducerState.decode(body, now_ms=0)
    rows: list[tuple[Cell, ...]] = []
    found = []
    for producer_id, entry in state.entries():
        if len(entry.batches) > WINDOW_BATCHES:
            message = f"producer {producer_id} has {len(entry.batches)} batches, more than {WINDOW_BATCHES}"
            found.append(Problem(0, "Malformed", message))
        for before, batch in zip(entry.batches, entry.batches[1:], strict=False):
            if batch.base_offset <= before.last_offset:
                message = f"producer {producer_id}: base offset {batch.base_offset} follows {before.last_offset}"
                found.append(Problem(0, "OffsetsFall", message))
        batches: Sequence[tuple[Cell, ...]] = entry.batches or [(None,) * 4]
        rows += [(producer_id, entry.epoch, *batch) for batch in batches]
    columns = ("producerId", "producerEpoch", "baseSequence", "lastSequence", "baseOffset", "lastOffset")
    return SealedDocument(short_kind(kind), (("producers", len(state)),), columns, rows, (*problems, *found))


def _decode_text(kind: str, body: bytes, problems: tuple[Problem, ...]) -> SealedDocument:
    """Return unknown content as lines of text, or only its size if it is binary."""
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError:
        return SealedDocument(
            short_kind(kind), (("contentBytes", len(body)),), problems=problems, note="the content is binary"
        )
    return SealedDocument(short_kind(kind), (), ("line",), [(line,) for line in lines], problems)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


_DECODERS: dict[str, Callable[[str, bytes, tuple[Problem, ...]], SealedDocument]] = {
    OFFSET_INDEX_KIND: _decode_index,
    TIME_INDEX_KIND: _decode_index,
    CHECKPOINT_KIND: _decode_checkpoint,
    EPOCHS_KIND: _decode_epochs,
    PRODUCERS_KIND: _decode_producers,
}
