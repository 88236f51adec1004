"""What retention lets go of, and that nothing else goes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.cleaning import NOW_MS, append, contents, read_records, real_disk

from lograft.storage.cleaning.compaction import compact
from lograft.storage.cleaning.retention import RetainedSegment, apply_retention, latest_ms, retention_start
from lograft.storage.files.segment_index import SegmentSummary
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_log import PartitionLog, open_log

HOUR_MS = 3600 * 1000


def segments(*ages_ms: int | None) -> list[RetainedSegment]:
    """Segments of ten offsets and 100 bytes each, whose newest records are this old."""
    return [
        RetainedSegment(10 * (place + 1), 100, None if age_ms is None else NOW_MS - age_ms)
        for place, age_ms in enumerate(ages_ms)
    ]


@pytest.mark.parametrize(
    ("ages_ms", "settings", "bound", "expected"),
    [
        pytest.param([9, 9, 1], {"retention_ms": 5}, 30, 20, id="expired segments go"),
        pytest.param([5, 1], {"retention_ms": 5}, 20, 0, id="exactly as old as allowed stays"),
        pytest.param([9, 1, 9], {"retention_ms": 5}, 30, 10, id="a young one keeps those behind it"),
        pytest.param([9, 9, 9], {"retention_ms": 5}, 30, 30, id="all may go, the active one too"),
        pytest.param([9, 9, 9], {"retention_ms": 5}, 29, 20, id="not what reaches above the bound"),
        pytest.param([9, 9, 9], {"retention_ms": 5}, 9, 0, id="nothing below so low a bound"),
        pytest.param([9, None, 9], {"retention_ms": 5}, 30, 10, id="an unknown age counts as young"),
        pytest.param([9, 9], {"retention_ms": -1}, 20, 0, id="kept for ever"),
        pytest.param([9, 9], {"retention_ms": 5, "cleanup_delete": False}, 20, 0, id="only with the delete policy"),
        pytest.param([0, 0, 0], {"retention_bytes": 200}, 30, 10, id="the surplus goes"),
        pytest.param([0, 0, 0], {"retention_bytes": 201}, 30, 0, id="what is left must not be too little"),
        pytest.param([0, 0, 0], {"retention_bytes": 300}, 30, 0, id="exactly as large as allowed stays"),
        pytest.param([0, 0, 0], {"retention_bytes": 0}, 30, 30, id="no bytes at all"),
        pytest.param([0, 0, 0], {"retention_bytes": 0}, 15, 10, id="size keeps to the bound too"),
        pytest.param([0, 0, 0], {"retention_bytes": -1}, 30, 0, id="any amount"),
        pytest.param([9, 0, 0], {"retention_ms": 5, "retention_bytes": 100}, 30, 20, id="size goes on where age ends"),
        pytest.param([9, 9, 0], {"retention_ms": 5, "retention_bytes": 200}, 30, 20, id="age goes on where size ends"),
    ],
)
def test_leading_segments_go_by_age_and_by_size(
    ages_ms: list[int | None], settings: dict[str, Any], bound: int, expected: int
) -> None:
    assert retention_start(segments(*ages_ms), LogConfig(**settings), NOW_MS, bound, 0) == expected


def test_the_start_never_goes_back() -> None:
    assert retention_start(segments(9, 1), LogConfig(retention_ms=5), NOW_MS, 20, 17) == 17


def test_an_empty_active_segment_is_not_deleted() -> None:
    found = [RetainedSegment(10, 100, 0), RetainedSegment(10, 0, -1)]
    assert retention_start(found, LogConfig(retention_ms=5), NOW_MS, 10, 0) == 10


def test_a_segment_without_records_is_as_old_as_its_first_append() -> None:
    assert latest_ms(SegmentSummary(0, 10, 100, first_append_ms=7, max_timestamp=-1)) == 7
    assert latest_ms(SegmentSummary(0, 10, 100, first_append_ms=7, max_timestamp=5)) == 5


# -- carried out


async def _three_segments(log: PartitionLog) -> None:
    """Segments that begin at 0, 2 and 4, with records three, two and one hours old; the last is active."""
    for hours in (3, 2, 1):
        if log.segments.active.size_bytes:
            log.roll()
        append(log, (b"a", b"%d" % hours), (b"b", b"%d" % hours), at_ms=NOW_MS - hours * HOUR_MS)
    await log.flush()


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.log"))


def test_expired_segments_leave_the_log_and_the_disk_and_stay_away(tmp_path: Path) -> None:
    async def run() -> None:
        config = LogConfig(retention_ms=2 * HOUR_MS + 1, tail_bytes=0)
        async with real_disk(tmp_path) as disk:
            log = await open_log(disk, str(tmp_path / "t"), config)
            await _three_segments(log)
            size_before = log.size_bytes
            freed_bytes = await apply_retention(log, NOW_MS, log.end_offset)
            assert freed_bytes == size_before - log.size_bytes > 0
            assert await apply_retention(log, NOW_MS, log.end_offset) == 0
            await log.close()
            assert _names(tmp_path / "t") == ["00000000000000000002.log", "00000000000000000004.log"]
            log = await open_log(disk, str(tmp_path / "t"), config)
            assert log.start_offset == 2
            assert [record.offset for record in await read_records(log)] == [2, 3, 4, 5]
            await log.close()

    asyncio.run(run())


def test_ages_are_learnt_from_disk_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        config = LogConfig(retention_ms=2 * HOUR_MS + 1, tail_bytes=0)
        async with real_disk(tmp_path) as disk:
            log = await open_log(disk, str(tmp_path / "t"), config)
            await _three_segments(log)
            await log.close()
            log = await open_log(disk, str(tmp_path / "t"), config)
            assert await apply_retention(log, NOW_MS, log.end_offset) > 0
            assert log.start_offset == 2
            await log.close()

    asyncio.run(run())


def test_an_expired_active_segment_is_rolled_and_the_log_goes_on_at_its_end(tmp_path: Path) -> None:
    async def run() -> None:
        config = LogConfig(retention_ms=HOUR_MS - 1, tail_bytes=0)
        async with real_disk(tmp_path) as disk:
            log = await open_log(disk, str(tmp_path / "t"), config)
            await _three_segments(log)
            await apply_retention(log, NOW_MS, log.end_offset)
            assert (log.start_offset, log.end_offset, len(log.segments)) == (6, 6, 1)
            append(log, (b"a", b"new"))
            await log.close()
            log = await open_log(disk, str(tmp_path / "t"), config)
            assert contents(await read_records(log)) == [(6, b"a", b"new")]
            await log.close()

    asyncio.run(run())


def test_an_expired_active_segment_that_reaches_above_the_bound_is_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with real_disk(tmp_path) as disk:
            log = await open_log(disk, str(tmp_path / "t"), LogConfig(retention_ms=HOUR_MS - 1))
            await _three_segments(log)
            await apply_retention(log, NOW_MS, log.end_offset - 1)
            assert (log.start_offset, log.end_offset, len(log.segments)) == (4, 6, 1)
            await log.close()

    asyncio.run(run())


def test_nothing_is_deleted_while_the_log_is_being_cut(tmp_path: Path) -> None:
    async def run() -> None:
        async with real_disk(tmp_path) as disk:
            log = await open_log(disk, str(tmp_path / "t"), LogConfig(retention_ms=HOUR_MS - 1))
            await _three_segments(log)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(log.truncate(5))
                freed = tasks.create_task(apply_retention(log, NOW_MS, log.end_offset))
            assert freed.result() == 0
            assert (log.start_offset, log.end_offset) == (0, 4)
            await log.close()

    asyncio.run(run())


def test_both_policies_together_compact_what_retention_leaves(tmp_path: Path) -> None:
    async def run() -> None:
        config = LogConfig(
            retention_ms=2 * HOUR_MS + 1, cleanup_compact=True, min_cleanable_dirty_ratio=0.0, tail_bytes=0
        )
        async with real_disk(tmp_path) as disk:
            log = await open_log(disk, str(tmp_path / "t"), config)
            await _three_segments(log)
            log.roll()
            await log.flush()
            await apply_retention(log, NOW_MS, log.end_offset)
            await compact(log, log.end_offset, NOW_MS)
            assert contents(await read_records(log)) == [(4, b"a", b"1"), (5, b"b", b"1")]
            await apply_retention(log, NOW_MS + 2 * HOUR_MS, log.end_offset)
            assert await read_records(log) == []
            assert log.start_offset == log.end_offset == 6
            await log.close()

    asyncio.run(run())
