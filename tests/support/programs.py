"""Programs that a test converses with, by lines."""

import signal
import subprocess
import threading
from types import TracebackType
from typing import Any

from support.server_processes import LOGRAFT, variables

# Longer than any conversation takes: a program that hangs ends, and its test fails by what it did not say.
_LONGEST_SECONDS = 300.0


class Program(subprocess.Popen[str]):
    """A process whose input and output are pipes. Leaving the block kills it, if it still runs, and reaps it."""

    def __init__(self, *command: str, **options: Any) -> None:
        given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": variables(), **options}
        super().__init__(command, text=True, **given)
        self._watchdog = threading.Timer(_LONGEST_SECONDS, self.kill)
        self._watchdog.start()

    def line(self) -> str:
        """The next line of its output, or nothing at the end."""
        assert self.stdout is not None
        return self.stdout.readline()

    def rest(self) -> str:
        """The rest of its output, up to its end; `communicate` would miss what a line was read ahead of."""
        assert self.stdout is not None
        return self.stdout.read()

    def tell(self, text: str) -> None:
        assert self.stdin is not None
        self.stdin.write(text)
        self.stdin.flush()

    def interrupt(self) -> None:
        """What Ctrl+C does."""
        self.send_signal(signal.SIGINT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watchdog.cancel()
        self.kill()
        self.wait()
        super().__exit__(kind, error, traceback)


def lograft_program(*arguments: str, **options: Any) -> Program:
    return Program(*LOGRAFT, *arguments, **options)
