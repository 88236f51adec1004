"""Rows are Kafka's records: checked both ways against two independent implementations, and byte for byte."""

import warnings
from collections.abc import Iterator
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import cramjam
import pytest

from lograft.storage.batch.codec import decode_records, encode_batch, rewrite_batch, validate_batch, validate_deep
from lograft.storage.batch.compression import Compression, compress, decompress
from lograft.storage.batch.header import MAGIC_ROWS, checksum, pack_header
from lograft.storage.errors import BadRecord, BadRecordCount

with warnings.catch_warnings():
    # kafka-python reads its own resources in a way that newer Pythons deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    import kafka.record.default_records as kafka_records

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

BASE = 1_700_000_000_000
ROWS: list[Row] = [
    (BASE, b"key", b"value" * 20, []),
    (BASE + 70, None, b"", [("name", b"text"), ("name", None), ("größe", b"")]),
    (BASE - 3_000_000_000, b"", None, []),
    (BASE + 2**40, b"k" * 300, b"v" * 70_000, [("h" * 200, b"x" * 200)]),
    *[(BASE + i, b"%d" % i, b"row %d" % i, []) for i in range(300)],
]

BUILDERS = {
    "kafka-python": kafka_records.DefaultRecordBatchBuilder,
    "aiokafka": aiokafka_records._DefaultRecordBatchBuilderPy,
    "aiokafka-c": aiokafka_records.DefaultRecordBatchBuilder,
}
READERS = {
    "kafka-python": kafka_records.DefaultRecordBatch,
    "aiokafka": aiokafka_records._DefaultRecordBatchPy,
    "aiokafka-c": aiokafka_records.DefaultRecordBatch,
}
PEERS = pytest.mark.parametrize("peer", list(BUILDERS))
CODECS = pytest.mark.parametrize("compression", list(Compression))


def require_codec(peer: str, compression: Compression) -> None:
    if peer == "kafka-python" and compression and not getattr(kafka.codec, f"has_{compression.name.lower()}")():
        pytest.skip(f"kafka-python needs one more package for {compression.name.lower()}")


def encoded(rows: list[Row], compression: Compression = Compression.NONE, **fields: Any) -> bytes:
    timestamps, keys, values, headers = zip(*rows, strict=True)
    return encode_batch(
        values,
        keys=keys,
        timestamps=timestamps,
        headers=headers,
        magic=MAGIC_ROWS,
        compression=compression,
        **fields,
    )


def built_by(peer: str, rows: list[Row], compression: Compression = Compression.NONE) -> bytes:
    builder = BUILDERS[peer](
        magic=2,
        compression_type=int(compression),
        is_transactional=1,
        producer_id=11,
        producer_epoch=12,
        base_sequence=13,
        batch_size=1 << 30,
    )
    for offset, (timestamp, key, value, headers) in enumerate(rows):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def read_by(peer: str, batch: bytes) -> Iterator[tuple[int, Row]]:
    reader = READERS[peer](bytearray(batch))
    assert reader.validate_crc()
    for record in reader:
        headers = [(name, None if value is None else bytes(value)) for name, value in record.headers]
        yield record.offset, (record.timestamp, record.key, record.value, headers)


def as_rows(batch: bytes) -> list[tuple[int, Row]]:
    return [
        (record.offset, (record.timestamp, record.key, record.value, list(record.headers)))
        for record in decode_records(batch)
    ]


@PEERS
@CODECS
def test_what_we_write_others_read(peer: str, compression: Compression) -> None:
    require_codec(peer, compression)
    batch = encoded(ROWS, compression, base_offset=1000)
    assert list(read_by(peer, batch)) == list(enumerate(ROWS, start=1000))


@PEERS
@CODECS
def test_what_others_write_we_read(peer: str, compression: Compression) -> None:
    require_codec(peer, compression)
    batch = built_by(peer, ROWS, compression)
    header = validate_deep(batch)
    assert header.compression is compression
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 12, 13)
    assert header.is_transactional
    assert as_rows(batch) == list(enumerate(ROWS))


@PEERS
@CODECS
def test_what_others_write_and_we_rewrite_others_read(peer: str, compression: Compression) -> None:
    require_codec(peer, compression)
    rewritten = rewrite_batch(built_by(peer, ROWS), compression=compression)
    assert list(read_by(peer, rewritten)) == list(enumerate(ROWS))


@PEERS
def test_uncompressed_rows_are_the_same_bytes_as_those_of_others(peer: str) -> None:
    ours = encoded(ROWS, producer_id=11, producer_epoch=12, base_sequence=13, transactional=True)
    theirs = built_by(peer, ROWS)
    # What lies between, the leader epoch, is for the broker to set.
    assert ours[:12] == theirs[:12]
    assert ours[16:] == theirs[16:]


@PEERS
def test_append_time_is_understood_by_others(peer: str) -> None:
    rewritten = rewrite_batch(encoded(ROWS), append_time=BASE + 99)
    assert {row[0] for _, row in read_by(peer, rewritten)} == {BASE + 99}


def payload_of(batch: bytes) -> bytes:
    return batch[61:]


def with_payload(batch: bytes, payload: bytes, **changes: int) -> bytes:
    """The batch around another payload, with length and CRC to match."""
    fields = validate_batch(batch)._asdict() | changes
    del fields["batch_length"], fields["crc"]
    return pack_header(**fields, body=[payload]) + payload


VARIANTS = {
    "raw snappy": (Compression.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "linked lz4 blocks": (Compression.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "lz4 with checksum": (Compression.LZ4, lambda data: _lz4(data, content_checksum=True, block_linked=True)),
    "high lz4 level": (Compression.LZ4, lambda data: _lz4(data, level=9)),
    "gzip level 9": (Compression.GZIP, lambda data: bytes(cramjam.gzip.compress(data, 9))),
    "two gzip members": (
        Compression.GZIP,
        lambda data: bytes(cramjam.gzip.compress(data[:50])) + bytes(cramjam.gzip.compress(data[50:])),
    ),
    "zstd level 19": (Compression.ZSTD, lambda data: bytes(cramjam.zstd.compress(data, 19))),
    "zstd without content size": (Compression.ZSTD, lambda data: _zstd_stream(data)),
}


def _lz4(data: bytes, **options: Any) -> bytes:
    compressor = cramjam.lz4.Compressor(**options)
    compressor.compress(data)
    return bytes(compressor.finish())


def _zstd_stream(data: bytes) -> bytes:
    compressor = cramjam.zstd.Compressor(3)
    compressor.compress(data)
    compressed = bytes(compressor.finish())
    assert compressed[4] >> 6 == 0, "the frame states its content size"
    return compressed


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_other_forms_of_the_compressions_are_read(variant: str) -> None:
    compression, pack = VARIANTS[variant]
    plain = encoded(ROWS)
    batch = with_payload(plain, pack(payload_of(plain)), attributes=int(compression))  # type: ignore[no-untyped-call]
    assert validate_deep(batch).compression is compression
    assert as_rows(batch) == list(enumerate(ROWS))


def test_snappy_is_written_in_xerial_framing_and_lz4_in_independent_blocks() -> None:
    assert compress(Compression.SNAPPY, b"x" * 40_000)[:16].hex() == "82534e41505059000000000100000001"
    lz4 = compress(Compression.LZ4, b"x" * 40_000)
    assert lz4[:4].hex() == "04224d18"
    assert lz4[4] & 0x20
    assert decompress(Compression.LZ4, lz4, 40_000) == b"x" * 40_000


# -- golden: one record is 12 bytes that can be read by eye


GOLDEN = {
    "key and value": ([(1, b"k", b"v", [])], "10 00 00 00 02 6b 02 76 00"),
    "nulls": ([(1, None, None, [])], "0c 00 00 00 01 01 00"),
    "empty": ([(1, b"", b"", [])], "0c 00 00 00 00 00 00"),
    "second record": (
        [(1, None, b"a", []), (101, None, b"b", [])],
        "0e 00 00 00 01 02 61 00 10 00 c8 01 02 01 02 62 00",
    ),
    "headers": (
        [(1, None, b"v", [("n", b"x"), ("m", None)])],
        "1c 00 00 00 01 02 76 04 02 6e 02 78 02 6d 01",
    ),
}


@pytest.mark.parametrize(("rows", "payload"), list(GOLDEN.values()), ids=list(GOLDEN))
def test_rows_have_the_documented_bytes(rows: list[Row], payload: str) -> None:
    batch = encoded(rows)
    assert payload_of(batch).hex(" ") == payload
    assert as_rows(batch) == list(enumerate(rows))


# -- malformed


MALFORMED = {
    "length too long": ("12 00 00 00 02 6b 02 76 00", BadRecord),
    "length too short": ("0e 00 00 00 02 6b 02 76 00", BadRecord),
    "negative length": ("0f 00 00 00 02 6b 02 76 00", BadRecord),
    "key past the end": ("10 00 00 00 7e 6b 02 76 00", BadRecord),
    "value past the end": ("10 00 00 00 02 6b 7e 76 00", BadRecord),
    "key length below -1": ("10 00 00 00 03 6b 02 76 00", BadRecord),
    "value length below -1": ("10 00 00 00 02 6b 05 76 00", BadRecord),
    "negative header count": ("10 00 00 00 02 6b 02 76 01", BadRecord),
    "headers past the end": ("10 00 00 00 02 6b 02 76 02", BadRecord),
    "null header name": ("14 00 00 00 02 6b 02 76 02 01 00", BadRecord),
    "header name not UTF-8": ("16 00 00 00 02 6b 02 76 02 02 ff 00", BadRecord),
    "varint of 65 bits": ("22 00 ff ff ff ff ff ff ff ff ff 03 00 01 02 76 00 00", BadRecord),
    "varint without end": ("22 00 ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff", BadRecord),
    "timestamp out of range": ("22 00 fe ff ff ff ff ff ff ff ff 01 00 01 02 76 00 00", BadRecord),
    "offset delta out of range": ("10 00 00 02 02 6b 02 76 00", BadRecord),
    "negative offset delta": ("10 00 00 01 02 6b 02 76 00", BadRecord),
    "bytes after the last record": ("10 00 00 00 02 6b 02 76 00 00", BadRecordCount),
    "a record too many": ("0c 00 00 00 01 01 00 0c 00 00 00 01 01 00", BadRecordCount),
    "nothing": ("", BadRecordCount),
}


@pytest.mark.parametrize(("payload", "error"), list(MALFORMED.values()), ids=list(MALFORMED))
def test_malformed_rows_are_refused_by_name(payload: str, error: type[Exception]) -> None:
    batch = with_payload(encoded([(1, b"k", b"v", [])]), bytes.fromhex(payload))
    validate_batch(batch)
    with pytest.raises(error):
        validate_deep(batch)
    with pytest.raises(error):
        decode_records(batch)


def test_offsets_that_do_not_rise_are_refused() -> None:
    record = "10 00 00 00 02 6b 02 76 00"
    with pytest.raises(BadRecord):
        validate_deep(with_payload(encoded(ROWS[:2]), bytes.fromhex(record * 2)))


def test_fewer_records_than_the_header_says_are_refused() -> None:
    one = encoded([(1, b"k", b"v" * 10, [])])
    batch = with_payload(one, payload_of(one), record_count=2, last_offset_delta=1)
    with pytest.raises(BadRecordCount):
        validate_deep(batch)


def test_a_record_count_beyond_reason_is_refused_before_memory_is_spent() -> None:
    batch = with_payload(encoded(ROWS[:1]), b"", record_count=2**31 - 1, last_offset_delta=2**31 - 1)
    assert checksum(batch, 21, len(batch)) == validate_batch(batch).crc
    with pytest.raises(BadRecordCount):
        decode_records(batch)
