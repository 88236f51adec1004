"""Opening a partition some of whose files are missing: nothing counts as deleted that nobody decided to delete."""

import dataclasses
from collections.abc import Callable

import pytest
from support.virtual_log import Machine, append, crashes, facts, frame, make_batch, offsets, produce, virtual

from lograft.storage.errors import CorruptLog
from lograft.storage.files.sealed_file import seal
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.state.checkpoint import Checkpoint
from lograft.storage.state.epoch_cache import EpochEntry

SIZE = len(make_batch(2))
CONFIG = LogConfig(tail_bytes=0, segment_bytes=3 * SIZE, index_interval_bytes=100)
OS = dataclasses.replace(CONFIG, flush_mode=FlushMode.OS)
BASES = (0, 6, 12, 18)
CONFIGS = pytest.mark.parametrize("config", [CONFIG, OS], ids=["fsync", "os"])

End = Callable[[Machine, PartitionLog], object]


async def closed(machine: Machine, log: PartitionLog) -> None:
    """Everything is below the recovery point."""
    await log.close()
    await machine.writer.close()
    machine.boot()


async def killed(machine: Machine, log: PartitionLog) -> None:
    """A young log: everything is on the disk, and nothing is below the recovery point."""
    machine.crash(power_fails=False)


ENDS = pytest.mark.parametrize("end", [closed, killed], ids=["closed", "young"])


async def filled(machine: Machine, config: LogConfig, batches: int = 11) -> PartitionLog:
    log = await machine.open(config)
    for number in range(batches):
        produce(log, 2 * number, 2)
    await log.wait_stable(log.end_offset)
    return log


def log_name(base: int) -> str:
    return f"{base:020d}.log"


def remove_segment(machine: Machine, base: int) -> None:
    for name in machine.names():
        if name.startswith(f"{base:020d}."):
            machine.remove(name)


async def check_corrupt(machine: Machine, config: LogConfig, noted_watermark: int | None, match: str = "") -> None:
    """It says so, each time it is asked, and leaves what there is as it is."""
    before = machine.contents()
    for _ in range(2):
        with pytest.raises(CorruptLog, match=match):
            await machine.open(config, noted_watermark=noted_watermark)
        assert machine.contents() == before


@CONFIGS
@ENDS
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("remove", [lambda machine, base: machine.remove(log_name(base)), remove_segment])
@virtual
async def test_a_missing_segment_is_corruption_wherever_it_was(
    config: LogConfig, end: End, base: int, remove: Callable[[Machine, int], None]
) -> None:
    """The newest, too, though its watermark was noted before it was made, and nothing vouches for its content."""
    machine = Machine()
    await end(machine, await filled(machine, config))  # type: ignore[misc]
    remove(machine, base)
    await check_corrupt(machine, config, noted_watermark=2, match="missing")


@CONFIGS
@ENDS
@virtual
async def test_a_log_that_lost_all_its_segments_is_not_an_empty_one(config: LogConfig, end: End) -> None:
    machine = Machine()
    await end(machine, await filled(machine, config, batches=2))  # type: ignore[misc]
    machine.remove(log_name(0))
    await check_corrupt(machine, config, noted_watermark=0, match="its segments are missing")


@CONFIGS
@ENDS
@virtual
async def test_the_first_segment_may_be_missing_only_where_the_log_start_passed_it(config: LogConfig, end: End) -> None:
    machine = Machine()
    log = await filled(machine, config)
    log.delete_prefix(7)
    await log.flush()
    await end(machine, log)  # type: ignore[misc]
    assert log_name(0) not in machine.names()
    log = await machine.open(config)
    assert (log.start_offset, await offsets(log)) == (7, list(range(6, 22, 2)))
    await end(machine, log)  # type: ignore[misc]
    machine.remove(log_name(6))
    await check_corrupt(machine, config, None, match="the log starts at offset 7, and its first segment at 12")


@virtual
async def test_a_log_start_raised_by_damage_stays_where_the_checkpoint_has_it_after_closing() -> None:
    """What older versions did: the first segment that was found became the log start, and was told to others."""
    machine = Machine()
    await closed(machine, await filled(machine, CONFIG))
    machine.remove(log_name(0))
    with pytest.raises(CorruptLog):
        await machine.open(CONFIG)
    assert b"log_start 0\n" in machine.content("checkpoint")


# -- the noted high watermark


@virtual
async def test_where_appends_are_synced_the_log_reaches_its_noted_watermark() -> None:
    for noted, config, is_corrupt in ((20, CONFIG, True), (14, CONFIG, False), (20, OS, False)):
        machine = Machine()
        await killed(machine, await filled(machine, config))
        machine.overwrite(log_name(18), b"")
        machine.overwrite(log_name(12), machine.content(log_name(12))[: SIZE + 5])
        for base in (6, 12):
            machine.remove(log_name(base).replace(".log", ".index"))
        if is_corrupt:
            await check_corrupt(machine, config, noted, match="corrupt")
        else:
            assert (await machine.open(config, noted_watermark=noted)).end_offset == 14


@CONFIGS
@virtual
async def test_a_directory_that_was_noted_and_lost_its_files_is_not_a_new_one(config: LogConfig) -> None:
    for left in ((), ("leader-epochs",), ("checkpoint",)):
        machine = Machine()
        await closed(machine, await machine.open(config))
        for name in machine.names():
            if name not in left:
                machine.remove(name)
        await check_corrupt(machine, config, noted_watermark=0, match="missing")
    machine = Machine()
    with pytest.raises(CorruptLog, match="was there before"):
        await machine.open(config, noted_watermark=0)


# -- small files


@ENDS
@pytest.mark.parametrize("name", ["checkpoint", "leader-epochs"])
@virtual
async def test_what_batches_do_not_say_cannot_be_made_anew(end: End, name: str) -> None:
    machine = Machine()
    await end(machine, await filled(machine, CONFIG))  # type: ignore[misc]
    machine.remove(name)
    await check_corrupt(machine, CONFIG, 0, match="missing")
    for base in BASES:
        remove_segment(machine, base)
    await check_corrupt(machine, CONFIG, None, match="missing")


@CONFIGS
@ENDS
@pytest.mark.parametrize(
    "suffixes", [(".index",), (".timeindex",), (".producers",), (".index", ".timeindex", ".producers")]
)
@virtual
async def test_what_batches_say_is_made_anew(config: LogConfig, end: End, suffixes: tuple[str, ...]) -> None:
    machine = Machine()
    await end(machine, await filled(machine, config))  # type: ignore[misc]
    for name in machine.names():
        if name.endswith(suffixes):
            machine.remove(name)
    log = await machine.open(config, noted_watermark=22)
    assert (log.start_offset, await offsets(log)) == (0, list(range(0, 22, 2)))
    assert produce(log, 20, 2).is_duplicate
    log = await machine.reopen(log)
    assert await offsets(log) == list(range(0, 22, 2))


# -- crashes of what removes files itself


async def shrinking(log: PartitionLog) -> None:
    log.delete_prefix(13)
    await log.truncate(17)
    append(log, 2)
    append(log, 2)
    await log.truncate(14)
    append(log, 2)
    log.roll()
    await log.flush()


@CONFIGS
@pytest.mark.parametrize("power_fails", [False, True], ids=["killed", "power"])
@virtual
async def test_no_crash_while_files_come_and_go_looks_like_a_loss(config: LogConfig, power_fails: bool) -> None:
    for call in range(1, 400):
        machine = Machine(call)
        log = await filled(machine, config)
        await log.flush()
        has_crashed = await crashes(machine, call, shrinking(log))
        machine.crash(power_fails=power_fails)
        log = await machine.open(config, noted_watermark=13)
        assert log.start_offset in (0, 13)
        assert log.end_offset >= 13
        if not has_crashed:
            break
    else:
        pytest.fail("more calls than this test tries")


@pytest.mark.parametrize("start", [30, 22, 8, 0])
@pytest.mark.parametrize("power_fails", [False, True], ids=["killed", "power"])
@virtual
async def test_a_reset_that_a_crash_interrupted_is_finished_and_never_half_done(start: int, power_fails: bool) -> None:
    """What the old log lacks is true of it until it is gone: no half of it is found without that note."""
    producers = (await filled(Machine(), CONFIG)).producers.encode()
    for call in range(1, 400):
        machine = Machine(call)
        log = await filled(machine, CONFIG)
        log.note_cleaned(20, 1)
        log.note_tombstones_removed(18)
        log.delete_prefix(7)
        await log.flush()
        has_crashed = await crashes(machine, call, log.reset(start, [EpochEntry(4, start)], producers))
        machine.crash(power_fails=power_fails)
        log = await machine.open(CONFIG, noted_watermark=0)
        if log.checkpointed.cleaned_below:
            assert await offsets(log) == list(range(6, 22, 2))
            assert log.checkpointed.tombstones_removed_below == 18
        else:
            assert (log.start_offset, log.end_offset) == (start, start)
            assert log.checkpointed == Checkpoint(start, start, start, newest_segment=log.checkpointed.newest_segment)
            assert list(log.epochs) in ([], [EpochEntry(4, start)])
        if not has_crashed:
            assert list(log.epochs) == [EpochEntry(4, start)]
            break
    else:
        pytest.fail("more calls than this test tries")


@virtual
async def test_a_log_that_was_reset_and_lost_its_segment_is_corrupt() -> None:
    machine = Machine()
    log = await filled(machine, CONFIG)
    await log.reset(30, [EpochEntry(4, 30)])
    log.append_as_follower(frame(30, make_batch(2, offset=30, epoch=4)))
    await log.flush()
    machine.crash(power_fails=True)
    machine.remove(log_name(30))
    await check_corrupt(machine, CONFIG, None, match="its segments are missing")


# -- what earlier versions wrote


@ENDS
@virtual
async def test_a_checkpoint_from_before_the_newest_segment_was_noted_is_understood(end: End) -> None:
    machine = Machine()
    log = await filled(machine, CONFIG)
    await end(machine, log)  # type: ignore[misc]
    fields = ("log_start", "recovery_point", "first_dirty", "tombstones_removed_below", "cleaned_below")
    values = [getattr(Checkpoint.decode(machine.content("checkpoint")), name) for name in fields]
    lines = "".join(f"{name} {value}\n" for name, value in zip(fields, values, strict=True))
    machine.overwrite("checkpoint", seal("lograft-checkpoint-1", f"{lines}cleaned_in_epoch -1\n".encode()))
    log = await machine.open(CONFIG, noted_watermark=22)
    assert await offsets(log) == list(range(0, 22, 2))
    assert facts(log)["checkpointed"].newest_segment == 0
    log.roll()
    assert (await machine.reopen(log)).checkpointed.newest_segment == 22


def test_a_new_checkpoint_is_what_earlier_versions_wrote() -> None:
    assert Checkpoint(1, 2, 3).encode() == seal(
        "lograft-checkpoint-1",
        b"log_start 1\nrecovery_point 2\nfirst_dirty 3\ntombstones_removed_below 0\ncleaned_below 0\n"
        b"cleaned_in_epoch -1\n",
    )
