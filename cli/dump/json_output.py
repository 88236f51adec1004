"""A dump as one JSON object, written item by item: a segment may be larger than memory."""

import base64
import json
from collections.abc import Iterator
from typing import Any, TextIO

from lograft.cli.dump.problem_count import ProblemCount
from lograft.storage.batch.codec import Columns
from lograft.storage.inspect.dump import (
    Crc,
    DumpedBatch,
    DumpedSegment,
    Problem,
    SealedDocument,
    SegmentTotals,
    codec_name,
    layout_name,
)


def write_json(dump: DumpedSegment | SealedDocument, path: str, out: TextIO) -> ProblemCount:
    """Write the dump of the file at `path`, and return its problems."""
    return _Writer(out).write(dump, path)


class _Writer:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        # Use JSON's own escapes for characters that the output's encoding lacks.
        is_unicode = (out.encoding or "").lower().replace("-", "").startswith("utf")
        self._encode = json.JSONEncoder(ensure_ascii=not is_unicode, check_circular=False).encode

    def write(self, dump: DumpedSegment | SealedDocument, path: str) -> ProblemCount:
        verdict = ProblemCount()
        if isinstance(dump, DumpedSegment):
            self._out.write(f'{{"file": {self._encode(path)}, "kind": "segment", "batches": [')
            rest = self._write_batches(dump, verdict)
        else:
            self._out.write(f'{{"file": {self._encode(path)}, "kind": {self._encode(dump.kind)}, ')
            if dump.fields:
                self._out.write(self._encode(dict(dump.fields))[1:-1] + ", ")
            self._out.write('"entries": [')
            self._write_all(self._encode(dict(zip(dump.columns, row, strict=True))) for row in dump.rows)
            for problem in dump.problems:
                verdict.add(problem)
            rest = {"note": dump.note} if dump.note else {}
        rest |= {
            "valid": verdict.is_valid,
            "errorCount": verdict.count,
            "errors": [_problem_fields(problem) for problem in verdict.problems],
        }
        self._out.write("],\n" + self._encode(rest)[1:] + "\n")
        return verdict

    def _write_all(self, items: Iterator[str]) -> None:
        separator = "\n"
        for item in items:
            self._out.write(separator)
            self._out.write(item)
            separator = ",\n"

    def _write_batches(self, dump: DumpedSegment, verdict: ProblemCount) -> dict[str, Any]:
        totals = SegmentTotals()
        separator = "\n"
        for item in dump.items:
            totals.add(item)
            for problem in (item,) if isinstance(item, Problem) else item.problems:
                verdict.add(problem)
            if isinstance(item, DumpedBatch):
                self._out.write(separator)
                self._write_batch(item)
                separator = ",\n"
        return {
            "batchCount": totals.batches,
            "recordCount": totals.records,
            "bytes": dump.size_bytes,
            "firstOffset": totals.first_offset,
            "lastOffset": totals.last_offset,
            "invalidBatches": totals.invalid_batches,
            "skippedBytes": totals.skipped_bytes,
        }

    def _write_batch(self, batch: DumpedBatch) -> None:
        encoded = self._encode(_batch_fields(batch))
        if batch.records is None:
            self._out.write(encoded)
            return
        self._out.write(encoded[:-1] + ', "records": [')
        self._write_all(self._encode(fields) for fields in _record_fields(batch.records))
        self._out.write("]}")


def _batch_fields(batch: DumpedBatch) -> dict[str, Any]:
    header = batch.header
    has_producer = header.producer_id >= 0
    return {
        "position": batch.position,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "recordCount": header.record_count,
        "bytes": header.total_bytes,
        "magic": header.magic,
        "layout": layout_name(header),
        "compression": codec_name(header),
        "leaderEpoch": header.leader_epoch if header.leader_epoch >= 0 else None,
        "baseTimestamp": header.base_timestamp,
        "maxTimestamp": header.max_timestamp,
        "timestampType": "append" if header.is_append_time else "create",
        "producerId": header.producer_id if has_producer else None,
        "producerEpoch": header.producer_epoch if has_producer else None,
        "baseSequence": header.base_sequence if has_producer else None,
        "lastSequence": header.last_sequence if has_producer else None,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "deleteHorizon": header.base_timestamp if header.has_delete_horizon else None,
        "crc": f"{header.crc:#010x}",
        "crcValid": {Crc.OK: True, Crc.BAD: False, Crc.CUT: None}[batch.crc],
        "valid": not batch.problems,
    }


def _record_fields(records: Columns) -> Iterator[dict[str, Any]]:
    for offset, timestamp, key, value, headers in zip(*records, strict=True):
        yield {
            "offset": offset,
            "timestamp": timestamp,
            "key": bytes_as_json(key),
            "value": bytes_as_json(value),
            "headers": [{"key": name, "value": bytes_as_json(content)} for name, content in headers],
        }


def bytes_as_json(content: bytes | None) -> str | dict[str, str] | None:
    """Return printable text as it is, and anything else in base64, untruncated."""
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() or all(character.isprintable() or character in "\t\r\n" for character in text):
        return text
    return {"base64": base64.b64encode(content).decode()}


def _problem_fields(problem: Problem) -> dict[str, Any]:
    return {
        "position": problem.position,
        "cause": problem.cause,
        "message": problem.message,
        "skippedBytes": problem.skipped_bytes,
    }
