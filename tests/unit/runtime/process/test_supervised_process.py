"""A supervised process: what can be done to it, and that nothing is left of it."""

import contextlib
import signal
import sys
from pathlib import Path

import pytest

from lograft.runtime.process.child_processes import ProcessState
from lograft.runtime.process.supervised_process import ProcessFailed, SupervisedProcess

WORK = "import time; print('here', flush=True); time.sleep(60)"
# Ends with 7 when asked to stop; its own child ignores that.
OBEY = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(60)"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print(child.pid, flush=True)
time.sleep(60)
"""


def python(tmp_path: Path, program: str) -> SupervisedProcess:
    return SupervisedProcess([sys.executable, "-c", program], tmp_path / "output", variables={})


def is_gone(process_id: int) -> bool:
    """Another's child that was killed is a zombie until the system reaps it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def test_it_runs_is_paused_resumed_killed_and_started_again(tmp_path: Path) -> None:
    with python(tmp_path, WORK) as process:
        assert not process.is_running
        process.start()
        process.wait_until(lambda: process.output == "here\n", "it works")
        assert process.pause()
        process.wait_until(lambda: process.state is ProcessState.PAUSED, "it is paused")
        assert process.is_running
        assert process.resume()
        process.wait_until(lambda: process.state is ProcessState.RUNNING, "it goes on")
        first = process.process_id
        process.kill()
        assert not process.is_running
        assert not Path(f"/proc/{first}").exists(), "it is reaped"
        assert not process.send(signal.SIGTERM)
        assert not process.send_all(signal.SIGTERM)
        process.start()
        process.wait_until(lambda: process.output == "here\n" * 2, "it works again")
        assert process.process_id != first


def test_a_paused_one_stops_when_it_is_asked_and_takes_what_it_started_with_it(tmp_path: Path) -> None:
    with python(tmp_path, OBEY) as process:
        process.start()
        process.wait_until(lambda: process.output.endswith("\n"), "it works")
        process.pause()
        assert process.stop() == 7
        assert process.exit_code() == 7
        assert is_gone(int(process.output))


@pytest.mark.parametrize("interruption", [AssertionError, KeyboardInterrupt])
def test_nothing_is_left_of_it_when_the_block_is_interrupted(tmp_path: Path, interruption: type[BaseException]) -> None:
    process = python(tmp_path, OBEY)

    def work() -> None:
        with process:
            process.start()
            process.wait_until(lambda: process.output.endswith("\n"), "it works")
            raise interruption

    with pytest.raises(interruption):
        work()
    assert not process.is_running
    assert not Path(f"/proc/{process.process_id}").exists()
    assert is_gone(int(process.output))


def test_who_waits_for_one_that_ends_is_told_how_and_what_it_said_last(tmp_path: Path) -> None:
    with python(tmp_path, "import sys; sys.exit('I cannot')") as process:
        process.start()
        with pytest.raises(ProcessFailed, match=r"(?s)has ended with exit code 1:\nI cannot"):
            process.wait_until(lambda: False, "it is ready")
        with pytest.raises(ProcessFailed, match="I cannot"):
            process.check_running()
        assert process.exit_code() == 1


def test_what_takes_too_long_is_told_with_what_it_said_last(tmp_path: Path) -> None:
    with python(tmp_path, WORK) as process:
        process.start()
        process.wait_until(lambda: process.output == "here\n", "it works")
        with pytest.raises(ProcessFailed, match=r"(?s)not in 0.01 s: it is ready\nhere"):
            process.wait_until(lambda: False, "it is ready", timeout_seconds=0.01)
        with pytest.raises(ProcessFailed, match=r"(?s)still runs after 0.01 s:\nhere"):
            process.exit_code(timeout_seconds=0.01)


def test_one_that_cannot_be_started_is_not_running(tmp_path: Path) -> None:
    with SupervisedProcess(["/no/such/program"], tmp_path / "output") as process:
        with pytest.raises(FileNotFoundError):
            process.start()
        assert not process.is_running
        assert process.output == ""
