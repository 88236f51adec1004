"""Checks that in-sync replicas are equal once all faults are healed. Pure."""

from collections.abc import Iterator
from itertools import pairwise

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.history.entries import FinalReplica, StoredRecord
from lograft.chaos.history.history_index import HistoryIndex, only


def replica_divergence(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each difference between replicas, and each malformed replica.

    In-sync replicas end at the same offset and have the same records from the highest start offset. Compacted replicas
    may have compacted differently: the records that both have must be equal, and so must the latest value of each key.
    """
    for partition, replicas in index.replicas.items():
        is_compacted = index.is_compacted(partition)
        for replica in replicas:
            yield from _misshapen(replica, is_compacted)
        first, *others = replicas
        for other in others:
            start = max(first.start_offset, other.start_offset)
            if other.end_offset != first.end_offset:
                summary = f"they end at {first.end_offset} and {other.end_offset}"
                yield _diverged(first, other, summary)
            yield from _different_records(first, other, start, is_compacted)
            if is_compacted:
                yield from _different_keys(index, first, other, start)


def _misshapen(replica: FinalReplica, is_compacted: bool) -> Iterator[Anomaly]:
    """Yield violations within one log: offsets rise from start to end, without holes unless compacted; epochs do not
    fall."""
    where = f"{replica.partition} on broker {replica.broker}"
    expected = replica.start_offset
    for stored in replica.records:
        if stored.offset < expected or (stored.offset > expected and not is_compacted):
            summary = f"{where} has a record at {stored.offset} where one at {expected} is to be"
            yield anomaly(AnomalyName.REPLICA_DIVERGENCE, summary, only(replica, stored.offset))
        expected = stored.offset + 1
    if expected > replica.end_offset or (expected < replica.end_offset and not is_compacted):
        summary = f"{where} ends at {replica.end_offset}, but its records at {expected}"
        yield anomaly(AnomalyName.REPLICA_DIVERGENCE, summary, only(replica, expected - 1))
    for before, after in pairwise(replica.records):
        if after.leader_epoch < before.leader_epoch:
            summary = f"{where} has epoch {after.leader_epoch} after {before.leader_epoch}"
            yield anomaly(AnomalyName.REPLICA_DIVERGENCE, summary, only(replica, before.offset, after.offset))


def _different_records(first: FinalReplica, other: FinalReplica, start: int, is_compacted: bool) -> Iterator[Anomaly]:
    ours, theirs = _from(first, start), _from(other, start)
    for offset in sorted({*ours, *theirs}):
        our, their = ours.get(offset), theirs.get(offset)
        if our == their or (is_compacted and (our is None or their is None)):
            continue
        yield _diverged(first, other, f"at {offset} there is {_said(our)}, and {_said(their)}", offset)


def _different_keys(index: HistoryIndex, first: FinalReplica, other: FinalReplica, start: int) -> Iterator[Anomaly]:
    ours, theirs = latest_of_keys(index, first, start), latest_of_keys(index, other, start)
    for key in sorted({*ours, *theirs}):
        our, their = ours.get(key), theirs.get(key)
        if our != their:
            offsets = [one.offset for one in (our, their) if one is not None]
            yield _diverged(first, other, f"the latest of {key} is {_said(our)}, and {_said(their)}", *offsets)


def _from(replica: FinalReplica, start: int) -> dict[int, StoredRecord]:
    return {stored.offset: stored for stored in replica.records if stored.offset >= start}


def latest_of_keys(index: HistoryIndex, replica: FinalReplica, start: int) -> dict[str, StoredRecord]:
    """Return the latest record of each key that a reader from `start` sees; deleted keys are absent."""
    values: dict[str, StoredRecord] = {}
    for stored in _from(replica, start).values():
        send = index.send_of.get(index.value_of(stored))
        if send is None or send.key is None:
            continue
        if send.deletes:
            values.pop(send.key, None)
        else:
            values[send.key] = stored
    return values


def _diverged(first: FinalReplica, other: FinalReplica, what: str, *offsets: int) -> Anomaly:
    summary = f"{first.partition} on brokers {first.broker} and {other.broker}: {what}"
    return anomaly(AnomalyName.REPLICA_DIVERGENCE, summary, only(first, *offsets), only(other, *offsets))


def _said(stored: StoredRecord | None) -> str:
    return "nothing" if stored is None else f"{stored.digest} of epoch {stored.leader_epoch}"
