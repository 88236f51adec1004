"""A data directory: held by one process, known by its id, and honest about how it was left."""

import asyncio
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from support.virtual_log import ROOT, Machine, append, crashes, offsets, virtual

from lograft.chaos.world.loop import run_virtual
from lograft.runtime.clock import LoopClock
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.files import replace_file
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime
from lograft.storage.errors import CorruptLog, DirectoryFailed, DirectoryRefused, ResourceShortage
from lograft.storage.files.file_names import PartitionName
from lograft.storage.files.sealed_file import seal
from lograft.storage.log.data_directory import DataDirectory, DirectoryOwner, mark_restored, open_directory
from lograft.storage.log.log_config import FlushMode, LogConfig
from lograft.storage.state.used_epoch import RecordedUse

CONFIG = LogConfig()
ORDERS = PartitionName("orders", 0, UUID(int=1))
EVENTS = PartitionName("events", 3, UUID(int=2))
PATH = f"{ROOT}/d"
MARKER = f"{PATH}/clean-shutdown"
WATERMARKS = f"{PATH}/high-watermarks"


def runtime_of(machine: Machine, seed: int = 0) -> Runtime:
    class NoNetwork:
        """Nothing here sends anything."""

    return Runtime(
        machine.clock,
        Rng(seed),
        machine.files,
        NoNetwork(),  # type: ignore[arg-type]
        machine.blocking,
        machine.workers,
    )


async def opened(machine: Machine, seed: int = 0) -> DataDirectory:
    return await open_directory(runtime_of(machine, seed), PATH)


# -- whose it is


@virtual
async def test_a_second_holder_is_refused_until_the_first_lets_go() -> None:
    machine = Machine()
    directory = await opened(machine)
    with pytest.raises(DirectoryRefused, match="in use by another process"):
        await opened(machine)
    await directory.close()
    await (await opened(machine)).close()


@virtual
async def test_a_refused_directory_is_not_held() -> None:
    machine = Machine()
    await (await opened(machine)).close()
    machine.files.flip_bit(f"{PATH}/directory-id", 3, 1)
    for _ in range(2):
        with pytest.raises(DirectoryRefused, match="damaged"):
            await opened(machine)


@virtual
async def test_a_killed_holder_holds_no_more() -> None:
    machine = Machine()
    await opened(machine)
    machine.crash(power_fails=False)
    await opened(machine)


@virtual
async def test_the_id_is_made_once_and_kept() -> None:
    machine = Machine()
    first = await opened(machine, seed=1)
    identity = first.identity
    machine.crash(power_fails=True)
    again = await opened(machine, seed=2)
    assert again.identity == identity
    assert (await other_directory(machine)).identity != identity


async def other_directory(machine: Machine) -> DataDirectory:
    return await open_directory(runtime_of(machine, seed=2), f"{ROOT}/e")


@pytest.mark.parametrize("power_fails", [False, True])
@virtual
async def test_an_id_whose_making_was_interrupted_is_made(power_fails: bool) -> None:
    for call in range(1, 50):
        machine = Machine(call)
        if not await crashes(machine, call, opened(machine)):
            break
        machine.crash(power_fails=power_fails)
        directory = await opened(machine, seed=1)
        identity = directory.identity
        await directory.close()
        machine.boot()
        assert (await opened(machine, seed=2)).identity == identity
    else:
        pytest.fail("more calls than this test tries")


@virtual
async def test_partitions_without_an_id_are_refused() -> None:
    """A new id would make the controller believe that the replicas here are gone."""
    machine = Machine()
    directory = await opened(machine)
    await directory.open_partition(ORDERS, CONFIG)
    await directory.close()
    machine.boot()
    machine.files.remove(f"{PATH}/directory-id")
    with pytest.raises(DirectoryRefused, match="no directory-id"):
        await opened(machine)


US = DirectoryOwner("ours", 1)


async def owned(machine: Machine, owner: DirectoryOwner = US) -> DataDirectory:
    return await open_directory(runtime_of(machine), PATH, owner)


@virtual
async def test_a_directory_belongs_to_the_node_that_first_had_it() -> None:
    machine = Machine()
    await (await owned(machine)).close()
    await (await owned(machine)).close()
    with pytest.raises(DirectoryRefused, match="belongs to cluster 'ours', not 'theirs': set the cluster_id"):
        await owned(machine, DirectoryOwner("theirs", 1))
    with pytest.raises(DirectoryRefused, match="belongs to node 1, not node 2: start it as node 1"):
        await owned(machine, DirectoryOwner("ours", 2))
    await (await owned(machine)).close()


@virtual
async def test_a_directory_whose_owner_cannot_be_told_is_refused_if_there_is_data_in_it() -> None:
    machine = Machine()
    directory = await owned(machine)
    await directory.open_partition(ORDERS, CONFIG)
    await directory.close()
    machine.boot()
    machine.files.flip_bit(f"{PATH}/owner", 3, 1)
    with pytest.raises(DirectoryRefused, match="owner is damaged"):
        await owned(machine)
    machine.files.remove(f"{PATH}/owner")
    with pytest.raises(DirectoryRefused, match="has partitions but no owner"):
        await owned(machine)


@pytest.mark.parametrize("power_fails", [False, True])
@virtual
async def test_an_owner_whose_naming_was_interrupted_is_named(power_fails: bool) -> None:
    for call in range(1, 50):
        machine = Machine(call)
        if not await crashes(machine, call, owned(machine)):
            break
        machine.crash(power_fails=power_fails)
        await (await owned(machine)).close()
        machine.boot()
        with pytest.raises(DirectoryRefused, match="belongs to node 1"):
            await owned(machine, DirectoryOwner("ours", 2))
    else:
        pytest.fail("more calls than this test tries")


@virtual
async def test_a_directory_that_cannot_be_made_says_why() -> None:
    machine = Machine()
    with pytest.raises(DirectoryRefused, match="No such file or directory"):
        await open_directory(runtime_of(machine), "/nowhere/at/all")


# -- how it was left


@virtual
async def test_the_epoch_it_was_left_in_is_known_only_after_an_orderly_close() -> None:
    machine = Machine()
    directory = await opened(machine)
    assert directory.clean_epoch is None
    await directory.close(broker_epoch=41)
    machine.boot()
    directory = await opened(machine)
    assert directory.clean_epoch == 41
    await directory.close()  # without an epoch, nothing is claimed; and nothing was written either
    machine.boot()
    directory = await opened(machine)
    assert directory.clean_epoch == 41
    await directory.open_partition(ORDERS, CONFIG)
    await directory.close()
    machine.boot()
    assert (await opened(machine)).clean_epoch is None


@virtual
async def test_the_marker_is_durably_gone_before_the_first_append() -> None:
    for seed in range(20):
        machine = Machine(seed)
        directory = await opened(machine)
        await directory.close(broker_epoch=5)
        machine.boot()
        directory = await opened(machine)
        log = await directory.open_partition(ORDERS, CONFIG)
        append(log)
        machine.crash(power_fails=True)
        assert (await opened(machine)).clean_epoch is None


@virtual
async def test_no_partition_is_opened_before_the_marker_is_gone_when_many_are_opened_at_once() -> None:
    for seed in range(20):
        machine = Machine(seed)
        directory = await opened(machine)
        await directory.close(broker_epoch=5)
        machine.boot()
        directory = await opened(machine)
        machine.points.names.clear()
        await asyncio.gather(directory.open_partition(ORDERS, CONFIG), directory.open_partition(EVENTS, CONFIG))
        calls = machine.points.names
        gone = calls.index("sync_directory d", calls.index("remove clean-shutdown"))
        assert all(not name.startswith(("make_directory", "create")) for name in calls[:gone])
        assert directory.disk.writer.failure is None


@virtual
async def test_an_orderly_close_is_claimed_only_when_all_is_durable() -> None:
    """The marker is written last: a crash at any call before leaves none."""
    for call in range(1, 200):
        machine = Machine(call)
        directory = await opened(machine)
        for name in (ORDERS, EVENTS):
            append(await directory.open_partition(name, CONFIG))
        if not await crashes(machine, call, directory.close(broker_epoch=5)):
            break
        machine.crash(power_fails=True)
        directory = await opened(machine)
        if directory.clean_epoch is not None:
            assert directory.clean_epoch == 5
            for name in (ORDERS, EVENTS):
                assert (await directory.open_partition(name, CONFIG)).end_offset == 1
    else:
        pytest.fail("more calls than this test tries")


@virtual
async def test_a_damaged_marker_is_no_marker() -> None:
    machine = Machine()
    await (await opened(machine)).close(broker_epoch=41)
    for byte in range(machine.files.size(MARKER)):
        machine.boot()
        machine.files.flip_bit(MARKER, byte, 4)
        directory = await opened(machine)
        assert directory.clean_epoch is None
        await directory.close()
        machine.files.flip_bit(MARKER, byte, 4)


@virtual
async def test_a_disk_that_failed_is_not_left_in_good_order_but_is_given_back() -> None:
    machine = Machine()
    directory = await opened(machine)
    logs = [await directory.open_partition(name, CONFIG) for name in (ORDERS, EVENTS)]
    machine.files.fail_writes(".log")
    append(logs[0])
    with pytest.raises(DiskFailed):
        await logs[0].wait_stable(1)
    machine.files.fail_writes(None)
    await directory.close(broker_epoch=5)
    assert dict(machine.open_files()) == {}
    machine.boot()
    assert (await opened(machine)).clean_epoch is None


@virtual
async def test_a_disk_that_fails_while_it_is_closed_is_given_back_with_every_file() -> None:
    machine = Machine()
    directory = await opened(machine)
    for name in (ORDERS, EVENTS):
        append(await directory.open_partition(name, CONFIG))
    machine.files.fail_next_sync("orders")
    with pytest.raises(DiskFailed):
        await directory.close(broker_epoch=5)
    assert dict(machine.open_files()) == {}
    assert not machine.files.exists(MARKER)


# -- what is in it


@virtual
async def test_partitions_are_found_by_their_directories() -> None:
    machine = Machine()
    directory = await opened(machine)
    assert await directory.partitions() == []
    for name in (ORDERS, EVENTS):
        await directory.open_partition(name, CONFIG)
    machine.files.make_directory(f"{PATH}/something-else")
    assert sorted(map(str, await directory.partitions())) == sorted(map(str, (ORDERS, EVENTS)))


@virtual
async def test_a_corrupt_partition_does_not_keep_the_others_from_being_opened() -> None:
    machine = Machine()
    directory = await opened(machine)
    for name in (ORDERS, EVENTS):
        append(await directory.open_partition(name, CONFIG))
    await directory.close(broker_epoch=1)
    machine.boot()
    machine.files.flip_bit(f"{PATH}/{ORDERS}/checkpoint", 1, 1)
    directory = await opened(machine)
    with pytest.raises(CorruptLog):
        await directory.open_partition(ORDERS, CONFIG)
    assert await offsets(await directory.open_partition(EVENTS, CONFIG)) == [0]
    await directory.close(broker_epoch=2)


@virtual
async def test_high_watermarks_survive_and_replace_each_other() -> None:
    machine = Machine()
    directory = await opened(machine)
    assert await directory.read_high_watermarks() == {}
    await directory.write_high_watermarks({ORDERS: 7})
    await directory.write_high_watermarks({ORDERS: 9, EVENTS: 2**40})
    machine.crash(power_fails=True)
    directory = await opened(machine)
    assert await directory.read_high_watermarks() == {ORDERS: 9, EVENTS: 2**40}


@virtual
async def test_a_directory_without_the_watermarks_that_it_had_says_so() -> None:
    machine = Machine()
    directory = await opened(machine)
    await directory.note_used(7)
    assert await directory.read_high_watermarks() == {}
    await directory.write_high_watermarks({ORDERS: 7})
    await directory.close()
    machine.boot()
    sound = machine.files.copy_directory(PATH)
    assert (await use_after(machine)).damage is None
    machine.files.put_back(PATH, sound)
    machine.files.flip_bit(WATERMARKS, 0, 0)
    assert await use_after(machine) == RecordedUse(7, damage="high-watermarks is damaged")
    machine.files.put_back(PATH, sound)
    machine.files.remove(WATERMARKS)
    assert await use_after(machine) == RecordedUse(7, damage="high-watermarks is missing")
    assert await use_after(machine) == RecordedUse(7, damage="high-watermarks is missing"), "nothing is used yet"
    directory = await opened(machine)
    await directory.note_used(8)
    assert await directory.read_high_watermarks() == {}
    await directory.close()
    machine.boot()
    assert await use_after(machine) == RecordedUse(8)


async def use_after(machine: Machine) -> RecordedUse:
    """What a process finds that starts and ends."""
    directory = await opened(machine)
    await directory.close()
    machine.boot()
    return directory.use


@pytest.mark.parametrize("lost", [False, True])
@virtual
async def test_a_directory_that_an_older_version_used_is_not_expected_to_have_watermarks(lost: bool) -> None:
    """That version made the file with the first log. From the first use on, it is expected."""
    machine = Machine()
    await (await opened(machine)).close()
    machine.boot()
    content = seal("lograft-used-epoch-1", b"broker_epoch 7\n")
    replace_file(machine.files, f"{PATH}/used-epoch", content)
    directory = await opened(machine)
    assert directory.use == RecordedUse(7)
    await directory.note_used(8)
    await directory.close()
    machine.boot()
    if lost:
        machine.files.remove(WATERMARKS)
    assert (await use_after(machine)).damage == ("high-watermarks is missing" if lost else None)


@pytest.mark.parametrize("power_fails", [False, True])
@pytest.mark.parametrize("life", ["new", "of an older version", "used", "restored"])
@virtual
async def test_no_crash_makes_a_directory_look_damaged(life: str, power_fails: bool) -> None:
    for call in range(1, 80):
        machine = Machine(call)
        directory = await opened(machine)
        if life == "of an older version":
            replace_file(machine.files, f"{PATH}/used-epoch", seal("lograft-used-epoch-1", b"broker_epoch 7\n"))
        elif life != "new":
            await directory.note_used(7)
            await directory.write_high_watermarks({ORDERS: 7})
        await directory.close()
        machine.boot()
        if life == "restored":
            mark_restored(machine.files, PATH)
        is_over = not await crashes(machine, call, used(machine))
        machine.crash(power_fails=power_fails)
        assert (await opened(machine)).use.damage is None, f"after call {call}"
        if is_over:
            assert call > 10, "it was never interrupted"
            return
    pytest.fail("more calls than this test tries")


async def used(machine: Machine) -> None:
    """All that a process writes for the directory itself."""
    directory = await opened(machine)
    await directory.note_used(8)
    await directory.write_high_watermarks({ORDERS: 8})
    await directory.write_high_watermarks({ORDERS: 9, EVENTS: 1})
    await directory.close(broker_epoch=8)


def test_a_directory_on_this_machine_is_held_left_and_found_again(tmp_path: Path) -> None:
    async def live(epoch: int) -> tuple[UUID, int | None, list[int]]:
        panics: list[BaseException] = []
        files, blocking, workers = OsFiles(), ThreadBlocking(2), ThreadWorkers(panics.append)
        runtime = Runtime(LoopClock(), Rng(epoch), files, object(), blocking, workers)  # type: ignore[arg-type]
        directory = await open_directory(runtime, f"{tmp_path}/data")
        with pytest.raises(DirectoryRefused):
            await open_directory(runtime, f"{tmp_path}/data")
        log = await directory.open_partition(ORDERS, CONFIG)
        append(log)
        await log.wait_stable(log.end_offset)
        found = directory.identity, directory.clean_epoch, await offsets(log)
        await directory.close(broker_epoch=epoch)
        await workers.close()
        await blocking.close()
        files.close()
        assert panics == []
        return found

    identity, clean_epoch, stored = asyncio.run(live(1))
    assert (clean_epoch, stored) == (None, [0])
    assert asyncio.run(live(2)) == (identity, 1, [0, 1])


def test_no_two_runs_share_a_directory_id() -> None:
    async def identity(seed: int) -> UUID:
        return (await opened(Machine(), seed)).identity

    assert run_virtual(lambda: identity(1)) != run_virtual(lambda: identity(2))


@virtual
async def test_a_partition_is_opened_once_and_again_only_after_it_was_closed() -> None:
    directory = await opened(Machine())
    first = asyncio.ensure_future(directory.open_partition(ORDERS, CONFIG))
    await asyncio.sleep(0)
    with pytest.raises(AssertionError):
        await directory.open_partition(ORDERS, CONFIG)
    append(await first, 2)
    await directory.close_partition(ORDERS)
    assert (await directory.open_partition(ORDERS, CONFIG)).end_offset == 2
    await directory.close()


# -- a disk that failed


async def failed(machine: Machine, part: str) -> DataDirectory:
    """One where a record was written whose sync failed."""
    directory = await opened(machine)
    log = await directory.open_partition(ORDERS, CONFIG)
    append(log)
    await log.wait_stable(1)
    machine.files.fail_next_sync(part)
    append(log)
    with pytest.raises(DiskFailed):
        await log.wait_stable(2)
    return directory


@pytest.mark.parametrize("is_killed", [False, True])
@virtual
async def test_a_directory_that_could_not_be_synced_is_refused_by_later_processes(is_killed: bool) -> None:
    machine = Machine()
    directory = await failed(machine, f"{PATH}/{ORDERS}/")
    if is_killed:
        machine.crash(power_fails=False)
    else:
        await directory.close()
        machine.boot()
    for _ in range(2):
        with pytest.raises(DirectoryFailed, match=r"could not be synced \(.*Input/output error"):
            await opened(machine)
    machine.files.remove(f"{PATH}/failed")
    await (await opened(machine)).close()


@virtual
async def test_a_flush_outside_the_queue_that_failed_counts_too() -> None:
    machine = Machine()
    directory = await opened(machine)
    log = await directory.open_partition(ORDERS, LogConfig(flush_mode=FlushMode.OS))
    append(log)
    machine.files.fail_next_sync(f"{PATH}/{ORDERS}/")
    with pytest.raises(DiskFailed):
        await log.flush()
    machine.crash(power_fails=False)
    with pytest.raises(DirectoryFailed):
        await opened(machine)


@virtual
async def test_a_write_that_failed_leaves_nothing_to_be_afraid_of() -> None:
    """What could not be written cannot be read either: recovery sees what there is."""
    machine = Machine()
    directory = await opened(machine)
    log = await directory.open_partition(ORDERS, CONFIG)
    append(log)
    await log.wait_stable(1)
    machine.files.fail_writes(".log")
    append(log)
    with pytest.raises(DiskFailed):
        await log.wait_stable(2)
    machine.crash(power_fails=False)
    machine.files.fail_writes(None)
    again = await (await opened(machine)).open_partition(ORDERS, CONFIG)
    assert await offsets(again) == [0]


@virtual
async def test_a_disk_that_takes_no_note_of_its_failure_fails_all_the_same() -> None:
    machine = Machine()
    machine.files.fail_writes("/failed")
    directory = await failed(machine, f"{PATH}/{ORDERS}/")
    await directory.close()


# -- in which epoch it was used


@virtual
async def test_the_epoch_it_is_used_in_is_kept_through_a_power_failure() -> None:
    machine = Machine()
    directory = await opened(machine)
    assert directory.use == RecordedUse()
    await directory.note_used(7)
    machine.crash(power_fails=True)
    assert (await opened(machine)).use == RecordedUse(7)


@pytest.mark.parametrize("power_fails", [False, True])
@virtual
async def test_an_interrupted_note_is_the_old_one_or_the_new(power_fails: bool) -> None:
    for call in range(1, 50):
        machine = Machine(call)
        directory = await opened(machine)
        await directory.note_used(7)
        if not await crashes(machine, call, directory.note_used(8)):
            break
        machine.crash(power_fails=power_fails)
        assert (await opened(machine)).use in (RecordedUse(7), RecordedUse(8))
    else:
        pytest.fail("more calls than this test tries")


@virtual
async def test_a_damaged_note_says_nothing_but_that() -> None:
    machine = Machine()
    directory = await opened(machine)
    await directory.note_used(7)
    await directory.close()
    machine.boot()
    machine.files.flip_bit(f"{PATH}/used-epoch", 3, 1)
    assert (await opened(machine)).use == RecordedUse(damage="used-epoch is damaged")


@virtual
async def test_the_mark_of_a_restored_directory_stays_until_it_is_used() -> None:
    machine = Machine()
    directory = await opened(machine)
    identity = directory.identity
    await directory.note_used(7)
    await directory.close()
    machine.boot()
    assert mark_restored(machine.files, PATH) == identity
    for _ in range(2):
        directory = await opened(machine)
        assert directory.use == RecordedUse(is_restored=True)
        await directory.close()
        machine.boot()
    directory = await opened(machine)
    await directory.note_used(9)
    await directory.close()
    machine.boot()
    assert (await opened(machine)).use == RecordedUse(9)


@virtual
async def test_only_a_data_directory_that_nobody_uses_is_marked_as_restored() -> None:
    machine = Machine()
    with pytest.raises(DirectoryRefused, match="name one of the node"):
        mark_restored(machine.files, f"{ROOT}/nothing")
    directory = await opened(machine)
    with pytest.raises(DirectoryRefused, match="in use: stop its node first"):
        mark_restored(machine.files, PATH)
    await directory.close()
    machine.boot()
    machine.files.flip_bit(f"{PATH}/directory-id", 3, 1)
    with pytest.raises(DirectoryRefused, match="damaged"):
        mark_restored(machine.files, PATH)
    assert not machine.files.exists(f"{PATH}/used-epoch")


# -- a full disk


@virtual
async def test_a_directory_on_a_full_disk_is_closed_and_given_back_as_after_a_crash() -> None:
    machine = Machine()
    directory = await opened(machine)
    logs = [await directory.open_partition(name, CONFIG) for name in (ORDERS, EVENTS)]
    for log in logs:
        append(log)
        await log.wait_stable(1)
    machine.files.set_capacity(0)
    append(logs[0])
    await asyncio.sleep(1)
    async with asyncio.timeout(10):
        with suppress(DiskFailed):
            await directory.close(broker_epoch=5)
    assert dict(machine.open_files()) == {}
    machine.files.set_capacity(None)
    machine.boot()
    again = await opened(machine)
    assert again.clean_epoch is None
    assert await offsets(await again.open_partition(ORDERS, CONFIG)) == [0]


@virtual
async def test_a_log_that_cannot_be_opened_for_want_of_room_is_opened_later() -> None:
    machine = Machine()
    directory = await opened(machine)
    machine.files.set_capacity(0)
    with pytest.raises(ResourceShortage):
        await directory.open_partition(ORDERS, CONFIG)
    machine.files.set_capacity(None)
    await directory.open_partition(ORDERS, CONFIG)


@virtual
async def test_the_room_of_a_directory_is_looked_at_and_what_was_refused_is_tried_again() -> None:
    machine = Machine()
    directory = await opened(machine)
    log = await directory.open_partition(ORDERS, CONFIG)
    machine.files.size_bytes = 1_000_000
    machine.files.set_capacity(machine.files.used_bytes() + 60_000)
    await directory.reserve(None)
    assert (directory.space.reserve_bytes, directory.space.free_bytes, directory.space.is_full) == (
        50_000,
        60_000,
        False,
    )
    machine.files.set_capacity(machine.files.used_bytes() + 10)
    append(log)
    await asyncio.sleep(1)
    assert directory.space.is_critical, "the disk refused a write, whatever was counted"
    await directory.look_at_space()
    await asyncio.sleep(1)
    assert log.stable_end == 0
    machine.files.set_capacity(None)
    await directory.look_at_space()
    await log.wait_stable(1)
    await directory.look_at_space()
    assert not directory.space.is_full
