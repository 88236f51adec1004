"""The decisions of compaction: what to clean, what fits in memory, what is left of a batch."""

from hashlib import blake2b

import pytest

from lograft.storage.batch.codec import Compression, decode_columns, encode_batch, validate_deep
from lograft.storage.batch.header import HEADER_BYTES, MAGIC_COLUMNS, MAGIC_ROWS, parse_header
from lograft.storage.cleaning.batch_cleaner import BatchCleaner
from lograft.storage.cleaning.compaction_plan import MAX_GROUP_SEGMENTS, count_cleanable, group_segments, is_worthwhile
from lograft.storage.cleaning.key_map import DIGEST_BYTES, KeyMap
from lograft.storage.files.segment_index import SegmentIndex, SegmentSummary

NOW_MS = 1_800_000_000_000


def summaries(*sizes: int, age_ms: int = 0) -> list[SegmentSummary]:
    """Segments of ten offsets each."""
    return [
        SegmentSummary(10 * place, 10 * place + 10, size, max_timestamp=NOW_MS - age_ms)
        for place, size in enumerate(sizes)
    ]


# -- which segments


@pytest.mark.parametrize(("bound", "expected"), [(30, 3), (29, 2), (10, 1), (9, 0), (0, 0)])
def test_only_segments_below_the_bound_are_cleanable(bound: int, expected: int) -> None:
    assert count_cleanable(summaries(1, 1, 1), bound, NOW_MS, 0) == expected


def test_segments_from_the_first_young_one_on_are_not_cleanable() -> None:
    segments = summaries(1, 1, 1, age_ms=1000)
    segments[1].max_timestamp = NOW_MS - 999
    assert count_cleanable(segments, 30, NOW_MS, 1000) == 1
    assert count_cleanable(segments, 30, NOW_MS + 1, 1000) == 3


def test_without_a_lag_not_even_a_timestamp_ahead_of_the_clock_protects() -> None:
    assert count_cleanable(summaries(1, age_ms=-5000), 10, NOW_MS, 0) == 1


def _index(base_offset: int, batches: int) -> SegmentIndex:
    """Batches of one offset each, all of one size."""
    index = SegmentIndex(base_offset)
    for offset in range(base_offset, base_offset + batches):
        index.add(parse_header(encode_batch([b"v"], timestamps=1, base_offset=offset)), 0, 1)
    return index


@pytest.mark.parametrize(
    ("first_dirty", "ratio", "expected"),
    [(0, 1.0, True), (10, 0.5, True), (10, 0.51, False), (15, 0.25, True), (15, 0.26, False), (20, 0.0, False)],
)
def test_cleaning_is_worthwhile_from_the_dirty_ratio_on(first_dirty: int, ratio: float, expected: bool) -> None:
    assert is_worthwhile([_index(0, 10), _index(10, 10)], first_dirty, ratio) is expected


def test_adjacent_segments_are_grouped_up_to_the_size_of_one() -> None:
    groups = group_segments(summaries(40, 60, 1, 100, 150, 10), max_bytes=100, max_offsets=1000)
    assert groups == [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 5), slice(5, 6)]


def test_a_group_spans_no_more_offsets_than_an_index_can_say() -> None:
    assert group_segments(summaries(1, 1, 1), 100, max_offsets=20) == [slice(0, 2), slice(2, 3)]


def test_a_group_has_no_more_segments_than_may_be_open_at_once() -> None:
    groups = group_segments(summaries(*[1] * (MAX_GROUP_SEGMENTS + 1)), 1000, 10_000)
    assert [group.stop - group.start for group in groups] == [MAX_GROUP_SEGMENTS, 1]


def test_no_segments_make_no_groups() -> None:
    assert group_segments([], 100, 100) == []


# -- the key map


def test_a_later_offset_supersedes() -> None:
    keys = KeyMap(0)
    assert keys.add([b"a", b"b", b"a", None], [0, 1, 2, 3], 4)
    assert keys.latest_of([b"a", b"b", b"unknown", None]) == [2, 1, None, None]
    assert keys.latest_of([]) == []
    assert (keys.end, len(keys)) == (4, 2)


def test_long_keys_are_told_apart_by_all_of_their_bytes() -> None:
    keys = KeyMap(0)
    long = b"x" * 1000
    keys.add([long + b"1", long + b"2", b"short", None], [0, 1, 2, 3], 4)
    assert keys.latest_of([long + b"1", long + b"2", long + b"3", b"short", None]) == [0, 1, None, 2, None]
    assert keys.latest_of([b"short"]) == [2]


def test_a_key_that_equals_the_digest_of_another_is_another_key() -> None:
    keys = KeyMap(0)
    keys.add([b"x" * 33], [0], 1)
    assert keys.latest_of([blake2b(b"x" * 33, digest_size=DIGEST_BYTES).digest()]) == [None]


def test_a_batch_that_does_not_fit_is_refused_whole() -> None:
    keys = KeyMap(0, max_keys=3)
    assert keys.add([b"a", b"b"], [0, 1], 2)
    assert not keys.add([b"a", b"c", b"d"], [2, 3, 4], 5)
    assert keys.latest_of([b"a"]) == [0]
    assert (keys.end, len(keys)) == (2, 2)
    assert keys.add([b"a", b"b", b"c"], [2, 3, 4], 5)
    assert (keys.end, len(keys)) == (5, 3)


def test_the_first_batch_always_fits() -> None:
    keys = KeyMap(0, max_keys=1)
    keys.skip(1)
    assert keys.add([b"a", b"b", b"c"], [1, 2, 3], 4)
    assert not keys.add([b"d"], [4], 5)


# -- one batch

LAYOUTS = [(magic, codec) for magic in (MAGIC_ROWS, MAGIC_COLUMNS) for codec in Compression]


def _cleaner(
    *superseded: bytes, at_ms: int = NOW_MS, last_offsets: dict[int, int] | None = None, end: int = 1000
) -> BatchCleaner:
    keys = KeyMap(0)
    keys.add(superseded, [999] * len(superseded), end)
    keys.last_offsets.update(last_offsets or {})
    return BatchCleaner(keys, keys.last_offsets, at_ms, delete_retention_ms=500)


def _clean(cleaner: BatchCleaner, batch: bytes, *, is_last: bool = False) -> bytes | None:
    cleaned = cleaner.clean(parse_header(batch), memoryview(batch), is_last=is_last)
    return None if cleaned is None else bytes(cleaned)


def _batch(magic: int = MAGIC_COLUMNS, codec: Compression = Compression.NONE, **fields: object) -> bytes:
    """Records a, b, c at offsets 100 to 102."""
    return encode_batch(
        [b"1", b"2", b"3"],
        keys=[b"a", b"b", b"c"],
        timestamps=[NOW_MS - 1, NOW_MS - 3, NOW_MS - 2],
        headers=[[("h", b"1")], [("h", None)], []],
        magic=magic,
        compression=codec,
        base_offset=100,
        leader_epoch=7,
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("magic", "codec"), LAYOUTS)
def test_survivors_keep_all_they_had_and_the_batch_keeps_its_bounds(magic: int, codec: Compression) -> None:
    batch = _batch(magic, codec, producer_id=5, producer_epoch=2, base_sequence=40, transactional=True)
    cleaner = _cleaner(b"a")
    cleaned = _clean(cleaner, batch)
    assert cleaned is not None
    before, after = parse_header(batch), validate_deep(cleaned)
    assert after == before._replace(
        batch_length=after.batch_length,
        crc=after.crc,
        record_count=2,
        base_timestamp=NOW_MS - 3,
        max_timestamp=NOW_MS - 2,
    )
    whole, left = decode_columns(batch), decode_columns(cleaned)
    assert [list(column) for column in left] == [list(column)[1:] for column in whole]
    assert cleaner.records_removed == 1


@pytest.mark.parametrize(("magic", "codec"), LAYOUTS)
def test_a_batch_from_which_nothing_goes_is_the_same_bytes(magic: int, codec: Compression) -> None:
    batch = _batch(magic, codec)
    assert _clean(_cleaner(b"z"), batch) == batch


def test_a_batch_of_which_nothing_is_left_goes() -> None:
    assert _clean(_cleaner(b"a", b"b", b"c"), _batch()) is None


@pytest.mark.parametrize(("magic", "codec"), LAYOUTS)
@pytest.mark.parametrize("reason", ["the segment's last", "its producer's last"])
def test_a_last_batch_stays_empty(magic: int, codec: Compression, reason: str) -> None:
    batch = _batch(magic, codec, producer_id=5, producer_epoch=2, base_sequence=40)
    is_last = reason == "the segment's last"
    cleaner = _cleaner(b"a", b"b", b"c", last_offsets={} if is_last else {5: 102})
    cleaned = _clean(cleaner, batch, is_last=is_last)
    assert cleaned is not None
    before, after = parse_header(batch), validate_deep(cleaned)
    assert after.record_count == 0
    for field in ("base_offset", "next_offset", "leader_epoch", "producer_id", "producer_epoch", "last_sequence"):
        assert getattr(after, field) == getattr(before, field)
    assert decode_columns(cleaned).offsets == []
    # An empty one stays as it is while it is needed, and then goes.
    assert _clean(cleaner, cleaned, is_last=is_last) == cleaned
    assert _clean(_cleaner(b"z", last_offsets={5: 500}), cleaned) is None


def test_records_without_a_key_go() -> None:
    batch = encode_batch([b"1", b"2"], keys=[None, b"b"], timestamps=1)
    cleaned = _clean(_cleaner(b"z"), batch)
    assert cleaned is not None
    assert decode_columns(cleaned).offsets == [1]
    assert _clean(_cleaner(b"z"), encode_batch([b"1"], timestamps=1)) is None


def test_control_batches_stay_as_they_are() -> None:
    batch = _batch(control=True)
    assert _clean(_cleaner(b"a", b"b", b"c"), batch) == batch


def test_batches_beyond_the_map_stay_as_they_are() -> None:
    batch = encode_batch([b"1", None], keys=[b"a", b"t"], timestamps=1, base_offset=100)
    assert _clean(_cleaner(b"a", end=100), batch) == batch
    assert _clean(_cleaner(b"a", end=102), batch) != batch


def test_what_cannot_be_decoded_stays_as_it_is() -> None:
    batch = bytearray(encode_batch([b"1" * 50], keys=[b"a"], timestamps=1, compression=Compression.ZSTD))
    batch[HEADER_BYTES + 10 :] = bytes(len(batch) - HEADER_BYTES - 10)
    assert _clean(_cleaner(b"a"), bytes(batch)) == bytes(batch)


def _tombstones(**fields: object) -> bytes:
    """A tombstone for t, and a value."""
    return encode_batch([None, b"1"], keys=[b"t", b"a"], timestamps=[NOW_MS - 2, NOW_MS - 1], base_offset=100, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("magic", "codec"), LAYOUTS)
def test_tombstones_are_kept_and_get_their_horizon_when_they_are_first_met(magic: int, codec: Compression) -> None:
    batch = _tombstones(magic=magic, compression=codec)
    cleaner = _cleaner(b"z")
    cleaned = _clean(cleaner, batch)
    assert cleaned is not None
    header = validate_deep(cleaned)
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW_MS + 500
    assert list(map(list, decode_columns(cleaned))) == list(map(list, decode_columns(batch)))
    assert (cleaner.records_removed, cleaner.tombstones_removed_below) == (0, 0)


def test_a_horizon_does_not_move_and_nothing_goes_before_it() -> None:
    first = _clean(_cleaner(b"z"), _tombstones())
    assert first is not None
    assert _clean(_cleaner(b"z", at_ms=NOW_MS + 499), first) == first
    smaller = _clean(_cleaner(b"a", at_ms=NOW_MS + 499), first)
    assert smaller is not None
    assert parse_header(smaller).base_timestamp == NOW_MS + 500
    assert decode_columns(smaller).keys == [b"t"]


def test_tombstones_go_at_their_horizon_and_it_is_noted_where() -> None:
    first = _clean(_cleaner(b"z"), _tombstones())
    assert first is not None
    cleaner = _cleaner(b"z", at_ms=NOW_MS + 500)
    cleaned = _clean(cleaner, first)
    assert cleaned is not None
    header = validate_deep(cleaned)
    assert not header.has_delete_horizon
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS - 1, NOW_MS - 1)
    assert decode_columns(cleaned).keys == [b"a"]
    assert (cleaner.records_removed, cleaner.tombstones_removed_below) == (1, 102)


def test_a_superseded_tombstone_goes_at_once_and_is_no_loss() -> None:
    cleaner = _cleaner(b"t")
    cleaned = _clean(cleaner, _tombstones())
    assert cleaned is not None
    assert not parse_header(cleaned).has_delete_horizon
    assert cleaner.tombstones_removed_below == 0


def test_append_time_survives_with_and_without_a_horizon() -> None:
    batch = _tombstones(append_time=True)
    for superseded in (b"t", b"a"):
        cleaned = _clean(_cleaner(superseded), batch)
        assert cleaned is not None
        assert parse_header(cleaned).is_append_time
        assert decode_columns(cleaned).timestamps == [NOW_MS - 1]


def test_a_retention_of_tombstones_beyond_all_time_is_as_far_as_time_goes() -> None:
    keys = KeyMap(0)
    keys.add([b"z"], [0], 1000)
    cleaned = BatchCleaner(keys, (), NOW_MS, delete_retention_ms=2**63 - 1).clean(
        parse_header(_tombstones()), _tombstones(), is_last=False
    )
    assert cleaned is not None
    assert decode_columns(cleaned).timestamps == [NOW_MS - 2, NOW_MS - 1]
