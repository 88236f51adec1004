"""The machine that a process runs on."""

import contextlib
import os
from uuid import uuid4

_BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """Another one after each start of the machine's kernel: what was in the page cache before is gone.

    Where the kernel does not tell, it is of this process alone: then nothing is believed to have survived.
    """
    with contextlib.suppress(OSError), open(_BOOT_ID_FILE, encoding="ascii") as file:
        if boot := file.read().strip():
            return boot
    return f"process-{os.getpid()}-{uuid4()}"
