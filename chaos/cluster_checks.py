"""The promises of the design, checked on what clients were told and on what replicas have. Pure.

Where an operator chose unclean election, and only there, acknowledged records may be missing, and what was served may
be taken back: from that leader epoch on.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from lograft.chaos.cluster_history import ClusterHistory, PartitionKey, Read, Send, Stored, Told
from lograft.chaos.linearizability import Outcome
from lograft.chaos.raft_invariants import InvariantBroken


def require(condition: bool, rule: str, *what: object) -> None:
    if not condition:
        raise InvariantBroken(rule, " ".join(map(str, what)))


def check_all(history: ClusterHistory, logs: Mapping[PartitionKey, Mapping[int, Sequence[Stored]]]) -> None:
    """`logs`: of every partition there is, what each replica in sync has, from its beginning to its end."""
    check_reads_agree(history)
    check_no_phantoms(history)
    check_watermarks(history.told, history.unclean)
    for key, replicas in logs.items():
        check_replicas_agree(key, replicas)
        log = next(iter(replicas.values()))
        sends = [send for send in history.sends.values() if send.key == key]
        check_shape(key, log)
        check_log(key, log, history)
        check_acknowledged(log, sends, is_unclean=key in history.unclean)
        check_order(log, history)
        if key not in history.unclean:
            check_reads(log, [read for read in history.reads if read.key == key])
            check_told(key, len(log), history.told)


# -- replicas


def check_replicas_agree(key: PartitionKey, replicas: Mapping[int, Sequence[Stored]]) -> None:
    (first, expected), *others = replicas.items()
    for broker_id, log in others:
        if list(log) == list(expected):
            continue
        at = next((place for place, pair in enumerate(zip(log, expected, strict=False)) if pair[0] != pair[1]), None)
        detail = f"at {at}: {log[at]} and {expected[at]}" if at is not None else f"{len(log)} and {len(expected)}"
        require(False, "replicas in sync agree", named(key), f"on {broker_id} and {first}:", detail)


def check_shape(key: PartitionKey, log: Sequence[Stored]) -> None:
    """Offsets are dense, as nothing was compacted; epochs do not fall."""
    for before, after in pairwise(log):
        require(after.offset == before.offset + 1, "offsets are dense", named(key), before, after)
        require(after.leader_epoch >= before.leader_epoch, "epochs do not fall", named(key), before, after)


def check_log(key: PartitionKey, log: Sequence[Stored], history: ClusterHistory) -> None:
    """All that is there was sent, to this partition, and not refused; nothing is there twice."""
    places: dict[bytes, int] = {}
    for stored in log:
        value = stored.value
        assert value is not None
        send = history.sends.get(value)
        require(value not in history.refused, "what is refused is not stored", named(key), stored)
        require(send is not None and send.key == key, "no phantoms", named(key), stored)
        assert send is not None
        is_refused = send.outcome is Outcome.FAIL
        require(not is_refused, "what failed for certain is not stored", named(key), stored, send.error)
        require(value not in places, "stored once", named(key), stored, "and at", places.get(value))
        places[value] = stored.offset


def check_acknowledged(log: Sequence[Stored], sends: Iterable[Send], *, is_unclean: bool) -> None:
    """Each acknowledged record is at its offset. After an unclean election it may be gone, but it is nowhere else than
    where it was, or its producer sent it again."""
    by_offset = {stored.offset: stored.value for stored in log}
    values = {stored.value for stored in log}
    for send in sends:
        if send.outcome is not Outcome.OK or not send.is_for_all or is_unclean:
            continue
        if send.offset is None:
            require(send.value in values, "acknowledged is there", described(send))
            continue
        there = by_offset.get(send.offset)
        require(there == send.value, "acknowledged is at its offset", described(send), "there is", there)


def check_order(log: Sequence[Stored], history: ClusterHistory) -> None:
    """The records of a producer are in the order in which they were sent."""
    latest: dict[str, Send] = {}
    for stored in log:
        assert stored.value is not None
        send = history.sends[stored.value]
        before = latest.get(send.producer)
        if before is not None:
            require(before.number < send.number, "in order", described(send), "comes after", described(before))
        latest[send.producer] = send


# -- what was read


def check_next(before: int | None, read: Read) -> None:
    """A consumer that began at the beginning of a log of which nothing was deleted gets every record, in order."""
    expected = 0 if before is None else before + 1
    require(read.offset == expected, "no gaps", f"{read.reader} was to get {expected}, and got", read)


def check_reads_agree(history: ClusterHistory) -> None:
    """Whoever reads an offset reads the same, and what is acknowledged to be there."""
    seen: dict[tuple[PartitionKey, int], bytes | None] = {}
    for send in history.sends.values():
        if send.outcome is Outcome.OK and send.offset is not None and send.key not in history.unclean:
            other = seen.setdefault((send.key, send.offset), send.value)
            require(other == send.value, "one record an offset", described(send), "and", other)
    for read in history.reads:
        if read.key not in history.unclean:
            other = seen.setdefault((read.key, read.offset), read.value)
            require(other == read.value, "what was served stays", read, "but elsewhere", other)


def check_no_phantoms(history: ClusterHistory) -> None:
    for read in history.reads:
        assert read.value is not None
        send = history.sends.get(read.value)
        require(send is not None and send.key == read.key, "no phantoms are read", read)


def check_reads(log: Sequence[Stored], reads: Iterable[Read]) -> None:
    by_offset = {stored.offset: stored.value for stored in log}
    for read in reads:
        there = by_offset.get(read.offset)
        require(there == read.value, "what was served is not taken back", read, "there is", there)


# -- high watermarks


def check_watermarks(told: Iterable[Told], unclean: Mapping[PartitionKey, int]) -> None:
    """In one epoch: what is asked for after an answer is not behind it. In a later epoch: nothing is behind anything
    that was ever told in an earlier one, whenever that was."""
    by_epoch: dict[PartitionKey, dict[int, list[Told]]] = {}
    for one in told:
        if one.key not in unclean:
            by_epoch.setdefault(one.key, {}).setdefault(one.leader_epoch, []).append(one)
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


def check_told(key: PartitionKey, end: int, told: Iterable[Told]) -> None:
    for one in told:
        require(one.key != key or one.watermark <= end, "what was told to be committed is there", one, "end", end)


# -- leaders


def check_leader(history: ClusterHistory, key: PartitionKey, leader_epoch: int, process: str) -> None:
    """One process an epoch."""
    other = history.leaders.setdefault((key, leader_epoch), process)
    require(other == process, "one leader an epoch", named(key), "epoch", leader_epoch, other, process)


def named(key: PartitionKey) -> str:
    return f"{str(key[0])[:4]}-{key[1]}"


def described(send: Send) -> str:
    return f"{named(send.key)} {send.value[:24]!r} of {send.producer}, {send.outcome.value} at {send.offset}"
