"""Idempotence: what a partition remembers of its producers, and what it answers them."""

import pytest

from lograft.storage.batch.header import BatchHeader
from lograft.storage.errors import InvalidProducerEpoch, OutOfOrderSequence, UnknownProducer
from lograft.storage.state.producer_state import EXPIRY_MS, ProducerState, SequencedBatch

LAST = 2**31 - 1


def header(sequence: int, count: int = 1, *, offset: int = 0, producer: int = 7, epoch: int = 3) -> BatchHeader:
    return BatchHeader(offset, 100, 0, 2, 0, 0, count - 1, 0, 0, producer, epoch, sequence, count)


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState()
    for each in headers:
        assert state.check(each) is None
        state.update(each, 0)
    return state


def test_a_batch_of_no_producer_is_never_checked_or_remembered() -> None:
    state = state_after(header(-1, producer=-1), header(-1, producer=-1))
    assert len(state) == 0


def test_an_unknown_producer_starts_with_sequence_zero() -> None:
    state = ProducerState()
    assert state.check(header(0)) is None
    with pytest.raises(UnknownProducer):
        state.check(header(1))


def test_the_next_sequence_follows_the_last() -> None:
    state = state_after(header(0, 10), header(10, 5))
    assert state.check(header(15)) is None
    for sequence in (11, 14, 16, 20):
        with pytest.raises(OutOfOrderSequence):
            state.check(header(sequence))


def test_each_of_the_last_five_batches_is_recognised_and_answered_with_its_offset() -> None:
    state = state_after(*(header(2 * number, 2, offset=100 + 2 * number) for number in range(6)))
    for number in range(1, 6):
        found = state.check(header(2 * number, 2))
        assert found == SequencedBatch(2 * number, 2 * number + 1, 100 + 2 * number, 101 + 2 * number)


def test_the_sixth_batch_back_is_out_of_order() -> None:
    state = state_after(*(header(number, offset=number) for number in range(6)))
    with pytest.raises(OutOfOrderSequence):
        state.check(header(0))


def test_a_batch_with_the_sequence_of_another_but_not_its_length_is_no_duplicate() -> None:
    state = state_after(header(0, 2), header(2, 2))
    for wrong in (header(2, 1), header(2, 3), header(1, 2), header(0, 4)):
        with pytest.raises(OutOfOrderSequence):
            state.check(wrong)


def test_a_higher_epoch_starts_again_at_zero_and_forgets_the_window() -> None:
    state = state_after(header(0), header(1))
    with pytest.raises(OutOfOrderSequence):
        state.check(header(2, epoch=4))
    assert state.check(header(0, epoch=4)) is None
    state.update(header(0, offset=50, epoch=4), 0)
    assert state.check(header(0, epoch=4)) == SequencedBatch(0, 0, 50, 50)
    assert state.check(header(1, epoch=4)) is None


def test_an_older_incarnation_is_fenced_even_with_a_batch_it_once_wrote() -> None:
    state = state_after(header(0), header(0, epoch=4))
    for sequence in (0, 1):
        with pytest.raises(InvalidProducerEpoch):
            state.check(header(sequence, epoch=3))


@pytest.mark.parametrize(
    ("base", "count", "last", "following"),
    [
        pytest.param(LAST - 2, 3, LAST, 0, id="ends at the last sequence"),
        pytest.param(LAST - 2, 4, 0, 1, id="ends just behind it"),
        pytest.param(LAST - 2, 13, 9, 10, id="spans it"),
        pytest.param(LAST, 1, LAST, 0, id="is the last sequence"),
    ],
)
def test_sequences_wrap_around(base: int, count: int, last: int, following: int) -> None:
    state = ProducerState()
    state.update(header(base, count), 0)  # as found in a log
    assert dict(state.entries())[7].batches[-1].last_sequence == last
    assert state.check(header(base, count)) == SequencedBatch(base, last, 0, count - 1)
    assert state.check(header(following)) is None
    with pytest.raises(OutOfOrderSequence):
        state.check(header((following + 1) & LAST))


def test_producers_do_not_disturb_each_other() -> None:
    state = state_after(header(0), header(0, producer=8), header(1))
    assert state.check(header(1, producer=8)) is None
    assert state.check(header(2)) is None


def test_a_producer_not_heard_of_for_a_day_is_forgotten() -> None:
    state = ProducerState()
    state.update(header(0), 1000)
    state.update(header(0, producer=8), 2000)
    state.expire(1000 + EXPIRY_MS)
    assert len(state) == 2
    state.expire(1001 + EXPIRY_MS)
    assert [producer for producer, _ in state.entries()] == [8]
    with pytest.raises(UnknownProducer):
        state.check(header(1))


def test_a_producer_heard_of_again_lives_on() -> None:
    state = ProducerState()
    state.update(header(0), 0)
    state.update(header(1), EXPIRY_MS)
    state.expire(2 * EXPIRY_MS)
    assert len(state) == 1


def test_a_lower_epoch_found_in_the_log_was_let_in_after_the_higher_expired() -> None:
    """The leader had forgotten the producer; who rebuilds from the log must come to the leader's state."""
    state = ProducerState()
    state.update(header(0, epoch=5), 0)
    state.update(header(0, offset=9, epoch=3), 0)
    entry = dict(state.entries())[7]
    assert (entry.epoch, entry.batches) == (3, [SequencedBatch(0, 0, 9, 9)])


def test_a_snapshot_brings_everything_back_as_seen_now() -> None:
    state = state_after(*(header(number, offset=number) for number in range(7)), header(0, producer=8, epoch=0))
    decoded = ProducerState.decode(state.encode(), 555)
    assert {producer: (entry.epoch, entry.batches) for producer, entry in decoded.entries()} == {
        producer: (entry.epoch, entry.batches) for producer, entry in state.entries()
    }
    assert {entry.seen_ms for _, entry in decoded.entries()} == {555}
    assert decoded.last_offsets() == {7: 6, 8: 0}


def test_an_empty_snapshot_is_an_empty_state() -> None:
    assert len(ProducerState.decode(ProducerState().encode(), 0)) == 0


def test_a_snapshot_cut_short_anywhere_is_refused_or_ends_between_producers() -> None:
    content = state_after(header(0), header(1), header(0, producer=8)).encode()
    whole = [size for size in range(len(content) + 1) if _decodes(content[:size])]
    assert whole == [0, 11 + 2 * 24, len(content)]


def _decodes(content: bytes) -> bool:
    try:
        ProducerState.decode(content, 0)
    except ValueError:
        return False
    return True
