"""Are the copies of a partition the same? Told bit by bit what each broker has, in digests. Pure.

Where nothing is compacted, all have the same batches. Compaction is each broker's own affair, at its own time: then
what they have at the same offset is the same, and so is the latest that each key has; but for keys that were deleted,
of which one may still know the deletion, and another nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class BatchDigest(NamedTuple):
    """One batch: where it is, and all that tells it from another."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    size_bytes: int
    crc: int


class RecordDigest(NamedTuple):
    """One record. `key`: 0 if it has none. `content`: 0 if it deletes its key."""

    offset: int
    key: int
    content: int


@dataclass(frozen=True, slots=True)
class Difference:
    """At `offset` brokers do not have the same; `what` each has, for people."""

    offset: int
    what: Mapping[int, str]


def compare_batches(found: Mapping[int, Sequence[BatchDigest]]) -> Difference | None:
    """The first difference between what brokers have of the same range. Who has nothing at all has lost it."""
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
    """Of copies that may be compacted: first `add` of range after range, in their order; at last `missing`.

    A broker that compacts its copy meanwhile may seem to lack a key, whose next record is beyond the ranges, or to have
    one that is deleted further on, where nothing says so any more. Who really lacks it lacks it the next time, too.
    """

    latest: dict[int, dict[int, RecordDigest]] = field(default_factory=dict)  # by broker and key
    undecodable: list[BatchDigest] = field(default_factory=list)  # all brokers have them

    def add_undecodable(self, found: Mapping[int, Sequence[BatchDigest]]) -> Difference | None:
        """Compare batches of the next range whose records nobody can decode: compaction leaves them as they are."""
        difference = compare_batches(found)
        if difference is None:
            self.undecodable += next(iter(found.values()), ())
        return difference

    def add(self, found: Mapping[int, Sequence[RecordDigest]]) -> Difference | None:
        """What all brokers have of the next range: the first offset at which two have different records."""
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
        """The keys of which brokers do not have the same in the end."""
        keys = dict.fromkeys(key for latest in self.latest.values() for key in latest)
        differences = [difference for key in keys if (difference := self._compare_key(key)) is not None]
        return sorted(differences, key=lambda difference: difference.offset)

    def _compare_key(self, key: int) -> Difference | None:
        heads = {broker: latest.get(key) for broker, latest in self.latest.items()}
        if len(set(heads.values())) == 1:
            return None
        known = [head for head in heads.values() if head is not None]
        if len(set(known)) == 1 and not known[0].content:
            return None  # deleted: some have forgotten it altogether
        return Difference(
            max(head.offset for head in known), {broker: _record_text(head) for broker, head in heads.items()}
        )


def _record_text(record: RecordDigest | None) -> str:
    if record is None:
        return "nothing of that key"
    kind = f"content {record.content:016x}" if record.content else "a deletion"
    return f"offset {record.offset}, key {record.key:016x}, {kind}"
