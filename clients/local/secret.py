"""The secret that the nodes of a local cluster share, in a file beside them."""

import contextlib
import os
from pathlib import Path

from lograft.runtime.rng import system_rng

SECRET_FILE = "cluster.secret"

_SECRET_BYTES = 32


def make_secret(directory: Path) -> Path:
    """Return the file, which only its owner can read; made if it is not there."""
    path = directory / SECRET_FILE
    if not path.exists():
        secret = system_rng().secret_bytes(_SECRET_BYTES).hex()
        temporary = directory / f"{SECRET_FILE}.{os.getpid()}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(secret + "\n")
        # Another command may make one at the same moment: the first one stays.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    return path
