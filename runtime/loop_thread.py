"""An event loop in a thread of its own, for those who call from ordinary functions: the synchronous clients.

All of a process's clients share one (`shared_loop`): gRPC's asyncio side serves several loops at once only haltingly.
"""

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_STOP_SECONDS = 2.0


class LoopLost(Exception):
    """The loop does not run in this process: it was forked, or is about to end."""


class LoopThread:
    """A running loop. Its methods may be called from any thread but its own."""

    def __init__(self, name: str = "lograft-client") -> None:
        self._process_id = os.getpid()
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        # A daemon: a program that forgets to close a client must still be able to end.
        self._thread = threading.Thread(target=self._run, args=(started,), name=name, daemon=True)
        self._thread.start()
        started.wait()

    @property
    def is_alive(self) -> bool:
        """In this process, that is: a child has the object, but not the thread."""
        return self._process_id == os.getpid() and self._thread.is_alive() and not self._loop.is_closed()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(started.set)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What `coroutine` returns or raises, run on the loop. If the caller is interrupted, it is cancelled."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(
                "a callback on the client's own thread cannot wait for the client: it would do so for ever"
            )
        try:
            self._check()
            future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException:
            # Ctrl+C, most likely; what the coroutine itself raised leaves nothing to cancel.
            future.cancel()
            raise

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Have `callback` called on the loop, soon."""
        self._check()
        self._loop.call_soon_threadsafe(callback, *arguments)

    def _check(self) -> None:
        if not self.is_alive:
            forked = self._process_id != os.getpid()
            raise LoopLost(
                "this client was made before the process was forked: make another one in the child"
                if forked
                else "the process is ending, or the client's thread has"
            )

    def stop(self) -> None:
        """End the thread, and whatever still runs on the loop."""
        if not self.is_alive:
            return
        ended = asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop)
        try:
            ended.result(_STOP_SECONDS)
        except TimeoutError:
            pass  # the process ends anyway
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_SECONDS)


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


_shared: LoopThread | None = None
_making = threading.Lock()


def shared_loop() -> LoopThread:
    """The one that all clients of this process share; made when first asked for, ended with the process."""
    global _shared
    with _making:
        if _shared is None or not _shared.is_alive:
            _shared = LoopThread()
            atexit.register(_shared.stop)
        return _shared


class Inbox(Generic[T]):
    """Hands items from any thread to the loop, in order, and holds callers back while too much is on its way.

    `deliver` is called on the loop with all that has come since the last time. An item counts for its weight until the
    loop says `done`.
    """

    def __init__(self, loop: LoopThread, limit: int, deliver: Callable[[list[T]], None]) -> None:
        self._loop = loop
        self._limit = limit
        self._deliver = deliver
        self._items: deque[T] = deque()
        self._is_posted = False
        self._weight = 0
        self._room = threading.Condition()

    def put(self, item: T, weight: int, timeout_seconds: float) -> bool:
        """Whether it was taken: False if there was no room in time. What is heavier than the limit goes alone."""
        with self._room:
            if self._weight and self._weight + weight > self._limit:
                fits = self._room.wait_for(
                    lambda: self._weight == 0 or self._weight + weight <= self._limit, timeout_seconds
                )
                if not fits:
                    return False
            self._weight += weight
            self._items.append(item)
            must_post = not self._is_posted
            self._is_posted = True
        if must_post:
            self._loop.post(self._take)
        return True

    def _take(self) -> None:
        with self._room:
            items = list(self._items)
            self._items.clear()
            self._is_posted = False
        self._deliver(items)

    def done(self, weight: int) -> None:
        """On the loop: so much is not on its way any more."""
        with self._room:
            self._weight -= weight
            assert self._weight >= 0
            self._room.notify_all()
