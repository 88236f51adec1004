"""What a killed process left in memory only: recovery makes it durable before anything relies on it."""

import pytest
from support.virtual_log import DIRECTORY, Machine, append, virtual

from lograft.storage.log.log_config import FlushMode, LogConfig

SEEDS = range(15)


@pytest.mark.parametrize("seed", SEEDS)
@virtual
async def test_the_name_of_a_segment_made_by_a_killed_process_is_made_durable(seed: int) -> None:
    machine = Machine(seed)
    log = await machine.open()
    append(log)
    await log.wait_stable(1)
    machine.files.create(f"{DIRECTORY}/{1:020d}.log").close()  # and killed before the directory was synced
    machine.crash(power_fails=False)
    log = await machine.open()
    append(log)
    await log.wait_stable(2)
    machine.crash(power_fails=True)
    assert (await machine.open()).end_offset == 2


@pytest.mark.parametrize("seed", SEEDS)
@virtual
async def test_what_a_killed_process_cut_off_does_not_come_back(seed: int) -> None:
    config = LogConfig(flush_mode=FlushMode.OS)
    machine = Machine(seed)
    log = await machine.open(config)
    append(log, 3)
    await log.wait_stable(3)
    append(log, 5)
    await log.flush()
    file = machine.files.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(0)  # and killed before that was synced
    machine.crash(power_fails=False)
    log = await machine.open(config)
    assert log.end_offset == 0
    append(log)
    await log.wait_stable(1)
    machine.crash(power_fails=True)
    assert (await machine.open(config)).end_offset in (0, 1)


@virtual
async def test_a_truncation_removes_a_segment_before_the_snapshot_of_its_start() -> None:
    """A crash in between then keeps no segment without it: its producers would be forgotten."""
    machine = Machine()
    log = await machine.open()
    append(log)
    log.roll()
    append(log)
    await log.wait_stable(2)
    machine.points.names.clear()
    await log.truncate(0)
    calls = machine.points.names
    assert calls.index(f"remove {1:020d}.log") < calls.index(f"remove {1:020d}.producers")
