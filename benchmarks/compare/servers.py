"""Server processes of any system: started, watched through the kernel's eyes, and gone with us whatever happens."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from compare.failures import CannotRun
from lograft.runtime.process.child_processes import wait_until
from lograft.runtime.process.host import is_port_free
from lograft.runtime.process.supervised_process import ProcessFailed, SupervisedProcess

HOST = "127.0.0.1"

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIRST_PORT = 17000
_LOOK_SECONDS = 0.01
_DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]


def free_ports(count: int) -> list[int]:
    """Below those that the kernel gives to outgoing connections: nobody takes one between the look and the use."""
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = [port for port in range(_FIRST_PORT, below) if is_port_free(HOST, port)][:count]
    if len(found) < count:
        raise CannotRun(f"fewer than {count} ports are free between {_FIRST_PORT} and {below}")
    return found


def until(condition: Callable[[], bool], what: str, timeout_seconds: float = 60.0) -> None:
    if not wait_until(condition, timeout_seconds=timeout_seconds, every_seconds=_LOOK_SECONDS):
        raise CannotRun(f"{what}: not within {timeout_seconds:.0f} s")


class Servers:
    """Processes by name."""

    def __init__(self) -> None:
        self._processes: dict[str, SupervisedProcess] = {}

    def start(self, name: str, command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._processes[name] = SupervisedProcess(
            [*_DIES_WITH_US, *command],
            directory / "output.txt",
            directory=directory,
            variables={**os.environ, **variables},
        )
        self._processes[name].start()

    def kill(self, name: str) -> None:
        self._processes.pop(name).kill()

    def check(self) -> None:
        """`CannotRun`, with its last words, if one has ended by itself."""
        for name, process in self._processes.items():
            if not process.is_running:
                raise CannotRun(f"{name} has ended with {process.exit_code()}: {_last_words(process)}")

    def wait(self, timeout_seconds: float) -> None:
        """Until all have ended, and well."""
        for name, process in self._processes.items():
            try:
                code = process.exit_code(timeout_seconds=timeout_seconds)
            except ProcessFailed as error:
                raise CannotRun(str(error)) from None
            if code:
                raise CannotRun(f"{name} has failed: {_last_words(process)}")

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
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
    def _read(process: SupervisedProcess, name: str) -> str:
        return Path(f"/proc/{process.process_id}/{name}").read_text()


def _last_words(process: SupervisedProcess) -> str:
    return " / ".join(process.output.strip().splitlines()[-3:]) or "it said nothing"
