"""Decodes any file that lograft writes, sound or damaged. This is the entry point of the dump; it does not print.

The content determines the kind of a file; its name decides only where damage left nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lograft.storage.batch.header import HEADER_BYTES, parse_header
from lograft.storage.errors import InvalidBatch
from lograft.storage.files.file_names import LOG_SUFFIX
from lograft.storage.inspect.dump_index import check_against_segment, is_index
from lograft.storage.inspect.dump_sealed import (
    Cell,
    SealedDocument,
    Timestamp,
    kind_by_name,
    read_damaged_sealed,
    read_sealed,
    short_kind,
)
from lograft.storage.inspect.dump_segment import (
    Crc,
    DumpedBatch,
    Problem,
    Readable,
    SegmentTotals,
    codec_name,
    find_sound_batch,
    layout_name,
    walk_segment,
)

__all__ = [
    "Cell",
    "Crc",
    "DumpedBatch",
    "DumpedSegment",
    "Problem",
    "Readable",
    "SealedDocument",
    "SegmentTotals",
    "Timestamp",
    "check_against_segment",
    "codec_name",
    "dump_file",
    "is_index",
    "layout_name",
]

_SHOWN_BYTES = 16


@dataclass(frozen=True, slots=True)
class DumpedSegment:
    """A file of batches. `items` reads the file as it is consumed, once."""

    size_bytes: int
    items: Iterator[DumpedBatch | Problem]


def dump_file(file: Readable, name: str, *, deep: bool = False) -> DumpedSegment | SealedDocument:
    """Return the content of `file`. `deep` decodes every record of a segment.

    Damage never raises: the result lists it as problems.
    """
    size = file.size()
    if size == 0:
        return _empty(name)
    if find_sound_batch(file, 0, 1, size) is None:
        document = read_sealed(file)
        if document is None and find_sound_batch(file, 1, size, size) is None:
            document = read_damaged_sealed(file, name)
            if document is None and not _seems_a_segment(file, name):
                document = _unknown(file)
        if document is not None:
            return document
    return DumpedSegment(size, walk_segment(file, deep=deep))


def _seems_a_segment(file: Readable, name: str) -> bool:
    """Return True if a file without a sound batch looks like a segment all the same."""
    if name.endswith(LOG_SUFFIX):
        return True
    try:
        parse_header(file.read(0, HEADER_BYTES))
    except InvalidBatch:
        return False
    return True


def _empty(name: str) -> SealedDocument:
    kind = kind_by_name(name)
    if kind is None:
        return SealedDocument("empty", note="a segment to which nothing was appended yet is empty, and may be so")
    problem = Problem(0, "BrokenSeal", f"the file is empty; its name says {short_kind(kind)}, and such a file never is")
    return SealedDocument(short_kind(kind), problems=(problem,))


def _unknown(file: Readable) -> SealedDocument:
    start = file.read(0, _SHOWN_BYTES).hex(" ")
    message = f"holds no record batch, and has no seal of a small file; it begins with {start}"
    return SealedDocument("unknown", problems=(Problem(0, "UnknownFile", message),))
