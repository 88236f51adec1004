"""The records of a range, one by one: for the few that we write ourselves."""

from collections.abc import Iterable, Iterator

from lograft.spark.common.range_reader import RangePart
from lograft.storage.batch.codec import Record, decode_records, iterate_batches, validate_batch


def records_of(parts: Iterable[RangePart]) -> Iterator[Record]:
    for part in parts:
        view = memoryview(part.batches)
        for at, header in iterate_batches(view):
            validate_batch(view, at)
            for record in decode_records(view[at : at + header.total_bytes]):
                if part.start <= record.offset < part.next_offset:
                    yield record
