"""Records without a key go to all partitions alike, by how many they are, and not by how fast they come."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from support.numbered_records import producing
from support.raft_nodes import virtual

from lograft.clients.cluster.cluster_view import Leader, TopicView
from lograft.clients.producer.pipeline.accumulator import Accumulator, AccumulatorLimits
from lograft.clients.producer.pipeline.column_input import Serializers, given_columns
from lograft.clients.producer.pipeline.partition_queue import QueueLimits
from lograft.clients.producer.pipeline.partitioner import FIRST_TURN_BYTES, Turns
from lograft.clients.producer.pipeline.pending_batch import BATCH_OVERHEAD_BYTES, PartitionKey, PendingBatch, Stored
from lograft.clients.producer.pipeline.router import Router
from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.producer.pipeline.submission_buffer import SUBMISSION_BYTES
from lograft.clients.records.list_columns import ListColumns, SizedLists
from lograft.runtime.rng import Rng

BATCH_BYTES = 512 * 1024
TOPIC_ID = b"t" * 16


def view(partitions: int, without_leader: tuple[int, ...] = ()) -> TopicView:
    leaders = [Leader(None if number in without_leader else 1, 0) for number in range(partitions)]
    return TopicView(TOPIC_ID, "orders", 0, leaders=leaders)


def unlimited() -> Accumulator:
    """Nobody sends what is there: no batch is ever seen to be gone."""
    return Accumulator(AccumulatorLimits(BATCH_BYTES, buffer_bytes=2**40), is_idempotent=False)


def submissions_of(way: str, records: int, value: bytes) -> list[Submission]:
    """As `send` hands them over, or `send_many`."""
    if way in ("send", "one huge submission"):
        most = SUBMISSION_BYTES // (16 + len(value)) if way == "send" else records
        counts = [min(most, records - start) for start in range(0, records, most)]
        return [Submission("orders", SizedLists.of(ListColumns([value] * each, None, [0] * each))) for each in counts]
    values: Any = [value] * records
    given = given_columns("orders", pa.array(values) if way == "arrow" else values, None, 0, None, Serializers(), 0)
    return [
        Submission("orders", each.columns) for each in given.pieces(1024 * 1024, BATCH_BYTES - BATCH_OVERHEAD_BYTES)
    ]


def spread(accumulator: Accumulator) -> Counter[int]:
    counts: Counter[int] = Counter()
    for batch in accumulator:
        counts[batch.partition_key.partition] += batch.record_count
    return counts


@pytest.mark.parametrize("value_bytes", [1, 10, 100, 1000])
@pytest.mark.parametrize("way", ["send", "one huge submission", "lists", "arrow"])
def test_a_hundred_thousand_at_full_speed_are_spread_over_all_partitions(way: str, value_bytes: int) -> None:
    accumulator = unlimited()
    router = Router(accumulator, None, Rng(1), BATCH_BYTES)
    for submission in submissions_of(way, 100_000, bytes(value_bytes)):
        router.place(submission, view(6), 0)
    counts = spread(accumulator)
    assert sum(counts.values()) == 100_000
    assert set(counts) == set(range(6))
    assert max(counts.values()) <= 2 * min(counts.values()), counts


def test_one_by_one_they_are_spread_as_well() -> None:
    accumulator = unlimited()
    router = Router(accumulator, None, Rng(1), BATCH_BYTES)
    for _ in range(100_000):
        router.place_one(view(6), None, None, b"ten bytes.", 0, (), 0)
    counts = spread(accumulator)
    assert max(counts.values()) <= 2 * min(counts.values()), counts


def test_those_without_a_key_among_others_are_spread_too() -> None:
    """Also where the application's partitioner leaves it open, and where some records ask for a partition."""
    for way, some_partition in (("keys", None), ("partitioner", None), ("partitions", 3)):
        accumulator = unlimited()
        router = Router(accumulator, (lambda *_: None) if way == "partitioner" else None, Rng(1), BATCH_BYTES)
        for _ in range(400):
            keys = [b"k" if way == "keys" and not number else None for number in range(250)]
            lists = ListColumns([b"v" * 100] * 250, keys, [0] * 250)
            asked = [some_partition if not number else None for number in range(250)]
            partitions = asked if some_partition else None
            router.place(Submission("orders", SizedLists.of(lists), partitions=partitions), view(6), 0)
        counts = spread(accumulator)
        assert max(counts.values()) <= 2 * min(counts.values()), (way, counts)


@virtual
async def test_at_full_speed_the_brokers_have_them_spread() -> None:
    async with producing((1, 2, 3, 1, 2, 3)) as (cluster, producer):
        for _ in range(20_000):
            await producer.send("orders", b"ten bytes.")
        await producer.send_many("orders", [b"ten bytes."] * 20_000)
        await producer.flush()
        counts = [cluster.log("orders", number).end for number in range(6)]
        assert sum(counts) == 40_000
        assert max(counts) <= 3 * min(counts), counts


@pytest.mark.parametrize("way", ["send", "one huge submission", "lists", "arrow"])
def test_long_streams_fill_their_batches(way: str) -> None:
    accumulator = unlimited()
    router = Router(accumulator, None, Rng(1), BATCH_BYTES)
    for submission in submissions_of(way, 300_000, bytes(100)):
        router.place(submission, view(6), 0)
    batches = [batch.size_bytes for batch in accumulator]
    assert sum(batches) / len(batches) > 0.8 * BATCH_BYTES


def test_a_partition_never_has_two_turns_in_a_row_and_none_twice_in_a_round() -> None:
    turns = Turns(Rng(3), BATCH_BYTES)
    order = [turns.next(5) for _ in range(50)]
    assert all(first != second for first, second in pairwise(order))
    assert max(Counter(order).values()) - min(Counter(order).values()) <= 1
    assert len({tuple(order[start : start + 5]) for start in range(0, 50, 5)}) > 1, "rounds differ"
    assert turns.next(6) in range(6)
    assert {turns.next(6) for _ in range(12)} == set(range(6)), "one that was added has its turn"
    assert {turns.next(1) for _ in range(2)} == {0}


def test_a_turn_takes_no_more_than_each_partition_has_had() -> None:
    turns = Turns(Rng(3), BATCH_BYTES)
    for _ in range(2):
        turns.next(2)
        assert turns.left_bytes == FIRST_TURN_BYTES
        turns.give(10 * BATCH_BYTES)
        assert turns.is_over(2, 1)
    turns.next(2)
    assert turns.left_bytes == BATCH_BYTES


def test_partitions_without_a_leader_and_those_that_fail_are_passed_over() -> None:
    accumulator = unlimited()
    router = Router(accumulator, None, Rng(1), BATCH_BYTES)
    failing = PartitionKey(TOPIC_ID, 4)
    accumulator.append(failing, "orders", None, b"v", 0, (), 0)
    queue = accumulator.queue(failing)
    assert queue is not None
    queue.trouble = "broker 2: too few replicas in sync"
    for _ in range(20):
        router.place(Submission("orders", SizedLists.of(ListColumns([bytes(60_000)], None, [0]))), view(6, (1, 2)), 0)
    assert set(spread(accumulator)) == {0, 3, 4, 5}
    assert spread(accumulator)[4] == 1
    batch = accumulator.take(failing, 0)
    assert batch is not None
    accumulator.stored(batch, Stored(0))
    for _ in range(8):
        router.place_one(view(6, (1, 2)), None, None, bytes(60_000), 0, (), 0)
    assert spread(accumulator)[4] > 0, "it has its turn again"


def test_if_none_has_a_leader_any_partition_does() -> None:
    accumulator = unlimited()
    router = Router(accumulator, None, Rng(1), BATCH_BYTES)
    for _ in range(20):
        router.place_one(view(3, (0, 1, 2)), None, None, bytes(60_000), 0, (), 0)
    assert sum(spread(accumulator).values()) == 20


def test_one_whose_leader_is_lost_in_its_turn_gets_no_more() -> None:
    accumulator = unlimited()
    router = Router(accumulator, None, Rng(1), BATCH_BYTES)
    first, _ = router.place_one(view(3), None, None, b"v", 0, (), 0)
    lost = first.partition_key.partition
    for _ in range(10):
        batch, _ = router.place_one(view(3, (lost,)), None, None, b"v", 0, (), 0)
        assert batch is not first


# -- slow senders


def test_what_lingers_stays_together() -> None:
    limits = AccumulatorLimits(BATCH_BYTES, queue=QueueLimits(linger_ms=50))
    accumulator = Accumulator(limits, is_idempotent=False)
    router = Router(accumulator, None, Rng(1), BATCH_BYTES)
    sent: list[PendingBatch] = []
    for now_ms in range(500):
        router.place_one(view(6), None, None, b"v", 0, (), now_ms)
        for key in accumulator.partitions:
            batch = accumulator.take(key, now_ms)
            if batch is not None:
                sent.append(batch)
                accumulator.stored(batch, Stored(0))
    assert [batch.record_count for batch in sent] == [51] * 9
    assert len({batch.partition_key.partition for batch in sent}) == 6


def test_while_one_is_under_way_the_next_waits_as_in_a_single_partition() -> None:
    """Or there would be as many times the batches as there are partitions."""
    sent_counts = []
    for partitions in (1, 6):
        accumulator = Accumulator(AccumulatorLimits(BATCH_BYTES), is_idempotent=False)
        router = Router(accumulator, None, Rng(1), BATCH_BYTES)
        under_way: list[tuple[int, PendingBatch]] = []
        sent: list[PendingBatch] = []
        for now_ms in range(300):
            for since_ms, batch in list(under_way):
                if now_ms - since_ms >= 3:  # a broker's answer takes that long
                    under_way.remove((since_ms, batch))
                    accumulator.stored(batch, Stored(0))
            router.place_one(view(partitions), None, None, b"v", 0, (), now_ms)
            for key in accumulator.partitions:
                batch_or_none = accumulator.take(key, now_ms)
                if batch_or_none is not None:
                    under_way.append((now_ms, batch_or_none))
                    sent.append(batch_or_none)
        sent_counts.append(len(sent))
        assert len({batch.partition_key.partition for batch in sent}) == partitions
    assert sent_counts[1] == sent_counts[0] <= 110


def test_a_batch_does_not_wait_for_one_that_is_stuck() -> None:
    accumulator = Accumulator(AccumulatorLimits(BATCH_BYTES), is_idempotent=False)
    router = Router(accumulator, None, Rng(1), BATCH_BYTES)
    first, _ = router.place_one(view(2), None, None, b"v", 0, (), 0)
    assert accumulator.take(first.partition_key, 0) is first
    second, _ = router.place_one(view(2), None, None, b"v", 0, (), 0)
    assert second.partition_key != first.partition_key
    assert accumulator.sendable_at_ms(second.partition_key) == 5
    assert accumulator.take(second.partition_key, 5) is second
    assert second.behind is None, "a chain of all batches would never be forgotten"
    third, _ = router.place_one(view(2), None, None, b"v", 0, (), 6)
    accumulator.stored(second, Stored(0))
    assert accumulator.sendable_at_ms(third.partition_key) in (6, 11)
