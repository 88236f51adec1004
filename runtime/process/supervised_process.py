"""A program that this process runs, watches and outlives."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lograft.runtime.process.child_processes import ProcessIdentity, ProcessState, identify, open_process, wait_until

_TIMEOUT_SECONDS = 60.0
_TAIL_CHARACTERS = 3000


class ProcessFailed(Exception):
    """A supervised process ended, or missed a deadline. The message has the end of its output."""


class SupervisedProcess:
    """`command`, run as a child without input. Its output is appended to `output_path`. It may be started repeatedly.

    It leads its own session, so Ctrl+C reaches only this process. Leaving the `with` block kills and reaps the program
    and every process that it started.
    """

    def __init__(
        self,
        command: Sequence[str],
        output_path: Path,
        *,
        directory: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`directory` is the working directory, and `variables` the environment; by default those of this process."""
        self.command = command
        self.output_path = output_path
        self._working_directory = directory
        self.variables = variables
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None

    def start(self) -> None:
        assert not self.is_running
        self._process = open_process(
            self.command, output_path=self.output_path, directory=self._working_directory, variables=self.variables
        )
        self._identity = identify(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    # -- its state

    @property
    def process_id(self) -> int:
        assert self._identity is not None
        return self._identity.process_id

    @property
    def state(self) -> ProcessState:
        """If the program has ended, reap it first."""
        state = self._identity.state if self._identity is not None else ProcessState.GONE
        if state is ProcessState.GONE:
            self.kill()
        return state

    @property
    def is_running(self) -> bool:
        """True unless the program has ended or was never started; a paused one counts."""
        return self.state is not ProcessState.GONE

    @property
    def output(self) -> str:
        """All its output, or nothing if it was never started."""
        return self.output_path.read_text(errors="replace") if self.output_path.exists() else ""

    def check_running(self) -> None:
        """Raise `ProcessFailed` if it has ended."""
        if not self.is_running:
            code = self._process.returncode if self._process is not None else None
            raise ProcessFailed(f"{self._describe()} has ended with exit code {code}:\n{self.tail()}")

    def wait_until(
        self, condition: Callable[[], bool], what: str, *, timeout_seconds: float = _TIMEOUT_SECONDS
    ) -> None:
        """Wait for a condition, named by `what`. Raise `ProcessFailed` if the program ends first, or at the timeout."""

        def look() -> bool:
            self.check_running()
            return condition()

        if not wait_until(look, timeout_seconds=timeout_seconds):
            raise ProcessFailed(f"{self._describe()}: not in {timeout_seconds:g} s: {what}\n{self.tail()}")

    def tail(self) -> str:
        """The end of its output."""
        return self.output[-_TAIL_CHARACTERS:] or "(no output)"

    def _describe(self) -> str:
        return f"`{' '.join(self.command)}`"

    # -- signals

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to the program. Return False if it does not run."""
        return self._identity is not None and self._identity.send(number)

    def send_all(self, number: signal.Signals) -> bool:
        """Send a signal to the program and every process that it started. Return False if the program does not run."""
        is_running = self.is_running
        if is_running:
            self._send_group(number)
        return is_running

    def pause(self) -> bool:
        return self.send_all(signal.SIGSTOP)

    def resume(self) -> bool:
        return self.send_all(signal.SIGCONT)

    def ask_to_stop(self) -> bool:
        """Ask for an orderly shutdown. A paused program is resumed, so that it receives the signal."""
        asked = self.send(signal.SIGTERM)
        self.resume()
        return asked

    def stop(self) -> int:
        """Ask for an orderly shutdown, and return the exit code."""
        self.ask_to_stop()
        return self.exit_code()

    def exit_code(self, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> int:
        """Wait for the program to end, and return its exit code. Raise `ProcessFailed` at the timeout."""
        assert self._process is not None
        if not wait_until(lambda: not self.is_running, timeout_seconds=timeout_seconds):
            raise ProcessFailed(f"{self._describe()} still runs after {timeout_seconds:g} s:\n{self.tail()}")
        return self._process.returncode

    def kill(self) -> None:
        """Kill the program and every process that it started. Return once all are gone, and the program is reaped."""
        process, identity = self._process, self._identity
        if process is not None and identity is not None and process.returncode is None:
            self._send_group(signal.SIGKILL)
            process.wait()
            wait_until(lambda: not identity.session(), timeout_seconds=_TIMEOUT_SECONDS)

    def _send_group(self, number: signal.Signals) -> None:
        # Until the program is reaped, the kernel gives its id to no other process or group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process_id, number)
