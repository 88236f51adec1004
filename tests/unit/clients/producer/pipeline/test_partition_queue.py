"""The batches of one partition: whatever happens on the way, they are stored in order, and once."""

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import pytest

from lograft.clients import errors
from lograft.clients.producer.pipeline.partition_queue import MAX_EPOCH, PartitionQueue, ProducerIdentity, QueueLimits
from lograft.clients.producer.pipeline.pending_batch import PartitionKey, PendingBatch, SequenceStart, Stored

KEY = PartitionKey(b"t" * 16, 0)
IDENTITY = ProducerIdentity(7, 0)
TIMEOUT_MS = 1000


def queue(**limits: float) -> PartitionQueue:
    return PartitionQueue(QueueLimits(delivery_timeout_ms=TIMEOUT_MS, **limits))  # type: ignore[arg-type]


def add(target: PartitionQueue, number: int, records: int = 1, now_ms: int = 0) -> PendingBatch:
    """A full batch."""
    batch = begin(target, number, records, now_ms)
    target.close_filling()
    return batch


def begin(target: PartitionQueue, number: int, records: int = 1, now_ms: int = 0) -> PendingBatch:
    """A batch that takes more records."""
    batch = target.filling = PendingBatch("orders", KEY, (number,), now_ms)
    for index in range(records):
        batch.add(None, b"%d.%d" % (number, index), 0, (), 20)
    return batch


def take(target: PartitionQueue, now_ms: int = 0) -> PendingBatch:
    batch = target.take(now_ms, IDENTITY)
    assert batch is not None
    return batch


def sequence(batch: PendingBatch) -> tuple[int, int]:
    """Epoch and number."""
    assert batch.sequence is not None
    return batch.sequence.epoch, batch.sequence.base


def outcome(batch: PendingBatch) -> tuple[type[Exception], bool]:
    assert isinstance(batch.outcome, errors.LograftError)
    return type(batch.outcome), batch.outcome.outcome_unknown


def test_batches_are_numbered_in_order_by_their_records() -> None:
    it = queue()
    add(it, 1, records=3)
    add(it, 2, records=2)
    assert [take(it).sequence, take(it).sequence] == [SequenceStart(7, 0, 0), SequenceStart(7, 0, 3)]


def test_at_most_five_are_under_way() -> None:
    it = queue()
    batches = [add(it, number) for number in range(6)]
    for _ in range(5):
        take(it)
    assert it.take(0, IDENTITY) is None
    it.stored(batches[0], Stored(0))
    assert take(it) is batches[5]


def test_one_that_is_not_full_goes_at_once_when_nothing_is_under_way() -> None:
    it = queue()
    batch = begin(it, 1)
    assert take(it) is batch


@pytest.mark.parametrize(("linger_ms", "goes_at_ms"), [(0, 105), (3, 105), (20, 120)])
def test_one_that_is_not_full_waits_a_little_while_another_is_under_way(linger_ms: float, goes_at_ms: int) -> None:
    it = queue(linger_ms=linger_ms, hold_ms=5)
    add(it, 1)
    take(it)
    batch = begin(it, 2, now_ms=100)
    assert it.sendable_at_ms() == goes_at_ms
    assert it.take(goes_at_ms - 1, IDENTITY) is None
    assert take(it, goes_at_ms) is batch


def test_one_that_is_not_full_waits_no_longer_once_the_others_are_stored() -> None:
    it = queue()
    first = add(it, 1)
    take(it)
    batch = begin(it, 2, now_ms=100)
    assert it.take(100, IDENTITY) is None
    it.stored(first, Stored(0))
    assert take(it, 100) is batch


def test_one_that_is_full_waits_for_no_other() -> None:
    it = queue()
    add(it, 1)
    take(it)
    batch = begin(it, 2, now_ms=100)
    it.close_filling()
    assert take(it, 100) is batch


def test_one_that_was_lost_goes_again_before_those_behind_it_and_under_its_number() -> None:
    it = queue()
    first, second, third = (add(it, number) for number in range(3))
    take(it), take(it)
    it.lost(second)
    it.lost(first)
    assert [take(it), take(it), take(it)] == [first, second, third]
    assert [sequence(each) for each in (first, second, third)] == [(0, 0), (0, 1), (0, 2)]


def test_one_that_came_before_its_turn_waits_for_it() -> None:
    it = queue()
    first, second = add(it, 1), add(it, 2)
    take(it), take(it)
    it.refused(first, errors.NotEnoughReplicas("too few"), 0)
    it.refused(second, errors.OutOfOrderSequence("first is missing"), 0)
    assert it.take(0, IDENTITY) is None, "not at once"
    assert [take(it, 50), take(it, 50)] == [first, second]
    assert [sequence(first), sequence(second)] == [(0, 0), (0, 1)]


def test_the_wait_after_a_refusal_doubles_until_somebody_else_leads() -> None:
    it = queue(retry_first_ms=10, retry_last_ms=35)
    batch = add(it, 1)
    waits, now_ms = [], 0
    for _ in range(4):
        take(it, now_ms)
        it.refused(batch, errors.NotLeader("not me"), now_ms)
        at_ms = it.sendable_at_ms()
        assert at_ms is not None
        waits.append(at_ms - now_ms)
        now_ms = int(at_ms)
    assert waits == [10, 20, 35, 35]
    take(it, now_ms)
    it.refused(batch, errors.NotLeader("not me"), now_ms)
    it.leader_seen(5)
    assert take(it, now_ms) is batch


def test_refusals_that_come_together_count_as_one() -> None:
    it = queue(retry_first_ms=10, retry_last_ms=1000)
    batches = [add(it, number) for number in range(5)]
    for _ in batches:
        take(it)
    for batch in batches:
        it.refused(batch, errors.NotLeader("not me"), 0)
    assert it.sendable_at_ms() == 10


def test_after_a_refusal_for_good_what_follows_is_numbered_anew() -> None:
    it = queue()
    first, second, third = add(it, 1), add(it, 2, records=2), add(it, 3)
    take(it), take(it)
    assert it.refused(first, errors.InvalidRecord("no key"), 0) == [first]
    assert outcome(first) == (errors.InvalidRecord, False)
    assert it.take(0, IDENTITY) is None, "the second is still under way in the old epoch"
    it.refused(second, errors.OutOfOrderSequence("first is missing"), 0)
    assert [take(it, 100), take(it, 100)] == [second, third]
    assert [sequence(second), sequence(third)] == [(1, 0), (1, 2)]


def test_what_may_be_stored_is_settled_under_its_number_before_anything_is_numbered_anew() -> None:
    it = queue()
    first, second = add(it, 1), add(it, 2)
    add(it, 3, now_ms=500)
    take(it), take(it)
    it.lost(second)
    assert it.expire(TIMEOUT_MS) == [first, second]
    assert outcome(first) == outcome(second) == (errors.DeliveryTimedOut, True)
    assert sequence(take(it, TIMEOUT_MS)) == (1, 0)
    # The same, but the second is young: it is sent under its old number, and stored or refused, before the third is.
    it = queue()
    first, second = add(it, 1), add(it, 2, now_ms=500)
    add(it, 3, now_ms=500)
    take(it), take(it)
    it.lost(second)
    assert it.expire(TIMEOUT_MS) == [first]
    assert take(it, TIMEOUT_MS) is second
    assert sequence(second) == (0, 1)
    assert it.take(TIMEOUT_MS, IDENTITY) is None
    it.stored(second, Stored(10))
    assert sequence(take(it, TIMEOUT_MS)) == (1, 0)


def test_a_refused_batch_does_not_hold_up_the_settling_of_one_behind_it() -> None:
    it = queue()
    first, second, third = add(it, 1), add(it, 2), add(it, 3)
    take(it), take(it), take(it)
    it.refused(first, errors.InvalidRecord("no"), 0)
    it.refused(second, errors.OutOfOrderSequence("first is missing"), 0)
    it.lost(third)
    assert take(it, 100) is third
    assert it.refused(third, errors.OutOfOrderSequence("second is missing"), 100) == [third]
    assert isinstance(third.outcome, errors.OutOfOrderSequence)
    # Who led before may have it, and lead again.
    assert third.outcome.outcome_unknown
    assert sequence(take(it, 500)) == (1, 0)


def test_a_leader_that_forgot_the_producer_gets_a_new_epoch() -> None:
    it = queue()
    first = add(it, 1)
    it.stored(take(it), Stored(0))
    second = add(it, 2)
    take(it)
    assert it.refused(second, errors.UnknownProducerId("who?"), 0) == []
    assert sequence(take(it, 100)) == (1, 0)
    assert first.outcome == Stored(0)


def test_a_batch_stored_too_long_ago_counts_as_stored_without_an_offset() -> None:
    it = queue()
    batch = add(it, 1)
    take(it)
    assert it.refused(batch, errors.DuplicateSequence("long ago"), 0) == [batch]
    assert batch.outcome == Stored(-1)


@pytest.mark.parametrize("is_in_doubt", [False, True])
def test_a_refusal_for_good_says_whether_an_earlier_attempt_may_have_stored_it(is_in_doubt: bool) -> None:
    it = queue()
    batch = add(it, 1)
    take(it)
    if is_in_doubt:
        it.lost(batch)
        take(it)
    it.refused(batch, errors.CorruptBatch("bad"), 0)
    assert outcome(batch) == (errors.CorruptBatch, is_in_doubt)


@pytest.mark.parametrize(
    ("error", "is_unknown"),
    [
        (errors.NotEnoughReplicas("too few"), False),
        (errors.NotEnoughReplicasAfterAppend("too few"), True),
        (errors.NotLeader("not me"), True),
        (errors.TimedOut("slow"), True),
    ],
)
def test_a_batch_that_is_late_says_whether_it_may_be_stored_and_what_was_the_matter(
    error: errors.LograftError, is_unknown: bool
) -> None:
    it = queue()
    batch = add(it, 1)
    take(it)
    it.refused(batch, error, 0)
    assert it.expires_at_ms() == TIMEOUT_MS
    assert it.expire(TIMEOUT_MS - 1) == []
    assert it.expire(TIMEOUT_MS) == [batch]
    assert outcome(batch) == (errors.DeliveryTimedOut, is_unknown)
    assert error.code in str(batch.outcome)


def test_a_batch_that_never_left_is_not_stored_and_leaves_no_hole() -> None:
    it = queue()
    late, young = add(it, 1), add(it, 2, now_ms=10)
    assert it.expire(TIMEOUT_MS) == [late]
    assert outcome(late) == (errors.DeliveryTimedOut, False)
    assert take(it, TIMEOUT_MS) is young
    assert sequence(young) == (0, 0)


def test_a_batch_too_large_for_the_topic_is_sent_in_halves() -> None:
    it = queue()
    batch = add(it, 1, records=5)
    after = add(it, 2)
    take(it)
    it.refused(batch, errors.BatchTooLarge("over max.message.bytes"), 0)
    first, second = take(it), take(it)
    assert (first.columns.values, second.columns.values) == ([b"1.0", b"1.1"], [b"1.2", b"1.3", b"1.4"])
    assert [sequence(first), sequence(second), sequence(take(it))] == [(1, 0), (1, 2), (1, 5)]
    assert not batch.is_settled
    it.stored(first, Stored(100))
    it.stored(second, Stored(200))
    assert batch.is_settled
    results = [batch.result(index) for index in range(5)]
    assert [result.offset for result in results if not isinstance(result, Exception)] == [100, 101, 200, 201, 202]
    it.stored(after, Stored(300))
    assert it.is_empty


def test_halves_that_return_keep_their_order() -> None:
    it = queue()
    batch = add(it, 1, records=2)
    take(it)
    it.refused(batch, errors.BatchTooLarge("large"), 0)
    first, second = take(it), take(it)
    it.lost(first)
    it.lost(second)
    assert [take(it), take(it)] == [first, second]


def test_a_single_record_too_large_has_failed() -> None:
    it = queue()
    batch = add(it, 1)
    take(it)
    it.refused(batch, errors.BatchTooLarge("large"), 0)
    assert outcome(batch) == (errors.BatchTooLarge, False)


def test_when_epochs_are_used_up_another_producer_id_is_wanted() -> None:
    it = queue()
    last = ProducerIdentity(7, MAX_EPOCH)
    batch = add(it, 1)
    assert it.take(0, last) is batch
    it.refused(batch, errors.InvalidRecord("no"), 0)
    assert it.used_up_id == 7
    add(it, 2)
    taken = it.take(100, ProducerIdentity(8, 0))
    assert taken is not None
    assert taken.sequence == SequenceStart(8, 0, 0)


def test_a_batch_that_is_filled_lingers_unless_it_is_closed() -> None:
    it = queue(linger_ms=5)
    it.filling = PendingBatch("orders", KEY, (1,), 100)
    it.filling.add(None, b"v", 0, (), 20)
    assert it.sendable_at_ms() == 105
    assert it.take(104, IDENTITY) is None
    it.close_filling()
    assert it.take(104, IDENTITY) is not None


def test_a_batch_is_filled_on_while_others_wait_to_be_sent_again() -> None:
    it = queue()
    batch = add(it, 1)
    take(it)
    it.lost(batch)
    it.filling = PendingBatch("orders", KEY, (2,), 0)
    it.filling.add(None, b"v", 0, (), 20)
    assert take(it) is batch
    assert it.filling is not None


def test_giving_all_up_tells_what_may_be_stored_from_what_is_not() -> None:
    it = queue()
    first, second = add(it, 1), add(it, 2)
    take(it)
    assert it.abandon(errors.ClientClosed("closed")) == [first, second]
    assert [outcome(first), outcome(second)] == [(errors.ClientClosed, True), (errors.ClientClosed, False)]
    assert it.is_empty


# -- against a broker


@dataclass
class ModelBroker:
    """What DESIGN says of idempotent producers: one epoch, the last five batches, strictly in sequence."""

    stored: list[bytes] = field(default_factory=list)
    epoch: int = -1
    window: list[tuple[int, int, int]] = field(default_factory=list)  # base, next, offset

    def append(self, sent: "Sent") -> Stored | errors.LograftError:
        _, epoch, base = sent.sequence
        count = len(sent.values)
        if epoch < self.epoch:
            return errors.InvalidProducerEpoch("old")
        if epoch > self.epoch:
            window, expected = [], 0
        else:
            window, expected = self.window, self.window[-1][1] if self.window else 0
        for known_base, known_next, offset in window:
            if (known_base, known_next) == (base, base + count):
                return Stored(offset)
        if base != expected:
            return errors.OutOfOrderSequence(f"{base} where {expected} was next")
        self.epoch = epoch
        offset = len(self.stored)
        self.window = [*window, (base, base + count, offset)][-5:]
        self.stored += sent.values
        return Stored(offset)


class Sent(NamedTuple):
    """A batch as it was when it was sent: whatever becomes of it, these are the bytes that arrive."""

    batch: PendingBatch
    sequence: SequenceStart
    values: list[bytes]


def send(batch: PendingBatch) -> Sent:
    assert batch.sequence is not None
    return Sent(batch, batch.sequence, [value for value in batch.columns.values if value is not None])


REFUSALS = [errors.NotEnoughReplicas("too few"), errors.InvalidRecord("no key"), errors.BatchTooLarge("large")]
UNKNOWNS = [errors.TimedOut("slow"), errors.NotLeader("moved"), errors.NotEnoughReplicasAfterAppend("few")]


@pytest.mark.parametrize("first_seed", range(0, 2000, 500))
def test_whatever_happens_records_are_stored_in_order_and_once_and_nobody_is_told_otherwise(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 500):
        try:
            live(Random(seed))
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def live(dice: Random) -> None:
    """Batches come, go, are answered or not, in any order that one stream after another can give."""
    it = queue()
    broker = ModelBroker()
    everything: list[PendingBatch] = []
    sent: list[Sent] = []  # on the stream, not processed by the broker
    answers: list[tuple[PendingBatch, Stored | errors.LograftError]] = []  # processed, not yet heard of
    now_ms = 0
    for _ in range(dice.randint(1, 150)):
        match dice.choice(
            ["add", "add", "send", "send", "process", "process", "hear", "hear", dice.choice(["break", "wait", "pass"])]
        ):
            case "add":
                everything.append(add(it, len(everything), dice.randint(1, 3), now_ms))
            case "send":
                if (taken := it.take(now_ms, IDENTITY)) is not None:
                    sent.append(send(taken))
            case "process" if sent:
                process(sent.pop(0), broker, answers, dice)
            case "hear" if answers:
                hear(it, *answers.pop(0), now_ms)
            case "break":
                lost = [*(batch for batch, _ in answers), *(each.batch for each in sent)]
                for each in sent[: dice.randint(0, len(sent))]:
                    process(each, broker, [], dice)  # it had arrived, and nobody hears what came of it
                for batch in lost:
                    if not batch.is_settled:
                        it.lost(batch)
                sent.clear()
                answers.clear()
            case "wait":
                now_ms += dice.randint(1, 400)
                it.expire(now_ms)
    finish(it, broker, sent, answers, now_ms)
    check(everything, broker)


def process(
    sent: Sent,
    broker: ModelBroker,
    answers: list[tuple[PendingBatch, Stored | errors.LograftError]],
    dice: Random,
) -> None:
    """The broker refuses it, or stores it and says so, or stores it and does not know that it did."""
    if dice.random() < 0.2:
        answers.append((sent.batch, dice.choice(REFUSALS)))
        return
    answer = broker.append(sent)
    if isinstance(answer, Stored) and dice.random() < 0.4:
        answers.append((sent.batch, dice.choice(UNKNOWNS)))
    else:
        answers.append((sent.batch, answer))


def hear(it: PartitionQueue, batch: PendingBatch, answer: Stored | errors.LograftError, now_ms: int) -> None:
    if batch.is_settled:
        return
    if isinstance(answer, Stored):
        it.stored(batch, answer)
    else:
        it.refused(batch, answer, now_ms)


def finish(
    it: PartitionQueue,
    broker: ModelBroker,
    sent: list[Sent],
    answers: list[tuple[PendingBatch, Stored | errors.LograftError]],
    now_ms: int,
) -> None:
    """From now on all goes well, so all is settled before its time is over."""
    for batch, answer in answers:
        hear(it, batch, answer, now_ms)
    for each in sent:
        hear(it, each.batch, broker.append(each), now_ms)
    for _ in range(500):
        if it.is_empty:
            return
        at_ms = it.sendable_at_ms()
        assert at_ms is not None, "stuck"
        now_ms = max(now_ms, int(at_ms))
        batch = take(it, now_ms)
        hear(it, batch, broker.append(send(batch)), now_ms)
    raise AssertionError("it never ends")


def check(everything: list[PendingBatch], broker: ModelBroker) -> None:
    """No record twice, all in order, and each as its owner was told."""
    assert len(set(broker.stored)) == len(broker.stored), "stored twice"
    places = [tuple(map(int, value.split(b"."))) for value in broker.stored]
    assert places == sorted(places), "out of order"
    for batch in everything:
        number = batch.order[0]
        for index in range(batch.record_count):
            name = b"%d.%d" % (number, index)
            told = batch.result(index)
            if isinstance(told, errors.LograftError):
                assert told.outcome_unknown or name not in broker.stored, "said not to be stored, and is"
            else:
                assert broker.stored[told.offset] == name, "said to be stored elsewhere"
