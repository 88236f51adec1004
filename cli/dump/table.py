"""A dump as a table: a line per batch or entry, followed by a line for each problem."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TextIO

from lograft.cli.dump.problem_count import ProblemCount
from lograft.cli.output.streaming_table import StreamingTable
from lograft.storage.batch.codec import BatchHeader, Columns
from lograft.storage.inspect.dump import (
    Cell,
    DumpedBatch,
    DumpedSegment,
    Problem,
    SealedDocument,
    SegmentTotals,
    Timestamp,
    codec_name,
    layout_name,
)

SHOWN_CHARACTERS = 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEGMENT_TITLES = "POSITION", "OFFSETS", "RECORDS", "BYTES", "EPOCH", "LAYOUT", "CODEC", "CRC", "TIMESTAMPS", "DETAILS"
_RECORD_INDENT = " " * 12  # indented past the positions, so that batches stand out
_SEGMENT_NUMBERS = frozenset({0, 1, 2, 3, 4})


def write_table(dump: DumpedSegment | SealedDocument, path: str, out: TextIO) -> ProblemCount:
    """Write the dump of the file at `path`, and return its problems."""
    if isinstance(dump, DumpedSegment):
        return _write_segment(dump, path, out)
    return _write_document(dump, path, out)


# -- segments


def _write_segment(segment: DumpedSegment, path: str, out: TextIO) -> ProblemCount:
    out.write(f"{quoted_name(path)}: segment, {count(segment.size_bytes, 'byte')}\n\n")
    table = StreamingTable(out, _SEGMENT_TITLES, _SEGMENT_NUMBERS)
    totals, verdict = SegmentTotals(), ProblemCount()
    for item in segment.items:
        totals.add(item)
        if isinstance(item, DumpedBatch):
            table.row(_batch_cells(item))
        for problem in (item,) if isinstance(item, Problem) else item.problems:
            verdict.add(problem)
            table.line(_problem_line(problem))
        if isinstance(item, DumpedBatch) and item.records is not None:
            for line in _record_lines(item.records):
                table.line(line)
    table.finish()
    out.write(f"\n{_summary(totals, segment.size_bytes)}; {verdict}\n")
    return verdict


def _batch_cells(batch: DumpedBatch) -> tuple[str, ...]:
    header = batch.header
    return (
        str(batch.position),
        span(header.base_offset, header.last_offset),
        str(header.record_count),
        str(header.total_bytes),
        str(header.leader_epoch) if header.leader_epoch >= 0 else "-",
        layout_name(header),
        codec_name(header),
        batch.crc.value,
        _timestamps(header),
        ", ".join(_details(header)),
    )


def _timestamps(header: BatchHeader) -> str:
    if header.has_delete_horizon or header.is_append_time or header.base_timestamp == header.max_timestamp:
        return iso_time(header.max_timestamp)
    first, last = iso_time(header.base_timestamp), iso_time(header.max_timestamp)
    day, separator, time_of_day = last.partition("T")
    return f"{first}..{time_of_day}" if separator and first.startswith(f"{day}T") else f"{first}..{last}"


def _details(header: BatchHeader) -> Iterator[str]:
    if header.producer_id >= 0:
        sequences = span(header.base_sequence, header.last_sequence)
        yield f"producer {header.producer_id}/{header.producer_epoch} sequence {sequences}"
    if header.is_transactional:
        yield "transactional"
    if header.is_control:
        yield "control"
    if header.is_append_time:
        yield "append time"
    if header.has_delete_horizon:
        yield f"delete horizon {iso_time(header.base_timestamp)}"


def _record_lines(records: Columns) -> Iterator[str]:
    width = len(str(records.offsets[-1])) if records.offsets else 0
    for offset, timestamp, key, value, headers in zip(*records, strict=True):
        line = (
            f"{_RECORD_INDENT}offset {offset:>{width}}  {iso_time(timestamp)}  key {quoted(key)}  value {quoted(value)}"
        )
        if headers:
            pairs = ", ".join(f"{quoted(name.encode())}: {quoted(content)}" for name, content in headers)
            line += f"  headers {pairs}"
        yield line


def _problem_line(problem: Problem) -> str:
    return f"  ! byte {problem.position}: {problem.message} ({problem.cause})"


def _summary(totals: SegmentTotals, size_bytes: int) -> str:
    parts = [count(totals.batches, "batch", "batches"), count(totals.records, "record"), count(size_bytes, "byte")]
    if totals.first_offset is not None and totals.last_offset is not None:
        parts.append(f"offsets {totals.first_offset}..{totals.last_offset}")
    if totals.invalid_batches:
        parts.append(f"{totals.invalid_batches} of the batches invalid")
    if totals.skipped_bytes:
        parts.append(f"{count(totals.skipped_bytes, 'byte')} skipped")
    return ", ".join(parts)


# -- small files


def _write_document(document: SealedDocument, path: str, out: TextIO) -> ProblemCount:
    out.write(f"{quoted_name(path)}: {document.kind.replace('-', ' ')}\n")
    verdict = ProblemCount()
    if document.fields:
        out.write("\n")
        width = max(len(_words(name)) for name, _ in document.fields)
        for name, value in document.fields:
            out.write(f"{_words(name):<{width}}  {_cell_text(value)}\n")
    if document.rows:
        out.write("\n")
        numbers = frozenset(range(len(document.columns))) if document.columns != ("line",) else frozenset()
        table = StreamingTable(out, [_words(name).upper() for name in document.columns], numbers)
        for row in document.rows:
            table.row(tuple(map(_cell_text, row)))
        table.finish()
    out.write("\n")
    for problem in document.problems:
        verdict.add(problem)
        out.write(_problem_line(problem) + "\n")
    if document.problems:
        out.write("\n")
    entries = [count(len(document.rows), "entry", "entries")] if document.columns else []
    notes = [document.note] if document.note else []
    out.write("; ".join([*entries, *notes, str(verdict)]) + "\n")
    return verdict


def _words(name: str) -> str:
    """Turn `baseOffset` into `base offset`."""
    return re.sub(r"(?=[A-Z])", " ", name).lower()


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, Timestamp):
        return iso_time(cell) if cell >= 0 else "-"
    return escaped(cell) if isinstance(cell, str) else str(cell)


# -- pieces of text


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def iso_time(timestamp_ms: int) -> str:
    """Return ISO 8601 in UTC with milliseconds, or the plain number outside the calendar's range."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def quoted(content: bytes | None) -> str:
    """Return bytes quoted, escaped, and truncated, never inside an escape."""
    if content is None:
        return "null"
    try:
        characters: Iterable[str] = content.decode()
        escape = _escaped_character
    except UnicodeDecodeError:
        characters = map(chr, content)
        escape = _escaped_byte
    shown = ""
    for character in characters:
        piece = '\\"' if character == '"' else escape(character)
        if len(shown) + len(piece) > SHOWN_CHARACTERS:
            return f'"{shown}…" ({len(content)} bytes)'
        shown += piece
    return f'"{shown}"'


def quoted_name(path: str) -> str:
    """Return a path as it is, or quoted if it contains terminal control characters."""
    return path if path.isprintable() else escaped(path)


def escaped(text: str) -> str:
    """Escape backslashes and unprintable characters."""
    return text if text.isprintable() and "\\" not in text else "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    return character.encode("unicode_escape").decode()


def _escaped_byte(character: str) -> str:
    is_plain = " " <= character <= "~" and character != "\\"
    return character if is_plain else f"\\x{ord(character):02x}"
