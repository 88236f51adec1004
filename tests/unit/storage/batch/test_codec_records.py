"""What goes into a batch comes out again, in both layouts, with every compression, to lists and to records."""

import pytest

from lograft.storage.batch.codec import (
    decode_columns,
    decode_records,
    encode_batch,
    parse_header,
    rewrite_batch,
    validate_batch,
    validate_deep,
)
from lograft.storage.batch.compression import MAX_PAYLOAD_BYTES, Compression
from lograft.storage.batch.header import MAGIC_COLUMNS, MAGIC_ROWS, checksum, stamp
from lograft.storage.batch.record import Record
from lograft.storage.errors import BadBatchLength, BadCompressedData, BadRecord, BatchTooLarge, TruncatedBatch

MAGICS = pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])
CODECS = pytest.mark.parametrize("compression", list(Compression))

KEYS = [b"k1", None, b"", b"k4" * 50]
VALUES = [b"v1", b"", None, b"v4" * 5000]
TIMESTAMPS = [1_700_000_000_005, 1_700_000_000_000, -1, 1_700_000_000_005]
HEADERS = [[("a", b"1"), ("a", None)], [], [("größe", b"")], [("", b"x")]]


@MAGICS
@CODECS
def test_nulls_headers_and_timestamps_come_back_as_records(magic: int, compression: Compression) -> None:
    batch = encode_batch(
        VALUES,
        keys=KEYS,
        timestamps=TIMESTAMPS,
        headers=HEADERS,  # type: ignore[arg-type]
        magic=magic,
        compression=compression,
        base_offset=40,
    )
    assert validate_deep(batch).compression is compression
    records = decode_records(batch, topic="orders", partition=3)
    assert records == [
        Record("orders", 3, 40 + i, TIMESTAMPS[i], KEYS[i], VALUES[i], tuple(HEADERS[i]))  # type: ignore[arg-type]
        for i in range(4)
    ]
    assert {type(record) for record in records} == {Record}


@MAGICS
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_batch_decodes_from_any_buffer(magic: int, kind: type) -> None:
    batch = encode_batch(VALUES, keys=KEYS, timestamps=TIMESTAMPS, headers=HEADERS, magic=magic)  # type: ignore[arg-type]
    assert decode_records(kind(batch)) == decode_records(batch)
    assert all(type(value) is bytes for value in decode_columns(kind(batch)).values if value is not None)


@MAGICS
def test_offsets_follow_the_stamp(magic: int) -> None:
    batch = stamp(encode_batch([b"a", b"b"], timestamps=1, magic=magic), 100, 7)
    assert list(decode_columns(batch).offsets) == [100, 101]


@MAGICS
def test_one_timestamp_stands_for_all(magic: int) -> None:
    batch = encode_batch([b"a", b"b"], timestamps=99, magic=magic)
    assert batch == encode_batch([b"a", b"b"], timestamps=[99, 99], magic=magic)
    assert list(decode_columns(batch).timestamps) == [99, 99]


@MAGICS
def test_append_time_is_the_largest_timestamp_for_every_record(magic: int) -> None:
    batch = encode_batch([b"a", b"b", b"c"], timestamps=[5, 9, 7], append_time=True, magic=magic)
    assert parse_header(batch).is_append_time
    assert list(decode_columns(batch).timestamps) == [9, 9, 9]
    validate_deep(batch)


@MAGICS
def test_sparse_offsets_survive(magic: int) -> None:
    batch = encode_batch(
        [b"a", b"b"], timestamps=1, offset_deltas=[2, 5], last_offset_delta=9, base_offset=100, magic=magic
    )
    header = validate_deep(batch)
    assert (header.record_count, header.last_offset_delta, header.next_offset) == (2, 9, 110)
    assert list(decode_columns(batch).offsets) == [102, 105]


@MAGICS
def test_the_last_sparse_offset_ends_the_batch_unless_told_otherwise(magic: int) -> None:
    assert (
        parse_header(encode_batch([b"a", b"b"], timestamps=1, offset_deltas=[2, 5], magic=magic)).last_offset_delta == 5
    )


def test_offset_deltas_that_are_dense_take_no_space() -> None:
    dense = encode_batch([b"a", b"b"], timestamps=1)
    assert encode_batch([b"a", b"b"], timestamps=1, offset_deltas=[0, 1]) == dense


@MAGICS
@CODECS
def test_a_batch_of_no_records_keeps_what_its_header_says(magic: int, compression: Compression) -> None:
    batch = encode_batch(
        [],
        timestamps=77,
        last_offset_delta=4,
        base_offset=10,
        leader_epoch=3,
        producer_id=8,
        producer_epoch=2,
        base_sequence=50,
        magic=magic,
        compression=compression,
    )
    header = validate_deep(batch)
    assert (header.record_count, header.next_offset, header.last_sequence) == (0, 15, 54)
    assert (header.producer_id, header.producer_epoch, header.leader_epoch, header.max_timestamp) == (8, 2, 3, 77)
    assert decode_records(batch) == []


@MAGICS
@pytest.mark.parametrize("timestamps", [[5, 9], 9])
def test_a_delete_horizon_takes_the_base_timestamp_and_leaves_the_records_theirs(
    magic: int, timestamps: int | list[int]
) -> None:
    batch = encode_batch([None, b"b"], keys=[b"k", b"l"], timestamps=timestamps, delete_horizon=1_000_000, magic=magic)
    header = validate_deep(batch)
    assert header.has_delete_horizon
    assert (header.base_timestamp, header.max_timestamp) == (1_000_000, 9)
    assert list(decode_columns(batch).timestamps) == ([9, 9] if timestamps == 9 else [5, 9])


@MAGICS
@CODECS
def test_rewriting_changes_the_compression_and_nothing_else(magic: int, compression: Compression) -> None:
    batch = encode_batch(
        VALUES,
        keys=KEYS,
        timestamps=TIMESTAMPS,
        headers=HEADERS,  # type: ignore[arg-type]
        magic=magic,
        base_offset=5,
        leader_epoch=6,
        producer_id=7,
        producer_epoch=8,
        base_sequence=9,
        transactional=True,
        compression=Compression.LZ4,
    )
    rewritten = rewrite_batch(batch, compression=compression)
    header = validate_deep(rewritten)
    assert header.compression is compression
    assert decode_records(rewritten) == decode_records(batch)
    unchanged = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert header._replace(**unchanged) == parse_header(batch)._replace(**unchanged)
    assert header.is_transactional
    plain = rewrite_batch(batch, compression=Compression.NONE)
    assert rewrite_batch(rewritten, compression=Compression.NONE) == plain


@MAGICS
@CODECS
def test_rewriting_to_append_time_does_not_open_the_records(magic: int, compression: Compression) -> None:
    batch = encode_batch([b"a", b"b"], timestamps=[3, 4], magic=magic, compression=compression)
    rewritten = rewrite_batch(batch, append_time=5000)
    assert rewritten[61:] == batch[61:]
    header = validate_deep(rewritten)
    assert (header.is_append_time, header.base_timestamp, header.max_timestamp) == (True, 3, 5000)
    assert list(decode_columns(rewritten).timestamps) == [5000, 5000]


def test_rewriting_nothing_gives_the_same_bytes() -> None:
    batch = encode_batch(VALUES, timestamps=TIMESTAMPS, compression=Compression.ZSTD)
    assert rewrite_batch(batch) == batch
    assert rewrite_batch(batch, compression=Compression.ZSTD) == batch


@MAGICS
def test_columns_of_different_lengths_are_refused(magic: int) -> None:
    for arguments in ({"keys": [b"k"]}, {"timestamps": [1]}, {"headers": [()]}, {"offset_deltas": [0]}):
        with pytest.raises(ValueError, match="entries"):
            encode_batch([b"a", b"b"], **({"timestamps": 1, "magic": magic} | arguments))


@MAGICS
@pytest.mark.parametrize("deltas", [[0, 0], [3, 2], [-1, 0]])
def test_offset_deltas_that_do_not_rise_cannot_be_encoded(magic: int, deltas: list[int]) -> None:
    with pytest.raises(ValueError, match="rise"):
        encode_batch([b"a", b"b"], timestamps=1, offset_deltas=deltas, magic=magic)


@MAGICS
def test_a_last_offset_delta_that_does_not_cover_the_records_cannot_be_encoded(magic: int) -> None:
    with pytest.raises(ValueError, match="cover"):
        encode_batch([b"a", b"b"], timestamps=1, last_offset_delta=0, magic=magic)
    with pytest.raises(ValueError, match="cover"):
        encode_batch([], timestamps=1, magic=magic)


@MAGICS
def test_values_that_are_not_bytes_cannot_be_encoded(magic: int) -> None:
    with pytest.raises(TypeError):
        encode_batch(["text"], timestamps=1, magic=magic)  # type: ignore[list-item]


@MAGICS
@pytest.mark.parametrize("timestamps", [-(2**62) - 1, 2**62, [0, -(2**62) - 1], [0, 2**62]])
def test_timestamps_out_of_range_cannot_be_encoded(magic: int, timestamps: int | list[int]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        encode_batch([b"a", b"b"], timestamps=timestamps, magic=magic)


@MAGICS
def test_the_extreme_timestamps_are_as_good_as_any(magic: int) -> None:
    extremes = [-(2**62), 2**62 - 1]
    batch = encode_batch([b"a", b"b"], timestamps=extremes, delete_horizon=2**62 - 1, magic=magic)
    assert list(decode_columns(batch).timestamps) == extremes
    validate_deep(batch)


@MAGICS
def test_decoding_takes_exactly_one_batch(magic: int) -> None:
    batch = encode_batch([b"a"], timestamps=1, magic=magic)
    with pytest.raises(BadBatchLength):
        decode_records(batch + b"\x00")
    with pytest.raises(TruncatedBatch):
        decode_records(batch[:-1])


@MAGICS
def test_a_largest_timestamp_that_no_record_has_is_found_by_deep_validation_only(magic: int) -> None:
    wrong = bytearray(encode_batch([b"a", b"b"], timestamps=[1, 2], magic=magic))
    wrong[42] = 3
    wrong[17:21] = checksum(wrong, 21, len(wrong)).to_bytes(4, "big")
    assert validate_batch(wrong).max_timestamp == 3
    with pytest.raises(BadRecord):
        validate_deep(wrong)


@pytest.mark.parametrize("compression", [codec for codec in Compression if codec])
def test_a_payload_no_reader_would_decompress_is_not_compressed(compression: Compression) -> None:
    megabyte = bytes(1024 * 1024)
    with pytest.raises(BatchTooLarge):
        encode_batch([megabyte] * (MAX_PAYLOAD_BYTES >> 20), timestamps=1, compression=compression)


@MAGICS
@pytest.mark.parametrize("compression", [codec for codec in Compression if codec])
def test_decoding_stops_at_the_limit_it_is_given(magic: int, compression: Compression) -> None:
    batch = encode_batch([bytes(100_000)], timestamps=1, magic=magic, compression=compression)
    assert decode_columns(batch, limit_bytes=101_000).values == [bytes(100_000)]
    for refuse in (decode_columns, decode_records, validate_deep):
        with pytest.raises(BadCompressedData):
            refuse(batch, limit_bytes=99_000)
    with pytest.raises(BadCompressedData):
        rewrite_batch(batch, compression=Compression.NONE, limit_bytes=99_000)
