"""The partition log against a plain list: random operations, crashes at any call. See support/log_model.py."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from support.log_model import Story

from lograft.chaos.world.loop import run_virtual
from lograft.storage.log.log_config import FlushMode, LogConfig

EXAMPLES = int(os.environ.get("LOGRAFT_EXAMPLES", "250"))  # each a life of up to 60 operations, twice

fractions = st.floats(0, 1)

OPERATIONS = st.one_of(
    st.tuples(st.just(Story.append), st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just(Story.append), st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just(Story.append), st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just(Story.follow), st.integers(1, 4), st.integers(0, 3)),
    st.tuples(st.just(Story.next_epoch)),
    st.tuples(st.just(Story.wait_stable)),
    st.tuples(st.just(Story.advance_watermark)),
    st.tuples(st.just(Story.pause), st.integers(0, 50)),
    st.tuples(st.just(Story.roll)),
    st.tuples(st.just(Story.read), fractions, st.sampled_from([1, 200, 1000, 100_000]), fractions),
    st.tuples(st.just(Story.read_out_of_range)),
    st.tuples(st.just(Story.find_time), fractions),
    st.tuples(st.just(Story.truncate), fractions),
    st.tuples(st.just(Story.delete_prefix), fractions),
    st.tuples(st.just(Story.retention), st.integers(0, 2000)),
    st.tuples(st.just(Story.compact)),
    st.tuples(st.just(Story.checkpoint)),
    st.tuples(st.just(Story.flush)),
    st.tuples(st.just(Story.reopen)),
    st.tuples(st.just(Story.check_all)),
    st.tuples(st.just(Story.crash_soon), st.integers(1, 60), st.booleans()),
)


def tell(seed: int, config: LogConfig, operations: list[tuple[Any, ...]]) -> Story:
    async def main() -> Story:
        story = Story(seed, config)
        await story.start()
        for operation, *arguments in operations:
            await story.run(operation, *arguments)
        story.files.points.restart()
        await story.run(Story.check_all)
        await story.run(Story.reopen)
        return story

    return run_virtual(main)


@pytest.mark.parametrize("flush_mode", list(FlushMode))
@settings(max_examples=EXAMPLES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32 - 1),
    segment_bytes=st.sampled_from([300, 1000, 5000]),
    tail_bytes=st.sampled_from([0, 400, 100_000]),
    operations=st.lists(OPERATIONS, min_size=5, max_size=60),
)
def test_log_keeps_its_promises_through_any_crash(
    flush_mode: FlushMode, seed: int, segment_bytes: int, tail_bytes: int, operations: list[tuple[Any, ...]]
) -> None:
    config = LogConfig(
        segment_bytes=segment_bytes,
        tail_bytes=tail_bytes,
        index_interval_bytes=200,
        flush_mode=flush_mode,
        retention_ms=1000,
        retention_bytes=3000,
        cleanup_compact=True,
        delete_retention_ms=500,
        min_cleanable_dirty_ratio=0.1,
    )
    note(f"seed {seed}")
    tell(seed, config, operations)
