"""What a process takes of its machine."""

import contextlib
import os
import resource
import time
from dataclasses import dataclass

_STARTED_SECONDS = time.time()  # as good as when the process did: what starts it imports this


@dataclass(frozen=True, slots=True)
class ProcessStats:
    """What the kernel does not tell is None."""

    cpu_seconds: float
    resident_bytes: int | None
    open_files: int | None
    max_files: int
    started_seconds: float


def process_stats() -> ProcessStats:
    """Of this process, now."""
    return ProcessStats(
        cpu_seconds=time.process_time(),
        resident_bytes=resident_bytes(),
        open_files=_open_files(),
        max_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        started_seconds=_STARTED_SECONDS,
    )


def resident_bytes(process: int | str = "self") -> int | None:
    """What a process has in RAM, this one or that of another number."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
    return None


def _open_files() -> int | None:
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return None
