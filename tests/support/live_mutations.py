"""Good histories, spoilt: each mutation puts one defect in, and says which checkers must find it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from support.live_model import COMPACTED, PLAIN

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.checkers.anomalies import AnomalyName
from lograft.chaos.history.entries import (
    Acknowledged,
    AskEnds,
    AssignmentChanged,
    Commit,
    CommittedOffset,
    ConfigRead,
    ConfigTold,
    ConfigWrite,
    Done,
    EndsTold,
    Entry,
    Failed,
    FetchOffsets,
    FinalReplica,
    LeaderSeen,
    Moment,
    OffsetsFetched,
    Poll,
    Polled,
    PolledPartition,
    Send,
    StoredRecord,
    ToldEnd,
    TransactionAborted,
    digest_of,
)
from lograft.chaos.history.history import History

LATER = Moment(10**9, 10**10)
AFTER_THAT = Moment(10**9 + 1000, 10**10 + 1000)


class NothingToSpoil(Exception):
    """The history has nothing of the kind."""


def pick(rng: Random, found: list[Entry]) -> Entry:
    if not found:
        raise NothingToSpoil
    return rng.choice(found)


# -- what there is


def acknowledged(history: History) -> list[Send]:
    """With acks=all, in a partition that keeps everything."""
    return [
        send
        for send in history.of(Send)
        if send.topic == "plain" and send.acks is Acks.ALL and isinstance(send.completion, Acknowledged)
    ]


def one_acknowledged(history: History, rng: Random) -> Send:
    found = acknowledged(history)
    if not found:
        raise NothingToSpoil
    return rng.choice(found)


def parts_of(poll: Poll) -> tuple[PolledPartition, ...]:
    return poll.completion.parts if isinstance(poll.completion, Polled) else ()


def of_replicas(history: History, change: Callable[[FinalReplica], FinalReplica]) -> History:
    return History(change(one) if isinstance(one, FinalReplica) else one for one in history.entries)


def of_parts(history: History, change: Callable[[Poll, PolledPartition], PolledPartition]) -> History:
    def changed(entry: Entry) -> Entry:
        if not isinstance(entry, Poll) or not isinstance(entry.completion, Polled):
            return entry
        parts = tuple(change(entry, part) for part in entry.completion.parts)
        return replace(entry, completion=replace(entry.completion, parts=parts))

    return History(changed(entry) for entry in history.entries)


def with_more(history: History, *entries: Entry) -> History:
    return History([*history.entries, *entries])


def renumbered(replica: FinalReplica, records: list[StoredRecord]) -> FinalReplica:
    """As if the log had never had anything else."""
    dense = [replace(one, offset=replica.start_offset + place) for place, one in enumerate(records)]
    return replace(replica, records=tuple(dense), end_offset=replica.start_offset + len(dense))


def a_full_part(history: History, rng: Random, count: int) -> tuple[Poll, PolledPartition]:
    """That has so many records at least, of a partition that keeps everything."""
    found = [
        (poll, part)
        for poll in history.of(Poll)
        for part in parts_of(poll)
        if part.partition in PLAIN and len(part.offsets) >= count
    ]
    if not found:
        raise NothingToSpoil
    return rng.choice(found)


def replace_part(history: History, poll: Poll, old: PolledPartition, new: PolledPartition) -> History:
    assert isinstance(poll.completion, Polled)
    parts = tuple(new if part is old else part for part in poll.completion.parts)
    changed = replace(poll, completion=replace(poll.completion, parts=parts))
    return History(changed if entry is poll else entry for entry in history.entries)


# -- defects


def drop_an_acknowledged_record(history: History, rng: Random) -> History:
    digest = digest_of(one_acknowledged(history, rng).value)
    return of_replicas(
        history, lambda one: replace(one, records=tuple(each for each in one.records if each.digest != digest))
    )


def take_back_what_was_read(history: History, rng: Random) -> History:
    """Whatever became of the send."""
    _, part = a_full_part(history, rng, 1)
    digest = digest_of(part.values[-1])
    return of_replicas(
        history, lambda one: replace(one, records=tuple(each for each in one.records if each.digest != digest))
    )


def cut_the_logs(history: History, rng: Random) -> History:
    """All replicas lose their end, where something acknowledged was."""
    send = one_acknowledged(history, rng)
    told = send.completion
    assert isinstance(told, Acknowledged)

    def cut(one: FinalReplica) -> FinalReplica:
        if one.partition != (send.topic, told.partition):
            return one
        kept = [each for each in one.records if each.offset < (told.offset or 0)]
        return replace(one, records=tuple(kept), end_offset=told.offset or 0)

    return of_replicas(history, cut)


def store_a_record_twice(history: History, rng: Random) -> History:
    partition = rng.choice(PLAIN)

    def doubled(one: FinalReplica) -> FinalReplica:
        if one.partition != partition:
            return one
        if not one.records:
            raise NothingToSpoil
        return renumbered(one, [*one.records, replace(one.records[0], leader_epoch=one.records[-1].leader_epoch)])

    return of_replicas(history, doubled)


def swap_two_records_of_a_producer(history: History, rng: Random) -> History:
    producer_of = {digest_of(send.value): send.producer for send in history.of(Send)}
    partition, producer = rng.choice(PLAIN), rng.choice(["ann", "amy"])

    def swapped(one: FinalReplica) -> FinalReplica:
        places = [at for at, each in enumerate(one.records) if producer_of[each.digest] == producer]
        if one.partition != partition:
            return one
        if len(places) < 2:
            raise NothingToSpoil
        records, (first, second) = list(one.records), places[:2]
        ours, theirs = records[first], records[second]
        records[first], records[second] = replace(ours, digest=theirs.digest), replace(theirs, digest=ours.digest)
        return replace(one, records=tuple(records))

    return of_replicas(history, swapped)


def swap_two_acknowledgements(history: History, rng: Random) -> History:
    """Of one producer, in one partition: each is told the other's offset."""
    places: dict[tuple[str, int], list[Send]] = {}
    for send in acknowledged(history):
        assert isinstance(send.completion, Acknowledged)
        places.setdefault((send.producer, send.completion.partition), []).append(send)
    found = [sends[:2] for sends in places.values() if len(sends) > 1]
    if not found:
        raise NothingToSpoil
    first, second = rng.choice(found)
    swapped = {
        first.value: replace(first, completion=second.completion),
        second.value: replace(second, completion=first.completion),
    }
    return History(swapped.get(one.value, one) if isinstance(one, Send) else one for one in history.entries)


def change_a_value_on_one_replica(history: History, rng: Random) -> History:
    found: list[Entry] = [one for one in history.of(FinalReplica) if one.records and one.partition != COMPACTED]
    victim = pick(rng, found)

    def changed(one: FinalReplica) -> FinalReplica:
        if one is not victim:
            return one
        records = list(one.records)
        at = rng.randrange(len(records))
        records[at] = replace(records[at], digest=digest_of("rot"))
        return replace(one, records=tuple(records))

    return of_replicas(history, changed)


def forget_a_key_on_one_replica(history: History, rng: Random) -> History:
    """Of a compacted partition, the latest record of a key."""
    sends = {digest_of(send.value): send for send in history.of(Send)}
    replicas = [one for one in history.of(FinalReplica) if one.partition == COMPACTED]
    latest = {sends[each.digest].key: each for one in replicas for each in one.records}
    found = [each for each in latest.values() if not sends[each.digest].deletes]
    if not found:
        raise NothingToSpoil
    gone, victim = rng.choice(found), rng.choice(replicas)
    return of_replicas(
        history,
        lambda one: replace(one, records=tuple(x for x in one.records if x != gone)) if one is victim else one,
    )


def shorten_one_replica(history: History, rng: Random) -> History:
    found: list[Entry] = [one for one in history.of(FinalReplica) if one.records and one.partition in PLAIN]
    victim = pick(rng, found)
    return of_replicas(history, lambda one: renumbered(one, list(one.records[:-1])) if one is victim else one)


def store_what_was_refused(history: History, rng: Random) -> History:
    send = one_acknowledged(history, rng)
    failed = replace(send, completion=Failed(LATER, "RECORD_TOO_LARGE"))
    return History(failed if one is send else one for one in history.entries)


def read_what_nobody_sent(history: History, rng: Random) -> History:
    poll, part = a_full_part(history, rng, 1)
    return replace_part(history, poll, part, replace(part, values=(*part.values[:-1], "ghost")))


def abort_what_was_read(history: History, rng: Random) -> History:
    _, part = a_full_part(history, rng, 1)
    aborted = [
        replace(one, transaction="t") if isinstance(one, Send) and one.value == part.values[0] else one
        for one in history.entries
    ]
    return with_more(History(aborted), TransactionAborted(LATER, "t"))


def read_in_another_order(history: History, rng: Random) -> History:
    poll, part = a_full_part(history, rng, 2)
    return replace_part(history, poll, part, replace(part, offsets=part.offsets[::-1], values=part.values[::-1]))


def read_the_same_again(history: History, rng: Random) -> History:
    poll, part = a_full_part(history, rng, 1)
    assert isinstance(poll.completion, Polled)
    at, again = poll.completion.at, replace(part, is_fresh=False)
    more = Poll(poll.process, -1, at, poll.consumer, poll.group, Polled(at, (again,)))
    return with_more(history, more)


def pass_over_a_record(history: History, rng: Random) -> History:
    poll, part = a_full_part(history, rng, 3)
    offsets, values = (part.offsets[0], *part.offsets[2:]), (part.values[0], *part.values[2:])
    return replace_part(history, poll, part, replace(part, offsets=offsets, values=values))


def give_a_record_to_nobody(history: History, rng: Random) -> History:
    value = one_acknowledged(history, rng).value
    return of_parts(history, lambda poll, part: without(value, part))


def tell_a_lower_watermark(history: History, rng: Random) -> History:
    told = [
        (ask, end)
        for ask in history.of(AskEnds)
        if isinstance(ask.completion, EndsTold)
        for end in ask.completion.ends
        if end.offset > 0
    ]
    if not told:
        raise NothingToSpoil
    ask, end = rng.choice(told)
    lower = ToldEnd(end.partition, end.offset - 1)
    return with_more(history, AskEnds("x", 1, LATER, ask.client, EndsTold(AFTER_THAT, (lower,))))


def lead_twice(history: History, rng: Random) -> History:
    one = rng.choice(history.of(LeaderSeen))
    return with_more(history, replace(one, broker=one.broker + 1, at=LATER))


def read_an_old_configuration(history: History, rng: Random) -> History:
    name = ("plain", "retention.ms")
    between = [replace(LATER, monotonic_us=LATER.monotonic_us + step) for step in range(6)]
    return with_more(
        history,
        ConfigWrite("x", 1, between[0], *name, "old", Done(between[1])),
        ConfigWrite("x", 2, between[2], *name, "new", Done(between[3])),
        ConfigRead("x", 3, between[4], *name, ConfigTold(between[5], "old")),
    )


def own_twice(history: History, rng: Random) -> History:
    found: list[Entry] = [one for one in history.of(AssignmentChanged) if one.gained]
    one = pick(rng, found)
    assert isinstance(one, AssignmentChanged)
    return with_more(history, replace(one, member="other"))


def roll_a_commit_back(history: History, rng: Random) -> History:
    found = [
        (commit.group, one)
        for commit in history.of(Commit)
        if isinstance(commit.completion, Done)
        for one in commit.offsets
        if one.offset > 0
    ]
    if not found:
        raise NothingToSpoil
    group, one = rng.choice(found)
    lower = CommittedOffset(one.partition, one.offset - 1)
    return with_more(history, FetchOffsets("x", 1, LATER, group, OffsetsFetched(AFTER_THAT, (lower,))))


def keep_a_record_from_the_group(history: History, rng: Random) -> History:
    value = one_acknowledged(history, rng).value
    return of_parts(history, lambda poll, part: part if poll.group is None else without(value, part))


def without(value: str, part: PolledPartition) -> PolledPartition:
    kept = [(at, each) for at, each in zip(part.offsets, part.values, strict=True) if each != value]
    return replace(part, offsets=tuple(at for at, _ in kept), values=tuple(each for _, each in kept))


@dataclass(frozen=True, slots=True)
class Mutation:
    spoil: Callable[[History, Random], History]
    found_by: tuple[AnomalyName, ...]

    def __str__(self) -> str:
        return self.spoil.__name__


N = AnomalyName
MUTATIONS = [
    Mutation(drop_an_acknowledged_record, (N.LOST_WRITE, N.REPLICA_DIVERGENCE)),
    Mutation(take_back_what_was_read, (N.TAKEN_BACK,)),
    Mutation(cut_the_logs, (N.LOST_WRITE,)),
    Mutation(store_a_record_twice, (N.DUPLICATE,)),
    Mutation(swap_two_records_of_a_producer, (N.REORDERED_SENDS,)),
    Mutation(swap_two_acknowledgements, (N.REORDERED_SENDS, N.INCONSISTENT_OFFSETS)),
    Mutation(change_a_value_on_one_replica, (N.REPLICA_DIVERGENCE, N.PHANTOM)),
    Mutation(forget_a_key_on_one_replica, (N.REPLICA_DIVERGENCE,)),
    Mutation(shorten_one_replica, (N.REPLICA_DIVERGENCE,)),
    Mutation(store_what_was_refused, (N.PHANTOM,)),
    Mutation(read_what_nobody_sent, (N.PHANTOM, N.INCONSISTENT_OFFSETS)),
    Mutation(abort_what_was_read, (N.ABORTED_READ,)),
    Mutation(read_in_another_order, (N.NON_MONOTONIC_POLL,)),
    Mutation(read_the_same_again, (N.NON_MONOTONIC_POLL,)),
    Mutation(pass_over_a_record, (N.SKIPPING_POLL,)),
    Mutation(give_a_record_to_nobody, (N.ACKNOWLEDGED_UNSEEN, N.NEVER_DELIVERED)),
    Mutation(tell_a_lower_watermark, (N.WATERMARK_REGRESSION,)),
    Mutation(lead_twice, (N.SPLIT_LEADERSHIP,)),
    Mutation(read_an_old_configuration, (N.METADATA_NOT_LINEARIZABLE,)),
    Mutation(own_twice, (N.TWO_OWNERS,)),
    Mutation(roll_a_commit_back, (N.COMMIT_REGRESSION,)),
    Mutation(keep_a_record_from_the_group, (N.NEVER_DELIVERED,)),
]
