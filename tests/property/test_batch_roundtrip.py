"""Whatever can be encoded decodes to the same, through every layout, compression and decoder."""

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lograft.storage.batch.codec import (
    decode_arrow,
    decode_columns,
    decode_records,
    encode_arrow,
    encode_batch,
    rewrite_batch,
    validate_deep,
)
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import MAGIC_COLUMNS, MAGIC_ROWS

untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

nullable = st.none() | st.binary(max_size=300)
timestamps = st.integers(-(2**62), 2**62 - 1) | st.integers(1_700_000_000_000, 1_700_000_100_000)
names = st.text(st.characters(codec="utf-8"), max_size=8)
pairs = st.lists(st.tuples(names, nullable), max_size=3)
rows = st.lists(st.tuples(nullable, nullable, timestamps, pairs, st.integers(1, 400)), max_size=40)


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    drawn = draw(rows)
    deltas = []
    position = -1
    for *_, step in drawn:
        position += step
        deltas.append(position)
    return {
        "values": [row[0] for row in drawn],
        "keys": draw(st.none() | st.just([row[1] for row in drawn])),
        "timestamps": draw(timestamps | st.just([row[2] for row in drawn])),
        "headers": draw(st.none() | st.just([row[3] for row in drawn])),
        "offset_deltas": draw(st.none() | st.just(deltas)),
        "last_offset_delta": max(position, len(drawn) - 1, 0) + draw(st.integers(0, 5)),
        "magic": draw(st.sampled_from([MAGIC_ROWS, MAGIC_COLUMNS])),
        "compression": draw(st.sampled_from(list(Compression))),
        "base_offset": draw(st.integers(0, 2**40)),
        "delete_horizon": draw(st.none() | timestamps),
    }


def expected(arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
    count = len(arguments["values"])
    stamps = arguments["timestamps"]
    return [
        (
            arguments["base_offset"] + (arguments["offset_deltas"] or range(count))[i],
            stamps if isinstance(stamps, int) else stamps[i],
            arguments["keys"][i] if arguments["keys"] else None,
            arguments["values"][i],
            tuple(arguments["headers"][i]) if arguments["headers"] else (),
        )
        for i in range(count)
    ]


@untimed
@given(batches(), st.sampled_from(list(Compression)))
def test_every_decoder_gives_back_what_was_encoded(arguments: dict[str, Any], other: Compression) -> None:
    batch = encode_batch(**arguments)
    wanted = expected(arguments)
    validate_deep(batch)
    assert [record[2:] for record in decode_records(batch)] == wanted
    assert list(zip(*decode_columns(batch), strict=True)) == wanted
    rewritten = rewrite_batch(batch, compression=other)
    validate_deep(rewritten)
    assert decode_records(rewritten) == decode_records(batch)
    arrow = decode_arrow(batch)
    arrow.validate(full=True)
    assert arrow.column("offset").to_pylist() == [row[0] for row in wanted]
    assert arrow.column("timestamp").cast(pa.int64()).to_pylist() == [row[1] for row in wanted]
    assert arrow.column("key").to_pylist() == [row[2] for row in wanted]
    assert arrow.column("value").to_pylist() == [row[3] for row in wanted]
    assert [tuple((p["key"], p["value"]) for p in found) for found in arrow.column("headers").to_pylist()] == [
        row[4] for row in wanted
    ]


@untimed
@given(batches(), st.integers(0, 20), st.integers(0, 3))
def test_slices_of_arrow_arrays_encode_as_lists_do(arguments: dict[str, Any], before: int, after: int) -> None:
    def sliced(items: list[Any] | None, kind: Any) -> Any:
        if items is None:
            return None
        filler = items[:1] or [None]
        whole = pa.array(filler * before + items + filler * after, kind)
        return whole.slice(before, len(items))

    headers = arguments["headers"]
    in_arrow = arguments | {
        "values": sliced(arguments["values"], pa.binary()),
        "keys": sliced(arguments["keys"], pa.large_binary()),
        "headers": sliced(
            headers and [[{"key": key, "value": value} for key, value in found] for found in headers], HEADERS_TYPE
        ),
    }
    assert encode_arrow(**in_arrow) == encode_batch(**arguments)
