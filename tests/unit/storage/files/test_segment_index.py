"""A segment's sparse indexes, against a list of its batches."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.storage.batch.header import BatchHeader
from lograft.storage.files.sealed_file import BrokenSeal
from lograft.storage.files.segment_index import SegmentIndex, decode_offset_index, decode_time_index

BASE = 1000


def header(base_offset: int, size: int, count: int = 1, timestamp: int = 0) -> BatchHeader:
    return BatchHeader(base_offset, size - 12, 0, 2, 0, 0, count - 1, timestamp, timestamp, -1, -1, -1, count)


@dataclass(frozen=True)
class Placed:
    """A batch, and where it is."""

    header: BatchHeader
    position: int

    @property
    def end(self) -> int:
        return self.position + self.header.total_bytes


@st.composite
def segments(draw: st.DrawFn) -> tuple[list[Placed], int]:
    """Batches with holes, sizes and times of all kinds, and the interval they are indexed at."""
    steps = draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(61, 200), st.integers(0, 50)), max_size=30)
    )
    batches, offset, position = [], BASE, 0
    for hole, count, size, timestamp in steps:
        offset += hole
        batches.append(Placed(header(offset, size, count, timestamp), position))
        offset, position = offset + count, position + size
    return batches, draw(st.sampled_from([0, 100, 300, 10_000]))


def indexed(batches: list[Placed], interval_bytes: int) -> SegmentIndex:
    index = SegmentIndex(BASE)
    for batch in batches:
        index.add(batch.header, 5, interval_bytes)
    return index


@given(segments(), st.integers(BASE - 5, BASE + 200))
def test_a_search_for_an_offset_starts_at_a_batch_at_or_before_it(
    segment: tuple[list[Placed], int], offset: int
) -> None:
    batches, interval = segment
    index = indexed(batches, interval)
    found = index.position_at_or_before(offset)
    assert found in [0, *(batch.position for batch in batches)]
    for batch in batches:
        if batch.header.base_offset > offset and batch.position:
            assert found < batch.position
        if interval == 0 and batch.header.base_offset <= offset:
            assert found >= batch.position  # every batch is indexed, so none is left to walk


@given(segments(), st.integers(BASE - 5, BASE + 200))
def test_a_bound_ends_a_read_at_a_batch_at_or_after_it(segment: tuple[list[Placed], int], offset: int) -> None:
    batches, interval = segment
    index = indexed(batches, interval)
    found = index.position_at_or_after(offset)
    assert found in [index.summary.size_bytes, *(batch.position for batch in batches)]
    assert all(batch.end <= found for batch in batches if batch.header.base_offset < offset)


@given(segments(), st.integers(0, 30), st.integers(0, 3000))
def test_a_boundary_lies_within_the_limit_or_is_the_first_one_after_it(
    segment: tuple[list[Placed], int], place: int, limit_bytes: int
) -> None:
    batches, interval = segment
    if place >= len(batches):
        return
    index = indexed(batches, interval)
    position = batches[place].position
    limit = position + limit_bytes
    found = index.boundary_after(position, limit)
    assert found > position
    assert found in [batch.end for batch in batches]
    if found > limit and interval == 0:
        assert found == batches[place].end  # nothing smaller is possible: at least one batch
    assert index.last_position_within(position, found - 1) in [
        batch.position for batch in batches if position <= batch.position < found
    ]


@given(segments(), st.integers(-1, 60))
def test_a_search_for_a_time_starts_before_all_records_of_that_time_or_later(
    segment: tuple[list[Placed], int], timestamp: int
) -> None:
    batches, interval = segment
    start = indexed(batches, interval).offset_to_search_from(timestamp)
    assert all(batch.header.max_timestamp < timestamp for batch in batches if batch.header.base_offset < start)


@given(segments(), st.integers(BASE - 5, BASE + 200))
def test_rewinding_and_adding_again_gives_what_there_was(segment: tuple[list[Placed], int], offset: int) -> None:
    batches, interval = segment
    index = indexed(batches, interval)
    before = index.encode()
    rewound = index.rewound_before(offset)
    assert index.encode() == before  # a copy
    anchor = rewound.summary.size_bytes
    assert anchor in [0, *(batch.position for batch in batches)]
    assert all(batch.header.base_offset < offset for batch in batches if batch.end <= anchor)
    for batch in batches:
        if batch.position >= anchor:
            rewound.add(batch.header, 5, interval)
    assert rewound.encode() == before


@given(segments())
def test_an_index_survives_its_files(segment: tuple[list[Placed], int]) -> None:
    batches, interval = segment
    index = indexed(batches, interval)
    decoded = SegmentIndex.decode(*index.encode())
    assert decoded.encode() == index.encode()
    assert decoded.summary == index.summary
    # It also goes on as the first one would have.
    more = header(index.summary.next_offset, 150, timestamp=99)
    decoded.add(more, 9, interval)
    index.add(more, 9, interval)
    assert decoded.encode() == index.encode()


@given(segments())
def test_the_summary_covers_all_that_was_added(segment: tuple[list[Placed], int]) -> None:
    batches, interval = segment
    summary = indexed(batches, interval).summary
    assert summary.size_bytes == sum(batch.header.total_bytes for batch in batches)
    assert summary.next_offset == (batches[-1].header.next_offset if batches else BASE)
    assert summary.max_timestamp == max((batch.header.max_timestamp for batch in batches), default=-1)
    assert summary.first_append_ms == (5 if batches else -1)


def test_an_emptied_batch_does_not_count_as_of_its_time() -> None:
    index = SegmentIndex(BASE)
    index.add(header(BASE, 100, timestamp=900)._replace(record_count=0), 5, 0)
    assert index.summary.max_timestamp == -1


def test_a_batch_below_the_last_one_is_a_bug() -> None:
    index = SegmentIndex(BASE)
    index.add(header(BASE, 100, count=3), 5, 0)
    with pytest.raises(AssertionError):
        index.add(header(BASE + 2, 100), 5, 0)


def test_every_flipped_bit_in_either_file_is_noticed() -> None:
    index = SegmentIndex(BASE)
    for number in range(5):
        index.add(header(BASE + number, 100, timestamp=number), 5, 0)
    files = index.encode()
    for which in (0, 1):
        for at in range(len(files[which])):
            for bit in range(8):
                damaged = bytearray(files[which])
                damaged[at] ^= 1 << bit
                pair = (bytes(damaged), files[1]) if which == 0 else (files[0], bytes(damaged))
                with pytest.raises(BrokenSeal):
                    SegmentIndex.decode(*pair)


def test_every_shortened_file_is_noticed() -> None:
    index = SegmentIndex(BASE)
    index.add(header(BASE, 100), 5, 0)
    offset_file, time_file = index.encode()
    for size in range(len(offset_file)):
        with pytest.raises(BrokenSeal):
            SegmentIndex.decode(offset_file[:size], time_file)
    for size in range(len(time_file)):
        with pytest.raises(BrokenSeal):
            SegmentIndex.decode(offset_file, time_file[:size])


def test_two_files_of_different_segments_are_no_index() -> None:
    one, other = SegmentIndex(BASE), SegmentIndex(BASE)
    other.add(header(BASE, 100), 5, 0)
    with pytest.raises(BrokenSeal, match="different segments"):
        SegmentIndex.decode(one.encode()[0], other.encode()[1])
    with pytest.raises(BrokenSeal):
        SegmentIndex.decode(*reversed(one.encode()))


def test_the_files_are_big_endian_pairs() -> None:
    index = SegmentIndex(BASE)
    index.add(header(BASE, 100, timestamp=7), 5, 0)
    index.add(header(BASE + 3, 100, timestamp=9), 5, 0)
    offset_file, time_file = index.encode()
    assert decode_offset_index(offset_file)[1] == [(0, 0), (3, 100)]
    assert decode_time_index(time_file)[1] == [(-1, 0), (7, 3)]
    assert offset_file[40:56] == bytes.fromhex("00000000 00000000 00000003 00000064")
