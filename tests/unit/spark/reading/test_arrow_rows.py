"""Batches become rows: the same that `decode_records` gives, in what Spark takes."""

import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from lograft.clients.errors import CorruptBatch
from lograft.spark.common.range_reader import OffsetRange, RangePart
from lograft.spark.reading import arrow_rows
from lograft.spark.reading.arrow_rows import row_batches
from lograft.spark.reading.row_schema import COLUMNS, arrow_schema, full_schema
from lograft.storage.batch.codec import (
    MAGIC_COLUMNS,
    MAGIC_ROWS,
    Compression,
    decode_records,
    encode_batch,
    parse_header,
)
from lograft.storage.batch.header import checksum

untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
ALL = full_schema(include_headers=True)

nullable = st.none() | st.binary(max_size=40)
times = st.integers(-1, 2**41)
pairs = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), nullable), max_size=3)
records = st.lists(st.tuples(nullable, nullable, times, pairs, st.integers(1, 9)), max_size=12)


@st.composite
def stored_batch(draw: st.DrawFn, base_offset: int) -> bytes:
    """As compaction may have left it: with gaps between records, behind the last, or with no records at all."""
    drawn = draw(records)
    deltas, position = [], -1
    for *_, step in drawn:
        position += step
        deltas.append(position)
    is_sparse = draw(st.booleans())
    last = (position if is_sparse else len(drawn) - 1) if drawn else 0
    return encode_batch(
        [row[0] for row in drawn],
        keys=draw(st.none() | st.just([row[1] for row in drawn])),
        timestamps=draw(times | st.just([row[2] for row in drawn])),
        headers=draw(st.none() | st.just([row[3] for row in drawn])),
        offset_deltas=deltas if is_sparse else None,
        last_offset_delta=last + draw(st.integers(0, 4)),
        magic=draw(st.sampled_from([MAGIC_ROWS, MAGIC_COLUMNS])),
        compression=draw(st.sampled_from(list(Compression))),
        base_offset=base_offset,
        control=draw(st.integers(0, 9)) == 0,
        append_time=draw(st.booleans()),
    )


@st.composite
def stored(draw: st.DrawFn) -> list[bytes]:
    log: list[bytes] = []
    end = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 6))):
        log.append(draw(stored_batch(end + draw(st.integers(0, 3)))))
        end = parse_header(log[-1]).next_offset
    return log


def given_out(log: Sequence[bytes], wanted: OffsetRange, batches_a_part: int) -> Iterator[RangePart]:
    """As a broker does it: whole batches, of which the first and the last may reach beyond the range."""
    position = wanted.start
    inside = [each for each in log if parse_header(each).next_offset > wanted.start]
    inside = [each for each in inside if parse_header(each).base_offset < wanted.end]
    for at in range(0, len(inside), batches_a_part):
        some = inside[at : at + batches_a_part]
        is_last = at + batches_a_part >= len(inside)
        following = wanted.end if is_last else parse_header(some[-1]).next_offset
        yield RangePart(b"".join(some), position, following)
        position = following


def expected(log: Sequence[bytes], wanted: OffsetRange) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "timestampType": int(parse_header(batch).is_append_time),
            "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        }
        for batch in log
        if not parse_header(batch).is_control
        for record in decode_records(batch)
        if wanted.start <= record.offset < wanted.end
    ]


def as_rows(batches: Sequence[Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        columns = {
            name: (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return rows


@untimed
@given(stored(), st.data())
def test_rows_are_the_records_of_the_range(log: list[bytes], data: st.DataObject) -> None:
    first = parse_header(log[0]).base_offset if log else 0
    end = parse_header(log[-1]).next_offset if log else 9
    edges = sorted(data.draw(st.tuples(st.integers(first, end), st.integers(first, end))))
    wanted = OffsetRange("orders", b"id", 3, *edges)
    names = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, unique=True))
    schema = StructType([ALL[name] for name in names])
    parts = given_out(log, wanted, data.draw(st.integers(1, 3)))
    batches = list(row_batches(wanted, parts, arrow_schema(schema)))
    for batch in batches:
        assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC")), "else Spark refuses it"
        assert batch.num_rows
        batch.validate(full=True)
    assert as_rows(batches) == [{name: row[name] for name in names} for row in expected(log, wanted)]


def test_a_part_gives_what_it_is_about_whatever_its_batches_have_besides() -> None:
    """Two brokers need not cut their logs at the same offsets."""
    one = encode_batch([b"%d" % n for n in range(10)], timestamps=0)
    other = encode_batch([b"%d" % n for n in range(5, 20)], timestamps=0, base_offset=5)
    parts = [RangePart(one, 2, 8), RangePart(other, 8, 15)]
    found = row_batches(OffsetRange("orders", b"id", 0, 2, 15), parts, arrow_schema(ALL))
    assert [row["offset"] for row in as_rows(list(found))] == list(range(2, 15))


@pytest.mark.parametrize("include_headers", [True, False])
def test_the_schema_is_that_of_sparks_kafka_source(include_headers: bool) -> None:
    schema = full_schema(include_headers=include_headers)
    described = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    if include_headers:
        described += ", headers array<struct<key:string,value:binary>>"
    assert ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema) == described
    assert all(field.nullable for field in schema)
    assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"))


def test_the_arrow_schema_follows_what_the_user_says_of_nulls() -> None:
    schema = StructType([StructField(name, kind, name == "value") for name, (kind, _) in COLUMNS.items()])
    assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"))


# -- how they are put together


def read(log: Sequence[bytes], end: int, *names: str) -> list[Any]:
    wanted = OffsetRange("orders", b"id", 0, 0, end)
    schema = StructType([ALL[name] for name in names or list(COLUMNS)])
    return list(row_batches(wanted, [RangePart(b"".join(log), 0, end)], arrow_schema(schema)))


def test_small_batches_are_joined() -> None:
    log = [encode_batch([b"v"], timestamps=0, base_offset=at) for at in range(2 * arrow_rows.GOOD_ROWS + 1)]
    assert [each.num_rows for each in read(log, len(log), "offset", "value")] == [arrow_rows.GOOD_ROWS] * 2 + [1]


def test_large_ones_are_not() -> None:
    log = [encode_batch([bytes(arrow_rows.GOOD_BYTES)], timestamps=0, base_offset=at) for at in range(3)]
    assert [each.num_rows for each in read(log, 3)] == [1, 1, 1]


def test_what_was_compressed_counts_as_large_as_it_is() -> None:
    log = [
        encode_batch([bytes(arrow_rows.GOOD_BYTES)], timestamps=0, base_offset=at, compression=Compression.ZSTD)
        for at in range(20)
    ]
    assert sum(map(len, log)) < arrow_rows.GOOD_BYTES
    assert [each.num_rows for each in read(log, 20)] == [1] * 20
    assert [each.num_rows for each in read(log, 20, "offset")] == [20], "what is not asked for is not held"


def test_headers_are_null_where_there_are_none() -> None:
    log = [
        encode_batch([b"a", b"b"], timestamps=0, headers=[[], [("h", None)]]),
        encode_batch([b"c"], timestamps=0, base_offset=2),
    ]
    assert [row["headers"] for row in as_rows(read(log, 3))] == [None, [{"key": "h", "value": None}], None]


# -- what it costs


def calls_for(log: list[bytes], end: int) -> int:
    """How many functions are called, of Python or of C, to make rows of it."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    read(log, end)  # what is made once
    sys.setprofile(count)
    try:
        read(log, end)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_no_step_is_taken_for_each_record(compression: Compression) -> None:
    def batch(count: int) -> bytes:
        return encode_batch(
            [b"value"] * count,
            keys=[b"key"] * count,
            timestamps=list(range(count)),
            headers=[[("h", b"x")]] * count,
            compression=compression,
        )

    assert calls_for([batch(4000)], 4000) <= calls_for([batch(10)], 10) + 10


WITHOUT_PANDAS = """
import sys
import pyspark.sql.worker.create_data_source, pyspark.sql.worker.plan_data_source_read, pyspark.worker
assert "pandas" not in sys.modules, "it is Spark's doing"

from lograft.spark.common.range_reader import OffsetRange, RangePart
from lograft.spark import source
from lograft.spark.reading import stream_reader
from lograft.spark.writing import stream_writer
from lograft.spark.reading.arrow_rows import row_batches
from lograft.spark.reading.row_schema import arrow_schema, full_schema
from lograft.storage.batch.codec import encode_batch

batch = encode_batch([b"a", b"b", b"c"], keys=[b"k", None, b"k"], timestamps=[1, 2, 3])
wanted = OffsetRange("orders", b"id", 0, 1, 3)
(rows,) = row_batches(wanted, [RangePart(batch, 1, 3)], arrow_schema(full_schema(include_headers=False)))
assert rows.num_rows == 2
assert "pandas" not in sys.modules
"""


def test_a_worker_does_without_pandas() -> None:
    """Spark starts many, and importing it takes longer than all else that they do for a small query."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


# -- damage


def with_an_undecodable_batch() -> list[bytes]:
    """Its CRC is right: it is as it was sent."""
    log = [encode_batch([b"some value"] * 5, timestamps=0, base_offset=base) for base in (0, 5, 10)]
    bad = bytearray(log[1])
    bad[bad.index(b"some value") - 8] ^= 0x55
    struct.pack_into(">I", bad, 17, checksum(bad, 21, len(bad)))
    return [log[0], bytes(bad), log[2]]


def test_a_batch_that_cannot_be_decoded_is_an_error_that_says_where() -> None:
    with pytest.raises(CorruptBatch, match=r"orders-0 cannot be read between 0 and 15: .*startingOffsets"):
        read(with_an_undecodable_batch(), 15)


def test_a_batch_that_cannot_be_decoded_is_left_out_if_one_says_so() -> None:
    parts = [RangePart(b"".join(with_an_undecodable_batch()), 0, 15)]
    wanted = OffsetRange("orders", b"id", 0, 0, 15)
    with pytest.warns(UserWarning, match="left out 5 records"):
        (rows,) = row_batches(wanted, parts, arrow_schema(ALL), skips_bad=True)
    assert rows.column("offset").to_pylist() == [*range(5), *range(10, 15)]


def test_batches_that_are_left_out_are_counted_at_the_end_of_the_range(caplog: pytest.LogCaptureFixture) -> None:
    good, bad, _ = with_an_undecodable_batch()
    parts = [RangePart(good, 0, 5), RangePart(bad, 5, 10), RangePart(bad, 5, 10)]
    wanted = OffsetRange("orders", b"id", 3, 0, 10)
    total = r"left out 10 records of orders-3 \[0, 10\): batches: 2, the first at offset 5"
    with pytest.warns(UserWarning, match=total) as warned:
        list(row_batches(wanted, parts, arrow_schema(ALL), skips_bad=True))
    assert len(warned) == 1
    assert [record.getMessage().split()[0] for record in caplog.records] == ["bad_batch_skipped"] * 2


def test_a_range_without_bad_batches_has_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    parts = [RangePart(with_an_undecodable_batch()[0], 0, 5)]
    assert list(row_batches(OffsetRange("orders", b"id", 0, 0, 5), parts, arrow_schema(ALL), skips_bad=True))
    assert not list(recwarn)


def test_a_range_that_is_not_read_to_its_end_has_its_total_too() -> None:
    good, bad, _ = with_an_undecodable_batch()
    many = encode_batch([bytes(arrow_rows.GOOD_BYTES)], timestamps=0, base_offset=10)
    parts = [RangePart(good + bad + many, 0, 11), RangePart(encode_batch([b""], timestamps=0, base_offset=11), 11, 12)]
    rows = row_batches(OffsetRange("orders", b"id", 0, 0, 12), parts, arrow_schema(ALL), skips_bad=True)
    next(rows)
    with pytest.warns(UserWarning, match="left out 5 records"):
        rows.close()  # type: ignore[attr-defined]


def test_a_batch_that_is_cut_short_is_an_error() -> None:
    batch = encode_batch([b"some value"] * 5, timestamps=0)
    with pytest.raises(CorruptBatch, match="orders-0 cannot be read between 0 and 5"):
        read([batch[:-1]], 5)
