"""The promises of the design, checked against answers to clients and the content of replicas. Pure.

After an unclean election, and only then, acknowledged records may be missing and served ones may be withdrawn: the
leaders of one generation (`history`) vouch for their answers until the next one begins. Nor is any promise made for
records that retention deletes, or that only the leader had to have.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.cluster.checks.compaction import (
    Cleaned,
    check_compacted_replicas_agree,
    check_compacted_shape,
    check_deleted_stays_deleted,
    check_gaps,
    check_last_reader,
)
from lograft.chaos.cluster.checks.history import (
    ClusterHistory,
    FinalPartition,
    Gap,
    PartitionKey,
    Read,
    ReplicaLog,
    SentRecord,
    Told,
    named,
    require,
)
from lograft.chaos.harness.outcome import Outcome

LAST_READER = "last.consumer"  # reads all records after the last write


def check_all(history: ClusterHistory, partitions: Mapping[PartitionKey, FinalPartition]) -> None:
    """Check a complete run. `partitions` holds all final partitions. Fewer checks apply to deleted ones."""
    check_promises_agree(history)
    check_no_phantoms(history)
    check_watermarks(history)
    for key, final in partitions.items():
        is_compacted = key[0] in history.compacted_topics
        (check_compacted_replicas_agree if is_compacted else check_replicas_agree)(key, final.logs)
        for log in final.logs.values():
            (check_compacted_shape if is_compacted else check_shape)(key, log)
            if is_compacted:
                check_deleted_stays_deleted(key, log, history)
        log = min(final.logs.values(), key=lambda one: one.start_offset)
        cleaned = Cleaned(key, log, history) if is_compacted else None
        check_start(key, log, history)
        check_log(key, log, history)
        check_acknowledged(key, log, final.leader_epoch, cleaned, history)
        check_order(log, history)
        check_reads(log, [read for read in history.reads if read.key == key], cleaned, history)
        check_told(key, log.end_offset, history)
        if cleaned is not None:
            check_gaps(key, cleaned, history)
            check_last_reader(key, log, LAST_READER, history)


# -- replicas


def check_replicas_agree(key: PartitionKey, replicas: Mapping[int, ReplicaLog]) -> None:
    """Check that replicas end at the same offset, and are equal from the highest start on."""
    (first, expected), *others = replicas.items()
    for broker_id, log in others:
        start = max(log.start_offset, expected.start_offset)
        ours = [stored for stored in log.records if stored.offset >= start]
        theirs = [stored for stored in expected.records if stored.offset >= start]
        if ours == theirs and log.end_offset == expected.end_offset:
            continue
        at = next((place for place, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
        ends = f"they end at {log.end_offset} and {expected.end_offset}, after {len(ours)} and {len(theirs)} records"
        detail = f"at {at}: {ours[at]} and {theirs[at]}" if at is not None else ends
        require(False, "replicas in sync agree", named(key), f"on {broker_id} and {first}:", detail)


def check_shape(key: PartitionKey, log: ReplicaLog) -> None:
    """Check that offsets are dense from the log's start, without compaction, and that epochs do not fall."""
    records = log.records
    if records:
        require(records[0].offset == log.start_offset, "offsets are dense", named(key), log.start_offset, records[0])
        require(records[-1].offset == log.end_offset - 1, "offsets are dense", named(key), records[-1], log.end_offset)
    else:
        require(log.start_offset == log.end_offset, "offsets are dense", named(key), log)
    for before, after in pairwise(records):
        require(after.offset == before.offset + 1, "offsets are dense", named(key), before, after)
        require(after.leader_epoch >= before.leader_epoch, "epochs do not fall", named(key), before, after)


def check_start(key: PartitionKey, log: ReplicaLog, history: ClusterHistory) -> None:
    is_allowed = log.start_offset == 0 or key[0] in history.limited_topics
    require(is_allowed, "nothing is deleted that is to be kept", named(key), "starts at", log.start_offset)


def check_log(key: PartitionKey, log: ReplicaLog, history: ClusterHistory) -> None:
    """Check that every stored record was sent to this partition and not refused, and is stored only once."""
    places: dict[bytes, int] = {}
    for stored in log.records:
        value = stored.value
        send = history.sends.get(value)
        require(value not in history.refused, "what is refused is not stored", named(key), stored)
        require(send is not None and send.key == key, "no phantoms", named(key), stored)
        assert send is not None
        is_refused = send.outcome is Outcome.FAIL
        require(not is_refused, "what failed for certain is not stored", named(key), stored, send.error)
        require(value not in places, "stored once", named(key), stored, "and at", places.get(value))
        places[value] = stored.offset


def check_acknowledged(
    key: PartitionKey, log: ReplicaLog, leader_epoch: int, cleaned: Cleaned | None, history: ClusterHistory
) -> None:
    """Check that each acknowledged record is at its offset, or missing where that is permitted. Where it is permitted,
    the record may also be at another offset: an earlier, unacknowledged attempt may be left."""
    by_offset = {stored.offset: stored.value for stored in log.records}
    places = {stored.value: stored for stored in log.records}
    for send in history.sends.values():
        if send.key != key or not send.is_acknowledged or send.offset is None:
            continue
        if send.offset < log.start_offset or _may_be_gone(send, leader_epoch, history):
            stored = places.get(send.value)
            is_earlier = (
                stored is not None and send.leader_epoch is not None and stored.leader_epoch < send.leader_epoch
            )
            is_elsewhere = stored is not None and stored.offset != send.offset and not is_earlier
            require(not is_elsewhere, "acknowledged is nowhere else", described(send), "is", stored)
            continue
        there = by_offset.get(send.offset)
        if there is None and cleaned is not None and cleaned.may_lack(send.value, send.offset):
            continue
        require(there == send.value, "acknowledged is at its offset", described(send), "there is", there)


def _may_be_gone(send: SentRecord, leader_epoch: int, history: ClusterHistory) -> bool:
    match send.acks:
        case Acks.ALL:
            return not history.is_last(send.key, send.leader_epoch)
        case Acks.LEADER:
            return send.leader_epoch != leader_epoch  # lost with that leader
        case Acks.NONE:
            return True


def check_order(log: ReplicaLog, history: ClusterHistory) -> None:
    """Check that each producer's records are in the order of their sends."""
    latest: dict[str, SentRecord] = {}
    for stored in log.records:
        send = history.sends[stored.value]
        before = latest.get(send.producer)
        if before is not None and send.acks is not Acks.NONE:
            require(before.number < send.number, "in order", described(send), "comes after", described(before))
        latest[send.producer] = send


# -- reads


def check_next(history: ClusterHistory, before: Read | None, read: Read) -> None:
    """Check the next record of a consumer that began at offset 0: it receives every record, in order, except those
    deleted by retention or compacted away. Whether those may be gone is checked at the end. In another generation its
    offset may go back, but no record is skipped. If its earlier records are gone, it must not continue as if they were
    there, which is also checked at the end."""
    expected = 0 if before is None else before.offset + 1
    if before is not None and _generation(history, before) != _generation(history, read):
        history.crossings.append((before, read))
        if read.offset < expected:
            return
    if read.offset == expected:
        return
    start = history.starts.get(read.key, 0)
    is_deleted = expected < read.offset <= start
    is_cleaned = expected < read.offset and read.key[0] in history.compacted_topics
    require(is_deleted or is_cleaned, "no gaps", f"{read.reader} was to get {expected}, and got", read)
    if not is_deleted:
        # Anything below the start was deleted by retention. Only the rest must have been superseded.
        history.gaps.append(Gap(read.key, read.reader, max(expected, start), read.offset, read.leader_epoch))


def _generation(history: ClusterHistory, read: Read) -> int:
    return history.generation(read.key, read.leader_epoch)


def check_promises_agree(history: ClusterHistory) -> None:
    """Check that all reads of an offset in a generation return the same record, which is the acknowledged one."""
    seen: dict[tuple[PartitionKey, int, int], bytes] = {}
    for send in history.sends.values():
        if send.is_acknowledged and send.acks is Acks.ALL and send.offset is not None and send.leader_epoch is not None:
            place = (send.key, history.generation(send.key, send.leader_epoch), send.offset)
            other = seen.setdefault(place, send.value)
            require(other == send.value, "one record an offset", described(send), "and", other)
    for read in history.reads:
        other = seen.setdefault((read.key, _generation(history, read), read.offset), read.value)
        require(other == read.value, "what was served stays", read, "but elsewhere", other)
    for before, read in history.crossings:
        there = seen.get((read.key, _generation(history, read), before.offset), before.value)
        is_told = there == before.value or read.offset <= before.offset
        require(is_told, "what is lost is not passed over", read, "after", before, "where there is", there)


def check_no_phantoms(history: ClusterHistory) -> None:
    for read in history.reads:
        send = history.sends.get(read.value)
        require(send is not None and send.key == read.key, "no phantoms are read", read)


def check_reads(log: ReplicaLog, reads: Iterable[Read], cleaned: Cleaned | None, history: ClusterHistory) -> None:
    by_offset = {stored.offset: stored.value for stored in log.records}
    for read in reads:
        if read.offset >= log.start_offset and history.is_last(read.key, read.leader_epoch):
            there = by_offset.get(read.offset)
            if there is None and cleaned is not None and cleaned.may_lack(read.value, read.offset):
                continue
            require(there == read.value, "what was served is not taken back", read, "there is", there)


# -- high watermarks


def check_watermarks(history: ClusterHistory) -> None:
    """Check watermarks. Within an epoch, an answer to a later request is not lower. In a later epoch of the same
    generation, none is lower than any of an earlier epoch, whenever it was received."""
    by_epoch: dict[tuple[PartitionKey, int], dict[int, list[Told]]] = {}
    for one in history.told:
        place = (one.key, history.generation(one.key, one.leader_epoch))
        by_epoch.setdefault(place, {}).setdefault(one.leader_epoch, []).append(one)
    for epochs in by_epoch.values():
        highest: Told | None = None
        for epoch in sorted(epochs):
            _check_epoch(epochs[epoch])
            lowest = min(epochs[epoch], key=lambda one: one.watermark)
            if highest is not None:
                is_behind = lowest.watermark < highest.watermark
                require(not is_behind, "the watermark of a later epoch is not behind", highest, lowest)
            top = max(epochs[epoch], key=lambda one: one.watermark)
            highest = top if highest is None or top.watermark > highest.watermark else highest


def _check_epoch(told: Iterable[Told]) -> None:
    by_answer = sorted(told, key=lambda one: one.told_us)
    highest: Told | None = None
    answered = 0
    for one in sorted(by_answer, key=lambda each: each.asked_us):
        while by_answer[answered].told_us < one.asked_us:
            before = by_answer[answered]
            highest = before if highest is None or before.watermark > highest.watermark else highest
            answered += 1
        if highest is not None:
            require(highest.watermark <= one.watermark, "the watermark does not go back", highest, one)


def check_told(key: PartitionKey, end: int, history: ClusterHistory) -> None:
    for one in history.told:
        if one.key == key and history.is_last(key, one.leader_epoch):
            require(one.watermark <= end, "what was told to be committed is there", one, "end", end)


def check_told_range(history: ClusterHistory, key: PartitionKey, start: int | None, end: int | None) -> None:
    """Check the range returned to a client that asked for offset 0 in vain: retention deleted what preceded it."""
    is_possible = key[0] in history.limited_topics and start is not None and start > 0
    require(is_possible, "nothing is deleted that is to be kept", named(key), "starts at", start)
    require(end is None or (start is not None and start <= end), "what is there is told", named(key), start, end)


# -- leaders


def check_leader(history: ClusterHistory, key: PartitionKey, leader_epoch: int, process: str) -> None:
    """Check that only one process leads in an epoch."""
    other = history.leaders.setdefault((key, leader_epoch), process)
    require(other == process, "one leader an epoch", named(key), "epoch", leader_epoch, other, process)


def described(send: SentRecord) -> str:
    return (
        f"{named(send.key)} {send.value[:24]!r} of {send.producer}, acks {send.acks.value}, {send.outcome.value} "
        f"at {send.offset} in epoch {send.leader_epoch}"
    )
