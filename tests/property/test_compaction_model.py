"""Compaction against a plain dictionary: random logs, random runs over them, and a crash now and then."""

import asyncio
import os
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cleaning import NOW_MS, SimulatedNode, append, config, read_batches, read_records

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.loop import run_virtual
from lograft.storage.batch.codec import Compression, validate_deep
from lograft.storage.batch.header import MAGIC_COLUMNS, MAGIC_ROWS
from lograft.storage.batch.record import Record
from lograft.storage.cleaning.compaction import CompactionResult, compact
from lograft.storage.log.log_config import FlushMode
from lograft.storage.log.partition_log import PartitionLog

EXAMPLES = int(os.environ.get("LOGRAFT_EXAMPLES", "100"))
DELETE_RETENTION_MS = 100

KEYS = [None, b"a", b"b", b"c", b"d", b"", b"x" * 33, b"x" * 34]
pairs = st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=20)))
appends = st.tuples(
    st.just("append"),
    st.lists(pairs, min_size=1, max_size=5),
    st.sampled_from([MAGIC_ROWS, MAGIC_COLUMNS]),
    st.sampled_from(list(Compression)),
    st.sampled_from([-1, 3, 4]),  # the producer
)
STEPS = st.lists(
    st.one_of(
        appends,
        appends,
        appends,
        st.tuples(st.just("roll")),
        st.tuples(st.just("compact"), st.integers(1, 10), st.floats(0, 1), st.integers(0, 150), st.integers(1, 2000)),
        st.tuples(st.just("crash"), st.integers(1, 10), st.integers(1, 60), st.booleans()),
    ),
    max_size=25,
)


class Story:
    """A log, all that was ever appended to it, and what is known of what compaction took."""

    def __init__(self, seed: int, flush_mode: FlushMode) -> None:
        self.node = SimulatedNode(
            seed, config(segment_bytes=600, delete_retention_ms=DELETE_RETENTION_MS, flush_mode=flush_mode)
        )
        self.written: list[Record] = []
        self.now_ms = NOW_MS
        self.sequences = {3: 0, 4: 0}

    @property
    def log(self) -> PartitionLog:
        return self.node.log

    async def append(
        self, batch: list[tuple[bytes | None, bytes | None]], magic: int, codec: Any, producer: int
    ) -> None:
        fields: dict[str, int] = {}
        if producer != -1:
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequences[producer]}
            self.sequences[producer] += len(batch)
        base = append(self.log, *batch, at_ms=self.now_ms, magic=magic, compression=codec, **fields).base_offset
        for place, (key, value) in enumerate(batch):
            self.written.append(Record("", 0, base + place, self.now_ms, key, value, ()))

    async def roll(self) -> None:
        if self.log.segments.active.size_bytes:
            self.log.roll()

    async def compact(self, max_keys: int, bound: float, wait_ms: int, slice_bytes: int) -> None:
        self.now_ms += wait_ms
        offset = int(bound * self.log.end_offset)
        untouched = await read_batches(self.log, offset) if offset < self.log.end_offset else []
        await self.log.wait_stable(self.log.end_offset)
        first_dirty, active = self.log.checkpointed.first_dirty, self.log.segments.active
        result = await compact(self.log, offset, self.now_ms, max_keys, slice_bytes)
        assert self.log.segments.active is active
        self._check_progress(result, first_dirty, offset)
        records = await self.check()
        if untouched:
            assert (await read_batches(self.log, offset))[-len(untouched) :] == untouched
        if result is not None:
            self._check_cleaned(records, result.first_dirty)

    def _check_progress(self, result: CompactionResult | None, first_dirty: int, bound: int) -> None:
        if result is None:
            assert self.log.checkpointed.first_dirty == first_dirty
            return
        assert not result.is_interrupted
        assert first_dirty < result.first_dirty <= bound
        assert self.log.checkpointed.first_dirty == result.first_dirty

    def _check_cleaned(self, records: list[Record], first_dirty: int) -> None:
        """Below what was cleaned, no key is there twice, and none is missing."""
        cleaned = [record for record in records if record.offset < first_dirty]
        keys = [record.key for record in cleaned]
        assert None not in keys
        assert len(keys) == len(set(keys))

    async def crash(self, max_keys: int, call: int, power_fails: bool) -> None:
        await self.log.flush()

        async def compact_and_settle() -> None:
            await compact(self.log, self.log.end_offset, self.now_ms, max_keys)
            await self.log.disk.writer.call(lambda: None)

        task = asyncio.get_running_loop().create_task(compact_and_settle())
        self.node.files.on_crash(lambda name: task.cancel())  # type: ignore[arg-type]
        self.node.files.crash_at(self.node.files.calls + call)
        try:
            await task
        except (SimulatedCrash, asyncio.CancelledError):
            assert self.node.files.crashed
        self.node.crash(power_fails=power_fails)
        await self.node.boot()
        await self.check()

    async def check(self) -> list[Record]:
        """Whatever was taken was superseded, without a key, or an expired tombstone; the rest is as it was written."""
        for batch in await read_batches(self.log):
            validate_deep(batch)
        assert self.log.end_offset == len(self.written)
        records = await read_records(self.log)
        there = {record.offset: record for record in records}
        latest = {record.key: record.offset for record in self.written}
        removed_below = self.log.checkpointed.tombstones_removed_below
        for record in self.written:
            if record.offset in there:
                assert there[record.offset] == record
                continue
            is_superseded = latest[record.key] > record.offset
            is_expired = record.value is None and record.offset < removed_below
            assert is_superseded or is_expired or record.key is None, f"{record} is lost"
        assert _table(records) == _table(self.written)
        return records


def _table(records: list[Record]) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    for record in records:
        if record.key is not None and record.value is not None:
            table[record.key] = record.value
        elif record.key is not None:
            table.pop(record.key, None)
    return table


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(seed=st.integers(0, 2**32), flush_mode=st.sampled_from(FlushMode), steps=STEPS)
def test_compaction_takes_only_what_no_one_misses(seed: int, flush_mode: FlushMode, steps: list[Any]) -> None:
    async def run() -> None:
        story = Story(seed, flush_mode)
        await story.node.boot()
        for name, *arguments in steps:
            await getattr(story, name)(*arguments)
        sequences = {producer: sequence for producer, sequence in story.sequences.items() if sequence}
        await story.log.close()
        await story.node.boot()
        await story.check()
        for producer, sequence in sequences.items():
            # The next in order is taken: nothing was forgotten of what the producer sent.
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            append(story.log, (b"a", b"more"), **fields)

    run_virtual(run)
