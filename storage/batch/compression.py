"""The compression codecs of a batch payload, and a decompressor with a hard limit against decompression bombs."""

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, TypeAlias

from lograft.storage.errors import BadCompressedData, UnknownCompression

BytesLike: TypeAlias = bytes | bytearray | memoryview

# The default limit of a decompressed payload.
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, and the oldest version that can read it
_XERIAL_BLOCK_BYTES = 32 * 1024
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_GZIP_MAGIC = b"\x1f\x8b"
_SMALLEST_GUESS_BYTES = 4 * 1024
_GROWTH = 4


class Compression(IntEnum):
    """A codec, by its number in the header's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> "Compression":
        """Return the codec that configuration calls `name`, in lower case."""
        for codec in cls:
            if codec.name.lower() == name:
                return codec
        known = ", ".join(codec.name.lower() for codec in cls)
        raise UnknownCompression(f"compression {name!r} is not one of {known}")


_MARKS = {Compression.GZIP: _GZIP_MAGIC, Compression.LZ4: _LZ4_MAGIC, Compression.ZSTD: _ZSTD_MAGIC}
# The most that one compressed byte can stand for, rounded up, so that a few bytes never reserve the whole limit.
# Zstandard has no useful bound.
_MAX_EXPANSION = {Compression.GZIP: 1_040, Compression.SNAPPY: 32, Compression.LZ4: 256}


def compress(codec: Compression, data: BytesLike) -> bytes:
    """`data` as one compressed stream; fast levels, since a log pays for each byte once per producer."""
    import cramjam

    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, 1))
    if codec is Compression.SNAPPY:
        return b"".join(_xerial_parts(data))
    if codec is Compression.LZ4:
        # Kafka's readers know independent blocks only.
        compressor = cramjam.lz4.Compressor(level=1, block_linked=False)
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    assert codec is Compression.ZSTD
    return bytes(cramjam.zstd.compress(data, 1))


def decompress(codec: Compression, data: BytesLike, limit_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
    """Decompress `data`. Raise BadCompressedData if it is damaged or would exceed `limit_bytes`.

    Never allocates more than `limit_bytes`, nor more than the codec could produce from `data`.
    """
    import cramjam

    view = memoryview(data)
    if codec is Compression.NONE:
        if len(view) > limit_bytes:
            raise BadCompressedData(f"payload of {len(view)} bytes is over the limit of {limit_bytes}")
        return bytes(view)
    if codec in _MAX_EXPANSION:
        limit_bytes = min(limit_bytes, len(view) * _MAX_EXPANSION[codec] + 1024)
    if codec is Compression.SNAPPY:
        return _snappy_decompress(view, limit_bytes)
    if codec is Compression.GZIP:
        return _decompress_growing(cramjam.gzip.decompress_into, view, _gzip_size(view), limit_bytes)
    if codec is Compression.LZ4:
        return _decompress_growing(cramjam.lz4.decompress_into, view, _lz4_size(view), limit_bytes)
    assert codec is Compression.ZSTD
    return _decompress_growing(cramjam.zstd.decompress_into, view, _zstd_size(view), limit_bytes)


def check_beginning(codec: Compression, data: BytesLike) -> None:
    """Raise BadCompressedData if `data` does not begin like a stream of the codec. Decompresses nothing."""
    if codec is Compression.SNAPPY:
        is_possible = len(data) > 0  # a raw block has no mark of its own
    else:
        mark = _MARKS.get(codec, b"")
        is_possible = bytes(data[: len(mark)]) == mark
    if not is_possible:
        raise BadCompressedData(f"the payload does not begin as {codec.name.lower()} does")


def _decompress_growing(
    decompress_into: Callable[[Any, Any], int], view: memoryview, expected_bytes: int, limit_bytes: int
) -> bytes:
    """Decompress into a fixed buffer; a stream that overflows it is retried with a larger one, up to the limit."""
    import cramjam

    size = min(limit_bytes, max(expected_bytes, _SMALLEST_GUESS_BYTES))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(view, output)
        except cramjam.DecompressionError as error:
            # Only the error text distinguishes damage from a full buffer, so both are retried up to the limit.
            if size >= limit_bytes:
                raise BadCompressedData(f"does not decompress within {limit_bytes} bytes: {error}") from error
            size = min(limit_bytes, size * _GROWTH)
            continue
        return bytes(memoryview(output)[:written])


# The sizes that streams declare are only first guesses: neither trusted nor required.


def _gzip_size(view: memoryview) -> int:
    return int.from_bytes(view[-4:], "little") if len(view) >= 18 else 0


def _lz4_size(view: memoryview) -> int:
    has_content_size = len(view) >= 15 and view[:4] == _LZ4_MAGIC and view[4] & 0x08
    return int.from_bytes(view[6:14], "little") if has_content_size else len(view) * 4


def _zstd_size(view: memoryview) -> int:
    if len(view) < 18 or view[:4] != _ZSTD_MAGIC:
        return len(view) * 4
    descriptor = view[4]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    if width == 0:
        return len(view) * 4
    start = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    return int.from_bytes(view[start : start + width], "little") + (256 if width == 2 else 0)


def _xerial_parts(data: BytesLike) -> Iterator[bytes]:
    import cramjam

    view = memoryview(data)
    yield _XERIAL_HEADER
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        yield len(block).to_bytes(4, "big")
        yield block


def _snappy_decompress(view: memoryview, limit_bytes: int) -> bytes:
    """Xerial's framing, as the Java clients write it, or one raw block, as some others do."""
    import cramjam

    blocks = _xerial_blocks(view) if view[:8] == _XERIAL_MAGIC else [view]
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        if sum(sizes) > limit_bytes:
            raise BadCompressedData(f"snappy data of {sum(sizes)} bytes is over the limit of {limit_bytes}")
        output = bytearray(sum(sizes))
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            target = memoryview(output)[position : position + size]
            written = cramjam.snappy.decompress_raw_into(block, target)
            assert written == size
            position += size
    except cramjam.DecompressionError as error:
        raise BadCompressedData(f"snappy: {error}") from error
    return bytes(output)


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    if len(view) < len(_XERIAL_HEADER):
        raise BadCompressedData("snappy: the xerial header is cut short")
    blocks = []
    position = len(_XERIAL_HEADER)
    while position < len(view):
        start = position + 4
        position = start + int.from_bytes(view[start - 4 : start], "big")
        if position > len(view) or position == start:
            raise BadCompressedData("snappy: a xerial block is empty or reaches past the end")
        blocks.append(view[start:position])
    return blocks
