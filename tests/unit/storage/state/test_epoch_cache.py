"""The leader-epoch cache: where logs part ways."""

import pytest

from lograft.storage.state.epoch_cache import EpochCache, EpochEntry

LOG_END = 100


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(EpochEntry(*entry) for entry in entries)


THREE = ((2, 10), (4, 40), (7, 60))


@pytest.mark.parametrize(
    ("entries", "epoch", "expected"),
    [
        pytest.param((), 5, None, id="nothing is known"),
        pytest.param(THREE, 7, (7, LOG_END), id="the latest ends with the log"),
        pytest.param(THREE, 4, (4, 60), id="an older one ends where the next begins"),
        pytest.param(THREE, 2, (2, 40), id="the oldest too"),
        pytest.param(THREE, 9, (7, LOG_END), id="a newer one is answered with the latest"),
        pytest.param(THREE, 6, (4, 60), id="one that was missed, with the one before it"),
        pytest.param(THREE, 3, (2, 40), id="and so in the first gap"),
        pytest.param(THREE, 1, None, id="one older than all that is known"),
        pytest.param(((2, 10), (3, 40), (4, 40)), 2, (2, 40), id="an empty epoch is no obstacle"),
        pytest.param(((2, 10), (3, 40), (4, 40)), 3, (3, 40), id="an empty epoch ends where it began"),
        pytest.param(((3, LOG_END),), 3, (3, LOG_END), id="assigned, and nothing written yet"),
        pytest.param(((2, 10), (3, LOG_END)), 2, (2, LOG_END), id="the one before it ends there"),
    ],
)
def test_an_epoch_ends_where_the_next_known_one_starts(
    entries: tuple[tuple[int, int], ...], epoch: int, expected: tuple[int, int] | None
) -> None:
    assert cache(*entries).end_offset_for(epoch, LOG_END) == expected


@pytest.mark.parametrize(("offset", "epoch"), [(9, None), (10, 2), (39, 2), (40, 4), (59, 4), (60, 7), (1000, 7)])
def test_each_offset_has_the_epoch_it_was_written_under(offset: int, epoch: int | None) -> None:
    assert cache(*THREE).epoch_at(offset) == epoch


def test_an_offset_at_an_empty_epoch_belongs_to_the_one_that_wrote() -> None:
    assert cache((2, 10), (3, 40), (4, 40)).epoch_at(40) == 4


def test_assigning_the_latest_again_changes_nothing() -> None:
    epochs = cache(*THREE)
    assert epochs.assign(7, 80) is False
    assert list(epochs) == list(THREE)
    assert epochs.assign(8, 80) is True
    assert epochs.latest == (8, 80)


@pytest.mark.parametrize("entry", [(6, 80), (8, 59)])
def test_an_epoch_or_an_offset_that_falls_is_a_bug(entry: tuple[int, int]) -> None:
    with pytest.raises(AssertionError):
        cache(*THREE).assign(*entry)


@pytest.mark.parametrize(
    ("offset", "left"),
    [(61, THREE), (60, THREE[:2]), (41, THREE[:2]), (40, THREE[:1]), (11, THREE[:1]), (10, ()), (0, ())],
)
def test_a_cut_forgets_epochs_that_start_at_or_after_it(offset: int, left: tuple[tuple[int, int], ...]) -> None:
    epochs = cache(*THREE)
    assert epochs.truncate_from(offset) is (left != THREE)
    assert list(epochs) == list(left)


@pytest.mark.parametrize(("log_end", "left"), [(60, THREE), (59, THREE[:2]), (40, THREE[:2]), (39, THREE[:1]), (9, ())])
def test_a_log_found_shorter_keeps_an_epoch_assigned_at_its_end(
    log_end: int, left: tuple[tuple[int, int], ...]
) -> None:
    epochs = cache(*THREE)
    assert epochs.clip_to(log_end) is (left != THREE)
    assert list(epochs) == list(left)


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        pytest.param(5, THREE, id="before all"),
        pytest.param(10, THREE, id="where the first starts"),
        pytest.param(11, ((2, 11), (4, 40), (7, 60)), id="inside the first"),
        pytest.param(39, ((2, 39), (4, 40), (7, 60)), id="at its last offset"),
        pytest.param(40, ((4, 40), (7, 60)), id="where the second starts"),
        pytest.param(50, ((4, 50), (7, 60)), id="inside the second"),
        pytest.param(90, ((7, 90),), id="inside the last"),
    ],
)
def test_a_prefix_that_goes_leaves_the_epoch_that_was_current(offset: int, left: tuple[tuple[int, int], ...]) -> None:
    epochs = cache(*THREE)
    assert epochs.forget_before(offset) is (left != THREE)
    assert list(epochs) == list(left)
    assert epochs.forget_before(offset) is False


def test_a_prefix_that_goes_at_an_empty_epoch_leaves_the_one_that_wrote() -> None:
    epochs = cache((2, 10), (3, 40), (4, 40))
    assert epochs.forget_before(40) is True
    assert list(epochs) == [(4, 40)]


@pytest.mark.parametrize(
    ("start", "end", "found"), [(10, 60, THREE[:2]), (10, 61, THREE), (11, 40, ()), (40, 41, THREE[1:2]), (0, 10, ())]
)
def test_a_frame_gets_the_epochs_that_start_in_its_range(
    start: int, end: int, found: tuple[tuple[int, int], ...]
) -> None:
    assert cache(*THREE).between(start, end) == list(found)


def test_taking_over_a_leaders_epochs_forgets_ones_own() -> None:
    epochs = cache(*THREE)
    epochs.replace_all([EpochEntry(1, 3)])
    assert list(epochs) == [(1, 3)]
