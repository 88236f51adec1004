import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.metadata.image.delta_buffer import Delta, DeltaBuffer, DeltaLimits


def delta(index: int, size_bytes: int = 1) -> Delta:
    return Delta(index, bytes(size_bytes))


def filled(*indexes: int, limits: DeltaLimits | None = None, size_bytes: int = 1) -> DeltaBuffer:
    buffer = DeltaBuffer(limits)
    for index in indexes:
        buffer.add(delta(index, size_bytes))
    return buffer


def indexes_since(buffer: DeltaBuffer, index: int, max_bytes: int | None = None) -> list[int] | None:
    deltas = buffer.since(index, max_bytes)
    return [each.index for each in deltas] if deltas is not None else None


@pytest.mark.parametrize(
    ("since", "expected"), [(0, [2, 5, 9]), (1, [2, 5, 9]), (2, [5, 9]), (4, [5, 9]), (8, [9]), (9, []), (100, [])]
)
def test_it_gives_what_came_after_an_index_whether_something_was_there_or_not(since: int, expected: list[int]) -> None:
    assert indexes_since(filled(2, 5, 9), since) == expected


def test_it_forgets_the_oldest_when_there_are_too_many_and_says_so() -> None:
    buffer = filled(1, 2, 3, 4, 5, limits=DeltaLimits(max_count=3))
    assert len(buffer) == 3
    assert buffer.floor == 2
    assert indexes_since(buffer, 1) is None
    assert indexes_since(buffer, 2) == [3, 4, 5]


def test_it_forgets_the_oldest_when_they_are_too_large() -> None:
    buffer = filled(1, 2, 3, limits=DeltaLimits(max_bytes=100), size_bytes=40)
    assert indexes_since(buffer, 0) is None
    assert indexes_since(buffer, 1) == [2, 3]


def test_one_that_is_too_large_by_itself_is_forgotten_at_once() -> None:
    buffer = filled(1, limits=DeltaLimits(max_bytes=100))
    buffer.add(delta(2, 101))
    assert len(buffer) == 0
    assert indexes_since(buffer, 1) is None
    assert indexes_since(buffer, 2) == []


def test_after_a_new_start_nothing_older_is_known() -> None:
    buffer = filled(1, 2, 3)
    buffer.restart(7)
    assert indexes_since(buffer, 6) is None
    assert indexes_since(buffer, 7) == []
    buffer.add(delta(8))
    assert indexes_since(buffer, 7) == [8]


@pytest.mark.parametrize(("max_bytes", "expected"), [(1, [1]), (10, [1]), (19, [1]), (20, [1, 2]), (100, [1, 2, 3])])
def test_it_gives_no_more_than_asked_for_but_at_least_one(max_bytes: int, expected: list[int]) -> None:
    assert indexes_since(filled(1, 2, 3, size_bytes=10), 0, max_bytes) == expected


@pytest.mark.parametrize("index", [2, 3])
def test_indexes_rise(index: int) -> None:
    with pytest.raises(AssertionError, match=f"delta {index} after 3"):
        filled(1, 3).add(delta(index))


@given(
    steps=st.lists(st.integers(1, 5), max_size=200),
    max_count=st.integers(1, 20),
    max_bytes=st.integers(10, 200),
    since=st.integers(0, 1000),
)
def test_it_is_the_end_of_a_list(steps: list[int], max_count: int, max_bytes: int, since: int) -> None:
    buffer = DeltaBuffer(DeltaLimits(max_count, max_bytes))
    everything: list[Delta] = []
    index = 0
    for step in steps:
        index += step
        everything.append(delta(index, step * 2))
        buffer.add(everything[-1])
    assert len(buffer) <= max_count
    kept = everything[len(everything) - len(buffer) :]
    assert sum(len(each.data) for each in kept) <= max_bytes
    after = [each for each in everything if each.index > since]
    if since >= buffer.floor:
        assert buffer.since(since) == after
        assert buffer.count_since(since) == len(after)
    else:
        assert buffer.since(since) is None
        assert len(after) > len(buffer)
