"""Standard input, output and error of a program that may have been started without them, or with a full disk behind."""

import contextlib
import os
import select
import sys
from typing import TextIO

__all__ = ["finish_output", "is_reader_gone", "open_missing_streams"]

_INPUT, _OUTPUT, _ERROR = 0, 1, 2

# What is read or written there fails, as it does for other programs: who closed it would else never learn of what is
# lost. Messages alone may go nowhere.
_MODES = {_INPUT: os.O_WRONLY, _OUTPUT: os.O_RDONLY, _ERROR: os.O_RDWR}


def open_missing_streams() -> None:
    """Of those that are closed (`<&-`, `>&-`): else the first socket would get the number, and whatever is printed."""
    missing = [number for number in _MODES if not _is_open(number)]
    for number in missing:
        opened = os.open(os.devnull, _MODES[number])
        assert opened == number  # the lowest that is free
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
    """Write what is still buffered; or what keeps it from being written, and it is given up: else Python would complain
    of it once more as it ends."""
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
    """Whether `out` is a pipe whose other end nobody has open any more. Of anything else it is not known, and False."""
    try:
        poller = select.poll()
        poller.register(out.fileno(), 0)
        # Asked for nothing, it tells of errors alone.
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))
    except (OSError, ValueError):  # it is no file at all, or a closed one
        return False
