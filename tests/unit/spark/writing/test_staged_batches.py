"""Rows as batches that are published later."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.clients.errors import BatchTooLarge, InvalidArgument, InvalidRecord, UnknownPartition
from lograft.clients.producer.pipeline.partitioner import Turns, partition_of_key
from lograft.runtime.rng import Rng
from lograft.spark.writing import staged_batches
from lograft.spark.writing.staged_batches import StagedBatch, Target, TargetTopic, batches_of, read_staged
from lograft.storage.batch.codec import Compression, Record, decode_records, validate_batch
from lograft.storage.batch.header import renumber

ORDERS = b"o" * 16


class OnePartition(Turns):
    """Partition 1 has all turns."""

    def next(self, partition_count: int, is_usable: Callable[[int], bool] = lambda _: True) -> int:
        super().next(partition_count, is_usable)
        self.partition = 1
        return 1


def staged(
    table: pa.Table,
    compression: Compression = Compression.NONE,
    *,
    max_batch_bytes: int = 1_000_000,
    needs_keys: bool = False,
) -> list[StagedBatch]:
    orders = TargetTopic("orders", ORDERS, 3, max_batch_bytes, needs_keys, compression)
    return list(batches_of(table, orders, now_ms=1000, turns=OnePartition(Rng(1), staged_batches.BATCH_BYTES)))


def records(batches: Sequence[StagedBatch], partition: int) -> list[Record]:
    mine = [each.batch for each in batches if each.target == Target(ORDERS, partition)]
    return [record for batch in mine for record in decode_records(batch)]


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=20), st.none() | st.integers(0, 2)),
        min_size=1,
    ),
    st.sampled_from([Compression.NONE, Compression.LZ4, Compression.ZSTD]),
)
def test_each_row_goes_where_it_says_or_its_key_does_or_by_turns(
    rows: list[tuple[bytes | None, bytes | None, int | None]], compression: Compression
) -> None:
    table = pa.table(
        {
            "key": pa.array([key for key, _, _ in rows], pa.binary()),
            "value": pa.array([value for _, value, _ in rows], pa.binary()),
            "partition": pa.array([partition for _, _, partition in rows], pa.int32()),
        }
    )
    batches = staged(table, compression=compression)
    for number in range(3):
        expected = [
            (key, value)
            for key, value, partition in rows
            if (partition if partition is not None else 1 if key is None else partition_of_key(key, 3)) == number
        ]
        assert [(record.key, record.value) for record in records(batches, number)] == expected
    assert sum(each.record_count for each in batches) == len(rows)
    assert all(validate_batch(each.batch).record_count == each.record_count for each in batches)


@pytest.mark.parametrize("keys", [None, [b"k"] + [None] * 9999])
def test_rows_without_a_key_are_spread_also_within_a_table(keys: list[bytes | None] | None) -> None:
    """A task's rows are often no more than one."""
    values = [b"%0100d" % number for number in range(10_000)]
    table = pa.table({"value": values, "key": pa.array(keys or [None] * 10_000, pa.binary())})
    orders = TargetTopic("orders", ORDERS, 6, 1_000_000, False, Compression.NONE)
    turns = Turns(Rng(1), staged_batches.BATCH_BYTES)
    batches = [each for _ in range(2) for each in batches_of(table, orders, now_ms=1000, turns=turns)]
    counts = Counter({each.target.partition: 0 for each in batches})
    for each in batches:
        counts[each.target.partition] += each.record_count
    assert sum(counts.values()) == 20_000
    assert len(counts) == 6
    assert max(counts.values()) <= 3 * min(counts.values()), counts


def test_batches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_batches, "BATCH_BYTES", 500)
    batches = staged(pa.table({"value": [b"x" * 100] * 20 + [b"y" * 5000]}))
    assert [each.record_count for each in batches] == [4, 4, 4, 4, 4, 1]
    assert [record.value for record in records(batches, 1)] == [b"x" * 100] * 20 + [b"y" * 5000]


def test_batches_are_as_small_as_the_topic_wants_them() -> None:
    batches = staged(pa.table({"value": [b"%d" % number * 20 for number in range(100)]}), max_batch_bytes=500)
    assert all(len(each.batch) <= 500 for each in batches)
    assert sum(each.record_count for each in batches) == 100
    assert [record.value for record in records(batches, 1)] == [b"%d" % number * 20 for number in range(100)]


def test_a_row_that_the_topic_would_not_take_is_refused() -> None:
    with pytest.raises(BatchTooLarge, match="topic 'orders' takes at most 500: split it, or raise"):
        staged(pa.table({"value": [b"x", b"y" * 500]}), max_batch_bytes=500)


@pytest.mark.parametrize("keys", [{}, {"key": pa.array([b"k", None])}])
def test_a_row_without_a_key_is_refused_for_a_compacted_topic(keys: dict[str, pa.Array]) -> None:
    with pytest.raises(InvalidRecord, match="topic 'orders' is compacted: every row needs a key"):
        staged(pa.table({"value": [b"x", b"y"], **keys}), needs_keys=True)


def test_headers_come_along() -> None:
    headers = pa.array(
        [[{"key": "a", "value": b"1"}], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    batches = staged(pa.table({"value": ["one", "two"], "headers": headers}))
    assert [list(record.headers) for record in records(batches, 1)] == [[("a", b"1")], []]


@pytest.mark.parametrize("partition", [3, -1, 2**20])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    with pytest.raises(UnknownPartition, match=f"no partition {partition}: it has 0 to 2"):
        staged(pa.table({"value": [b"x"], "partition": pa.array([partition], pa.int32())}))


def test_a_staged_batch_is_a_record_and_back() -> None:
    batch = StagedBatch(Target(ORDERS, 7), 3, b"bytes")
    assert read_staged(batch.key, batch.batch) == batch


@pytest.mark.parametrize(("key", "value"), [(None, b"x"), (b"k", b"x"), (b"k" * 24, None)])
def test_a_record_that_is_none_of_ours_is_told(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidArgument, match="let nobody else write there"):
        read_staged(key, value)


def test_a_batch_is_renumbered_and_stays_whole() -> None:
    numbers = count(5)
    for each in staged(pa.table({"value": [b"x" * size for size in (0, 10, 100_000)]})):
        sequence = next(numbers)
        header = validate_batch(renumber(each.batch, 77, 3, sequence))
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, sequence)
        assert decode_records(renumber(each.batch, 77, 3, sequence)) == decode_records(each.batch)
