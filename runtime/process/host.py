"""The host that a process runs on: its boot, its memory, its ports."""

import contextlib
import os
import resource
import socket
from uuid import uuid4

_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """Return an id of the kernel's current boot. Another boot means that the page cache was lost.

    If the kernel provides none, return one unique to this process, so that nothing counts as having survived.
    """
    with contextlib.suppress(OSError), open(_BOOT_ID_FILE, encoding="ascii") as file:
        if boot := file.read().strip():
            return boot
    return f"process-{os.getpid()}-{uuid4()}"


_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """Return how much memory this process may use: the machine's, or less if its container or `ulimit -v` limits it."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limits += [limit for path in _CGROUP_LIMITS if (limit := _number_in(path)) is not None]
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        limits.append(address_space)
    return min(limits)


def _number_in(path: str) -> int | None:
    """Return the number in a file, or None if there is no such file or no number in it, as with `max`."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def is_port_free(host: str, port: int) -> bool:
    """Return True if a server could listen on the port now."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # Ignore an earlier server's connections in TIME_WAIT, as servers do.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
