"""Clients that nobody closed, and nobody has any more: what they hold is freed, and Python's ResourceWarning says so.

A client's background work knows nothing of the client, or it would never be garbage.
"""

import asyncio
import contextlib
import os
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Any


def when_dropped(client: object, end: Callable[[], Coroutine[Any, Any, None]], what: str) -> Callable[[], object]:
    """On the running loop: `end` is run there if `client` becomes garbage, unless what this returns is called before.
    `what`: kind of client it is, and what becomes of what it had to do."""
    finalizer = weakref.finalize(client, _dropped, asyncio.get_running_loop(), os.getpid(), end, what)
    finalizer.atexit = False  # a program that ends frees all
    return finalizer.detach


def _dropped(
    loop: asyncio.AbstractEventLoop, process_id: int, end: Callable[[], Coroutine[Any, Any, None]], what: str
) -> None:
    """On any thread, at any moment, whatever is locked there: so nothing is waited for."""
    if os.getpid() != process_id:
        return  # a forked child has a copy, and the loop is its parent's
    with contextlib.suppress(RuntimeError):  # a loop that is closed has ended all
        loop.call_soon_threadsafe(_begin, loop, end)
        warnings.warn(f"{what}; use it in a `with` block, or close it", ResourceWarning, stacklevel=2)


_ending: set[asyncio.Task[None]] = set()


def _begin(loop: asyncio.AbstractEventLoop, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
    task = loop.create_task(end(), name="end-dropped-client")
    _ending.add(task)
    task.add_done_callback(_ending.discard)
