"""A full-screen terminal that reports each key at once, and is restored afterwards."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["FullScreen", "full_screen"]

_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_HOME, _CLEAR_RIGHT, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class FullScreen:
    """A screen. Each drawing replaces the previous one line by line, without flicker."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    @property
    def height(self) -> int:
        return os.get_terminal_size(self._out.fileno()).lines

    def draw(self, lines: list[str]) -> None:
        """Draw from the top. The terminal cuts lines that are too wide."""
        content = "\r\n".join(f"{line}{_CLEAR_RIGHT}" for line in lines[: self.height])
        self._out.write(f"{_HOME}{content}{_CLEAR_BELOW}")
        self._out.flush()


@contextmanager
def full_screen(
    out: TextIO, *, on_key: Callable[[str], object], on_resize: Callable[[], object], on_end: Callable[[], object]
) -> Iterator[FullScreen]:
    """Use the whole terminal, on the running event loop, and restore it afterwards. Call `on_key` with typed characters
    if standard input is a terminal, and `on_end` on a signal to end the process. Ctrl+C behaves as usual."""
    loop = asyncio.get_running_loop()
    keyboard = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
    modes = termios.tcgetattr(keyboard) if keyboard is not None else None

    def read_keys() -> None:
        assert keyboard is not None
        typed = os.read(keyboard, 64)
        if not typed:  # hangup
            loop.remove_reader(keyboard)
        for character in typed.decode(errors="replace"):
            on_key(character)

    out.write(f"{_OTHER_SCREEN}{_HIDE_CURSOR}{_NO_WRAP}")
    try:
        if keyboard is not None:
            tty.setcbreak(keyboard, termios.TCSANOW)
            loop.add_reader(keyboard, read_keys)
        loop.add_signal_handler(signal.SIGWINCH, on_resize)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, on_end)
        yield FullScreen(out)
    finally:
        for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
        if keyboard is not None and modes is not None:
            loop.remove_reader(keyboard)
            termios.tcsetattr(keyboard, termios.TCSANOW, modes)
        out.write(f"{_WRAP}{_SHOW_CURSOR}{_FIRST_SCREEN}")
        out.flush()
