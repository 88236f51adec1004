"""What one task reads, while records are deleted under it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

from lograft.clients.errors import OffsetOutOfRange
from lograft.spark.common.options import ClusterOptions, ReadOptions, batch_options
from lograft.spark.common.range_reader import OffsetRange, RangePart
from lograft.spark.reading import range_partition as range_reading
from lograft.spark.reading.range_partition import RangePartition, read_partition
from lograft.spark.reading.row_schema import full_schema
from lograft.storage.batch.codec import encode_batch

END = 40
OPTIONS = batch_options({"kafka.bootstrap.servers": "x:1", "subscribe": "orders"})
LENIENT = replace(OPTIONS, fail_on_data_loss=False)


class FakeAccess:
    """A log [first, end) with a record a batch, which is [first', end') after some parts, once for each of `cuts`."""

    def __init__(self, first: int, end: int, cuts: list[tuple[int, int, int]]) -> None:
        self.first, self.end = first, end
        self.cuts = cuts  # after so many parts, the first and the end
        self.reads = 0

    def read(self, wanted: OffsetRange, _options: ClusterOptions, *, spreads: bool) -> Iterator[RangePart]:
        self.reads += 1
        assert self.reads < 100, "it goes on for ever"
        for offset in range(wanted.start, wanted.end):
            if self.cuts and self.cuts[0][0] == 0:
                _, self.first, self.end = self.cuts.pop(0)
            if not (self.first <= offset and wanted.end <= self.end):
                raise OffsetOutOfRange("gone", valid_start=self.first, valid_end=self.end)
            if self.cuts:
                self.cuts[0] = (self.cuts[0][0] - 1, *self.cuts[0][1:])
            yield RangePart(encode_batch([b"v"], timestamps=0, base_offset=offset), offset, offset + 1)


def read(monkeypatch: pytest.MonkeyPatch, access: object, options: ReadOptions, end: int = END) -> list[int]:
    monkeypatch.setattr(range_reading, "cluster_access", lambda bootstrap: access)
    partition = RangePartition(OffsetRange("orders", b"id", 0, 0, end))
    batches = read_partition(partition, full_schema(include_headers=False), options)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_all_is_read_if_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in (OPTIONS, LENIENT):
        assert read(monkeypatch, FakeAccess(0, END, []), options) == list(range(END))


@pytest.mark.parametrize("after", [0, 7])
def test_what_is_gone_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    with pytest.raises(OffsetOutOfRange, match=r"gone: it was there .* set failOnDataLoss to false") as caught:
        read(monkeypatch, FakeAccess(0, END, [(after, 20, END)]), OPTIONS)
    assert (caught.value.valid_start, caught.value.valid_end) == (20, END)


@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        ([(0, 20, END)], range(20, 40)),
        ([(7, 20, END)], [*range(7), *range(20, 40)]),
        ([(7, 20, END), (5, 30, END)], [*range(7), *range(20, 25), *range(30, 40)]),
        ([(7, 99, 120)], range(7)),
        ([(7, 0, 15)], range(15)),  # it was cut at its end, as an unclean election does
        ([(7, 0, 3)], range(7)),
    ],
)
def test_what_is_left_is_read_if_losing_data_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, cuts: list[tuple[int, int, int]], expected: list[int]
) -> None:
    assert read(monkeypatch, FakeAccess(0, END, cuts), LENIENT) == list(expected)


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 50), st.integers(0, 50)), max_size=4))
def test_whatever_is_deleted_no_offset_comes_twice(cuts: list[tuple[int, int, int]]) -> None:
    valid = [(after, min(first, end), max(first, end)) for after, first, end in cuts]
    with pytest.MonkeyPatch.context() as monkeypatch:
        offsets = read(monkeypatch, FakeAccess(0, END, valid), LENIENT)
    assert offsets == sorted(set(offsets))


def test_a_broker_that_refuses_what_it_says_it_has_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Confused(FakeAccess):
        def read(self, wanted: OffsetRange, _options: ClusterOptions, *, spreads: bool) -> Iterator[RangePart]:
            self.reads += 1
            assert self.reads < 100, "it goes on for ever"
            raise OffsetOutOfRange("so it is", valid_start=0, valid_end=END)

    with pytest.raises(OffsetOutOfRange, match="so it is"):
        read(monkeypatch, Confused(0, END, []), LENIENT)


def test_the_partition_that_spark_makes_up_for_an_empty_plan_has_nothing() -> None:
    assert list(read_partition(InputPartition(None), full_schema(include_headers=True), OPTIONS)) == []
