"""The newest chunks in memory: which stay, which go, and where an offset is."""

from hypothesis import given
from hypothesis import strategies as st

from lograft.storage.log.memory_tail import Chunk, MemoryTail


def chunk(start: int, end: int, size: int = 10) -> Chunk:
    return Chunk(start, end, b"x" * size)


def held(tail: MemoryTail, start: int = 0) -> list[tuple[int, int]]:
    """What is in memory, found through its own interface."""
    found = []
    for offset in range(start, start + 2000):
        cursor = tail.find(offset)
        if cursor is not None:
            piece = tail.at(cursor)
            assert piece is not None
            found.append((piece.start, piece.end))
    return sorted(dict.fromkeys(found))


def filled(limit_bytes: int, *bounds: tuple[int, int]) -> MemoryTail:
    tail = MemoryTail(limit_bytes)
    for start, end in bounds:
        tail.append(chunk(start, end))
    return tail


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    tail = filled(20, (0, 5), (5, 6), (6, 9))
    tail.evict(written_end=9)
    assert held(tail) == [(5, 6), (6, 9)]


def test_what_is_not_written_stays_whatever_its_size() -> None:
    tail = filled(0, (0, 5), (5, 6), (6, 9))
    tail.evict(written_end=5)
    assert held(tail) == [(5, 6), (6, 9)]
    tail.evict(written_end=9)
    assert held(tail) == []


def test_a_chunk_written_in_part_stays() -> None:
    tail = filled(0, (0, 5))
    tail.evict(written_end=4)
    assert held(tail) == [(0, 5)]


def test_an_emptied_tail_goes_on_wherever_the_log_does() -> None:
    tail = filled(0, (0, 5))
    tail.evict(5)
    tail.append(chunk(100, 101))
    assert held(tail) == [(100, 101)]


def test_a_cut_between_chunks_keeps_those_before_it() -> None:
    tail = filled(100, (0, 5), (5, 6), (6, 9))
    tail.truncate(6)
    assert held(tail) == [(0, 5), (5, 6)]
    tail.append(chunk(6, 7))
    assert held(tail) == [(0, 5), (5, 6), (6, 7)]


def test_a_cut_inside_a_chunk_gives_up_all_as_the_end_is_not_in_memory() -> None:
    tail = filled(100, (0, 5), (5, 9))
    tail.truncate(7)
    assert held(tail) == []
    tail.append(chunk(7, 8))
    assert held(tail) == [(7, 8)]


def test_a_cut_above_the_end_changes_nothing() -> None:
    tail = filled(100, (0, 5), (5, 9))
    tail.truncate(9)
    assert held(tail) == [(0, 5), (5, 9)]


def test_bytes_are_counted_again_after_a_cut() -> None:
    tail = filled(20, (0, 5), (5, 6))
    tail.truncate(5)
    tail.append(chunk(5, 7))
    tail.evict(7)
    assert held(tail) == [(0, 5), (5, 7)]


def test_memory_does_not_grow_with_what_was_evicted() -> None:
    tail = MemoryTail(100)
    for offset in range(20_000):
        tail.append(chunk(offset, offset + 1))
        tail.evict(offset + 1)
    assert len(tail._chunks) < 1000
    assert len(tail._starts) == len(tail._chunks)
    assert held(tail, 19_000) == [(offset, offset + 1) for offset in range(19_990, 20_000)]


@given(
    st.integers(0, 60),
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 30)),
            st.tuples(st.just("written"), st.floats(0, 1), st.just(0)),
            st.tuples(st.just("truncate"), st.floats(0, 1), st.just(0)),
        ),
        max_size=60,
    ),
)
def test_it_holds_the_end_of_the_log_without_gaps(limit_bytes: int, steps: list[tuple[str, float, int]]) -> None:
    """Against a list: all that is unwritten is there, and what is there reaches to the end."""
    tail, log, written = MemoryTail(limit_bytes), [chunk(0, 0, 0)], 0
    for step, amount, size in steps:
        end = log[-1].end
        if step == "append":
            log.append(chunk(end, end + int(amount), size))
            tail.append(log[-1])
        elif step == "written":
            written = max(written, next(c.end for c in log if c.end >= amount * end))
            tail.evict(written)
        else:
            cut = int(amount * end)
            written = min(end, written)
            if written == end:  # as the log does it: all is written before it is cut
                log = [c for c in log if c.end <= cut]
                written = log[-1].end
                tail.truncate(written)
        expected = [(c.start, c.end) for c in log[1:]]
        found = held(tail)
        assert found == expected[len(expected) - len(found) :]
        assert [bounds for bounds in expected if bounds[1] > written] == [b for b in found if b[1] > written]
