"""Checks that no acknowledged or read record is lost. Pure.

An unclean election, chosen by an operator, ends promises (`generations`); retention and compaction may delete records.
Partitions without final logs are not judged.
"""

from collections.abc import Iterator

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.history.entries import Entry
from lograft.chaos.history.history_index import HistoryIndex, Sight, only
from lograft.clients.types import TopicPartition


def lost_writes(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each record that was promised to remain and is in no final log, each deletion that is gone although what
    it deleted is not, and each partition whose records are gone from the start.

    A record that only some replicas have counts as replica divergence.
    """
    for promise in index.promises:
        if index.is_gone(promise.partition, promise.send.value, promise.offset):
            summary = f"{promise.send.value} was acknowledged at {promise.partition}@{promise.offset}, and is gone"
            yield _lost(index, summary, promise.send, promise.partition, promise.offset)
    for partition in index.replicas:
        yield from _cut_off(index, partition)
        if index.is_compacted(partition):
            yield from _undone(index, partition)
    for send, partition in index.acknowledged_somewhere:
        may_be_gone = index.is_limited(partition) or index.is_compacted(partition)
        if partition in index.replicas and send.value not in index.stored[partition] and not may_be_gone:
            yield _lost(index, f"{send.value} was acknowledged in {partition}, and is gone", send, partition)


def _lost(index: HistoryIndex, summary: str, send: Entry, partition: TopicPartition, *offsets: int) -> Anomaly:
    replicas = [only(replica, *offsets) for replica in index.replicas[partition]]
    return anomaly(AnomalyName.LOST_WRITE, summary, send, *replicas)


def _cut_off(index: HistoryIndex, partition: TopicPartition) -> Iterator[Anomaly]:
    """Yield a partition whose logs all start above 0. Retention may do that, or the unclean election of a damaged last
    copy."""
    had_elections = index.generations.last(partition) > 0 or index.generations.is_doubtful(partition)
    if not had_elections and not index.is_limited(partition):
        first = min(index.replicas[partition], key=lambda one: one.start_offset)
        if first.start_offset > 0:
            summary = f"{partition} starts at {first.start_offset}, although none of its records may be deleted"
            yield anomaly(AnomalyName.LOST_WRITE, summary, only(first))


def _undone(index: HistoryIndex, partition: TopicPartition) -> Iterator[Anomaly]:
    """Yield deletions missing from a replica whose latest record of the key is older."""
    deletions: dict[str, Sight] = {}
    for sight in index.sights(partition):
        send = index.send_of.get(sight.value)
        if send is not None and send.deletes and index.generations.is_last(partition, sight.generation):
            deletions.setdefault(sight.value, sight)
    for replica in index.replicas[partition]:
        latest: dict[str | None, int] = {}
        for stored in replica.records:
            send = index.send_of.get(index.value_of(stored))
            if send is not None:
                latest[send.key] = stored.offset
        for value, sight in deletions.items():
            send = index.send_of[value]
            found = latest.get(send.key, sight.offset)
            if found < sight.offset:
                where = f"{partition}@{sight.offset} on broker {replica.broker}"
                summary = f"{value}, which deletes its key, is gone from {where}, but not what it deleted"
                yield anomaly(AnomalyName.LOST_WRITE, summary, send, sight.source, only(replica, found))


def taken_back(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each record that a consumer received and that is in no final log."""
    for partition in index.replicas:
        reported: dict[str, None] = {}
        for piece in index.pieces.get(partition, ()):
            if not index.generations.is_last(partition, piece.generation):
                continue
            for offset, value in zip(piece.part.offsets, piece.part.values, strict=True):
                if value not in reported and index.is_gone(partition, value, offset):
                    reported[value] = None
                    replicas = [only(replica, offset) for replica in index.replicas[partition]]
                    summary = f"{piece.poll.consumer} was given {value} at {partition}@{offset}, and it is gone"
                    yield anomaly(AnomalyName.TAKEN_BACK, summary, piece.poll, *replicas)
