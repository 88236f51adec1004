"""Copies that differ are told from copies that are the same, compacted or not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lograft.clients.admin.replicas.replica_comparison import (
    BatchDigest,
    CompactedComparison,
    RecordDigest,
    compare_batches,
)

BATCHES = [BatchDigest(0, 5, 1, 100, 7), BatchDigest(5, 6, 1, 80, 8), BatchDigest(6, 9, 2, 90, 9)]


def test_the_same_batches_are_the_same() -> None:
    assert compare_batches({1: BATCHES, 2: list(BATCHES), 3: list(BATCHES)}) is None
    assert compare_batches({1: [], 2: []}) is None
    assert compare_batches({1: BATCHES}) is None


@pytest.mark.parametrize(
    ("other", "offset"),
    [
        pytest.param([*BATCHES[:1], BATCHES[1]._replace(crc=1), BATCHES[2]], 5, id="another content"),
        pytest.param([*BATCHES[:1], BATCHES[1]._replace(leader_epoch=2), BATCHES[2]], 5, id="another epoch"),
        pytest.param(BATCHES[:2], 6, id="one is lost at the end"),
        pytest.param([BATCHES[0], BATCHES[2]], 5, id="one is lost in the middle"),
        pytest.param([], 0, id="all are lost"),
        pytest.param([*BATCHES, BatchDigest(9, 10, 2, 70, 3)], 9, id="one too many"),
    ],
)
def test_the_first_difference_is_found_and_told(other: list[BatchDigest], offset: int) -> None:
    difference = compare_batches({1: BATCHES, 2: other, 3: BATCHES})
    assert difference is not None
    assert difference.offset == offset
    assert list(difference.what) == [1, 2, 3]
    assert difference.what[1] == difference.what[3] != difference.what[2]


def records(*each: tuple[int, int, int]) -> list[RecordDigest]:
    return [RecordDigest(*one) for one in each]


def test_what_is_compacted_on_one_broker_only_is_the_same() -> None:
    comparison = CompactedComparison()
    assert comparison.add({1: records((0, 7, 1), (1, 8, 2), (2, 7, 3)), 2: records((1, 8, 2), (2, 7, 3))}) is None
    assert comparison.add({1: records((3, 9, 0)), 2: []}) is None, "a deletion that one has forgotten"
    assert comparison.missing() == []


def test_two_records_at_one_offset_are_a_difference() -> None:
    difference = CompactedComparison().add({1: records((0, 7, 1), (1, 8, 2)), 2: records((0, 7, 1), (1, 8, 3))})
    assert difference is not None
    assert difference.offset == 1


@pytest.mark.parametrize(
    ("one", "other", "offset"),
    [
        pytest.param([(0, 7, 1)], [], 0, id="a key is lost"),
        pytest.param([(0, 7, 1), (5, 7, 2)], [(0, 7, 1)], 5, id="the latest of a key is lost"),
        pytest.param([(0, 7, 1), (5, 7, 0)], [(0, 7, 1)], 5, id="a deleted key is still there"),
    ],
)
def test_keys_that_end_differently_are_a_difference(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], offset: int
) -> None:
    comparison = CompactedComparison()
    assert comparison.add({1: records(*one), 2: records(*other)}) is None
    assert [difference.offset for difference in comparison.missing()] == [offset]


history = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=30)


@given(history, st.data())
@settings(deadline=None)
def test_whatever_compaction_leaves_is_the_same_and_a_lost_key_is_found(
    written: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Any record that has a later one of its key may be gone from any copy; and the deletions that came last."""
    whole = [RecordDigest(offset, key, content) for offset, (key, content) in enumerate(written)]
    last = {record.key: record for record in whole}

    def compacted() -> list[RecordDigest]:
        kept = [record for record in whole if last[record.key] is record or data.draw(st.booleans())]
        gone = [key for key, record in last.items() if not record.content and data.draw(st.booleans())]
        return [record for record in kept if record.key not in gone]

    copies = {broker: compacted() for broker in (1, 2, 3)}
    comparison = CompactedComparison()
    for first in range(0, len(whole), 7):
        found = {
            broker: [record for record in copy if first <= record.offset < first + 7] for broker, copy in copies.items()
        }
        assert comparison.add(found) is None
    assert comparison.missing() == []
    alive = [record for record in last.values() if record.content]
    if alive:
        lost = data.draw(st.sampled_from(alive))
        comparison.latest[2].pop(lost.key)
        assert [difference.offset for difference in comparison.missing()] == [lost.offset]
