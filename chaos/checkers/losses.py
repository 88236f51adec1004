"""Checks that no acknowledged or read record is lost. Pure.

An unclean election, chosen by an operator, ends promises (`generations`); retention and compaction may delete records.
Partitions without final logs are not judged.
"""

from collections.abc import Iterator

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.history.entries import Entry
from lograft.chaos.history.history_index import Acknowledgement, HistoryIndex, only
from lograft.clients.types import TopicPartition


def lost_writes(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each record that was acknowledged with `acks=all` and is in no final log.

    A record that only some replicas have counts as replica divergence. A deletion may be missing, unless the record
    that it deleted is still there.
    """
    for promise in index.promises:
        value, where = promise.send.value, f"{promise.partition}@{promise.offset}"
        if promise.partition not in index.replicas or value in index.stored[promise.partition]:
            continue
        if not index.may_lack(promise.partition, value, promise.offset):
            summary = f"{value} was acknowledged at {where}, and is gone"
            yield _lost(index, summary, promise.send, promise.partition, promise.offset)
        for replica in _undone(index, promise):
            summary = f"{value}, which deletes its key, is gone from {where}, but not what it deleted"
            yield anomaly(AnomalyName.LOST_WRITE, summary, promise.send, replica)
    for send, partition in index.acknowledged_somewhere:
        may_be_gone = index.is_limited(partition) or index.is_compacted(partition)
        if partition in index.replicas and send.value not in index.stored[partition] and not may_be_gone:
            yield _lost(index, f"{send.value} was acknowledged in {partition}, and is gone", send, partition)


def _lost(index: HistoryIndex, summary: str, send: Entry, partition: TopicPartition, *offsets: int) -> Anomaly:
    replicas = [only(replica, *offsets) for replica in index.replicas[partition]]
    return anomaly(AnomalyName.LOST_WRITE, summary, send, *replicas)


def _undone(index: HistoryIndex, promise: Acknowledgement) -> Iterator[Entry]:
    """Yield replicas in which the latest record of a key is older than a missing deletion of that key."""
    is_deletion = promise.send.deletes and index.is_compacted(promise.partition)
    for replica in index.replicas[promise.partition] if is_deletion else ():
        sends = [(stored.offset, index.send_of.get(index.value_of(stored))) for stored in replica.records]
        of_key = [offset for offset, send in sends if send is not None and send.key == promise.send.key]
        if of_key and max(of_key) < promise.offset:
            yield only(replica, max(of_key))


def taken_back(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each record that a consumer received and that is in no final log."""
    for partition in index.replicas:
        reported: dict[str, None] = {}
        for piece in index.pieces.get(partition, ()):
            if not index.generations.is_last(partition, piece.generation):
                continue
            for offset, value in zip(piece.part.offsets, piece.part.values, strict=True):
                is_there = value in index.stored[partition] or index.may_lack(partition, value, offset)
                if not is_there and value not in reported:
                    reported[value] = None
                    replicas = [only(replica, offset) for replica in index.replicas[partition]]
                    summary = f"{piece.poll.consumer} was given {value} at {partition}@{offset}, and it is gone"
                    yield anomaly(AnomalyName.TAKEN_BACK, summary, piece.poll, *replicas)
