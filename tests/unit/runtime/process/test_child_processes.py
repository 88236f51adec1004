"""Processes that others started: recognised, signalled, never mistaken for another."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from lograft.runtime.process.child_processes import (
    ProcessIdentity,
    ProcessState,
    reap_children,
    start_process,
    wait_until,
)

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]


def started(tmp_path: Path, arguments: list[str]) -> ProcessIdentity:
    return start_process(
        arguments, output_path=str(tmp_path / "output"), directory=str(tmp_path), variables={"PATH": "/bin", "X": "1"}
    )


def becomes(process: ProcessIdentity, state: ProcessState) -> bool:
    return wait_until(lambda: process.state is state, timeout_seconds=30)


def test_a_process_runs_is_paused_goes_on_and_is_gone(tmp_path: Path) -> None:
    process = started(tmp_path, SLEEP)
    try:
        assert process.state is ProcessState.RUNNING
        assert process.send(signal.SIGSTOP)
        assert becomes(process, ProcessState.PAUSED)
        assert process.send(signal.SIGCONT)
        assert becomes(process, ProcessState.RUNNING)
    finally:
        assert process.send(signal.SIGKILL)
    assert becomes(process, ProcessState.GONE), "though nobody has waited for it"
    assert Path(f"/proc/{process.process_id}").exists()
    reap_children()
    assert not Path(f"/proc/{process.process_id}").exists()
    assert not process.send(signal.SIGKILL)


def test_another_process_with_the_same_id_is_not_the_same(tmp_path: Path) -> None:
    process = started(tmp_path, SLEEP)
    try:
        for other in (replace(process, started=process.started + 1), replace(process, boot="another time")):
            assert other.state is ProcessState.GONE
            assert not other.send(signal.SIGKILL)
        assert process.state is ProcessState.RUNNING
    finally:
        process.send(signal.SIGKILL)
        assert becomes(process, ProcessState.GONE)
        reap_children()


def test_a_process_has_nothing_of_its_starter_but_what_it_was_given(tmp_path: Path) -> None:
    """Run by another process, which has a descriptor to pass on and ends at once."""
    look = (
        "import os, time; print(sorted(os.listdir('/proc/self/fd'))[:-1], os.readlink('/proc/self/fd/0'), "
        "os.getsid(0) == os.getpid(), os.getcwd(), dict(os.environ).get('X'), flush=True); time.sleep(60)"
    )
    program = f"""
import os, sys
from lograft.runtime.process.child_processes import start_process
os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
process = start_process(
    [sys.executable, "-c", {look!r}], output_path={str(tmp_path / "output")!r}, directory={str(tmp_path)!r},
    variables={{"X": "1"}},
)
print(process.process_id, process.started, process.boot)
"""
    # The pipe of its output would stay open with a process that has it.
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    process_id, ticks, boot = told.stdout.split()
    process = ProcessIdentity(int(process_id), int(ticks), boot)
    try:
        assert wait_until(lambda: (tmp_path / "output").read_text().endswith("\n"), timeout_seconds=30)
        assert (tmp_path / "output").read_text() == f"['0', '1', '2'] /dev/null True {tmp_path} 1\n"
        assert process.state is ProcessState.RUNNING
    finally:
        assert process.send(signal.SIGKILL)


def test_output_is_added_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("before\n")
    process = started(tmp_path, [sys.executable, "-c", "import sys; print('after', file=sys.stderr)"])
    assert becomes(process, ProcessState.GONE)
    assert (tmp_path / "output").read_text() == "before\nafter\n"
    reap_children()


def test_an_id_of_nobody_is_gone() -> None:
    nobody = ProcessIdentity(2**22 + 1, 1, "boot")
    assert nobody.state is ProcessState.GONE
    assert not nobody.send(signal.SIGTERM)


def test_waiting_ends_with_the_condition_or_with_the_time() -> None:
    looks = iter([False, False, True])
    assert wait_until(lambda: next(looks), timeout_seconds=30, every_seconds=0.001)
    assert not wait_until(lambda: False, timeout_seconds=0.01, every_seconds=60)
