"""Compressed payloads: damage is noticed, and a bomb costs no more than the limit."""

import tracemalloc
import zlib

import cramjam
import pytest

from lograft.storage.batch.compression import Compression, compress, decompress
from lograft.storage.errors import BadCompressedData, UnknownCompression

CODECS = pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
TEXT = b"".join(b"line %d of something that repeats itself\n" % number for number in range(3000))


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(1_000_000)], ids=["empty", "byte", "text", "zeros"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_is_compressed_comes_back(codec: Compression, data: bytes, kind: type) -> None:
    compressed = compress(codec, kind(data))
    assert type(compressed) is bytes
    assert decompress(codec, kind(compressed), len(data)) == data


@CODECS
def test_text_gets_smaller(codec: Compression) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) // 3


@pytest.mark.parametrize("codec", list(Compression))
def test_one_byte_over_the_limit_is_refused(codec: Compression) -> None:
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    with pytest.raises(BadCompressedData):
        decompress(codec, compressed, len(TEXT) - 1)


@CODECS
def test_data_cut_anywhere_is_refused(codec: Compression) -> None:
    compressed = compress(codec, TEXT[:5000])
    for end in range(len(compressed)):
        if codec is Compression.SNAPPY and end == 16:
            continue  # a xerial header and no block is how nothing is written
        with pytest.raises(BadCompressedData):
            decompress(codec, compressed[:end], 100_000)


@CODECS
@pytest.mark.parametrize("tail", [b"\x00", b"garbage", bytes(20)])
def test_bytes_after_the_end_are_refused(codec: Compression, tail: bytes) -> None:
    with pytest.raises(BadCompressedData):
        decompress(codec, compress(codec, TEXT) + tail, 1_000_000)


@CODECS
def test_what_was_never_compressed_is_refused(codec: Compression) -> None:
    for data in (b"", b"\x00", b"no such format", bytes(100), b"\xff" * 100):
        if codec is Compression.SNAPPY and data == b"\x00":
            continue  # the raw snappy block of nothing
        with pytest.raises(BadCompressedData):
            decompress(codec, data, 1_000_000)


@CODECS
def test_a_bomb_is_refused_without_the_memory_it_asks_for(codec: Compression) -> None:
    bomb = compress(codec, bytes(50_000_000))
    limit = 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(BadCompressedData):
            decompress(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Compression.GZIP, zlib.compress(b"x", wbits=31)[:-4] + b"\xff\xff\xff\xff"),
        (Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00x"),
        (Compression.LZ4, compress(Compression.LZ4, b"x")[:4] + b"\x68\x40" + b"\xff" * 8 + b"\x00" * 20),
    ],
    ids=["gzip", "snappy", "lz4"],
)
def test_a_few_bytes_that_claim_to_be_many_reserve_little(codec: Compression, data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadCompressedData):
            decompress(codec, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_wrong_size_hint_does_not_spoil_good_data() -> None:
    # The size in the trailer of the last of several members is not that of them all.
    members = bytes(cramjam.gzip.compress(TEXT)) + bytes(cramjam.gzip.compress(b"x"))
    assert decompress(Compression.GZIP, members, 1_000_000) == TEXT + b"x"


def test_codecs_are_known_by_their_names() -> None:
    names = ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [Compression.from_name(name) for name in names] == list(Compression)
    for name in ("brotli", "", "LZ4", "5"):
        with pytest.raises(UnknownCompression, match="none, gzip, snappy, lz4, zstd"):
            Compression.from_name(name)
