"""The 61-byte header: its fields, its CRC, what of it a leader stamps, and what it alone can give away."""

import struct

import pytest

from lograft.storage.batch.codec import encode_batch, iterate_batches, validate_batch
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import (
    HEADER_BYTES,
    MAGIC_COLUMNS,
    MAGIC_ROWS,
    check_crc,
    checksum,
    parse_header,
    stamp,
)
from lograft.storage.errors import (
    BadAttributes,
    BadBatchLength,
    BadCrc,
    BadRecordCount,
    BatchTooLarge,
    TruncatedBatch,
    UnknownCompression,
    UnknownMagic,
)

MAGICS = pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])


def patched(batch: bytes, position: int, layout: str, *numbers: int) -> bytes:
    """The batch with other numbers at `position` and a CRC to match."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, *numbers)
    struct.pack_into(">I", changed, 17, checksum(changed, 21, len(changed)))
    return bytes(changed)


@MAGICS
def test_every_field_comes_back_from_its_place(magic: int) -> None:
    batch = encode_batch(
        [b"a", b"b", b"c"],
        timestamps=[30, 10, 20],
        magic=magic,
        base_offset=0x0102030405060708,
        leader_epoch=9,
        producer_id=0x1112131415161718,
        producer_epoch=0x2122,
        base_sequence=0x31323334,
        transactional=True,
        control=True,
    )
    header = parse_header(batch)
    assert batch[0:8].hex() == "0102030405060708"
    assert batch[12:17] == bytes((0, 0, 0, 9, magic))
    assert batch[43:51].hex() == "1112131415161718"
    assert batch[51:53].hex() == "2122"
    assert batch[53:57].hex() == "31323334"
    assert header.total_bytes == len(batch)
    assert header.last_offset == 0x0102030405060708 + 2
    assert header.next_offset == 0x0102030405060708 + 3
    assert (header.base_timestamp, header.max_timestamp) == (30, 30)
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    assert header.last_sequence == 0x31323336
    assert header.is_transactional
    assert header.is_control
    assert not header.is_append_time
    assert not header.has_delete_horizon


def test_defaults_are_those_of_a_producer_without_identity() -> None:
    header = parse_header(encode_batch([b"a"], timestamps=1))
    assert (header.base_offset, header.leader_epoch) == (0, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.last_sequence == -1


def test_sequences_wrap_to_zero_after_the_largest() -> None:
    batch = encode_batch([b"a", b"b"], timestamps=1, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1)
    assert parse_header(batch).last_sequence == 0


def test_header_is_parsed_where_it_lies_without_the_rest_of_its_batch() -> None:
    batch = encode_batch([b"value"], timestamps=1, base_offset=5)
    assert parse_header(b"xyz" + batch[:HEADER_BYTES], 3) == parse_header(batch)
    assert parse_header(memoryview(bytearray(batch))) == parse_header(batch)


@pytest.mark.parametrize("value_bytes", [10, 100_000])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_stamping_changes_offset_and_epoch_and_leaves_the_crc_right(value_bytes: int, kind: type) -> None:
    batch = encode_batch([b"v" * value_bytes], timestamps=1)
    stamped = stamp(kind(batch), 1234, 56)
    assert type(stamped) is bytes
    assert stamped[16:] == batch[16:]
    header = validate_batch(stamped)
    assert (header.base_offset, header.leader_epoch) == (1234, 56)


@pytest.mark.parametrize("value_bytes", [10, 100_000])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_changed_byte_under_the_crc_is_noticed(value_bytes: int, kind: type) -> None:
    batch = encode_batch([b"v" * value_bytes], timestamps=1)
    header = parse_header(batch)
    check_crc(kind(b"12345" + batch + b"6"), 5, header)
    for position in (21, 60, 61, len(batch) // 2, len(batch) - 1):
        damaged = bytearray(batch)
        damaged[position] ^= 1
        with pytest.raises(BadCrc):
            check_crc(kind(damaged), 0, header)


@MAGICS
def test_a_batch_cut_anywhere_is_truncated(magic: int) -> None:
    batch = encode_batch([b"value", None], keys=[b"k", b"l"], timestamps=1, magic=magic)
    for end in range(len(batch)):
        with pytest.raises(TruncatedBatch):
            validate_batch(batch[:end])


REFUSED = [
    ("magic 1", 16, ">b", (1,), UnknownMagic),
    ("magic 4", 16, ">b", (4,), UnknownMagic),
    ("negative length", 8, ">i", (-1,), BadBatchLength),
    ("length below a header", 8, ">i", (48,), BadBatchLength),
    ("negative count", 57, ">i", (-1,), BadRecordCount),
    ("more records than offsets", 57, ">i", (3,), BadRecordCount),
    ("negative offset delta", 23, ">i", (-1,), BadRecordCount),
    ("negative base offset", 0, ">q", (-1,), BadAttributes),
    ("offsets past the end of 64 bits", 0, ">q", (2**63 - 2,), BadAttributes),
    ("base timestamp too small", 27, ">q", (-(2**62) - 1,), BadAttributes),
    ("largest timestamp too large", 35, ">q", (2**62,), BadAttributes),
    ("codec 5", 21, ">h", (5,), UnknownCompression),
    ("codec 7", 21, ">h", (7,), UnknownCompression),
    ("unknown attribute bit", 21, ">h", (0x80,), BadAttributes),
    ("sign bit of the attributes", 21, ">h", (-0x8000,), BadAttributes),
]


@MAGICS
@pytest.mark.parametrize(
    ("position", "layout", "numbers", "error"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_a_header_that_cannot_be_right_is_refused_by_name(
    magic: int, position: int, layout: str, numbers: tuple[int, ...], error: type[Exception]
) -> None:
    batch = encode_batch([b"a", b"b"], timestamps=1, magic=magic)
    validate_batch(batch)
    with pytest.raises(error):
        validate_batch(patched(batch, position, layout, *numbers))


def test_a_columns_batch_is_a_multiple_of_eight_bytes_long() -> None:
    batch = encode_batch([b"a"], timestamps=1)
    with pytest.raises(BadBatchLength):
        parse_header(patched(batch, 8, ">i", len(batch) - 12 - 4))


@pytest.mark.parametrize(
    ("name", "position", "numbers"),
    [("pad of 8", 61, (8,)), ("pad of 255", 61, (255,)), ("first zero", 62, (1,)), ("second zero", 63, (1,))],
)
def test_the_three_bytes_before_columns_are_checked(name: str, position: int, numbers: tuple[int, ...]) -> None:
    batch = encode_batch([b"a"], timestamps=1)
    with pytest.raises(BadBatchLength):
        validate_batch(patched(batch, position, ">B", *numbers))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_pad_bytes_are_zero(compression: Compression) -> None:
    batch = next(
        candidate
        for candidate in (encode_batch([b"a" * n], timestamps=1, compression=compression) for n in range(8))
        if candidate[61]
    )
    with pytest.raises(BadBatchLength):
        validate_batch(patched(batch, len(batch) - 1, ">B", 1))


def test_a_pad_longer_than_the_payload_is_refused() -> None:
    smallest = encode_batch([], timestamps=1, last_offset_delta=0)
    cut = patched(smallest[:64], 8, ">i", 52)
    with pytest.raises(BadBatchLength):
        validate_batch(patched(cut, 61, ">B", 7))


def test_a_batch_over_the_given_limit_is_too_large() -> None:
    batch = encode_batch([b"a" * 100], timestamps=1)
    validate_batch(batch, max_bytes=len(batch))
    with pytest.raises(BatchTooLarge):
        validate_batch(batch, max_bytes=len(batch) - 1)


def test_iteration_yields_each_batch_and_stops_at_the_end() -> None:
    batches = [
        encode_batch([b"a"] * n, timestamps=1, magic=magic, base_offset=10 * n)
        for n, magic in ((1, MAGIC_ROWS), (2, MAGIC_COLUMNS), (3, MAGIC_ROWS))
    ]
    buffer = b"".join(batches)
    found = list(iterate_batches(buffer))
    assert [header.base_offset for _, header in found] == [10, 20, 30]
    assert [position for position, _ in found] == [0, len(batches[0]), len(batches[0] + batches[1])]
    assert [position for position, _ in iterate_batches(buffer, len(batches[0]), len(batches[0] + batches[1]))] == [
        len(batches[0])
    ]
    assert list(iterate_batches(b"")) == []


def test_iteration_reports_a_partial_batch_after_the_whole_ones() -> None:
    batch = encode_batch([b"a"], timestamps=1)
    for cut in (1, 60, 61, len(batch) - 1):
        iterator = iterate_batches(batch + batch[:cut])
        assert next(iterator)[0] == 0
        with pytest.raises(TruncatedBatch):
            next(iterator)
    with pytest.raises(TruncatedBatch):
        list(iterate_batches(batch, 0, len(batch) - 1))


def test_iteration_raises_at_what_is_no_batch() -> None:
    batch = encode_batch([b"a"], timestamps=1)
    iterator = iterate_batches(batch + bytes(100))
    assert next(iterator)[0] == 0
    with pytest.raises(UnknownMagic):
        next(iterator)
