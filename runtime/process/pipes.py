"""Whoever reads what this process writes."""

import select
from typing import TextIO

__all__ = ["is_reader_gone"]


def is_reader_gone(out: TextIO) -> bool:
    """Whether `out` is a pipe whose other end nobody has open any more. Of anything else it is not known, and False."""
    try:
        poller = select.poll()
        poller.register(out.fileno(), 0)
        # Asked for nothing, it tells of errors alone.
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))
    except (OSError, ValueError):  # it is no file at all, or a closed one
        return False
