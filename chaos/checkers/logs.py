"""Checks that each record is at one offset, in order, and that logs hold no other records. Pure.

After an unclean election, and only then, other records may take the offsets of acknowledged or read ones. Therefore all
checks but `phantoms` and `aborted_reads` work per generation (`generations`).
"""

from collections.abc import Iterator

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import Entry, FinalReplica, TransactionAborted, outcome_of
from lograft.chaos.history.history_index import HistoryIndex, Sight, only
from lograft.clients.types import TopicPartition


def duplicates(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each value that is at two offsets."""
    for partition in index.partitions:
        places: dict[tuple[int, str], dict[int, Sight]] = {}
        for sight in index.sights(partition):
            places.setdefault((sight.generation, sight.value), {}).setdefault(sight.offset, sight)
        for (_, value), by_offset in places.items():
            if len(by_offset) > 1:
                where = " and ".join(str(offset) for offset in sorted(by_offset))
                sent = [send] if (send := index.send_of.get(value)) is not None else []
                sources = [only(sight.source, offset) for offset, sight in by_offset.items()]
                summary = f"{value} is in {partition} at {where}"
                yield anomaly(AnomalyName.DUPLICATE, summary, *sent, *_distinct(sources))
        yield from _moved(index, partition)


def _moved(index: HistoryIndex, partition: TopicPartition) -> Iterator[Anomaly]:
    """Yield each record that need not remain, but is at another offset, stored by the leader that acknowledged it or a
    later one. An earlier leader may have stored an attempt that was not acknowledged."""
    unkept = {
        one.send.value: one
        for one in index.acknowledged_in.get(partition, ())
        if not (one.is_promise and index.generations.is_last(partition, one.generation))
    }
    for replica in index.replicas.get(partition, ()) if unkept else ():
        for stored in replica.records:
            one = unkept.get(index.value_of(stored))
            if one is None or one.offset == stored.offset:
                continue
            if one.leader_epoch is not None and one.leader_epoch <= stored.leader_epoch:
                summary = f"{one.send.value} is in {partition} at {stored.offset}, and was acknowledged at {one.offset}"
                yield anomaly(AnomalyName.DUPLICATE, summary, one.send, only(replica, stored.offset))


def inconsistent_offsets(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each offset that has two values, across acknowledgements, readers and replicas."""
    for partition in index.partitions:
        values: dict[tuple[int, int], dict[str, Sight]] = {}
        for sight in index.sights(partition):
            values.setdefault((sight.generation, sight.offset), {}).setdefault(sight.value, sight)
        for (_, offset), by_value in values.items():
            if len(by_value) > 1:
                sources = [only(sight.source, offset) for sight in by_value.values()]
                summary = f"{partition}@{offset} is {' and '.join(by_value)}"
                yield anomaly(AnomalyName.INCONSISTENT_OFFSETS, summary, *_distinct(sources))


def _distinct(entries: list[Entry]) -> list[Entry]:
    found: list[Entry] = []
    for entry in entries:
        if entry not in found:
            found.append(entry)
    return found


def reordered_sends(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield pairs of one producer's records in one partition that are in the reverse order of their sends.

    The order is checked as clients saw it and in each final log. Records sent with `acks=0` have no ordering promise.
    """
    for partition in index.partitions:
        views: dict[tuple[int, int | None], dict[int, Sight]] = {}
        for sight in index.sights(partition):
            broker = sight.source.broker if isinstance(sight.source, FinalReplica) else None
            views.setdefault((sight.generation, broker), {}).setdefault(sight.offset, sight)
        reported: dict[tuple[str, str], None] = {}  # report a pair once, even if several views show it
        for sights in views.values():
            for before, after in _reordered(index, [sights[offset] for offset in sorted(sights)]):
                if (before.value, after.value) not in reported:
                    reported[before.value, after.value] = None
                    yield _out_of_order(index, partition, before, after)


def _reordered(index: HistoryIndex, sights: list[Sight]) -> Iterator[tuple[Sight, Sight]]:
    """Yield pairs whose second record was sent before the first."""
    latest: dict[str, tuple[int, Sight]] = {}
    for sight in sights:
        send = index.send_of.get(sight.value)
        if send is None or send.acks is Acks.NONE:
            continue
        sequence, before = latest.get(send.producer, (send.sequence, sight))
        if send.sequence < sequence:
            yield before, sight
        else:
            latest[send.producer] = (send.sequence, sight)


def _out_of_order(index: HistoryIndex, partition: TopicPartition, before: Sight, after: Sight) -> Anomaly:
    sends = [index.send_of[after.value], index.send_of[before.value]]
    summary = (
        f"{sends[0].producer} sent {after.value} before {before.value}, "
        f"but they are at {partition}@{after.offset} and @{before.offset}"
    )
    sources = [only(before.source, before.offset, after.offset), only(after.source, before.offset, after.offset)]
    return anomaly(AnomalyName.REORDERED_SENDS, summary, *sends, *_distinct(sources))


def phantoms(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each record, read or stored, that was never sent, was sent to another partition, or whose send certainly
    failed."""
    for partition in index.partitions:
        for piece in index.pieces.get(partition, ()):
            for offset, value in zip(piece.part.offsets, piece.part.values, strict=True):
                yield from _phantom(index, partition, offset, value, piece.poll)
        for replica in index.replicas.get(partition, ()):
            for stored in replica.records:
                yield from _phantom(index, partition, stored.offset, index.value_of(stored), replica)


def _phantom(
    index: HistoryIndex, partition: TopicPartition, offset: int, value: str, source: Entry
) -> Iterator[Anomaly]:
    send = index.send_of.get(value)
    where = f"{'stored' if isinstance(source, FinalReplica) else 'read'} at {partition}@{offset}"
    if send is None:
        yield anomaly(AnomalyName.PHANTOM, f"{value}, {where}, was never sent", only(source, offset))
    elif send.topic != partition.topic or send.partition_asked not in (None, partition.partition):
        summary = f"{value}, {where}, was sent to {send.topic}-{send.partition_asked}"
        yield anomaly(AnomalyName.PHANTOM, summary, send, only(source, offset))
    elif outcome_of(send) is Outcome.FAIL:
        summary = f"{value}, {where}, was of a send that failed for certain"
        yield anomaly(AnomalyName.PHANTOM, summary, send, only(source, offset))


def aborted_reads(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each record of a certainly aborted transaction that a consumer received. Logs may keep such records."""
    aborted = {one.transaction: one for one in index.history.of(TransactionAborted)}
    for partition in index.partitions:
        for piece in index.pieces.get(partition, ()):
            for offset, value in zip(piece.part.offsets, piece.part.values, strict=True):
                send = index.send_of.get(value)
                if send is not None and send.transaction is not None and send.transaction in aborted:
                    summary = f"{piece.poll.consumer} was given {value} at {partition}@{offset}, which was aborted"
                    yield anomaly(AnomalyName.ABORTED_READ, summary, send, aborted[send.transaction], piece.poll)
