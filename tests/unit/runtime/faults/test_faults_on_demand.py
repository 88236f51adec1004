"""A node's machine, and what is wrong with it on demand; and that nobody else has anything to do with that."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from lograft.runtime.faults.faulty_clock import FaultyClock, run_loop_at_rate
from lograft.runtime.faults.faulty_files import FaultyFiles
from lograft.runtime.faults.settings import FaultSettings, FaultSwitch, read_settings, write_settings
from lograft.runtime.files import SyncFailed, read_whole
from lograft.runtime.production.node_runtime import FAULTS_VARIABLE, node_boot_id, production_runtime


def until_told(switch: FaultSwitch, settings: FaultSettings) -> None:
    write_settings(switch.directory, settings)
    while switch.settings != settings:
        pass


@pytest.fixture
def switch(tmp_path: Path) -> FaultSwitch:
    (tmp_path / "faults").mkdir()
    return FaultSwitch(str(tmp_path / "faults"))


def test_settings_are_read_as_they_are_written(tmp_path: Path) -> None:
    assert read_settings(str(tmp_path)) == FaultSettings()
    settings = FaultSettings("boot-2", True, True, True, 1.5, 2.5, -1000, 0.8)
    write_settings(str(tmp_path), settings)
    assert read_settings(str(tmp_path)) == settings


def test_a_full_disk_takes_a_part_and_says_so(tmp_path: Path, switch: FaultSwitch) -> None:
    files = FaultyFiles(switch)
    file = files.create(f"{tmp_path}/a")
    file.write(0, [b"before"])
    until_told(switch, FaultSettings(is_full=True))
    with pytest.raises(OSError, match="No space left"):
        file.write(6, [b"0123456789"])
    assert b"before0123456789".startswith(read_whole(files, f"{tmp_path}/a"))
    assert files.free_bytes(str(tmp_path)) == 0
    with pytest.raises(OSError, match="No space left"):
        files.create(f"{tmp_path}/b")
    with pytest.raises(OSError, match="No space left"):
        files.make_directory(f"{tmp_path}/c")
    until_told(switch, FaultSettings())
    file.write(6, [b"after"])
    assert file.read(0, 11) == b"beforeafter"
    file.close()
    files.close()


def test_syncs_fail_while_they_are_to(tmp_path: Path, switch: FaultSwitch) -> None:
    files = FaultyFiles(switch)
    file = files.create(f"{tmp_path}/a")
    until_told(switch, FaultSettings(fails_syncs=True))
    for sync in (file.sync, lambda: files.sync_all([file]), lambda: files.sync_directory(str(tmp_path))):
        with pytest.raises(SyncFailed):
            sync()
    until_told(switch, FaultSettings())
    file.sync()
    file.close()
    files.close()


def test_a_calendar_jumps(switch: FaultSwitch) -> None:
    clock = FaultyClock(switch)
    before_ms = clock.wall_ms()
    until_told(switch, FaultSettings(wall_offset_ms=3_600_000))
    assert 3_600_000 <= clock.wall_ms() - before_ms < 3_700_000


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_a_loops_time_and_timers_go_at_a_rate(rate: float) -> None:
    async def live() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        true_time = loop.time
        rates = [1.0]
        run_loop_at_rate(loop, lambda: rates[0])
        rates[0] = rate
        loop.time()
        # However long the machine does something else between two looks: the loop's time lies between two true ones.
        before_begin, begin, after_begin = true_time(), loop.time(), true_time()
        await asyncio.sleep(0.2)
        before_end, end, after_end = true_time(), loop.time(), true_time()
        elapsed, rounding = end - begin, 1e-6
        assert (before_end - after_begin) * rate - rounding <= elapsed <= (after_end - before_begin) * rate + rounding
        return elapsed, after_end - before_begin

    elapsed, true_elapsed = asyncio.run(live())
    assert elapsed >= 0.199
    # Late on a busy machine, but never early, nor as if the rate were none.
    assert true_elapsed >= 0.199 / rate


def test_time_does_not_go_back_when_the_rate_changes() -> None:
    async def live() -> None:
        loop = asyncio.get_running_loop()
        rates = [1.0]
        run_loop_at_rate(loop, lambda: rates[0])
        seen = [loop.time()]
        for rate in (2.0, 0.5, 1.0, 1.5, 0.1):
            rates[0] = rate
            seen += [loop.time(), loop.time()]
        assert seen == sorted(seen)
        assert seen[-1] - seen[0] < 5

    asyncio.run(live())


def test_the_switch_is_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(str(tmp_path), FaultSettings(boot_id="another"))
    monkeypatch.setenv(FAULTS_VARIABLE, str(tmp_path))
    assert node_boot_id() == "another"

    async def kinds() -> tuple[type, type]:
        runtime = production_runtime(lambda error: None)
        assert isinstance(runtime.files, FaultyFiles)
        runtime.files.close()
        return type(runtime.files), type(runtime.clock)

    assert asyncio.run(kinds()) == (FaultyFiles, FaultyClock)


def test_without_it_nothing_of_it_is_even_imported() -> None:
    look = (
        "import asyncio, sys\n"
        "from lograft.runtime.production.node_runtime import node_boot_id, production_runtime\n"
        "node_boot_id()\n"
        "async def main():\n"
        "    production_runtime(lambda error: None)\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if 'fault' in name and 'lograft' in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, env={})
    assert done.stdout == "[]\n"
