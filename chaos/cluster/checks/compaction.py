"""The promises for compacted partitions, checked against answers to clients and the content of replicas. Pure.

The latest record of each key remains. Earlier ones may be gone. The latest may be gone, too, if it deletes its key,
once no other record of the key is left.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import inf

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.cluster.checks.history import ClusterHistory, PartitionKey, ReplicaLog, Stored, named, require
from lograft.chaos.cluster.world.record_marks import is_deletion, record_key_of
from lograft.chaos.harness.outcome import Outcome


class Cleaned:
    """Decides which records may be missing from a partition's log because of later ones in the log, in reads or in
    acknowledgements. The superseding record may itself be gone by now: superseded, or deleted by retention."""

    def __init__(self, key: PartitionKey, log: ReplicaLog, history: ClusterHistory) -> None:
        self._latest: dict[bytes, float] = {}  # highest offset of each key
        for stored in log.records:
            self._note(stored.value, stored.offset)
        for read in history.reads:
            if read.key == key and history.is_last(key, read.leader_epoch):
                self._note(read.value, read.offset)
        may_be_deleted = key[0] in history.limited_topics
        for send in history.sends.values():
            if send.key != key:
                continue
            if send.is_acknowledged and send.acks is Acks.ALL and send.offset is not None:
                if history.is_last(key, send.leader_epoch):
                    self._note(send.value, send.offset)
            elif send.outcome is not Outcome.FAIL and (is_deletion(send.value) or may_be_deleted):
                self._note(send.value, inf)  # its offset is unknown, and it may be gone

    def _note(self, mark: bytes, offset: float) -> None:
        record_key = record_key_of(mark)
        self._latest[record_key] = max(offset, self._latest.get(record_key, -1))

    def may_lack(self, mark: bytes, offset: int) -> bool:
        """Return whether the record that was at `offset` may be missing."""
        return is_deletion(mark) or self._latest.get(record_key_of(mark), -1) > offset


def check_compacted_replicas_agree(key: PartitionKey, replicas: Mapping[int, ReplicaLog]) -> None:
    """Check that replicas end at the same offset. From the highest start on, a record at an offset must be the same on
    all replicas that have it, and so must the latest value of every key."""
    start = max(log.start_offset for log in replicas.values())
    (first, expected), *others = replicas.items()
    for broker_id, log in others:
        who = f"on {broker_id} and {first}:"
        is_same_end = log.end_offset == expected.end_offset
        require(is_same_end, "replicas in sync agree", named(key), who, f"{log.end_offset} and {expected.end_offset}")
        ours = {stored.offset: stored for stored in log.records if stored.offset >= start}
        for stored in expected.records:
            other = ours.get(stored.offset, stored)
            require(other == stored, "replicas in sync agree", named(key), who, other, "and", stored)
        values, expected_values = latest_values(log.records, start), latest_values(expected.records, start)
        for record_key in [*values, *expected_values]:
            found, wanted = values.get(record_key), expected_values.get(record_key)
            require(found == wanted, "replicas in sync agree on keys", named(key), who, record_key, found, wanted)


def latest_values(records: Iterable[Stored], start: int) -> dict[bytes, bytes]:
    """Return the value of each key that a reader from `start` on ends up with."""
    values: dict[bytes, bytes] = {}
    for stored in records:
        if stored.offset >= start:
            if is_deletion(stored.value):
                values.pop(record_key_of(stored.value), None)
            else:
                values[record_key_of(stored.value)] = stored.value
    return values


def check_compacted_shape(key: PartitionKey, log: ReplicaLog) -> None:
    """Check that offsets rise from the log's start to its end, and that epochs do not fall."""
    for stored in log.records:
        is_inside = log.start_offset <= stored.offset < log.end_offset
        require(is_inside, "offsets rise", named(key), log.start_offset, stored, log.end_offset)
    for before, after in pairwise(log.records):
        require(after.offset > before.offset, "offsets rise", named(key), before, after)
        require(after.leader_epoch >= before.leader_epoch, "epochs do not fall", named(key), before, after)


def check_deleted_stays_deleted(key: PartitionKey, log: ReplicaLog, history: ClusterHistory) -> None:
    """Check that where an acknowledged deletion is gone, the deleted record is gone, too, or superseded."""
    places = {stored.value: stored.offset for stored in log.records}
    latest = {record_key_of(stored.value): stored for stored in log.records}
    for send in history.sends.values():
        is_gone = send.key == key and is_deletion(send.value) and send.value not in places
        if is_gone and send.acks is Acks.ALL and send.is_acknowledged and history.is_last(key, send.leader_epoch):
            assert send.offset is not None
            found = latest.get(record_key_of(send.value))
            is_back = found is not None and found.offset < send.offset
            require(not is_back, "deleted stays deleted", named(key), send.value, "at", send.offset, "but", found)


def check_gaps(key: PartitionKey, cleaned: Cleaned, history: ClusterHistory) -> None:
    """Check that every record a consumer did not receive was superseded."""
    gaps = [gap for gap in history.gaps if gap.key == key and history.is_last(key, gap.leader_epoch)]
    if not gaps:
        return
    for send in history.sends.values():
        is_promised = send.key == key and send.acks is Acks.ALL and send.is_acknowledged
        if not is_promised or send.offset is None or not history.is_last(key, send.leader_epoch):
            continue
        for gap in gaps:
            is_missed = gap.start <= send.offset < gap.end
            is_fine = not is_missed or cleaned.may_lack(send.value, send.offset)
            require(is_fine, "no gaps", f"{gap.reader} did not get", send.value, "at", send.offset, "in", gap)


def check_last_reader(key: PartitionKey, log: ReplicaLog, reader: str, history: ClusterHistory) -> None:
    """Check that a consumer that reads the complete log after the last write has the latest value of each key.
    Compaction may remove a deletion during the read, behind the reader's position."""
    reads = [one for one in history.reads if one.key == key and one.reader == reader]
    read = [Stored(one.offset, one.leader_epoch, one.value) for one in reads]
    known = latest_values(read, log.start_offset)
    for record_key, value in latest_values(log.records, log.start_offset).items():
        found = known.get(record_key)
        require(found == value, "readers learn the latest of each key", named(key), record_key, found, "but", value)
