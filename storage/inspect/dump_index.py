"""The check of an index against its segment."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lograft.storage.batch.header import HEADER_BYTES, BatchHeader, parse_header
from lograft.storage.errors import InvalidBatch
from lograft.storage.files.segment_index import NO_TIMESTAMP, OFFSET_INDEX_KIND, TIME_INDEX_KIND
from lograft.storage.inspect.dump_sealed import (
    INDEX_ENTRY_BYTES,
    OFFSET_INDEX_COLUMNS,
    SUMMARY_BYTES,
    TIME_INDEX_COLUMNS,
    SealedDocument,
)
from lograft.storage.inspect.dump_segment import Problem, Readable, Window

WRONG_ENTRY = "WrongEntry"
WRONG_SUMMARY = "WrongSummary"


def is_index(document: SealedDocument) -> bool:
    """Return True if the document has entries that can be checked against a segment."""
    return document.columns in (OFFSET_INDEX_COLUMNS, TIME_INDEX_COLUMNS)


def check_against_segment(document: SealedDocument, log: Readable, log_name: str) -> SealedDocument:
    """Return the index `document` with the problems that the segment `log` shows; a longer segment is no problem."""
    problems = tuple(_Check(document, log, log_name).problems())
    return replace(
        document,
        problems=(*document.problems, *problems),
        note=f"every entry was checked against {log_name}, of which the index covers "
        f"{dict(document.fields)['segmentBytes']} of {log.size()} bytes",
    )


@dataclass(slots=True)
class _Seen:
    """Totals of the batches before a position."""

    position: int
    next_offset: int
    max_timestamp: int = NO_TIMESTAMP


class _Check:
    def __init__(self, document: SealedDocument, log: Readable, log_name: str) -> None:
        self._document = document
        self._log = log
        self._log_name = log_name
        summary = dict(document.fields)
        self._covered_bytes = _number(summary["segmentBytes"])
        self._next_offset = _number(summary["nextOffset"])
        self._max_timestamp = _number(summary["maxTimestamp"])
        self._base_offset = _number(summary["baseOffset"])
        self._is_time_index = document.columns == TIME_INDEX_COLUMNS
        entry_bytes = INDEX_ENTRY_BYTES[TIME_INDEX_KIND if self._is_time_index else OFFSET_INDEX_KIND]
        # By offset or position of the batch: the entry's place in the index, and its claim.
        self._entries = {
            _number(key): (SUMMARY_BYTES + entry_bytes * i, _number(claim))
            for i, (claim, key) in enumerate(document.rows)
        }

    def problems(self) -> Iterator[Problem]:
        size = self._log.size()
        if self._covered_bytes > size:
            message = f"the index covers {self._covered_bytes} bytes, and {self._log_name} has {size}"
            yield Problem(0, WRONG_SUMMARY, message)
        window = Window(self._log)
        seen = _Seen(0, self._base_offset)
        while seen.position < min(self._covered_bytes, size):
            try:
                header = parse_header(window.view(seen.position, HEADER_BYTES))
            except InvalidBatch:
                message = f"{self._log_name} is damaged at byte {seen.position}: what follows cannot be checked"
                yield Problem(0, "DamagedSegment", message)
                return
            yield from self._check_entry(header, seen)
            seen.position += header.total_bytes
            seen.next_offset = header.next_offset
            if header.record_count:
                seen.max_timestamp = max(seen.max_timestamp, header.max_timestamp)
        yield from self._check_unmet()
        yield from self._check_summary(seen)

    def _check_entry(self, header: BatchHeader, seen: _Seen) -> Iterator[Problem]:
        entry = self._entries.pop(header.base_offset if self._is_time_index else seen.position, None)
        if entry is None:
            return
        at, claimed = entry
        if self._is_time_index and claimed != seen.max_timestamp:
            message = (
                f"says {claimed} is the latest timestamp before offset {header.base_offset}: it is {seen.max_timestamp}"
            )
            yield Problem(at, WRONG_ENTRY, message)
        elif not self._is_time_index and claimed != header.base_offset:
            message = f"says offset {claimed} is at byte {seen.position}: {header.base_offset} is there"
            yield Problem(at, WRONG_ENTRY, message)

    def _check_unmet(self) -> Iterator[Problem]:
        """Report entries without a matching batch."""
        for key, (at, claimed) in self._entries.items():
            if self._is_time_index:
                message = f"no batch begins with offset {key}"
            else:
                message = f"says offset {claimed} is at byte {key}: no batch begins there"
            yield Problem(at, WRONG_ENTRY, message)

    def _check_summary(self, seen: _Seen) -> Iterator[Problem]:
        if seen.position != self._covered_bytes:
            if seen.position > self._covered_bytes:
                message = f"the index covers {self._covered_bytes} bytes, and no batch ends there"
                yield Problem(0, WRONG_SUMMARY, message)
            return
        for name, claimed, actual in (
            ("next offset", self._next_offset, seen.next_offset),
            ("latest timestamp", self._max_timestamp, seen.max_timestamp),
        ):
            if claimed != actual:
                yield Problem(0, WRONG_SUMMARY, f"says the {name} is {claimed}: it is {actual}")


def _number(cell: object) -> int:
    assert isinstance(cell, int)
    return cell
