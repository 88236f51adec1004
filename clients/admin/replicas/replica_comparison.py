"""Compares the copies of a partition by digests, range by range. Pure.

Copies that were never compacted have identical batches. Each broker compacts independently, so compacted copies agree
only on the record at an offset, if both have one, and on the latest record of each key. Deleted keys are an exception:
one copy may still have the tombstone when another has nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class BatchDigest(NamedTuple):
    """One batch: its offsets, and all that distinguishes it from another."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    size_bytes: int
    crc: int


class RecordDigest(NamedTuple):
    """One record. `key` is 0 if it has none; `content` is 0 if it is a tombstone."""

    offset: int
    key: int
    content: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Brokers differ at `offset`; `what` describes each broker's data to the user."""

    offset: int
    what: Mapping[int, str]


def compare_batches(found: Mapping[int, Sequence[BatchDigest]]) -> Difference | None:
    """Return the first difference between the brokers' copies of the same range. A broker with nothing has lost it."""
    positions = dict.fromkeys(found, 0)
    while True:
        heads = {
            broker: batches[positions[broker]] if positions[broker] < len(batches) else None
            for broker, batches in found.items()
        }
        if len(set(heads.values())) > 1:
            offset = min(head.base_offset for head in heads.values() if head is not None)
            return Difference(offset, {broker: _batch_text(head) for broker, head in heads.items()})
        if all(head is None for head in heads.values()):
            return None
        for broker in positions:
            positions[broker] += 1


def _batch_text(batch: BatchDigest | None) -> str:
    if batch is None:
        return "nothing"
    return f"offsets {batch.base_offset}-{batch.next_offset - 1}, epoch {batch.leader_epoch}, crc {batch.crc:08x}"


@dataclass(slots=True)
class CompactedComparison:
    """Compares copies that may be compacted: call `add` for each range in order, then `missing`.

    A broker that compacts its copy meanwhile may seem to lack a key whose next record is beyond the ranges, or to have
    a key whose tombstone was further on but is already removed. Compare again: a key that is really missing is missing
    the second time, too.
    """

    latest: dict[int, dict[int, RecordDigest]] = field(default_factory=dict)  # by broker and key
    undecodable: list[BatchDigest] = field(default_factory=list)  # all brokers have them

    def add_undecodable(self, found: Mapping[int, Sequence[BatchDigest]]) -> Difference | None:
        """Compare the batches of the next range that cannot be decoded: compaction leaves those unchanged."""
        difference = compare_batches(found)
        if difference is None:
            self.undecodable += next(iter(found.values()), ())
        return difference

    def add(self, found: Mapping[int, Sequence[RecordDigest]]) -> Difference | None:
        """Add every broker's records of the next range. Return the first offset at which two brokers have different
        records."""
        by_offset: dict[int, RecordDigest] = {}
        different: list[int] = []
        for broker, records in found.items():
            latest = self.latest.setdefault(broker, {})
            for record in records:
                if by_offset.setdefault(record.offset, record) != record:
                    different.append(record.offset)
                if record.key:
                    latest[record.key] = record
        if not different:
            return None
        offset = min(different)
        what = {
            broker: _record_text(next((record for record in records if record.offset == offset), None))
            for broker, records in found.items()
        }
        return Difference(offset, what)

    def missing(self) -> list[Difference]:
        """Return a difference for each key whose latest record is not the same on all brokers."""
        keys = dict.fromkeys(key for latest in self.latest.values() for key in latest)
        differences = [difference for key in keys if (difference := self._compare_key(key)) is not None]
        return sorted(differences, key=lambda difference: difference.offset)

    def _compare_key(self, key: int) -> Difference | None:
        heads = {broker: latest.get(key) for broker, latest in self.latest.items()}
        if len(set(heads.values())) == 1:
            return None
        known = [head for head in heads.values() if head is not None]
        if len(set(known)) == 1 and not known[0].content:
            return None  # deleted: some brokers have already removed the tombstone
        return Difference(
            max(head.offset for head in known), {broker: _record_text(head) for broker, head in heads.items()}
        )


def _record_text(record: RecordDigest | None) -> str:
    if record is None:
        return "nothing of that key"
    kind = f"content {record.content:016x}" if record.content else "a deletion"
    return f"offset {record.offset}, key {record.key:016x}, {kind}"
