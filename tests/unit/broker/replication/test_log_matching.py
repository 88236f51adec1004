"""Where a follower's log and its leader's part, told by the last epoch and the end alone."""

from dataclasses import dataclass

import pytest

from lograft.broker.replication.log_matching import Prefix, Reset, TruncateTo, match, reader_parts_at
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry


@dataclass
class Log:
    start_offset: int
    end_offset: int
    epochs: EpochCache


def log(start: int, end: int, *epochs: tuple[int, int]) -> Log:
    return Log(start, end, EpochCache(EpochEntry(*entry) for entry in epochs))


def reset(start: int, *epochs: tuple[int, int]) -> Reset:
    return Reset(start, tuple(EpochEntry(*entry) for entry in epochs))


WHOLE = log(0, 30, (1, 0), (3, 10), (5, 20))


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "expected"),
    [
        (5, 30, Prefix()),
        (5, 25, Prefix()),
        (5, 20, Prefix()),
        (3, 20, Prefix()),
        (3, 15, Prefix()),
        (1, 10, Prefix()),
        (1, 1, Prefix()),
        (None, 0, Prefix()),
        (5, 31, TruncateTo(5, 30)),
        (3, 21, TruncateTo(3, 20)),
        (1, 25, TruncateTo(1, 10)),
        (4, 12, TruncateTo(3, 20)),  # an epoch that the leader never heard of
        (2, 10, TruncateTo(1, 10)),  # even if it is empty
        (6, 30, TruncateTo(5, 30)),
        (6, 40, TruncateTo(5, 30)),
        (0, 5, reset(0, (1, 0))),
        (0, 0, reset(0, (1, 0))),
    ],
)
def test_a_follower_is_told_where_its_log_parts(last_epoch: int | None, end_offset: int, expected: object) -> None:
    assert match(WHOLE, 0, last_epoch, end_offset) == expected


@pytest.mark.parametrize(
    ("last_epoch", "offset", "expected"),
    [
        (5, 30, None),
        (5, 25, None),
        (3, 20, None),
        (3, 11, None),
        (1, 10, None),
        (5, 31, 30),  # the log was longer
        (3, 21, 20),
        (1, 25, 10),
        (4, 12, 11),  # an epoch that is not there: not even the last record can be
        (4, 40, 20),
        (6, 35, 30),
        (0, 5, 0),
        (0, 0, None),
        (9, 0, None),  # who has read nothing
    ],
)
def test_a_reader_is_told_up_to_where_it_has_read_what_is_there(
    last_epoch: int, offset: int, expected: int | None
) -> None:
    assert reader_parts_at(WHOLE, last_epoch, offset) == expected


@pytest.mark.parametrize(
    ("last_epoch", "offset", "expected"),
    [(3, 12, None), (1, 12, None), (1, 5, None), (1, 13, 12), (3, 20, None), (5, 30, None), (5, 31, 30)],
)
def test_what_is_before_the_start_says_nothing_of_a_reader(last_epoch: int, offset: int, expected: int | None) -> None:
    assert reader_parts_at(BEHEADED, last_epoch, offset) == expected


BEHEADED = log(12, 30, (3, 12), (5, 20))


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "expected"),
    [
        (3, 15, Prefix()),
        (3, 12, Prefix()),
        (3, 11, reset(12, (3, 12))),  # what it would need next is deleted
        (1, 11, reset(12, (3, 12))),
        (1, 12, reset(12, (3, 12))),  # whether they agree below cannot be known
        (1, 15, reset(12, (3, 12))),
        (None, 0, reset(12, (3, 12))),
        (4, 15, TruncateTo(3, 20)),
    ],
)
def test_a_follower_behind_the_start_of_the_log_starts_over(
    last_epoch: int | None, end_offset: int, expected: object
) -> None:
    assert match(BEHEADED, 0, last_epoch, end_offset) == expected


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [
        (19, reset(12, (3, 12))),
        (13, reset(12, (3, 12))),
        (20, Prefix()),
        (12, Prefix()),  # it has nothing that a tombstone could have deleted
    ],
)
def test_a_follower_that_may_have_missed_a_tombstone_starts_over(end_offset: int, expected: object) -> None:
    assert match(BEHEADED, 20, 3, end_offset) == expected


def test_who_has_started_over_is_not_sent_back_again() -> None:
    told = match(BEHEADED, 20, 3, 15)
    assert isinstance(told, Reset)
    assert match(BEHEADED, 20, told.epochs[-1].epoch, told.start_offset) == Prefix()


@pytest.mark.parametrize(
    ("leader", "end_offset", "expected"),
    [
        (WHOLE, 10, reset(10, (3, 10))),
        (WHOLE, 15, reset(15, (3, 15))),
        (WHOLE, 30, reset(30, (5, 30))),
        (WHOLE, 31, reset(0, (1, 0))),  # only after an unclean election
        (BEHEADED, 11, reset(12, (3, 12))),
        (BEHEADED, 12, reset(12, (3, 12))),
        (BEHEADED, 15, reset(15, (3, 15))),
    ],
)
def test_who_has_an_end_but_no_records_goes_on_there(leader: Log, end_offset: int, expected: object) -> None:
    """All below was deleted because it was committed, and it may be in sync: others count on its end."""
    assert match(leader, 0, None, end_offset) == expected


def test_an_empty_log_that_was_beheaded_is_continued_where_it_starts() -> None:
    idle = log(10, 10, (3, 10))
    assert match(idle, 0, 3, 10) == Prefix()
    assert match(idle, 0, 2, 10) == reset(10, (3, 10))
    assert match(idle, 0, 5, 10) == TruncateTo(3, 10)
