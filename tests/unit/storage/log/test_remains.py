"""What is left of a damaged log, and made of it once an unclean election asks for it."""

from collections.abc import Callable

import pytest
from support.virtual_log import (
    DIRECTORY,
    Machine,
    append,
    crashes,
    frame,
    make_batch,
    offsets,
    produce,
    virtual,
)

from lograft.storage.errors import CorruptLog
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.log.remains import keep, survey
from lograft.storage.state.epoch_cache import EpochEntry

SIZE = len(make_batch(2))
CONFIG = LogConfig(tail_bytes=0, segment_bytes=3 * SIZE, index_interval_bytes=100)
ASIDE = f"{DIRECTORY}-stray.1"
END = 22

Damage = Callable[[Machine], object]


async def damaged(machine: Machine, damage: Damage) -> None:
    """A closed log of eleven batches of two records, in segments of three; the fifth batch begins epoch 2."""
    log = await machine.open(CONFIG)
    log.assign_epoch(1)
    for number in range(11):
        if number == 4:
            log.assign_epoch(2)
        produce(log, 2 * number, 2)
    await log.close()
    await machine.writer.close()
    machine.boot()
    damage(machine)


def name(base: int) -> str:
    return f"{base:020d}.log"


def remove(*names: str) -> Damage:
    return lambda machine: [machine.remove(each) for each in names]


def flip(base: int, byte: int) -> Damage:
    return lambda machine: machine.files.flip_bit(f"{DIRECTORY}/{name(base)}", byte, 2)


def shorten(base: int, size: int) -> Damage:
    return lambda machine: machine.overwrite(name(base), machine.content(name(base))[:size])


PAYLOAD, LENGTH = SIZE + 90, SIZE + 9  # bytes of the second batch of a segment

DAMAGES = [
    pytest.param(remove(name(0)), (6, END), id="the first segment gone"),
    pytest.param(remove(name(6)), (12, END), id="a segment in the middle gone"),
    pytest.param(remove(name(18)), (0, 18), id="the last segment gone"),
    pytest.param(remove(name(6), name(18)), (12, 18), id="two segments gone"),
    pytest.param(remove("checkpoint"), (0, END), id="no checkpoint"),
    pytest.param(remove("leader-epochs"), (0, END), id="no epochs"),
    pytest.param(remove("checkpoint", "leader-epochs", name(0)), (6, END), id="little left"),
    pytest.param(flip(6, PAYLOAD), (10, END), id="a batch damaged"),
    pytest.param(flip(6, LENGTH), (12, END), id="a length damaged"),
    pytest.param(flip(18, PAYLOAD), (0, 20), id="the last batch damaged"),
    pytest.param(shorten(6, SIZE + 5), (12, END), id="a segment in the middle torn"),
    pytest.param(shorten(18, SIZE + 5), (0, 20), id="the last batch torn"),
    pytest.param(shorten(18, 0), (0, 18), id="the last segment empty"),
]


async def reopened(machine: Machine) -> PartitionLog:
    """Its notes are gone, so that all is read."""
    for each in machine.names():
        if each.endswith(".producers"):
            machine.remove(each)
    return await machine.open(CONFIG)


@pytest.mark.parametrize(("damage", "kept"), DAMAGES)
@virtual
async def test_what_follows_the_last_damage_is_kept_as_a_sound_log(damage: Damage, kept: tuple[int, int]) -> None:
    machine = Machine()
    await damaged(machine, damage)
    before = machine.contents()
    remains = survey(machine.files, DIRECTORY)
    assert remains is not None
    assert machine.contents() == before
    assert (remains.start_offset, remains.end_offset, remains.last_epoch) == (*kept, 2)
    keep(machine.files, DIRECTORY, remains, ASIDE, is_compacted=False)
    log = await reopened(machine)
    assert (log.start_offset, log.end_offset) == kept
    assert await offsets(log) == list(range(kept[0], kept[1], 2))
    assert log.epochs.latest == EpochEntry(2, max(8, kept[0]))
    assert log.deleted_below == 0, "nobody else is to delete what is only lost here"
    append(log, 2)
    log = await machine.reopen(log)
    assert await offsets(log) == list(range(kept[0], kept[1] + 2, 2))
    log.delete_prefix(kept[1])
    assert log.deleted_below == kept[1], "what is decided from now on is for everybody"


@pytest.mark.parametrize(("start", "base", "epoch"), [(3, 0, 1), (13, 12, 2)])
@virtual
async def test_without_a_checkpoint_what_was_deleted_has_its_epochs_again(start: int, base: int, epoch: int) -> None:
    """A follower takes no batch without an epoch."""
    machine = Machine()
    await damaged(machine, lambda machine: None)
    log = await machine.open(CONFIG)
    log.assign_epoch(3)
    log.delete_prefix(start)
    await log.close()
    machine.boot()
    machine.remove("checkpoint")
    remains = survey(machine.files, DIRECTORY)
    assert remains is not None
    keep(machine.files, DIRECTORY, remains, ASIDE, is_compacted=False)
    log = await reopened(machine)
    assert log.start_offset == base
    assert (log.epochs.epoch_at(base), log.epochs.epoch_at(END)) == (epoch, 3)


@pytest.mark.parametrize(("damage", "kept"), DAMAGES)
@pytest.mark.parametrize("power_fails", [False, True], ids=["killed", "power"])
@virtual
async def test_interrupted_it_is_sound_or_has_the_same_remains(
    damage: Damage, kept: tuple[int, int], power_fails: bool
) -> None:
    for call in range(1, 100):
        machine = Machine(call)
        await damaged(machine, damage)

        async def do(machine: Machine = machine) -> None:
            remains = survey(machine.files, DIRECTORY)
            assert remains is not None
            keep(machine.files, DIRECTORY, remains, ASIDE, is_compacted=False)

        has_crashed = await crashes(machine, call, do())
        machine.crash(power_fails=power_fails)
        try:
            log = await reopened(machine)
        except CorruptLog:
            await do()
            log = await reopened(machine)
        assert (log.start_offset, log.end_offset) == kept
        assert await offsets(log) == list(range(kept[0], kept[1], 2))
        if not has_crashed:
            return
    pytest.fail("more calls than this test tries")


@virtual
async def test_what_is_not_kept_is_put_aside() -> None:
    machine = Machine()
    await damaged(machine, flip(6, PAYLOAD))
    before = machine.content(name(6))
    remains = survey(machine.files, DIRECTORY)
    assert remains is not None
    keep(machine.files, DIRECTORY, remains, ASIDE, is_compacted=False)
    assert machine.files.list_directory(ASIDE) == [name(0), name(6)]
    assert dict(machine.files.contents(ASIDE))[f"{ASIDE}/{name(6)}"] == before


@virtual
async def test_the_log_start_stays_where_it_was_decided_to_be() -> None:
    machine = Machine()
    log = await machine.open(CONFIG)
    for number in range(11):
        produce(log, 2 * number, 2)
    log.delete_prefix(9)
    log.note_cleaned(16, 1)
    await log.close()
    await machine.writer.close()
    machine.boot()
    machine.remove("leader-epochs")
    remains = survey(machine.files, DIRECTORY)
    assert remains is not None
    assert (remains.start_offset, remains.end_offset) == (9, END)
    keep(machine.files, DIRECTORY, remains, ASIDE, is_compacted=True)
    log = await machine.open(CONFIG)
    assert (log.start_offset, log.deleted_below, log.checkpointed.cleaned_below) == (9, 9, 16)


@virtual
async def test_without_a_checkpoint_a_compacted_log_may_lack_anything() -> None:
    """So whoever has less than all of it starts over."""
    machine = Machine()
    await damaged(machine, remove("checkpoint"))
    remains = survey(machine.files, DIRECTORY)
    assert remains is not None
    keep(machine.files, DIRECTORY, remains, ASIDE, is_compacted=True)
    checkpointed = (await machine.open(CONFIG)).checkpointed
    assert (checkpointed.cleaned_below, checkpointed.cleaned_in_epoch, checkpointed.tombstones_removed_below) == (
        (END, 2, END)
    )


@virtual
async def test_nothing_is_left_of_a_log_without_a_sound_batch() -> None:
    machine = Machine()
    assert survey(machine.files, DIRECTORY) is None
    log = await machine.open(CONFIG)
    await log.close()
    assert survey(machine.files, DIRECTORY) is None
    for each in machine.names():
        machine.remove(each)
    assert survey(machine.files, DIRECTORY) is None


@virtual
async def test_a_log_with_compacted_offsets_has_no_hole() -> None:
    machine = Machine()
    log = await machine.open(CONFIG)
    log.append_as_follower(frame(0, make_batch(2, offset=5, epoch=3), epochs=(EpochEntry(3, 0),)))
    log.append_as_follower(frame(7, make_batch(2, offset=20, epoch=3)))
    await log.close()
    machine.remove("checkpoint")
    remains = survey(machine.files, DIRECTORY)
    assert remains is not None
    assert (remains.start_offset, remains.end_offset) == (0, 22)
