"""Server processes of any system: started, watched through the kernel's eyes, and gone with us whatever happens."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep

from compare.failures import CannotRun
from lograft.runtime.process.host import is_port_free

HOST = "127.0.0.1"

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIRST_PORT = 17000
_LOOK_SECONDS = 0.01
_PARENT_DIED = 1  # PR_SET_PDEATHSIG
_LIBC = ctypes.CDLL(None, use_errno=True)


def free_ports(count: int) -> list[int]:
    """Below those that the kernel gives to outgoing connections: nobody takes one between the look and the use."""
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = [port for port in range(_FIRST_PORT, below) if is_port_free(HOST, port)][:count]
    if len(found) < count:
        raise CannotRun(f"fewer than {count} ports are free between {_FIRST_PORT} and {below}")
    return found


def until(condition: Callable[[], bool], what: str, timeout_seconds: float = 60.0) -> None:
    deadline = monotonic() + timeout_seconds
    while not condition():
        if monotonic() > deadline:
            raise CannotRun(f"{what}: not within {timeout_seconds:.0f} s")
        sleep(_LOOK_SECONDS)


class Servers:
    """Processes by name."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._outputs: dict[str, Path] = {}

    def start(self, name: str, command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._outputs[name] = directory / "output.txt"
        with self._outputs[name].open("ab") as output:
            self._processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, **variables},
                start_new_session=True,  # Ctrl+C is for us, who then stop it
                preexec_fn=_die_with_parent,
            )

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def check(self) -> None:
        """`CannotRun`, with its last words, if one has ended by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise CannotRun(f"{name} has ended with {process.returncode}: {self._last_words(name)}")

    def _last_words(self, name: str) -> str:
        said = self._outputs[name].read_text(errors="replace").strip().splitlines()[-3:]
        return " / ".join(said) or "it said nothing"

    def wait(self, timeout_seconds: float) -> None:
        """Until all have ended, and well."""
        for process in self._processes.values():
            try:
                process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                raise CannotRun(f"{process.args!r} takes more than {timeout_seconds:.0f} s") from None
        for name, process in self._processes.items():
            if process.returncode:
                raise CannotRun(f"{name} has failed: {self._last_words(name)}")

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def resident_bytes(self) -> int:
        return sum(int(self._read(process, "statm").split()[1]) * _PAGE_BYTES for process in self._processes.values())

    def processor_seconds(self) -> float:
        """Of all that run, since they were started."""
        ticks = 0
        for process in self._processes.values():
            # Fields are counted behind the name, which may have blanks in it.
            fields = self._read(process, "stat").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / _CLOCK_TICKS

    @staticmethod
    def _read(process: "subprocess.Popen[bytes]", name: str) -> str:
        return Path(f"/proc/{process.pid}/{name}").read_text()


def _die_with_parent() -> None:
    _LIBC.prctl(_PARENT_DIED, signal.SIGKILL)
