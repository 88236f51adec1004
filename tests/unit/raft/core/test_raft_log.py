"""The log as the core holds it: its ends, its middle, and what may never be taken back."""

import pytest
from support.raft_cluster import command, log_of_terms, member, new_configuration

from lograft.raft.core.configuration import Configuration, configuration
from lograft.raft.core.entries import NOTHING, Entry, SnapshotMetadata
from lograft.raft.core.raft_log import RaftLog

SNAPSHOT = SnapshotMetadata(3, 2, Configuration())


def log_after_snapshot(*terms: int) -> RaftLog:
    return RaftLog(SNAPSHOT, [command(4 + place, term) for place, term in enumerate(terms)])


def test_an_empty_log_ends_where_its_snapshot_does() -> None:
    assert (RaftLog().last_index, RaftLog().last_term) == (0, 0)
    log = RaftLog(SNAPSHOT)
    assert (log.last_index, log.last_term, log.commit_index, log.applied_index, log.stable_index) == (3, 2, 3, 3, 3)


@pytest.mark.parametrize(("index", "term"), [(2, None), (3, 2), (4, 2), (5, 5), (6, None)])
def test_terms_are_known_from_the_snapshot_to_the_end(index: int, term: int | None) -> None:
    assert log_after_snapshot(2, 5).term_at(index) == term


@pytest.mark.parametrize(
    ("entries", "new_from", "terms"),
    [
        ([], None, [1, 1, 2]),
        ([(2, 1), (3, 2)], None, [1, 1, 2]),
        ([(3, 2), (4, 2)], 4, [1, 1, 2, 2]),
        ([(3, 3)], 3, [1, 1, 3]),
        ([(2, 2)], 2, [1, 2]),
        ([(2, 1), (3, 3), (4, 3)], 3, [1, 1, 3, 3]),
    ],
)
def test_merging_says_from_where_on_the_log_is_new(
    entries: list[tuple[int, int]], new_from: int | None, terms: list[int]
) -> None:
    log = RaftLog(NOTHING, log_of_terms(1, 1, 2))
    assert log.merge([command(*entry) for entry in entries]) == new_from
    assert [entry.term for entry in log.between(0, log.last_index)] == terms
    assert log.stable_index == (3 if new_from is None else new_from - 1)


def test_nothing_committed_is_ever_replaced() -> None:
    log = RaftLog(NOTHING, log_of_terms(1, 1, 1))
    log.commit_to(2)
    with pytest.raises(AssertionError, match="entry 2 is committed"):
        log.merge([command(2, 2)])
    assert log.merge([command(3, 2)]) == 3


def test_a_commit_index_does_not_go_back_nor_beyond_the_end() -> None:
    log = RaftLog(NOTHING, log_of_terms(1, 1, 1))
    assert log.commit_to(2)
    assert not log.commit_to(1)
    assert log.commit_index == 2
    with pytest.raises(AssertionError, match="beyond the log's end"):
        log.commit_to(4)


def test_a_leader_appends_without_gaps_and_never_an_older_term() -> None:
    log = RaftLog(NOTHING, log_of_terms(1, 3))
    for wrong in (command(2, 3), command(4, 3), command(3, 2)):
        with pytest.raises(AssertionError):
            log.append(wrong)
    log.append(command(3, 3))
    assert (log.last_index, log.stable_index) == (3, 2)


@pytest.mark.parametrize(
    ("max_bytes", "indexes"),
    [(0, [4]), (41, [4]), (42, [4]), (83, [4]), (84, [4, 5]), (10_000, [4, 5, 6]), (None, [4, 5, 6])],
)
def test_a_slice_is_limited_by_bytes_but_never_empty_for_that(max_bytes: int | None, indexes: list[int]) -> None:
    log = RaftLog(SNAPSHOT, [command(index, 2, bytes(10)) for index in (4, 5, 6)])
    assert [entry.index for entry in log.between(3, 6, max_bytes)] == indexes
    assert log.between(6, 6, max_bytes) == ()


@pytest.mark.parametrize(
    ("index", "term", "found"),
    [
        (9, 9, (7, 5)),
        (7, 4, (6, 3)),
        (6, 3, (6, 3)),
        (6, 2, (4, 2)),
        (7, 1, (3, 2)),  # no further down than the snapshot
        (1, 1, (1, 0)),
    ],
)
def test_where_two_logs_may_agree(index: int, term: int, found: tuple[int, int]) -> None:
    assert log_after_snapshot(2, 3, 3, 5).find_agreement(index, term) == found


def test_compaction_keeps_what_is_after_it() -> None:
    log = RaftLog(NOTHING, log_of_terms(1, 1, 2, 2))
    log.commit_to(3)
    log.applied_index = 3
    log.compact(SnapshotMetadata(2, 1, Configuration()))
    assert (log.term_at(1), log.term_at(2), log.term_at(3), log.last_index) == (None, 1, 2, 4)
    with pytest.raises(AssertionError):
        log.compact(SnapshotMetadata(4, 2, Configuration()))  # not applied yet
    with pytest.raises(AssertionError):
        log.compact(SnapshotMetadata(3, 1, Configuration()))  # of another history


def test_a_leaders_snapshot_takes_the_place_of_everything() -> None:
    log = RaftLog(NOTHING, log_of_terms(1, 1, 1, 1))
    log.commit_to(2)
    log.restore(SNAPSHOT)
    assert (log.last_index, log.last_term, log.commit_index, log.stable_index) == (3, 2, 3, 3)
    with pytest.raises(AssertionError):
        log.restore(SNAPSHOT)


def test_the_configurations_in_a_log_begin_with_the_snapshots() -> None:
    first, second = configuration([member(1)]), configuration([member(1), member(2)])
    entries: list[Entry] = [command(4, 2), new_configuration(5, 2, second), command(6, 2)]
    log = RaftLog(SnapshotMetadata(3, 2, first), entries)
    assert log.configurations() == [(3, first), (5, second)]


@pytest.mark.parametrize("entries", [[command(2, 1)], [command(1, 1), command(3, 1)]])
def test_a_log_with_a_gap_is_not_a_log(entries: list[Entry]) -> None:
    with pytest.raises(AssertionError):
        RaftLog(NOTHING, entries)
