"""A command at a terminal: what it shows, and what is typed."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from support.programs import Program
from support.server_processes import DEADLINE_SECONDS, LOGRAFT

# Makes the terminal that of its session, and becomes the command. Not between fork and exec: there Python is not safe
# in a process with threads.
_AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(int(sys.argv[1]), termios.TIOCSCTTY, 0)
os.close(int(sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Terminal:
    """A process whose standard streams are a terminal, but for those that are given."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], size: tuple[int, int], **streams: Any
    ) -> None:
        self._side, other = pty.openpty()
        self.shown = b""
        self._resize(size)
        self.modes = termios.tcgetattr(self._side)
        given: dict[str, Any] = {"stdin": other, "stdout": other, "stderr": other, **streams}
        self.process = Program(
            sys.executable, "-c", _AT_TERMINAL, str(other), *LOGRAFT, *arguments,
            env={**environment, "TERM": "xterm"}, start_new_session=True, pass_fds=[other], **given,
        )  # fmt: skip
        self._other: int | None = other
        self.modes_left: list[Any] = []

    def _resize(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def resize(self, rows: int, columns: int) -> None:
        """The process is told by the kernel."""
        self._resize((rows, columns))

    def type(self, text: str) -> None:
        os.write(self._side, text.encode())

    def until(self, pattern: str) -> "re.Match[str]":
        """Read on until `pattern` is among what was shown since the last call; forget all up to there."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            found = re.search(pattern, self.shown.decode(errors="replace"))
            if found is not None:
                self.shown = self.shown.decode(errors="replace")[found.end() :].encode()
                return found
            assert time.monotonic() < deadline, f"{pattern!r} did not come: {self.shown!r}"
            assert self._read(deadline - time.monotonic()), f"ended without {pattern!r}: {self.shown!r}"

    def _read(self, seconds: float) -> bool:
        """False: there is no more to come."""
        if self.process.poll() is not None:
            self._end()
        elif not select.select([self._side], [], [], min(seconds, 0.1))[0]:
            return True
        try:
            some = os.read(self._side, 65536)
        except OSError:  # as Linux says that nobody has the other side open, and all that was written is read
            return False
        self.shown += some
        return True

    def _end(self) -> None:
        """The process is gone: what it wrote may still be on its way, but then comes the end."""
        if self._other is not None:
            self.modes_left = termios.tcgetattr(self._side)
            os.close(self._other)
            self._other = None

    def finish(self) -> int:
        """Its exit code; `shown` is all that was left to be shown."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._read(deadline - time.monotonic()):
            assert time.monotonic() < deadline, f"it does not end: {self.shown!r}"
        return self.process.wait()

    @property
    def is_as_it_was(self) -> bool:
        """Its modes, or those in which the process left it, are what they were before."""
        return (self.modes_left if self._other is None else termios.tcgetattr(self._side)) == self.modes

    def close(self) -> None:
        self._end()
        os.close(self._side)


@contextlib.contextmanager
def terminal(
    *arguments: str, environment: Mapping[str, str], size: tuple[int, int] = (30, 140), **streams: Any
) -> Iterator[Terminal]:
    """`lograft` with these arguments. Whatever becomes of it, it has ended afterwards."""
    opened = Terminal(arguments, environment, size, **streams)
    try:
        with opened.process:
            yield opened
    finally:
        opened.close()
