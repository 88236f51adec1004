"""What a leader lets in, what it refuses, and what it rewrites."""

import dataclasses
import random
import struct
from typing import Any

import google_crc32c
import pytest
from support.virtual_log import NOW_MS, make_batch

from lograft.storage.batch.codec import decode_records, encode_batch
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import MAGIC_COLUMNS, MAGIC_ROWS, check_crc, parse_header
from lograft.storage.errors import (
    BadAttributes,
    BadCompressedData,
    BadCrc,
    BadRecord,
    BadRecordCount,
    BatchTooLarge,
    InvalidBatch,
    InvalidRecord,
    InvalidTimestamp,
    TruncatedBatch,
    UnknownMagic,
)
from lograft.storage.log.admission import MAX_FUTURE_MS, MAX_ROWS, admit
from lograft.storage.log.log_config import LogConfig

CONFIG = LogConfig()
COMPACTED = LogConfig(cleanup_compact=True)
CHECKED = LogConfig(validate_batches=True)


def resealed(batch: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with one header field changed, and a CRC that says it is right."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    return bytes(changed)


def flipped(batch: bytes, at: int) -> bytes:
    return batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]


REFUSED: list[Any] = [
    pytest.param(b"", CONFIG, TruncatedBatch, id="nothing"),
    pytest.param(make_batch()[:60], CONFIG, TruncatedBatch, id="less than a header"),
    pytest.param(make_batch()[:-1], CONFIG, TruncatedBatch, id="cut short"),
    pytest.param(make_batch() + make_batch(), CONFIG, BadRecordCount, id="two batches"),
    pytest.param(flipped(make_batch(), 70), CONFIG, BadCrc, id="damaged payload"),
    pytest.param(flipped(make_batch(), 17), CONFIG, BadCrc, id="damaged CRC"),
    pytest.param(resealed(make_batch(), 16, ">b", 4), CONFIG, UnknownMagic, id="unknown magic"),
    pytest.param(make_batch(50), LogConfig(max_message_bytes=100), BatchTooLarge, id="too large"),
    pytest.param(encode_batch([], timestamps=0, last_offset_delta=3), CONFIG, BadRecordCount, id="no records"),
    pytest.param(
        encode_batch([b"a", b"b"], timestamps=NOW_MS, offset_deltas=[0, 2]), CONFIG, BadRecordCount, id="holes"
    ),
    pytest.param(
        encode_batch([b"a"], timestamps=NOW_MS, last_offset_delta=1), CONFIG, BadRecordCount, id="a hole at the end"
    ),
    pytest.param(make_batch(control=True), CONFIG, BadAttributes, id="control"),
    pytest.param(make_batch(transactional=True), CONFIG, BadAttributes, id="transactional"),
    pytest.param(
        make_batch(transactional=True, producer_id=5, producer_epoch=0, base_sequence=0),
        CONFIG,
        BadAttributes,
        id="transactional, of a producer",
    ),
    pytest.param(make_batch(append_time=True), CONFIG, BadAttributes, id="append time"),
    pytest.param(make_batch(delete_horizon=NOW_MS), CONFIG, BadAttributes, id="delete horizon"),
    pytest.param(make_batch(producer_id=5), CONFIG, BadAttributes, id="producer without epoch and sequence"),
    pytest.param(make_batch(producer_id=5, producer_epoch=0), CONFIG, BadAttributes, id="producer without a sequence"),
    pytest.param(make_batch(producer_id=5, base_sequence=0), CONFIG, BadAttributes, id="producer without an epoch"),
    pytest.param(
        make_batch(producer_id=-2, producer_epoch=0, base_sequence=0), CONFIG, BadAttributes, id="no producer's id"
    ),
    pytest.param(make_batch(at_ms=-1), CONFIG, InvalidTimestamp, id="before 1970"),
    pytest.param(make_batch(at_ms=NOW_MS + MAX_FUTURE_MS + 1), CONFIG, InvalidTimestamp, id="over an hour ahead"),
    pytest.param(
        encode_batch([b"v", b"w"], keys=[b"k", None], timestamps=NOW_MS), COMPACTED, InvalidRecord, id="a null key"
    ),
    pytest.param(encode_batch([b"v"], timestamps=NOW_MS), COMPACTED, InvalidRecord, id="no keys"),
    pytest.param(resealed(make_batch(), 21, ">h", 0x100), CONFIG, BadAttributes, id="unknown attribute"),
    pytest.param(resealed(make_batch(), 57, ">i", 2), CONFIG, BadRecordCount, id="more records than offsets"),
]


@pytest.mark.parametrize(("batch", "config", "error"), REFUSED)
def test_refused_with_the_cause_by_name(batch: bytes, config: LogConfig, error: type[InvalidBatch]) -> None:
    with pytest.raises(error):
        admit(batch, config, NOW_MS)


def garbage(batch: bytes, kept: int = 0) -> bytes:
    """The batch with noise for a payload, but for its first bytes, and a length and a CRC that say it is right."""
    start = kept + (64 if batch[16] == MAGIC_COLUMNS else 61)
    end = len(batch) - (batch[61] if batch[16] == MAGIC_COLUMNS else 0)
    noise = random.Random(7).randbytes(end - start)
    return resealed(batch[:start] + noise + batch[end:], 12, ">i", -1)


@pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])
@pytest.mark.parametrize("codec", Compression)
def test_what_no_reader_could_decode_is_not_stored(magic: int, codec: Compression) -> None:
    batch = garbage(make_batch(3, value=b"value" * 20, magic=magic, compression=codec))
    check_crc(batch, 0, parse_header(batch))
    # Snappy's raw blocks begin with no mark of their own.
    unopened = () if codec is Compression.SNAPPY else (CONFIG, LogConfig(append_time=True))
    for config in (*unopened, COMPACTED, CHECKED):
        with pytest.raises(InvalidBatch):
            admit(batch, config, NOW_MS)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_topic_that_looks_refuses_what_only_begins_well(codec: Compression) -> None:
    whole = make_batch(3, value=b"value" * 20, compression=codec)
    batch = garbage(whole, kept=16)
    assert admit(batch, CONFIG, NOW_MS).batch is batch  # to find out would take as long as all the rest
    with pytest.raises(InvalidBatch):
        admit(batch, CHECKED, NOW_MS)
    assert admit(whole, CHECKED, NOW_MS).batch is whole


def test_offsets_inside_a_batch_are_looked_at() -> None:
    """The section table says where they are, and is right; they do not rise."""
    batch = make_batch(3, value=b"value")
    at = batch.index(struct.pack("<iiii", 0, 5, 10, 15))
    with pytest.raises(BadRecord, match="do not rise"):
        admit(resealed(batch, at + 4, "<i", 11), CONFIG, NOW_MS)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_bomb_is_not_opened_beyond_the_limit(codec: Compression) -> None:
    bomb = encode_batch([bytes(1_000_000)], timestamps=NOW_MS, compression=codec)
    with pytest.raises(BadCompressedData):
        admit(bomb, CHECKED, NOW_MS, limit_bytes=100_000)
    assert admit(bomb, CHECKED, NOW_MS).batch is bomb


@pytest.mark.parametrize("config", [CHECKED, COMPACTED])
def test_a_bomb_of_rows_is_refused_without_looking_at_them(config: LogConfig) -> None:
    """A million of them in some kilobytes, each of which takes a step."""
    rows = encode_batch([None] * 3, timestamps=NOW_MS, magic=MAGIC_ROWS, compression=Compression.ZSTD)
    many = resealed(resealed(rows, 57, ">i", MAX_ROWS + 1), 23, ">i", MAX_ROWS)
    with pytest.raises(BatchTooLarge, match="1000001 rows"):
        admit(many, config, NOW_MS)


@pytest.mark.parametrize("bit", range(3, 16))
def test_no_attribute_but_the_compression_is_for_clients_to_set(bit: int) -> None:
    attributes = 1 << bit if bit < 15 else -(1 << 15)
    with pytest.raises(BadAttributes):
        admit(resealed(make_batch(), 21, ">h", attributes), CONFIG, NOW_MS)


def test_a_transactional_batch_is_told_why() -> None:
    with pytest.raises(BadAttributes, match="part of a transaction, which this version does not have"):
        admit(make_batch(transactional=True), CONFIG, NOW_MS)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(make_batch(at_ms=NOW_MS + MAX_FUTURE_MS), id="exactly an hour ahead"),
        pytest.param(make_batch(at_ms=0), id="as old as can be"),
        pytest.param(make_batch(producer_id=0, producer_epoch=0, base_sequence=0), id="the first producer"),
        pytest.param(make_batch(offset=2**40, epoch=9), id="with an offset and epoch it does not have"),
        pytest.param(make_batch(magic=MAGIC_ROWS, compression=Compression.ZSTD), id="rows, compressed"),
    ],
)
def test_admitted_as_it_is(batch: bytes) -> None:
    assert admit(batch, CONFIG, NOW_MS).batch is batch


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])
@pytest.mark.parametrize("missing", [0, 8, 17])
def test_a_compacted_topic_refuses_a_batch_with_one_null_key(missing: int, magic: int, codec: Compression) -> None:
    keys = [None if number == missing else b"k" for number in range(18)]
    batch = encode_batch([b"v"] * 18, keys=keys, timestamps=NOW_MS, magic=magic, compression=codec)
    with pytest.raises(InvalidRecord):
        admit(batch, COMPACTED, NOW_MS)


def test_of_columns_for_a_compacted_topic_no_record_becomes_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be millions of them in a kilobyte."""
    monkeypatch.setattr("lograft.storage.batch.column_payload.decode_columns", None)
    batch = encode_batch([None] * 3, keys=[b""] * 3, timestamps=NOW_MS, compression=Compression.ZSTD)
    assert admit(batch, COMPACTED, NOW_MS).batch is batch


def test_a_compacted_topic_takes_what_has_keys() -> None:
    batch = make_batch(3)
    assert admit(batch, COMPACTED, NOW_MS).batch is batch


BASE_TIMESTAMP, LARGEST_TIMESTAMP = 27, 35


def later_than_said(magic: int, codec: Compression = Compression.NONE, count: int = 3) -> bytes:
    """The last record is of the year 9999, and the header does not say so."""
    timestamps = [NOW_MS] * (count - 1) + [253_402_300_799_000]
    content = encode_batch([b"v"] * count, keys=[b"k"] * count, timestamps=timestamps, magic=magic, compression=codec)
    return resealed(content, LARGEST_TIMESTAMP, ">q", NOW_MS)


@pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])
@pytest.mark.parametrize("count", [2, 3, 9, 1000, 20_000])
def test_no_record_is_later_than_the_header_says(magic: int, count: int) -> None:
    """Lookups by time and retention believe the header."""
    with pytest.raises(InvalidTimestamp, match="the header says that the largest is"):
        admit(later_than_said(magic, count=count), CONFIG, NOW_MS)
    by_one = encode_batch([b"v"] * count, timestamps=[NOW_MS, *[NOW_MS + 1] * (count - 1)], magic=magic)
    admit(by_one, CONFIG, NOW_MS)
    with pytest.raises(InvalidTimestamp):
        admit(resealed(by_one, LARGEST_TIMESTAMP, ">q", NOW_MS), CONFIG, NOW_MS)
    falling = encode_batch([b"v"] * count, timestamps=range(NOW_MS + count, NOW_MS, -1), magic=magic)
    admit(falling, CONFIG, NOW_MS)
    late = resealed(falling, BASE_TIMESTAMP, ">q", NOW_MS + count + 1)
    with pytest.raises(InvalidTimestamp, match="the base timestamp"):
        admit(late, CONFIG, NOW_MS)


@pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])
@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_timestamps_inside_a_compressed_batch_are_checked_where_it_is_opened(magic: int, codec: Compression) -> None:
    for config in (CHECKED, COMPACTED):
        with pytest.raises(InvalidTimestamp):
            admit(later_than_said(magic, codec), config, NOW_MS)
    admit(later_than_said(magic, codec), CONFIG, NOW_MS)


@pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])
def test_what_the_header_says_of_timestamps_does_not_matter_where_the_leader_stamps(magic: int) -> None:
    admitted = admit(later_than_said(magic), LogConfig(append_time=True), NOW_MS)
    assert admitted.header.max_timestamp == NOW_MS
    assert {record.timestamp for record in decode_records(admitted.batch)} == {NOW_MS}


@pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])
def test_append_time_takes_the_place_of_what_the_client_said(magic: int) -> None:
    config = dataclasses.replace(CONFIG, append_time=True)
    far_ahead = NOW_MS + 10 * MAX_FUTURE_MS
    admitted = admit(make_batch(2, at_ms=far_ahead, magic=magic), config, NOW_MS)
    assert admitted.header.is_append_time
    assert admitted.header.max_timestamp == NOW_MS
    assert {record.timestamp for record in decode_records(admitted.batch)} == {NOW_MS}
    check_crc(admitted.batch, 0, admitted.header)


def test_a_compression_to_convert_to_is_applied_once() -> None:
    config = dataclasses.replace(CONFIG, compression=Compression.LZ4)
    batch = make_batch(5, value=b"x" * 100)
    converted = admit(batch, config, NOW_MS)
    assert converted.header.compression is Compression.LZ4
    assert [r.value for r in decode_records(converted.batch)] == [r.value for r in decode_records(batch)]
    again = bytes(converted.batch)
    assert admit(again, config, NOW_MS).batch is again
