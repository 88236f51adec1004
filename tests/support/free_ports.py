"""Ports of this machine that nobody has, and that no other test gets, in whatever process it runs.

To look whether one is free is not enough: between the look and its use, another test may look, too.
"""

import atexit
import contextlib
import itertools
import os
import socket
from collections.abc import Iterator

PORTS_OF_DEV = 51
"""In a row, from that of the first node's clients: what `lograft dev up` takes."""

# Below the ephemeral ports, so that no outgoing connection takes one; apart from where other tests look.
_FIRST, _LAST = 5_000, 12_000
_tries = itertools.count(os.getpid() * 61)
_held = contextlib.ExitStack()
atexit.register(_held.close)


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


def free_port(count: int = 1) -> int:
    """The first of so many in a row."""
    choices = _LAST - _FIRST - count
    for number in itertools.islice(_tries, choices):
        first = _FIRST + number % choices
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError):
            for port in range(first, first + count):
                taken.enter_context(_taken(port))
            _held.push(taken.pop_all())
            return first
    raise AssertionError("there are no ports left")


@contextlib.contextmanager
def _taken(port: int) -> Iterator[None]:
    """OSError if somebody else has it. A name without a file is the sign: it goes with the process."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as sign:
        sign.bind(f"\0lograft-tests-port-{port}")
        with contextlib.closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", port))
        yield
