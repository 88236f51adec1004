"""Frees clients that were garbage-collected without being closed, with a ResourceWarning.

A client's background work must not refer to the client, or the client would never become garbage.
"""

import asyncio
import contextlib
import os
import warnings
import weakref
from collections.abc import Callable, Coroutine
from typing import Any


def when_dropped(client: object, end: Callable[[], Coroutine[Any, Any, None]], what: str) -> Callable[[], object]:
    """Run `end` on the running loop when `client` becomes garbage, unless the returned function is called first.
    `what`: the warning's text, naming the kind of client and the fate of its pending work."""
    finalizer = weakref.finalize(client, _dropped, asyncio.get_running_loop(), os.getpid(), end, what)
    finalizer.atexit = False  # process exit frees everything
    return finalizer.detach


def _dropped(
    loop: asyncio.AbstractEventLoop, process_id: int, end: Callable[[], Coroutine[Any, Any, None]], what: str
) -> None:
    """Run on any thread, possibly while it holds locks, so this must not block."""
    if os.getpid() != process_id:
        return  # a forked child has a copy of the client, but the loop belongs to its parent
    with contextlib.suppress(RuntimeError):  # a closed loop has already ended everything
        loop.call_soon_threadsafe(_begin, loop, end)
        warnings.warn(f"{what}; use it in a `with` block, or close it", ResourceWarning, stacklevel=2)


_ending: set[asyncio.Task[None]] = set()


def _begin(loop: asyncio.AbstractEventLoop, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
    task = loop.create_task(end(), name="end-dropped-client")
    _ending.add(task)
    task.add_done_callback(_ending.discard)
