"""Standard input, output and error of a program that may be started without them, or write to a full disk."""

import contextlib
import os
import select
import sys
from typing import TextIO

__all__ = ["finish_output", "is_reader_gone", "open_missing_streams"]

_INPUT, _OUTPUT, _ERROR = 0, 1, 2

# Reads and writes on replaced streams must fail, as in other programs, so that the user learns of lost output. Only
# error messages may be discarded.
_MODES = {_INPUT: os.O_WRONLY, _OUTPUT: os.O_RDONLY, _ERROR: os.O_RDWR}


def open_missing_streams() -> None:
    """Open the standard streams that are closed (`<&-`, `>&-`). Otherwise, the first socket would get the number of a
    stream, and receive printed output."""
    missing = [number for number in _MODES if not _is_open(number)]
    for number in missing:
        opened = os.open(os.devnull, _MODES[number])
        assert opened == number  # the kernel assigns the lowest free number
        os.set_inheritable(number, True)
    if _INPUT in missing:
        sys.stdin = os.fdopen(_INPUT, encoding="utf-8", closefd=False)
    if _OUTPUT in missing:
        sys.stdout = os.fdopen(_OUTPUT, "w", encoding="utf-8", closefd=False)
    if _ERROR in missing:
        sys.stderr = os.fdopen(_ERROR, "w", encoding="utf-8", closefd=False)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def finish_output() -> OSError | None:
    """Flush buffered output. On failure, discard it and return the error; otherwise, Python would report it again on
    exit."""
    try:
        sys.stdout.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        return error
    return None


def is_reader_gone(out: TextIO) -> bool:
    """Return True if `out` is a pipe without a reader. Return False for anything else, for which that is unknown."""
    try:
        poller = select.poll()
        poller.register(out.fileno(), 0)
        # With an empty mask, poll reports only errors.
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))
    except (OSError, ValueError):  # not a file, or a closed one
        return False
