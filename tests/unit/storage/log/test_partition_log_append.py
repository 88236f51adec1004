"""Appending as leader and as follower: numbers, epochs, duplicates, rolling; and what is refused without a trace."""

import dataclasses
from pathlib import Path

import pytest
from support.virtual_log import (
    NOW_MS,
    Machine,
    admitted,
    append,
    facts,
    frame,
    hand_driven,
    headers,
    make_batch,
    offsets,
    os_disk,
    produce,
    virtual,
)

from lograft.storage.batch.codec import decode_records
from lograft.storage.errors import (
    BadCrc,
    FrameMismatch,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    TruncatedBatch,
    UnknownProducer,
)
from lograft.storage.log.admission import admit
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import MAX_RELATIVE_OFFSET, AppendedBatch, PartitionLog, open_log
from lograft.storage.log.replica_frame import ReplicaFrame
from lograft.storage.state.epoch_cache import EpochEntry

# -- as leader


@virtual
async def test_batches_are_numbered_and_stamped_in_the_order_of_the_calls() -> None:
    log = await Machine().open()
    log.assign_epoch(4)
    assert append(log, 3) == AppendedBatch(0, 3)
    assert append(log, 1) == AppendedBatch(3, 4)
    log.assign_epoch(6)
    assert append(log, 2) == AppendedBatch(4, 6)
    assert [(h.base_offset, h.leader_epoch) for h in await headers(log)] == [(0, 4), (3, 4), (4, 6)]
    assert list(log.epochs) == [(4, 0), (6, 4)]


@virtual
async def test_the_clients_own_offset_and_epoch_are_ignored() -> None:
    log = await Machine().open()
    append(log, 1, offset=2**40, epoch=99)
    assert [(h.base_offset, h.leader_epoch) for h in await headers(log)] == [(0, 1)]


@virtual
async def test_appending_under_another_epoch_than_the_latest_is_a_bug() -> None:
    log = await Machine().open()
    with pytest.raises(AssertionError):
        log.append_as_leader(admitted(make_batch()), 1)
    log.assign_epoch(2)
    with pytest.raises(AssertionError):
        log.append_as_leader(admitted(make_batch()), 1)
    assert log.end_offset == 0


@virtual
async def test_an_epoch_is_durable_before_its_first_batch_can_be() -> None:
    machine = Machine()
    log, worker = await hand_driven(machine, LogConfig())
    append(log)
    machine.points.names.clear()
    worker.step()
    calls = machine.points.names
    renamed = calls.index("rename leader-epochs.tmp leader-epochs")
    assert renamed < calls.index("sync_directory topic-0.00000000000000000000000000000001", renamed)
    assert calls.index("sync_directory topic-0.00000000000000000000000000000001", renamed) < calls.index(
        "write 00000000000000000000.log"
    )


@virtual
async def test_a_duplicate_gets_the_original_offset_and_is_not_stored() -> None:
    log = await Machine().open()
    for sequence in range(0, 12, 2):
        produce(log, sequence, 2)
    before = facts(log)
    for sequence in range(2, 12, 2):
        assert produce(log, sequence, 2) == AppendedBatch(sequence, sequence + 2, is_duplicate=True)
    assert facts(log) == before


@virtual
async def test_a_batch_out_of_its_producers_order_changes_nothing() -> None:
    log = await Machine().open()
    for sequence in range(6):
        produce(log, sequence, epoch=3)
    before = facts(log)
    for error, sequence, epoch, producer in (
        (OutOfOrderSequence, 0, 3, 7),
        (OutOfOrderSequence, 7, 3, 7),
        (OutOfOrderSequence, 6, 4, 7),
        (InvalidProducerEpoch, 6, 2, 7),
        (UnknownProducer, 1, 0, 8),
    ):
        with pytest.raises(error):
            produce(log, sequence, epoch=epoch, producer=producer)
    assert facts(log) == before
    assert produce(log, 6, epoch=3) == AppendedBatch(6, 7)


@virtual
async def test_append_time_never_goes_back_though_the_wall_clock_does() -> None:
    machine = Machine()
    config = LogConfig(append_time=True)
    log = await machine.open(config)
    log.assign_epoch(1)
    for now_ms in (NOW_MS, NOW_MS - 5000, NOW_MS + 1):
        log.append_as_leader(admit(make_batch(2), config, now_ms), 1)
    found = await log.read(0, 10_000)
    batches = [record.timestamp for buffer in found.buffers for record in decode_records(buffer)]
    assert batches == [NOW_MS] * 4 + [NOW_MS + 1] * 2


@virtual
async def test_append_time_goes_on_from_what_the_last_leader_wrote() -> None:
    machine = Machine()
    config = LogConfig(append_time=True)
    log = await machine.open(config)
    replicated = admit(make_batch(), config, NOW_MS).batch
    log.append_as_follower(ReplicaFrame(0, 1, bytes(make_stamped(bytes(replicated), 0, 3)), [EpochEntry(3, 0)]))
    log.assign_epoch(4)
    log.append_as_leader(admit(make_batch(), config, NOW_MS - 60_000), 4)
    assert [h.max_timestamp for h in await headers(log)] == [NOW_MS, NOW_MS]


def make_stamped(batch: bytes, offset: int, epoch: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:12] + epoch.to_bytes(4, "big") + batch[16:]


# -- as follower


async def follower(machine: Machine) -> PartitionLog:
    """A log that ends at 10, in epoch 5."""
    log = await machine.open()
    log.append_as_follower(frame(0, make_batch(10, offset=0, epoch=5), epochs=(EpochEntry(5, 0),)))
    return log


@virtual
async def test_a_frame_may_have_several_batches_holes_and_new_epochs() -> None:
    log = await follower(Machine())
    log.append_as_follower(
        frame(
            10,
            make_batch(2, offset=10, epoch=5),
            make_batch(1, offset=20, epoch=7),
            make_batch(1, offset=25, epoch=8),
            epochs=(EpochEntry(6, 12), EpochEntry(7, 12), EpochEntry(8, 22)),
        )
    )
    assert log.end_offset == 26
    assert list(log.epochs) == [(5, 0), (6, 12), (7, 12), (8, 22)]
    assert await offsets(log) == [0, 10, 20, 25]


@virtual
async def test_a_frame_may_begin_with_a_hole_and_repeat_the_epoch_it_goes_on_in() -> None:
    log = await follower(Machine())
    log.append_as_follower(frame(10, make_batch(offset=15, epoch=5), epochs=(EpochEntry(5, 10),)))
    assert list(log.epochs) == [(5, 0)]
    assert log.end_offset == 16


GOOD = make_batch(2, offset=10, epoch=5)
BAD_FRAMES = {
    "it starts below the end": (FrameMismatch, frame(9, make_batch(offset=9, epoch=5))),
    "it starts above the end": (FrameMismatch, frame(11, make_batch(offset=11, epoch=5))),
    "it has no batches": (FrameMismatch, frame(10)),
    "it has no batches, and says it reaches further": (FrameMismatch, frame(10, end=12)),
    "its first batch begins below its start": (FrameMismatch, frame(10, make_batch(2, offset=9, epoch=5))),
    "its offsets fall": (FrameMismatch, frame(10, make_batch(offset=12, epoch=5), make_batch(offset=10, epoch=5))),
    "its batches overlap": (FrameMismatch, frame(10, GOOD, make_batch(offset=11, epoch=5))),
    "it ends before it says": (FrameMismatch, frame(10, GOOD, end=13)),
    "it ends after it says": (FrameMismatch, frame(10, GOOD, end=11)),
    "its epochs fall": (
        FrameMismatch,
        frame(
            10,
            make_batch(offset=10, epoch=7),
            make_batch(offset=11, epoch=6),
            epochs=(EpochEntry(6, 10), EpochEntry(7, 10)),
        ),
    ),
    "an epoch is older than the log's": (FrameMismatch, frame(10, make_batch(offset=10, epoch=4))),
    "an epoch was not announced": (FrameMismatch, frame(10, make_batch(offset=10, epoch=6))),
    "an epoch entry is older than the log's": (FrameMismatch, frame(10, GOOD, epochs=(EpochEntry(4, 10),))),
    "an epoch entry lies before it": (FrameMismatch, frame(10, GOOD, epochs=(EpochEntry(6, 9),))),
    "an epoch entry lies behind it": (FrameMismatch, frame(10, GOOD, epochs=(EpochEntry(6, 12),))),
    "epoch entries fall": (
        FrameMismatch,
        frame(10, make_batch(2, offset=10, epoch=7), epochs=(EpochEntry(7, 10), EpochEntry(6, 10))),
    ),
    "the starts of epochs fall": (
        FrameMismatch,
        frame(10, GOOD, make_batch(offset=12, epoch=7), epochs=(EpochEntry(6, 12), EpochEntry(7, 11))),
    ),
    "a batch is of an older epoch than its offset": (
        FrameMismatch,
        frame(10, GOOD, make_batch(offset=12, epoch=6), epochs=(EpochEntry(6, 10),)),
    ),
    "a batch is of a later epoch than its offset": (
        FrameMismatch,
        frame(10, make_batch(2, offset=10, epoch=6), epochs=(EpochEntry(6, 11),)),
    ),
    "a batch is damaged": (BadCrc, frame(10, GOOD[:-9] + bytes([GOOD[-9] ^ 4]) + GOOD[-8:])),
    "its second batch is damaged": (
        BadCrc,
        ReplicaFrame(10, 14, GOOD + make_batch(2, offset=12, epoch=5)[:-9] + b"?" * 9),
    ),
    "its last batch is cut short": (TruncatedBatch, ReplicaFrame(10, 12, GOOD[:-1])),
    "something follows its last batch": (TruncatedBatch, ReplicaFrame(10, 12, GOOD + b"x")),
    "its hole is wider than a segment can be": (
        FrameMismatch,
        frame(10, make_batch(offset=10 + 2**32, epoch=5)),
    ),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
@virtual
async def test_a_frame_that_does_not_follow_is_refused_and_changes_nothing(case: str) -> None:
    machine = Machine()
    log = await follower(machine)
    before = facts(log)
    error, bad = BAD_FRAMES[case]
    with pytest.raises(error):
        log.append_as_follower(bad)
    assert facts(log) == before
    log.append_as_follower(frame(10, GOOD))
    log = await machine.reopen(log)
    assert log.end_offset == 12
    assert list(log.epochs) == [(5, 0)]


@virtual
async def test_a_follower_knows_the_producers_of_what_it_replicates() -> None:
    log = await follower(Machine())
    fields = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 5}
    log.append_as_follower(frame(10, make_batch(3, offset=10, epoch=5, **fields)))  # type: ignore[arg-type]
    log.assign_epoch(6)
    assert produce(log, 5, 3, epoch=1) == AppendedBatch(10, 13, is_duplicate=True)
    assert produce(log, 8, 1, epoch=1) == AppendedBatch(13, 14)


# -- rolling


@virtual
async def test_a_batch_that_would_not_fit_starts_a_new_segment() -> None:
    size = len(make_batch())
    log = await Machine().open(LogConfig(segment_bytes=2 * size))
    for _ in range(5):
        append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert [segment.size_bytes for segment in log.segments] == [2 * size, 2 * size, size]
    assert log.size_bytes == 5 * size


@virtual
async def test_a_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    log = await Machine().open(LogConfig(segment_bytes=10))
    for _ in range(3):
        append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


@virtual
async def test_a_segment_older_than_it_may_be_is_sealed_by_the_next_append() -> None:
    machine = Machine()
    log = await machine.open(LogConfig(segment_ms=1000))
    append(log)
    await machine.clock.sleep_ms(998)
    append(log)
    assert len(log.segments) == 1
    await machine.clock.sleep_ms(2)
    append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@virtual
async def test_a_segment_is_sealed_for_its_age_though_nothing_is_appended() -> None:
    machine = Machine()
    log = await machine.open(LogConfig(segment_ms=1000))
    await machine.clock.sleep_ms(5000)
    log.roll_if_old()
    assert len(log.segments) == 1  # it is empty
    append(log)
    await machine.clock.sleep_ms(999)
    log.roll_if_old()
    assert len(log.segments) == 1
    await machine.clock.sleep_ms(1)
    log.roll_if_old()
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert await offsets(log) == [0]


@virtual
async def test_the_age_of_a_segment_survives_a_restart() -> None:
    machine = Machine()
    log = await machine.open(LogConfig(segment_ms=1000))
    append(log)
    await machine.clock.sleep_ms(600)
    log = await machine.reopen(log)
    await machine.clock.sleep_ms(400)
    log.roll_if_old()
    assert len(log.segments) == 2


@virtual
async def test_a_segment_spans_no_more_offsets_than_its_index_can_say() -> None:
    machine = Machine()
    log = await machine.open(LogConfig(tail_bytes=0))
    start = MAX_RELATIVE_OFFSET - 2
    log.append_as_follower(frame(0, make_batch(offset=0, epoch=1), epochs=(EpochEntry(1, 0),)))
    log.append_as_follower(frame(1, make_batch(2, offset=start, epoch=1)))
    assert (len(log.segments), log.end_offset) == (1, MAX_RELATIVE_OFFSET)
    log.append_as_follower(frame(MAX_RELATIVE_OFFSET, make_batch(2, offset=MAX_RELATIVE_OFFSET, epoch=1)))
    assert [segment.base_offset for segment in log.segments] == [0, MAX_RELATIVE_OFFSET]
    log = await machine.reopen(log)
    assert await offsets(log) == [0, start, MAX_RELATIVE_OFFSET]


@virtual
async def test_sealed_segments_do_not_stay_open_for_ever() -> None:
    """Descriptors are capped by `max_open`, whether or not anyone reads."""
    for flush_mode in FlushMode:
        machine = Machine(max_open=3)
        log = await machine.open(LogConfig(segment_bytes=10, flush_mode=flush_mode))
        for _ in range(20):
            append(log)
        await log.wait_stable(20)
        await machine.clock.sleep_ms(1000)
        open_logs = [name for name in machine.open_files() if name.endswith(".log")]
        assert len(open_logs) <= 4, open_logs


@virtual
async def test_a_closed_log_leaves_no_file_open() -> None:
    machine = Machine(cold_reads=1.0)
    log = await machine.open(LogConfig(segment_bytes=200, tail_bytes=0))
    for _ in range(20):
        append(log)
    await log.wait_stable(20)
    await offsets(log)
    await log.truncate(13)
    log.delete_prefix(5)
    await log.close()
    await machine.writer.close()
    assert dict(machine.open_files()) == {}


def test_a_log_on_real_files_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    import asyncio

    config = LogConfig(segment_bytes=1000, tail_bytes=0)

    async def first() -> list[int]:
        async with os_disk(tmp_path) as disk:
            log = await open_log(disk, f"{tmp_path}/t-0.x", config)
            for sequence in range(40):
                produce(log, sequence)
            await log.wait_stable(40)
            found = await offsets(log)
            await log.close()
            return found

    async def second() -> list[int]:
        async with os_disk(tmp_path, max_open=2) as disk:
            log = await open_log(disk, f"{tmp_path}/t-0.x", dataclasses.replace(config, index_interval_bytes=100))
            assert produce(log, 39) == AppendedBatch(39, 40, is_duplicate=True)
            assert await log.truncate(25) == 25
            assert produce(log, 25) == AppendedBatch(25, 26)
            await log.wait_stable(26)
            found = await offsets(log)
            await log.close()
            return found

    assert asyncio.run(first()) == list(range(40))
    assert asyncio.run(second()) == list(range(26))
