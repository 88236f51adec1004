"""Compaction of a whole log, on real files."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.cleaning import (
    NOW_MS,
    Pair,
    append,
    append_batch,
    config,
    contents,
    latest_by_key,
    read_batches,
    read_records,
    real_disk,
    seal,
)

from lograft.storage.batch.codec import decode_records, encode_batch, parse_header
from lograft.storage.batch.header import pack_header
from lograft.storage.cleaning.compaction import CompactionResult, compact
from lograft.storage.errors import CorruptLog
from lograft.storage.files.segment import read_index
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_disk import Disk
from lograft.storage.log.partition_log import PartitionLog, ReplicaFrame, open_log  # type: ignore[attr-defined]

Story = Callable[[PartitionLog], Awaitable[None]]


def with_log(tmp_path: Path, log_config: LogConfig, story: Story, after_reopening: Story | None = None) -> None:
    """Tell `story` about a new log; then, if there is more to tell, close it, open it again and go on."""

    async def run() -> None:
        async with real_disk(tmp_path) as disk:
            for part in filter(None, (story, after_reopening)):
                log = await open_log(disk, str(tmp_path / "t"), log_config)
                await part(log)
                await log.close()
        assert [path.name for path in (tmp_path / "t").iterdir() if path.suffix in (".cleaned", ".swap", ".tmp")] == []

    asyncio.run(run())


async def clean(log: PartitionLog, at_ms: int = NOW_MS, **options: int) -> CompactionResult:
    result = await compact(log, log.end_offset, at_ms, **options)  # type: ignore[arg-type]
    assert result is not None
    assert not result.is_interrupted
    assert log.checkpointed.first_dirty == result.first_dirty
    return result


async def _two_generations(log: PartitionLog) -> None:
    """Keys a and b, then a again, in two sealed segments."""
    append(log, (b"a", b"1"), (b"b", b"1"))
    log.roll()
    append(log, (b"a", b"2"), (b"c", b"2"))
    await seal(log)


def test_only_the_latest_record_of_each_key_is_left_at_its_offset(tmp_path: Path) -> None:
    expected = [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"2")]

    async def story(log: PartitionLog) -> None:
        await _two_generations(log)
        size_before = log.size_bytes
        result = await clean(log)
        assert contents(await read_records(log)) == expected
        assert (log.start_offset, log.end_offset) == (0, 4)
        assert result.records_removed == 1
        assert result.first_dirty == 4
        assert (result.bytes_before, result.bytes_after) == (size_before, log.size_bytes)

    async def reopened(log: PartitionLog) -> None:
        assert contents(await read_records(log)) == expected
        assert (log.start_offset, log.end_offset, log.checkpointed.first_dirty) == (0, 4, 4)

    with_log(tmp_path, config(), story, reopened)


def test_small_segments_become_one_on_disk(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        await _two_generations(log)
        await clean(log)
        assert [segment.base_offset for segment in log.segments] == [0, 4]

    async def reopened(log: PartitionLog) -> None:
        assert [segment.base_offset for segment in log.segments] == [0, 4]
        assert sorted(path.name for path in (tmp_path / "t").glob("*.log")) == [
            "00000000000000000000.log",
            "00000000000000000004.log",
        ]
        index = read_index(log.disk.files, log.segments[0])
        assert index is not None
        assert index.summary.size_bytes == log.segments[0].size_bytes

    with_log(tmp_path, config(), story, reopened)


def test_segments_are_not_merged_beyond_the_segment_size(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        for number in range(20):
            append(log, (b"%d" % number, b"v" * 100))
        await seal(log)
        bases = [segment.base_offset for segment in log.segments]
        await clean(log)
        assert [segment.base_offset for segment in log.segments] == bases
        assert len(bases) > 5

    with_log(tmp_path, config(segment_bytes=600), story)


def test_the_index_of_a_cleaned_segment_finds_every_record(tmp_path: Path) -> None:
    async def check(log: PartitionLog) -> None:
        for offset in range(200):
            found = await log.read(offset, 1)
            first = next(record for record in decode_records(found.buffers[0]) if record.offset >= offset)
            assert first.offset == max(offset, 100)
        for second in range(100):
            assert (await log.offset_for_time(NOW_MS + second)) == (await log.offset_for_time(NOW_MS + second, 200))
            found_time = await log.offset_for_time(NOW_MS + second)
            assert found_time is not None
            assert found_time.offset == 100 + second

    async def story(log: PartitionLog) -> None:
        for number in range(200):
            append(log, (b"%d" % (number % 100), b"%d" % number), at_ms=NOW_MS + number % 100)
            if number % 7 == 6:
                log.roll()
        await seal(log)
        await clean(log)
        assert len(log.segments) == 2
        await check(log)

    with_log(tmp_path, config(), story, check)


def test_the_active_segment_is_never_touched(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        await _two_generations(log)
        append(log, (b"c", b"3"), (b"c", b"4"), (None, b"5"))
        await log.flush()
        active = await read_batches(log, 4)
        await clean(log)
        assert contents(await read_records(log)) == [
            (1, b"b", b"1"),
            (2, b"a", b"2"),
            (3, b"c", b"2"),
            (4, b"c", b"3"),
            (5, b"c", b"4"),
            (6, None, b"5"),
        ]
        assert await read_batches(log, 4) == active
        assert log.checkpointed.first_dirty == 4

    with_log(tmp_path, config(), story)


@pytest.mark.parametrize("bound", range(9))
def test_nothing_at_or_above_the_bound_is_touched(tmp_path: Path, bound: int) -> None:
    async def story(log: PartitionLog) -> None:
        for number in range(4):
            append(log, (b"k", b"%d" % number), (b"k", b"%d!" % number))
            log.roll()
        await log.flush()
        before = await read_records(log)
        above = [batch for batch in await read_batches(log) if parse_header(batch).next_offset > bound]
        result = await compact(log, bound, NOW_MS)
        after = await read_records(log)
        cleaned_end = bound // 2 * 2
        assert (result is None) == (cleaned_end == 0)
        assert log.checkpointed.first_dirty == cleaned_end
        assert after == [record for record in before if record.offset >= max(cleaned_end - 1, 0)]
        assert [batch for batch in await read_batches(log) if parse_header(batch).next_offset > bound] == above

    with_log(tmp_path, config(), story)


def test_records_younger_than_the_lag_are_left_alone(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        append(log, (b"a", b"1"), (b"a", b"2"), at_ms=NOW_MS - 1000)
        log.roll()
        append(log, (b"a", b"3"), (b"a", b"4"), at_ms=NOW_MS)
        await seal(log)
        assert (await clean(log)).first_dirty == 2
        assert [record.value for record in await read_records(log)] == [b"2", b"3", b"4"]
        assert (await clean(log, NOW_MS + 1000)).first_dirty == 4
        assert [record.value for record in await read_records(log)] == [b"4"]

    with_log(tmp_path, config(min_compaction_lag_ms=1000), story)


def test_nothing_happens_below_the_dirty_ratio_or_without_the_policy(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        await _two_generations(log)
        await clean(log)
        assert await compact(log, log.end_offset, NOW_MS) is None  # there is nothing dirty
        append(log, (b"a", b"3"))
        await seal(log)
        before = await read_records(log)
        assert await compact(log, log.end_offset, NOW_MS) is None
        await log.reconfigure(config(min_cleanable_dirty_ratio=0.1, cleanup_compact=False))
        assert await compact(log, log.end_offset, NOW_MS) is None
        assert await read_records(log) == before
        await log.reconfigure(config(min_cleanable_dirty_ratio=0.1))
        assert (await clean(log)).records_removed == 1

    with_log(tmp_path, config(min_cleanable_dirty_ratio=0.9), story)


def test_a_tombstone_outlives_the_value_by_the_delete_retention(tmp_path: Path) -> None:
    async def dirty(log: PartitionLog) -> None:
        append(log, (b"other", b"x"))
        await seal(log)

    async def story(log: PartitionLog) -> None:
        append(log, (b"a", b"1"), (b"b", b"1"))
        log.roll()
        append(log, (b"a", None))
        await dirty(log)
        await clean(log)
        tombstone = (2, b"a", None)
        assert tombstone in contents(await read_records(log))
        assert (0, b"a", b"1") not in contents(await read_records(log))
        await dirty(log)
        await clean(log, NOW_MS + 499)
        assert tombstone in contents(await read_records(log))
        assert log.checkpointed.tombstones_removed_below == 0
        await dirty(log)
        await clean(log, NOW_MS + 500)
        assert tombstone not in contents(await read_records(log))
        assert log.checkpointed.tombstones_removed_below == 3

    async def reopened(log: PartitionLog) -> None:
        assert log.checkpointed.tombstones_removed_below == 3
        assert latest_by_key(await read_records(log)) == {b"b": b"1", b"other": b"x"}

    with_log(tmp_path, config(delete_retention_ms=500), story, reopened)


def test_the_end_survives_though_no_record_does(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        append(log, (b"a", None))
        await seal(log)
        await clean(log)
        append(log, (None, b"no key"))
        await seal(log)
        await clean(log, NOW_MS + 1)
        assert await read_records(log) == []
        assert log.end_offset == 2

    async def reopened(log: PartitionLog) -> None:
        assert await read_records(log) == []
        assert (log.start_offset, log.end_offset) == (0, 2)
        assert append(log, (b"a", b"1")).base_offset == 2

    with_log(tmp_path, config(delete_retention_ms=0), story, reopened)


@pytest.mark.parametrize("lose_snapshots", [False, True])
def test_producers_go_on_where_they_were(tmp_path: Path, lose_snapshots: bool) -> None:
    """Even when what is known of them must be read from the cleaned batches."""

    async def story(log: PartitionLog) -> None:
        for sequence in range(3):
            append(log, (b"a", b"p"), producer_id=7, producer_epoch=1, base_sequence=sequence)
        append(log, (b"a", b"q"))
        append(log, (b"b", b"q"))
        await seal(log)
        await clean(log)
        assert contents(await read_records(log)) == [(3, b"a", b"q"), (4, b"b", b"q")]

    async def reopened(log: PartitionLog) -> None:
        assert log.producers.last_offsets() == {7: 2}
        append(log, (b"a", b"r"), producer_id=7, producer_epoch=1, base_sequence=3)
        duplicate = encode_batch(
            [b"p"], keys=[b"a"], timestamps=NOW_MS, producer_id=7, producer_epoch=1, base_sequence=2
        )
        assert append_batch(log, duplicate).base_offset == 2

    async def run() -> None:
        async with real_disk(tmp_path) as disk:
            log = await open_log(disk, str(tmp_path / "t"), config())
            await story(log)
            await log.close()
            if lose_snapshots:
                for path in (tmp_path / "t").glob("*.producers"):
                    path.unlink()
            log = await open_log(disk, str(tmp_path / "t"), config())
            await reopened(log)
            await log.close()

    asyncio.run(run())


def test_batches_that_lose_nothing_are_copied_byte_for_byte(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        append(log, (b"a", b"1"))
        append(log, (b"b", b"1"), producer_id=3, producer_epoch=0, base_sequence=0)
        append_batch(log, encode_batch([b"commit"], keys=[b"x"], timestamps=NOW_MS, control=True))
        append_batch(log, encode_batch([b"abort"], keys=[b"x"], timestamps=NOW_MS, control=True))
        log.roll()
        append(log, (b"a", b"2"))
        await seal(log)
        before = await read_batches(log)
        await clean(log)
        assert await read_batches(log) == before[1:]

    with_log(tmp_path, config(), story)


def test_a_segment_in_which_nothing_changes_is_not_replaced(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        append(log, (b"a", b"1"), (b"b", b"1"))
        await seal(log)
        first = log.segments[0]
        result = await clean(log)
        assert log.segments[0] is first
        assert (result.records_removed, result.first_dirty) == (0, 2)

    with_log(tmp_path, config(), story)


@pytest.mark.parametrize("max_keys", [1, 2, 5, 7])
def test_more_keys_than_memory_holds_take_several_runs(tmp_path: Path, max_keys: int) -> None:
    async def story(log: PartitionLog) -> None:
        pairs: list[Pair] = [(b"%d" % (number * 7 % 10), b"%d" % number) for number in range(60)]
        for start in range(0, 60, 3):
            append(log, *pairs[start : start + 3])
            if start % 4 == 0:
                log.roll()
        await seal(log)
        reached, runs = 0, 0
        while (result := await compact(log, log.end_offset, NOW_MS, max_keys=max_keys)) is not None:
            assert result.first_dirty > reached
            reached = result.first_dirty
            runs += 1
            assert latest_by_key(await read_records(log)) == dict(pairs)
        assert reached == 60
        assert runs > 1
        # Each run knew the keys of its own part only, yet it cleaned all before it.
        latest = {key: offset for offset, (key, _) in enumerate(pairs)}
        assert [record.offset for record in await read_records(log)] == sorted(latest.values())

    with_log(tmp_path, config(), story)


def test_work_is_done_in_slices_of_the_size_asked_for(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        for number in range(50):
            append(log, (b"%d" % (number % 3), b"v" * 100))
        await seal(log)
        calls = 0
        run_blocking = log.disk.blocking.run_blocking

        async def counted(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            return await run_blocking(*arguments)  # type: ignore[arg-type]

        log.disk.blocking.run_blocking = counted  # type: ignore[method-assign,assignment]
        try:
            await clean(log, slice_bytes=1000)
        finally:
            log.disk.blocking.run_blocking = run_blocking  # type: ignore[method-assign]
        assert calls > 2 * 50 * 100 // 1000
        assert [record.offset for record in await read_records(log)] == [47, 48, 49]

    with_log(tmp_path, config(), story)


def test_what_is_not_yet_synced_is_synced_before_it_supersedes(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        append(log, (b"a", b"1"))
        log.roll()
        append(log, (b"a", b"2"))
        log.roll()
        await log.wait_stable(log.end_offset)
        assert log.synced_end == 0
        await clean(log)
        assert log.synced_end == 2
        assert contents(await read_records(log)) == [(1, b"a", b"2")]

    with_log(tmp_path, config(flush_mode=FlushMode.OS), story)


def test_a_batch_no_one_can_read_is_kept_and_a_damaged_one_is_reported(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        append(log, (b"a", b"1"))
        sound = parse_header(encode_batch([b"v"], timestamps=NOW_MS))
        body = [b"\0\0\0", b"\xff" * 64]
        fields = sound._replace(attributes=0)._asdict()
        del fields["batch_length"], fields["crc"]
        unreadable = pack_header(**fields, body=body) + b"".join(body)
        append_batch(log, unreadable)
        append(log, (b"a", b"2"))
        await seal(log)
        await clean(log)
        batches = await read_batches(log)
        assert [parse_header(batch).base_offset for batch in batches] == [1, 2]
        assert batches[0][20:] == unreadable[20:]
        append(log, (b"a", b"3"))
        await seal(log)
        with (tmp_path / "t" / "00000000000000000000.log").open("r+b") as file:
            file.seek(-5, 2)
            file.write(b"\xee")
        before = list(log.segments)
        with pytest.raises(CorruptLog):
            await compact(log, log.end_offset, NOW_MS)
        assert list(log.segments) == before

    with_log(tmp_path, config(), story)


@pytest.mark.parametrize(("byte", "bit"), [(0, 6), (3, 3), (7, 2), (15, 0)], ids=["far", "near", "before", "epoch"])
def test_a_batch_that_is_out_of_place_is_reported(tmp_path: Path, byte: int, bit: int) -> None:
    """No checksum covers its offset and its epoch: it must not be copied to where it does not belong."""

    async def story(log: PartitionLog) -> None:
        for number in range(7):
            append(log, (b"%d" % (number % 2), b"%d" % number))
        await seal(log)
        [*_, last] = await read_batches(log)
        with (tmp_path / "t" / "00000000000000000000.log").open("r+b") as file:
            file.seek(byte - len(last), 2)
            [value] = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([value ^ 1 << bit]))
        before = list(log.segments)
        with pytest.raises(CorruptLog):
            await compact(log, log.end_offset, NOW_MS)
        assert list(log.segments) == before

    with_log(tmp_path, config(), story)


@pytest.mark.parametrize(("byte", "bit"), [(0, 6), (7, 2)], ids=["far", "before"])
def test_a_log_is_not_cut_by_a_batch_that_is_out_of_place(tmp_path: Path, byte: int, bit: int) -> None:
    async def story(log: PartitionLog) -> None:
        for number in range(7):
            append(log, (b"%d" % number, b"%d" % number))
        await seal(log)
        [*_, last] = await read_batches(log)
        with (tmp_path / "t" / "00000000000000000000.log").open("r+b") as file:
            file.seek(byte - 2 * len(last), 2)
            [value] = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([value ^ 1 << bit]))
        with pytest.raises(CorruptLog):
            await log.truncate(6)
        assert log.end_offset == 7

    with_log(tmp_path, config(), story)


def test_truncation_into_a_cleaned_segment_works_as_ever(tmp_path: Path) -> None:
    async def story(log: PartitionLog) -> None:
        for number in range(10):
            append(log, (b"%d" % (number % 4), b"%d" % number))
            log.roll()
        await log.flush()
        await clean(log)
        assert await log.truncate(8) == 8
        assert log.checkpointed.first_dirty == 8
        assert append(log, (b"x", b"new")).base_offset == 8

    async def reopened(log: PartitionLog) -> None:
        assert contents(await read_records(log)) == [(6, b"2", b"6"), (7, b"3", b"7"), (8, b"x", b"new")]

    with_log(tmp_path, config(), story, reopened)


def test_a_follower_takes_over_cleaned_batches_and_cleans_them_again(tmp_path: Path) -> None:
    async def run(disk: Disk) -> None:
        leader = await open_log(disk, str(tmp_path / "leader"), config())
        follower = await open_log(disk, str(tmp_path / "follower"), config())
        await _two_generations(leader)
        await clean(leader)
        batches = b"".join(await read_batches(leader))
        follower.append_as_follower(ReplicaFrame(0, 4, batches, list(leader.epochs)))
        await seal(follower)
        await clean(follower)
        assert await read_records(follower) == await read_records(leader)
        await leader.close()
        await follower.close()

    async def main() -> None:
        async with real_disk(tmp_path) as disk:
            await run(disk)

    asyncio.run(main())
