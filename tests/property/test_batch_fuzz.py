"""No bytes at all make a decoder do anything but decode or raise a subclass of InvalidBatch."""

import contextlib
import struct

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lograft.storage.batch.codec import (
    check_records,
    decode_arrow,
    decode_columns,
    decode_records,
    encode_batch,
    iterate_batches,
    parse_header,
    rewrite_batch,
    validate_batch,
    validate_deep,
)
from lograft.storage.batch.column_payload import check_columns, encode_columns
from lograft.storage.batch.compression import Compression, decompress
from lograft.storage.batch.header import (
    MAGIC_COLUMNS,
    MAGIC_ROWS,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    BatchHeader,
    checksum,
)
from lograft.storage.errors import InvalidBatch

untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

LIMIT = 1_000_000

SEEDS = [
    encode_batch(
        [b"v" * 20, None, b"", b"w"] * 3,
        keys=[b"k", b"", None, b"l"] * 3,
        timestamps=list(range(12)),
        headers=[[("n", b"x"), ("é", None)], [], [("", b"")], []] * 3,
        offset_deltas=list(range(0, 24, 2)),
        magic=magic,
        compression=compression,
    )
    for magic in (MAGIC_ROWS, MAGIC_COLUMNS)
    for compression in Compression
]
PLAIN_COLUMNS = SEEDS[len(Compression)]

edits = st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 255)), min_size=1, max_size=6)


def fixed_up(batch: bytearray) -> bytes:
    """With the length and the CRC that the bytes need, so that what lies behind them is reached."""
    if len(batch) >= 21:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">I", batch, 17, checksum(batch, 21, len(batch)))
    return bytes(batch)


def may_be_stored(batch: bytes, header: BatchHeader) -> bool:
    """As leaders find out, who do not make records of it."""
    try:
        check_records(batch, header, limit_bytes=LIMIT)
    except InvalidBatch:
        return False
    return True


def read_in_every_way(batch: bytes) -> None:
    """Decoders agree on whether a batch is valid, and raise nothing but InvalidBatch."""
    results = []
    for read in (decode_records, decode_columns, decode_arrow):
        try:
            results.append(read(batch, limit_bytes=LIMIT))
        except InvalidBatch:
            results.append(None)
    records, columns, arrow = results
    assert (records is None) == (columns is None) == (arrow is None)
    if arrow is not None:
        arrow.validate(full=True)
        assert arrow.column("value").to_pylist() == [record.value for record in records]
        assert arrow.column("key").to_pylist() == [record.key for record in records]
        assert arrow.column("offset").to_pylist() == [record.offset for record in records]
    with contextlib.suppress(InvalidBatch):
        header = validate_batch(batch)
        assert may_be_stored(batch, header) == (columns is not None)
    with contextlib.suppress(InvalidBatch):
        validate_deep(batch, limit_bytes=LIMIT)
        assert records is not None
    with contextlib.suppress(InvalidBatch):
        rewrite_batch(batch, compression=Compression.NONE, append_time=5, limit_bytes=LIMIT)
    with contextlib.suppress(InvalidBatch):
        list(iterate_batches(batch))


@untimed
@given(st.binary(max_size=400))
@example(bytes(400))
def test_random_bytes(data: bytes) -> None:
    read_in_every_way(data)
    read_in_every_way(fixed_up(bytearray(data)))


@untimed
@given(st.sampled_from(SEEDS), edits)
def test_changed_bytes_with_the_crc_put_right(seed: bytes, changes: list[tuple[int, int]]) -> None:
    batch = bytearray(seed)
    for position, mask in changes:
        batch[position % len(batch)] ^= mask
    read_in_every_way(bytes(batch))
    read_in_every_way(fixed_up(batch))


@untimed
@given(st.sampled_from(SEEDS), st.integers(0, 2000), st.integers(0, 2000), st.binary(max_size=40))
def test_parts_cut_out_and_others_put_in(seed: bytes, start: int, length: int, inserted: bytes) -> None:
    start %= len(seed)
    batch = bytearray(seed[:start] + inserted + seed[start + length :])
    read_in_every_way(bytes(batch))
    read_in_every_way(fixed_up(batch))
    read_in_every_way(fixed_up(batch + bytes(-len(batch) % 8)))


numbers = st.integers(0, 20) | st.integers(0, 2**32 - 1) | st.sampled_from([2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1])


@untimed
@given(st.lists(st.tuples(st.integers(0, 14 * 3 + 1), numbers), min_size=1, max_size=4))
def test_changed_section_tables(changes: list[tuple[int, int]]) -> None:
    batch = bytearray(PLAIN_COLUMNS)
    for word, number in changes:
        struct.pack_into("<I", batch, 64 + 4 * word, number)
    read_in_every_way(fixed_up(batch))


@untimed
@given(st.data())
def test_changed_integers_inside_sections(data: st.DataObject) -> None:
    batch = bytearray(PLAIN_COLUMNS)
    for _ in range(data.draw(st.integers(1, 3))):
        place = 64 + 176 + 4 * data.draw(st.integers(0, (len(batch) - 64 - 176) // 4 - 1))
        struct.pack_into("<i", batch, place, data.draw(st.integers(-3, 300) | st.sampled_from([-(2**31), 2**31 - 1])))
    read_in_every_way(fixed_up(batch))


@untimed
@given(
    st.sampled_from([MAGIC_ROWS, MAGIC_COLUMNS]),
    st.lists(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]) | st.integers(0, 255), max_size=80),
    st.integers(0, 12),
)
def test_random_payloads_behind_a_good_header(magic: int, payload: list[int], count: int) -> None:
    header = bytearray(encode_batch([b""] * 12, timestamps=1, magic=magic)[: 64 if magic == MAGIC_COLUMNS else 61])
    struct.pack_into(">i", header, 57, count)
    if magic == MAGIC_COLUMNS:
        header[61] = -len(payload) % 8
        payload = payload + [0] * header[61]
    read_in_every_way(fixed_up(header + bytes(payload)))


@untimed
@given(st.sampled_from([codec for codec in Compression if codec]), st.binary(max_size=200), edits)
def test_compressed_data_of_any_kind(codec: Compression, data: bytes, changes: list[tuple[int, int]]) -> None:
    seed = bytearray(SEEDS[codec][61:])
    for position, mask in changes:
        seed[position % len(seed)] ^= mask
    for damaged in (data, bytes(seed)):
        with contextlib.suppress(InvalidBatch):
            assert len(decompress(codec, damaged, LIMIT)) <= LIMIT


@given(
    base=st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP),
    deltas=st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40),
    beyond=st.integers(-3, 2**62),
)
def test_timestamps_are_compared_at_once_as_one_by_one(base: int, deltas: list[int], beyond: int) -> None:
    """`latest` is anything from the base on."""
    latest = min(max(base, base + max(deltas) + beyond), MAX_TIMESTAMP)
    content = encode_batch([b""] * len(deltas), timestamps=[0] * len(deltas))
    header = parse_header(content)._replace(base_timestamp=base)
    payload = b"".join(encode_columns([b""] * len(deltas), None, None, deltas, None))
    is_valid = base + min(deltas) >= MIN_TIMESTAMP and base + max(deltas) <= latest
    try:
        check_columns(header, payload, latest=latest)
    except InvalidBatch:
        assert not is_valid
    else:
        assert is_valid
