"""Records on their way into batches: however they are sent, each is in one batch, in order, and is found there."""

from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lograft.clients import errors
from lograft.clients.cluster.cluster_view import Leader, TopicView
from lograft.clients.producer.delivery_results import StoredRange, joint_error, stored_ranges
from lograft.clients.producer.pipeline.accumulator import Accumulator, AccumulatorLimits
from lograft.clients.producer.pipeline.column_input import Serializers, given_columns
from lograft.clients.producer.pipeline.pending_batch import PartitionKey, PendingBatch, Stored, encode
from lograft.clients.producer.pipeline.router import Router
from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.producer.pipeline.submission_buffer import OpenSubmission
from lograft.clients.records.list_columns import SizedLists
from lograft.storage.batch.codec import Compression, decode_records
from lograft.storage.batch.record import Record

BATCH_BYTES = 800
TOPIC_ID = b"t" * 16

byte_strings = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=300, max_size=900))
header_lists = st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=2)


@dataclass(frozen=True)
class Sent:
    """A record as it was sent. `wanted`: its partition."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]
    wanted: int | None


@st.composite
def sent_records(draw: st.DrawFn) -> list[Sent]:
    """Some without any key, header or partition: those take other ways."""
    keys = byte_strings if draw(st.booleans()) else st.none()
    headers = header_lists if draw(st.booleans()) else st.just([])
    wanted = st.one_of(st.none(), st.integers(0, 2)) if draw(st.booleans()) else st.none()
    return draw(
        st.lists(st.builds(Sent, keys, byte_strings, st.integers(0, 2**40), headers, wanted), min_size=1, max_size=40)
    )


def view(partitions: int) -> TopicView:
    return TopicView(TOPIC_ID, "orders", 0, leaders=[Leader(1, 0)] * partitions)


def as_lists(sent: list[Sent]) -> list[Submission]:
    """As `send` does it, one by one."""
    submission = Submission("orders", SizedLists())
    filling = OpenSubmission(submission, 2**40)
    for each in sent:
        size_bytes = 16 + len(each.key or b"") + len(each.value or b"")
        size_bytes += sum(8 + 4 * len(name) + len(content or b"") for name, content in each.headers)
        filling.add(each.key, each.value, each.timestamp, each.headers, each.wanted, size_bytes)
    return [submission]


def as_arrow(sent: list[Sent]) -> list[Submission]:
    """As `send_many` does it with a table, in pieces."""
    columns: dict[str, Any] = {
        "value": pa.array([each.value for each in sent], pa.binary()),
        "key": pa.array([each.key for each in sent], pa.large_binary()),
        "timestamp": pa.array([each.timestamp for each in sent], pa.int64()),
    }
    if any(each.wanted is not None for each in sent):
        columns["partition"] = pa.array([each.wanted for each in sent], pa.int32())
    if any(each.headers for each in sent):
        pairs = [[{"key": name, "value": content} for name, content in each.headers] for each in sent]
        columns["headers"] = pa.array(pairs, pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})))
    given_ones = given_columns("orders", pa.table(columns), None, None, None, Serializers(), 0)
    return [Submission("orders", each.columns, partitions=each.partitions) for each in given_ones.pieces(2000, 700)]


def as_given_lists(sent: list[Sent]) -> list[Submission]:
    """As `send_many` does it with lists."""
    given_ones = given_columns(
        "orders",
        [each.value for each in sent],
        [each.key for each in sent] if any(each.key is not None for each in sent) else None,
        [each.timestamp for each in sent],
        [each.headers for each in sent] if any(each.headers for each in sent) else None,
        Serializers(),
        0,
    )
    return [Submission("orders", each.columns) for each in given_ones.pieces(2000, 700)]


def records_in(batch: PendingBatch) -> list[Record]:
    """As a reader sees them."""
    return decode_records(encode([batch.contents], Compression.NONE)[0])


@settings(deadline=None)
@given(
    rounds=st.lists(st.tuples(sent_records(), st.sampled_from([as_lists, as_arrow])), min_size=1, max_size=3),
    partitions=st.integers(3, 5),
    seed=st.integers(0, 5),
)
def test_each_record_is_found_in_one_batch_of_its_partition_and_in_order(
    rounds: list[tuple[list[Sent], Any]], partitions: int, seed: int
) -> None:
    accumulator = Accumulator(AccumulatorLimits(BATCH_BYTES), is_idempotent=False)
    router = Router(accumulator, None, Random(seed), BATCH_BYTES)  # type: ignore[arg-type]
    found: dict[int, list[tuple[tuple[int, ...], int]]] = defaultdict(list)
    for sent, way in rounds:
        submissions = way(sent)
        assert sum(map(len, submissions)) == len(sent)
        for submission in submissions:
            router.place(submission, view(partitions), 0)
        places = [submission._find(index) for submission in submissions for index in range(len(submission))]
        for record, place in zip(sent, places, strict=True):
            assert not isinstance(place, errors.LograftError)
            batch, index = place
            stored = records_in(batch)[index]
            assert (stored.key, stored.value, stored.timestamp) == (record.key, record.value, record.timestamp)
            assert list(stored.headers) == record.headers
            if record.wanted is not None:
                assert batch.partition_key == PartitionKey(TOPIC_ID, record.wanted)
            elif record.key is not None:
                assert batch.partition_key.partition == crc32(record.key) % partitions
            found[batch.partition_key.partition].append((batch.order, index))
    for in_partition in found.values():
        assert in_partition == sorted(set(in_partition)), "in the order they were sent, and each in a place of its own"
    batches = list(accumulator)
    assert sum(batch.record_count for batch in batches) == sum(map(len, found.values()))
    assert accumulator.buffered_bytes == sum(batch.size_bytes for batch in batches)
    for batch in batches:
        assert batch.size_bytes <= BATCH_BYTES or batch.record_count == 1
        assert len(encode([batch.contents], Compression.NONE)[0]) <= batch.size_bytes + 5 * batch.record_count


@settings(deadline=None)
@given(sent=sent_records(), partitions=st.integers(3, 5))
def test_lists_arrow_and_one_by_one_put_records_with_keys_into_the_same_partitions(
    sent: list[Sent], partitions: int
) -> None:
    keyed = [Sent(each.key or b"k", each.value, each.timestamp, each.headers, None) for each in sent]
    outcomes = []
    for way in (as_lists, as_arrow, as_given_lists):
        accumulator = Accumulator(AccumulatorLimits(BATCH_BYTES), is_idempotent=False)
        router = Router(accumulator, None, Random(1), BATCH_BYTES)  # type: ignore[arg-type]
        for submission in way(keyed):
            router.place(submission, view(partitions), 0)
        in_partitions: dict[int, list[Any]] = defaultdict(list)
        for batch in accumulator:
            records = [(record.key, record.value, record.timestamp, record.headers) for record in records_in(batch)]
            in_partitions[batch.partition_key.partition] += records
        outcomes.append(dict(in_partitions))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@settings(deadline=None)
@given(sent=sent_records(), way=st.sampled_from([as_lists, as_arrow]), data=st.data())
def test_what_became_of_each_and_of_all_agrees(sent: list[Sent], way: Any, data: st.DataObject) -> None:
    """Batches are stored, split or refused, in any order."""
    accumulator = Accumulator(AccumulatorLimits(BATCH_BYTES), is_idempotent=False)
    router = Router(accumulator, None, Random(1), BATCH_BYTES)  # type: ignore[arg-type]
    submissions = way(sent)
    for submission in submissions:
        router.place(submission, view(3), 0)
    accumulator.close_all()
    told: list[int] = []
    for number, submission in enumerate(submissions):
        submission.listen_to_all(lambda number=number: told.append(number))
    next_offset = 0
    while accumulator.partitions:
        assert not all(submission.is_settled for submission in submissions)
        key = data.draw(st.sampled_from(accumulator.partitions))
        batch = accumulator.take(key, 0)
        assert batch is not None
        match data.draw(st.sampled_from(["stored", "refused", "split"])):
            case "stored":
                accumulator.stored(batch, Stored(next_offset))
                next_offset += batch.record_count + data.draw(st.integers(0, 1))
            case "split" if batch.record_count > 1:
                accumulator.refused(batch, errors.BatchTooLarge("too large"), 0)
            case _:
                accumulator.refused(batch, errors.InvalidRecord("no"), 0)
    assert accumulator.buffered_bytes == 0
    assert sorted(told) == list(range(len(submissions)))
    results = [submission.result(index) for submission in submissions for index in range(len(submission))]
    stored = [result for result in results if not isinstance(result, errors.LograftError)]
    places = [(result.partition, result.offset) for result in stored]
    assert len(set(places)) == len(places)
    ranges = stored_ranges(submissions)
    in_ranges = [(each.partition, each.offset + number) for each in ranges for number in range(each.count)]
    assert in_ranges == sorted(places)
    error = joint_error(submissions)
    failed = len(results) - len(stored)
    assert (error is None) == (failed == 0)
    if error is not None:
        assert str(error).startswith(f"INVALID_RECORD: {failed} of {len(sent)} records: no")


def test_ranges_that_follow_each_other_are_told_as_one() -> None:
    accumulator = Accumulator(AccumulatorLimits(BATCH_BYTES), is_idempotent=False)
    (submission,) = as_lists([Sent(None, bytes(200), 0, [], 1) for _ in range(6)])
    Router(accumulator, None, Random(1), BATCH_BYTES).place(submission, view(3), 0)  # type: ignore[arg-type]
    accumulator.close_all()
    for number in range(3):
        batch = accumulator.take(PartitionKey(TOPIC_ID, 1), 0)
        assert batch is not None
        assert batch.record_count == 2
        accumulator.stored(batch, Stored([10, 12, 20][number]))
    assert stored_ranges([submission]) == [StoredRange("orders", 1, 10, 4), StoredRange("orders", 1, 20, 2)]


def test_an_interrupt_leaves_a_record_whole_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(list[int]):
        def append(self, _: int) -> None:
            raise KeyboardInterrupt

    submission = Submission("orders", SizedLists())
    filling = OpenSubmission(submission, 2**40)
    filling.add(b"k", b"v", 1, [("a", b"1")], 2, 18)
    monkeypatch.setattr(filling, "ends", Interrupting(filling.ends))
    with pytest.raises(KeyboardInterrupt):
        filling.add(b"k", b"w", 2, [("b", b"2")], 1, 18)
    assert isinstance(submission.columns, SizedLists)
    lists = submission.columns.lists
    assert (lists.values, lists.keys, lists.timestamps) == ([b"v"], [b"k"], [1])
    assert (lists.headers, submission.partitions, filling.size_bytes) == ([[("a", b"1")]], [2], 18)
