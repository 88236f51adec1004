"""Whatever comes, and however it is taken: a consumer is given each record of a partition from its position on, once
and in order, and its position says at any moment what it was given."""

import os
from itertools import islice

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lograft.clients.consumer.reading.fetch_credit import FetchCredit
from lograft.clients.consumer.reading.fetched_partition import Anchor, FetchedPartition
from lograft.clients.consumer.reading.record_queue import RecordQueue
from lograft.clients.consumer.reading.record_run import Position, RecordRun
from lograft.clients.errors import DeserializationError
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import Compression, encode_batch, parse_header

EXAMPLES = int(os.environ.get("LOGRAFT_EXAMPLES", "100"))
NAME = TopicPartition("orders", 3)
WINDOW_BYTES = 1000


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[tuple[int, int, bytes]], list[tuple[int, int]]]:
    """Batches, [base, next) each, dense, compacted, empty, of control or of any layout; and the offset and the leader
    epoch of each record that users see."""
    batches: list[tuple[int, int, bytes]] = []
    records: list[tuple[int, int]] = []
    offset, epoch = draw(st.integers(0, 3)), 0
    for _ in range(draw(st.integers(1, 12))):
        epoch += draw(st.sampled_from([0, 0, 0, 1]))
        deltas = draw(st.sampled_from([[0], [0, 1, 2], [1, 4], [], [0, 1, 2, 3, 4, 5, 6]]))
        last_delta = (deltas[-1] if deltas else 0) + draw(st.sampled_from([0, 0, 2]))
        is_control = draw(st.sampled_from([False, False, False, True]))
        batch = encode_batch(
            [b"%d" % (offset + delta) for delta in deltas],
            timestamps=[offset + delta for delta in deltas],
            magic=draw(st.sampled_from([2, 3])),
            compression=draw(st.sampled_from([Compression.NONE, Compression.LZ4])),
            offset_deltas=deltas,
            last_offset_delta=last_delta,
            base_offset=offset,
            leader_epoch=epoch,
            control=is_control,
        )
        batches.append((offset, offset + last_delta + 1, batch))
        records += [(offset + delta, epoch) for delta in deltas if not is_control]
        offset += last_delta + 1 + draw(st.sampled_from([0, 0, 3]))
    return batches, records


def refuse_some(_topic: str, value: bytes) -> int:
    number = int(value)
    if number % 5 == 4:
        raise ValueError("not this one")
    return number


class FetchLife(RuleBasedStateMachine):
    """`self.next`: the offset from which on nothing was given."""

    @initialize(log=logs(), is_refusing=st.booleans())
    def begin(self, log: tuple[list[tuple[int, int, bytes]], list[tuple[int, int]]], is_refusing: bool) -> None:
        self.batches, self.records = log
        self.partition = FetchedPartition(NAME, b"t" * 16, Anchor.EARLIEST)
        self.partition.found(0)
        self.credit = FetchCredit(WINDOW_BYTES)
        self.is_refusing = is_refusing
        self.queue = RecordQueue((None, refuse_some if is_refusing else None), self.partition.give_back, self.more)
        self.next = 0

    def more(self, count: int) -> list[RecordRun]:
        run = None if self.partition.is_paused else self.partition.open_run(count)
        return [] if run is None else [run]

    # -- what comes

    @precondition(lambda self: self.partition.wants_data)
    @rule(count=st.integers(1, 4))
    def arrive(self, count: int) -> None:
        """The next batches, the first of which may begin before what is wanted."""
        coming = [each for each in self.batches if each[1] > self.partition.fetch_offset][:count]
        if coming:
            data = b"".join(batch for _, _, batch in coming)
            self.credit.received(len(data))
            self.partition.arrived(data, coming[-1][1], self.batches[-1][1], self.credit, leader_epoch=9, source=1)

    @rule()
    def come_late(self) -> None:
        """What is not wanted any more leaves nothing behind."""
        self.credit.received(10)
        self.partition.arrived(bytes(10), self.partition.fetch_offset, None, self.credit, leader_epoch=9, source=1)

    # -- what goes

    def given(self, offsets: list[int]) -> None:
        expected = [offset for offset, _ in self.records if offset >= self.next]
        assert offsets == expected[: len(offsets)]
        if offsets:
            self.next = offsets[-1] + 1

    @rule(limit=st.integers(1, 12))
    def poll(self, limit: int) -> None:
        try:
            records = self.queue.take(limit)
        except DeserializationError as error:
            assert self.is_refusing
            before = self.next
            self.given([error.offset])
            self.next = before  # it is the next one, and was not given
            return
        assert len(records) <= limit
        self.given([record.offset for record in records])
        assert [int(record.value or 0) for record in records] == [record.offset for record in records]

    @rule(limit=st.integers(1, 12), is_recalled=st.booleans())
    def be_interrupted(self, limit: int, is_recalled: bool) -> None:
        """What was taken does not get to who asked for it."""
        queue = RecordQueue((None, None), self.partition.give_back)
        queue.replace(self.more(limit))
        queue.take(limit)
        if is_recalled:
            self.partition.recall()
        queue.undo()

    @rule(count=st.integers(1, 12))
    def iterate(self, count: int) -> None:
        if self.is_refusing:
            return
        self.queue.replace(self.more(count))
        self.given([record.offset for record in islice(self.queue, count)])

    @precondition(lambda self: not self.partition.is_paused)
    @rule(limit=st.integers(1, 12))
    def poll_arrow(self, limit: int) -> None:
        batches = self.partition.take_arrow(limit)
        offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert len(offsets) <= limit
        self.given(offsets)
        values = [value for batch in batches for value in batch.column("value").to_pylist()]
        assert [int(value) for value in values] == offsets

    @rule()
    def recall(self) -> None:
        self.partition.recall()

    # -- moving about

    @rule(offset=st.integers(0, 60))
    def seek(self, offset: int) -> None:
        self.partition.seek(Position(offset))
        self.next = offset

    @rule()
    def pause(self) -> None:
        self.partition.pause()
        assert self.credit.held_bytes == 0

    @rule()
    def resume(self) -> None:
        self.partition.resume()

    @rule(distance=st.integers(-4, 4))
    def truncate(self, distance: int) -> None:
        before = self.partition.position
        assert before is not None
        valid_end = max(0, before + distance)
        assert self.partition.truncated(valid_end, may_go_back=True) == (before > valid_end)
        self.next = min(self.next, valid_end)

    # -- always

    @invariant()
    def the_position_is_behind_all_that_was_given_and_before_all_else(self) -> None:
        where = self.partition.where
        assert where is not None
        between = [offset for offset, _ in self.records if self.next <= offset < where.offset]
        assert between == [], "passed over"
        assert where.offset >= self.next
        assert where.offset <= max(self.partition.fetch_offset, self.next)
        assert self.partition.lag is None or self.partition.lag >= 0

    @invariant()
    def the_epoch_is_that_of_the_batch_before(self) -> None:
        where = self.partition.where
        assert where is not None
        if where.leader_epoch is not None:
            epochs = [epoch for offset, epoch in self.records if offset < where.offset]
            assert not epochs or where.leader_epoch >= epochs[-1]
            assert where.leader_epoch <= self.epoch_at(where.offset - 1)

    def epoch_at(self, offset: int) -> int:
        return max(parse_header(batch).leader_epoch for base, _, batch in self.batches if base <= offset)

    @invariant()
    def credit_is_held_for_what_is_held(self) -> None:
        assert self.credit.held_bytes == sum(chunk.size_bytes for chunk in self.partition._chunks)

    def teardown(self) -> None:
        if not hasattr(self, "partition"):
            return
        self.partition.resume()
        self.is_refusing = False
        self.queue = RecordQueue((None, None), self.partition.give_back, self.more)
        while self.partition.fetch_offset < self.batches[-1][1]:
            self.arrive(3)
        while self.partition.has_more:
            self.poll(5)
        assert [offset for offset, _ in self.records if offset >= self.next] == []
        assert self.credit.held_bytes == 0


TestFetchLife = FetchLife.TestCase
TestFetchLife.settings = settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None)
