"""Opening a partition: what is trusted, what is scanned, what is cut, and what is refused as corrupt."""

import dataclasses
from collections.abc import Callable

import pytest
from support.virtual_log import (
    DIRECTORY,
    Machine,
    append,
    crashes,
    facts,
    frame,
    headers,
    make_batch,
    offsets,
    produce,
    virtual,
)

from lograft.storage.batch.header import BatchHeader, parse_header, stamp
from lograft.storage.errors import CorruptLog, InvalidBatch
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.log.partition_log import AppendedBatch, PartitionLog
from lograft.storage.state.epoch_cache import EpochEntry

SIZE = len(make_batch(2))
CONFIG = LogConfig(tail_bytes=0, segment_bytes=3 * SIZE, index_interval_bytes=100)
OS = dataclasses.replace(CONFIG, flush_mode=FlushMode.OS)
FIRST, SECOND, LAST = (f"{base:020d}.log" for base in (0, 6, 12))


async def filled(machine: Machine, config: LogConfig = CONFIG, batches: int = 8) -> PartitionLog:
    """Batches of two records each, in segments of three batches, the last two in an epoch of their own."""
    log = await machine.open(config)
    log.assign_epoch(1)
    for number in range(batches):
        if number == batches - 2:
            log.assign_epoch(2)
        produce(log, 2 * number, 2)
    await log.wait_stable(log.end_offset)
    return log


async def killed(machine: Machine, config: LogConfig = CONFIG) -> None:
    """A log of eight batches whose process was killed: all is on disk, and nothing vouched for."""
    await filled(machine, config)
    machine.crash(power_fails=False)


async def closed(machine: Machine, config: LogConfig = CONFIG) -> None:
    """The same, closed in good order: all of it is vouched for."""
    log = await filled(machine, config)
    await log.close()
    await machine.writer.close()
    machine.boot()


# -- nothing wrong


@virtual
async def test_a_clean_start_reads_no_data() -> None:
    machine = Machine()
    names = [f"/data/topic-{number}.{number:032x}" for number in range(20)]
    for name in names:
        log = await machine.open(CONFIG, name)
        for _ in range(8):
            append(log, 2)
        await log.close()
    await machine.writer.close()
    machine.boot()
    machine.points.names.clear()
    for name in names:
        log = await machine.open(CONFIG, name)
        assert (log.end_offset, len(log.segments)) == (16, 3)
    assert machine.count("read", ".log") == 0
    assert machine.count("read_cached") == 0
    assert machine.count("write") == machine.count("sync") == machine.count("rename") == 0


@virtual
async def test_closing_what_was_not_touched_writes_nothing() -> None:
    machine = Machine()
    await closed(machine)
    log = await machine.open(CONFIG)
    machine.points.names.clear()
    await log.close()
    assert machine.count("write") == machine.count("rename") == 0


@virtual
async def test_everything_is_as_it_was_after_a_clean_start() -> None:
    machine = Machine()
    log = await filled(machine)
    log.delete_prefix(3)
    before = facts(log)
    log = await machine.reopen(log)
    after = facts(log)
    assert {**after, "generation": 0, "checkpointed": 0} == {**before, "generation": 0, "checkpointed": 0}
    assert log.recovery_point == 16
    assert produce(log, 14, 2) == AppendedBatch(14, 16, is_duplicate=True)


@virtual
async def test_after_an_unclean_stop_only_what_no_checkpoint_vouches_for_is_scanned() -> None:
    machine = Machine()
    log = await machine.open(CONFIG)
    for number in range(8):
        produce(log, 2 * number, 2)
        if number == 4:
            await log.checkpoint()
    await log.wait_stable(16)
    machine.crash(power_fails=False)
    machine.points.names.clear()
    log = await machine.open(CONFIG)
    assert log.end_offset == 16
    assert machine.count("read", FIRST) == 0
    assert machine.count("read", SECOND) == machine.count("read", LAST) == 1
    assert produce(log, 8, 2) == AppendedBatch(8, 10, is_duplicate=True)
    assert await offsets(log) == list(range(0, 16, 2))


@virtual
async def test_what_a_killed_process_left_in_memory_is_made_durable_before_it_counts() -> None:
    for seed in range(10):
        machine = Machine(seed)
        await killed(machine, OS)
        log = await machine.open(OS)
        assert log.synced_end == 16
        machine.crash(power_fails=True)
        log = await machine.open(OS)
        assert await offsets(log) == list(range(0, 16, 2))


# -- torn tails


@virtual
async def test_a_last_batch_torn_at_any_byte_is_cut() -> None:
    machine = Machine()
    await killed(machine)
    whole = machine.contents()
    for kept in range(SIZE):
        machine.restore(whole)
        machine.overwrite(LAST, whole[LAST][: SIZE + kept])
        log = await machine.open(CONFIG)
        assert log.end_offset == 14
        assert await offsets(log) == list(range(0, 14, 2))
        assert produce(log, 12, 2) == AppendedBatch(12, 14, is_duplicate=True)
        assert produce(log, 14, 2) == AppendedBatch(14, 16)
        log = await machine.reopen(log)
        assert await offsets(log) == list(range(0, 16, 2))
        await log.close()
        await machine.writer.close()
        machine.boot()


@pytest.mark.parametrize("garbage", [bytes(SIZE), bytes(3 * SIZE), b"\xff" * 100, make_batch()[:-1]])
@virtual
async def test_whatever_follows_the_last_batch_is_cut(garbage: bytes) -> None:
    machine = Machine()
    await killed(machine)
    machine.overwrite(LAST, machine.content(LAST) + garbage)
    log = await machine.open(CONFIG)
    assert log.end_offset == 16
    assert len(machine.content(LAST)) == 2 * SIZE


@virtual
async def test_a_batch_damaged_above_the_recovery_point_ends_the_log_there() -> None:
    machine = Machine()
    await killed(machine)
    machine.files.flip_bit(f"{DIRECTORY}/{SECOND}", SIZE + 100, 3)
    log = await machine.open(CONFIG)
    assert log.end_offset == 8
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert await offsets(log) == [0, 2, 4, 6]
    assert list(log.epochs) == [(1, 0)]
    log.assign_epoch(3)
    append(log, 1)
    log = await machine.reopen(log)
    assert await offsets(log) == [0, 2, 4, 6, 8]


@virtual
async def test_a_segment_that_lost_its_end_where_a_batch_ends_is_noticed() -> None:
    """No batch is torn, and later segments are sound: without the check there would be a hole."""
    for has_index in (True, False):
        machine = Machine()
        await killed(machine)
        machine.overwrite(SECOND, machine.content(SECOND)[: 2 * SIZE])
        if not has_index:
            machine.remove(SECOND.replace(".log", ".index"))
        log = await machine.open(CONFIG)
        assert log.end_offset == 10
        assert await offsets(log) == [0, 2, 4, 6, 8]


@virtual
async def test_snapshots_beyond_a_cut_are_gone_for_good() -> None:
    """One that came back after a power failure would give a later truncation another history's producers."""
    for seed in range(30):
        machine = Machine(seed)
        await killed(machine)
        machine.overwrite(SECOND, machine.content(SECOND)[:SIZE])
        log = await machine.open(CONFIG)
        assert log.end_offset == 8
        machine.crash(power_fails=True)
        assert [name for name in machine.names() if name.endswith(".producers") and name > "00000000000000000008"] == []


# -- corruption


Damage = Callable[[Machine], None]


def flip(name: str, byte: int) -> Damage:
    return lambda machine: machine.files.flip_bit(f"{DIRECTORY}/{name}", byte, 2)


def shorten(name: str, size: int) -> Damage:
    return lambda machine: machine.overwrite(name, machine.content(name)[:size])


def without_notes(damage: Damage) -> Damage:
    """As `damage`, and without what would spare the scan."""

    def do(machine: Machine) -> None:
        damage(machine)
        for name in machine.names():
            if name.endswith(".producers"):
                machine.remove(name)

    return do


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(flip("checkpoint", 5), id="a damaged checkpoint"),
        pytest.param(flip("leader-epochs", 2), id="damaged epochs"),
        pytest.param(lambda machine: machine.remove("checkpoint"), id="no checkpoint"),
        pytest.param(lambda machine: machine.remove("leader-epochs"), id="no epochs"),
        pytest.param(shorten(LAST, 2 * SIZE - 1), id="the last batch torn"),
        pytest.param(shorten(LAST, SIZE), id="the last batch gone"),
        pytest.param(shorten(LAST, 0), id="the last segment empty"),
        pytest.param(lambda machine: machine.remove(LAST), id="the last segment gone"),
        pytest.param(without_notes(flip(FIRST, 100)), id="a damaged first batch"),
        pytest.param(without_notes(flip(LAST, SIZE + 100)), id="a damaged last batch"),
        pytest.param(without_notes(shorten(SECOND, SIZE)), id="batches gone from the middle"),
        pytest.param(without_notes(shorten(SECOND, SIZE + 7)), id="a segment in the middle torn"),
        pytest.param(without_notes(lambda machine: machine.remove(SECOND)), id="a segment in the middle gone"),
        pytest.param(lambda machine: [machine.remove(name) for name in (FIRST, SECOND, LAST)], id="all segments gone"),
    ],
)
@virtual
async def test_damage_to_what_was_durable_is_reported_and_nothing_is_cut(damage: Damage) -> None:
    machine = Machine()
    await closed(machine)
    damage(machine)
    before = {name: content for name, content in machine.contents().items() if name.endswith(".log")}
    opened = machine.open_files()
    for _ in range(2):
        with pytest.raises(CorruptLog):
            await machine.open(CONFIG)
        assert {name: machine.content(name) for name in before} == before
        assert [name for name in machine.names() if name.endswith(".log")] == list(before)
    assert machine.open_files() == opened


FILES = ("checkpoint", "leader-epochs", "00000000000000000012.index", "00000000000000000012.timeindex", LAST)


@pytest.mark.parametrize("name", [*FILES, "00000000000000000016.producers", SECOND, "00000000000000000006.index"])
@virtual
async def test_no_flipped_bit_in_any_byte_of_a_closed_log_goes_unnoticed(name: str) -> None:
    """The log opens and is exactly what it was, or it is reported corrupt: at the start, or by who reads.

    Outside the CRC, and so only checked for rising: a batch's offset and leader epoch. Those of a segment that was
    closed in good order are not read at the start; see `headers_agree`.
    """
    machine = Machine()
    await closed(machine)
    whole = machine.contents()
    log = await machine.open(CONFIG)
    expected, before = await headers(log), facts(log)
    machine.crash(power_fails=False)
    for byte in range(len(whole[name])):
        machine.restore(whole)
        machine.files.flip_bit(f"{DIRECTORY}/{name}", byte, byte % 8)
        try:
            log = await machine.open(CONFIG)
            found = await headers(log, max_bytes=1)
        except (CorruptLog, InvalidBatch):
            assert not name.endswith((".index", ".timeindex", ".producers")), "these can be made anew"
        else:
            assert headers_agree(expected, found), f"byte {byte}"
            after = facts(log)
            assert {key: after[key] for key in ("start", "end", "epochs", "producers")} == {
                key: before[key] for key in ("start", "end", "epochs", "producers")
            }
        machine.crash(power_fails=False)


def headers_agree(expected: list[BatchHeader], found: list[BatchHeader]) -> bool:
    """The same batches; or it can be seen, without the CRC, that they are not sound: the magic or the epoch differs."""
    if found == expected:
        return True
    known = [header._replace(leader_epoch=0, magic=0) for header in expected]
    return [header._replace(leader_epoch=0, magic=0) for header in found] == known


@virtual
async def test_no_flipped_bit_in_what_is_scanned_changes_an_offset_or_an_epoch() -> None:
    """After a crash the last segment is scanned: a batch is what it was, or the log ends before it, or is corrupt."""
    machine = Machine()
    await killed(machine)
    whole = machine.contents()
    log = await machine.open(CONFIG)
    expected = await headers(log)
    machine.crash(power_fails=False)
    undetectable = range(SIZE, SIZE + 8)  # the last batch's own offset may be anything that is not lower
    for byte in range(2 * SIZE):
        if byte in undetectable:
            continue
        machine.restore(whole)
        machine.files.flip_bit(f"{DIRECTORY}/{LAST}", byte, byte % 8)
        try:
            log = await machine.open(CONFIG)
        except CorruptLog:
            continue
        found = await headers(log)
        if byte % SIZE == 16:  # magic is not under the CRC either
            found = [header._replace(magic=expected[0].magic) for header in found]
        assert found == expected[: len(found)], f"byte {byte}"
        assert log.end_offset == (found[-1].next_offset)
        assert list(log.epochs) in ([(1, 0), (2, 12)], [(1, 0)]), f"byte {byte}"
        machine.crash(power_fails=False)


@virtual
async def test_a_sound_batch_whose_offset_falls_or_whose_epoch_is_not_its_own_is_corruption() -> None:
    """No crash makes one, so it is not for cutting, vouched for or not."""
    for offset, epoch in ((13, 2), (14, 1), (14, 3), (14, 0), (2, 2), (2**40, 2)):
        machine = Machine()
        await killed(machine)
        content = machine.content(LAST)
        machine.overwrite(LAST, content[:SIZE] + stamp(content[SIZE:], offset, epoch))
        with pytest.raises(CorruptLog) as error:
            await machine.open(CONFIG)
        assert error.value.position == SIZE


@virtual
async def test_two_segments_that_overlap_are_corruption() -> None:
    machine = Machine()
    await killed(machine)
    extra = stamp(parse_and_keep(machine.content(FIRST)), 6, 1)
    machine.overwrite(FIRST, machine.content(FIRST) + extra)
    for name in machine.names():
        if name.endswith((".producers", "index")):
            machine.remove(name)
    with pytest.raises(CorruptLog, match="overlap"):
        await machine.open(CONFIG)


def parse_and_keep(content: bytes) -> bytes:
    """The first batch of a segment."""
    return content[: parse_header(content).total_bytes]


# -- leftovers


@virtual
async def test_what_was_never_finished_is_removed() -> None:
    machine = Machine()
    await closed(machine)
    before = machine.contents()
    for name in ("checkpoint.tmp", "00000000000000000006.cleaned", "00000000000000000099.index"):
        machine.overwrite(name, b"half")
    await machine.open(CONFIG)
    assert machine.contents() == before


@virtual
async def test_missing_notes_are_made_anew() -> None:
    for damaged in (".index", ".timeindex", ".producers"):
        machine = Machine()
        await closed(machine)
        for name in machine.names():
            if name.endswith(damaged):
                machine.remove(name)
        log = await machine.open(CONFIG)
        assert await offsets(log) == list(range(0, 16, 2))
        assert produce(log, 14, 2) == AppendedBatch(14, 16, is_duplicate=True)
        log = await machine.reopen(log)
        machine.points.names.clear()
        log = await machine.reopen(log)
        assert machine.count("read", ".log") == 0


@pytest.mark.parametrize("power_fails", [False, True], ids=["killed", "power"])
@virtual
async def test_a_partition_whose_making_was_interrupted_is_made(power_fails: bool) -> None:
    async def make(machine: Machine) -> None:
        log = await machine.open(CONFIG)
        await log.flush()

    for call in range(1, 100):
        machine = Machine(call)
        if not await crashes(machine, call, make(machine)):
            break
        machine.crash(power_fails=power_fails)
        log = await machine.open(CONFIG)
        assert facts(log)["end"] == facts(log)["start"] == 0
        append(log)
        log = await machine.reopen(log)
        assert await offsets(log) == [0]
    else:
        pytest.fail("more calls than this test tries")


@virtual
async def test_segments_that_the_start_has_passed_are_removed() -> None:
    machine = Machine()
    await closed(machine)
    whole = machine.contents()
    log = await machine.open(CONFIG)
    log.delete_prefix(13)
    await log.close()
    await machine.writer.close()
    machine.boot()
    for name in (FIRST, SECOND):
        machine.overwrite(name, whole[name])  # as if the crash came before they were removed
    log = await machine.open(CONFIG)
    assert [segment.base_offset for segment in log.segments] == [12]
    assert log.start_offset == 13
    assert FIRST not in machine.names()


@virtual
async def test_a_replicated_log_with_holes_recovers_as_it_was() -> None:
    machine = Machine()
    log = await machine.open(CONFIG)
    log.append_as_follower(frame(0, make_batch(2, offset=5, epoch=3), epochs=(EpochEntry(2, 0), EpochEntry(3, 4))))
    log.append_as_follower(frame(7, make_batch(2, offset=20, epoch=4), epochs=(EpochEntry(4, 15),)))
    log.roll()
    log.append_as_follower(frame(22, make_batch(2, offset=30, epoch=4)))
    log.assign_epoch(9)
    await log.flush()
    before = facts(log)
    machine.crash(power_fails=True)
    log = await machine.open(CONFIG)
    after = facts(log)
    assert {name: after[name] for name in ("start", "end", "epochs")} == {
        name: before[name] for name in ("start", "end", "epochs")
    }
    assert await offsets(log) == [5, 20, 30]
