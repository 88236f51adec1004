"""Detached processes on this machine: start them, recognise them later from any process, signal them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from lograft.runtime.process.host import boot_id

_LOOK_SECONDS = 0.02
_STOPPED_STATES = ("T", "t")
_DEAD_STATES = ("Z", "X", "x")


class ProcessState(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A permanent identity of a process: the kernel reuses ids, but no two processes share both id and start time.

    `started`: the start time in kernel ticks since boot. `boot`: identifies that boot.
    """

    process_id: int
    started: int
    boot: str

    @property
    def state(self) -> ProcessState:
        found = _stat(self.process_id)
        if found is None or found.started != self.started or self.boot != boot_id():
            return ProcessState.GONE
        letter = found.state
        if letter in _DEAD_STATES:
            return ProcessState.GONE
        return ProcessState.PAUSED if letter in _STOPPED_STATES else ProcessState.RUNNING

    def send(self, signal_number: signal.Signals) -> bool:
        """Send a signal. Return False if the process is gone."""
        # The descriptor refers to this process even if it ends and its id is reused meanwhile.
        try:
            descriptor = os.pidfd_open(self.process_id)
        except ProcessLookupError:
            return False
        try:
            if self.state is ProcessState.GONE:
                return False
            signal.pidfd_send_signal(descriptor, signal_number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def session(self) -> "list[ProcessIdentity]":
        """Return the living processes of the session that this process leads or led: itself and its descendants.

        The kernel gives the id of a session to no other process while one of its members lives.
        """
        leader = _stat(self.process_id)
        if self.boot != boot_id() or (leader is not None and leader.started != self.started):
            return []
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        found = [ProcessIdentity(number, stat.started, self.boot) for number in numbers
                 if (stat := _stat(number)) is not None and stat.session == self.process_id
                 and stat.started >= self.started and stat.state not in _DEAD_STATES]  # fmt: skip
        return sorted(found, key=lambda process: process.process_id != self.process_id)


def start_process(
    arguments: Sequence[str], *, output_path: str, directory: str, variables: Mapping[str, str]
) -> ProcessIdentity:
    """Start a program that outlives this process."""
    process = open_process(arguments, output_path=output_path, directory=directory, variables=variables)
    _children.append(process)
    return identify(process.pid)


def open_process(
    arguments: Sequence[str],
    *,
    output_path: str | Path,
    directory: str | Path | None,
    variables: Mapping[str, str] | None,
) -> "subprocess.Popen[bytes]":
    """Start a program that inherits no open file of this process.

    It gets its own session, so that Ctrl+C here does not reach it, and no input. Its output is appended to a file.
    """
    with open(output_path, "ab") as output:
        return subprocess.Popen(
            arguments, cwd=directory, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            close_fds=True, start_new_session=True,
        )  # fmt: skip


def identify(process_id: int) -> ProcessIdentity:
    """Return the identity of a child that was not reaped."""
    found = _stat(process_id)
    assert found is not None, "a child exists until it is waited for"
    return ProcessIdentity(process_id, found.started, boot_id())


def run_module(name: str, *arguments: str, variables: Mapping[str, str]) -> tuple[int, str]:
    """Run a Python module in a new process to its end, with more environment variables. Return its exit code and its
    standard error."""
    command = [sys.executable, "-m", name, *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    return done.returncode, done.stderr


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float, every_seconds: float = _LOOK_SECONDS) -> bool:
    """Poll `condition`. Return True if it held before the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        left_seconds = deadline - time.monotonic()
        if left_seconds <= 0:
            return False
        time.sleep(min(every_seconds, left_seconds))
    return True


# Children to reap, so that they do not stay behind as zombies.
_children: list[subprocess.Popen[bytes]] = []


def reap_children() -> None:
    """Reap children that have ended."""
    _children[:] = [child for child in _children if child.poll() is None]


class _Stat(NamedTuple):
    """`state` is the kernel's letter."""

    state: str
    session: int
    started: int


def _stat(process_id: int) -> _Stat | None:
    """Return None if there is no such process."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        with open(f"/proc/{process_id}/stat", encoding="utf-8", errors="replace") as file:
            # The name, in parentheses, may contain anything.
            fields = file.read().rpartition(")")[2].split()
        return _Stat(fields[0], int(fields[3]), int(fields[19]))
    return None
