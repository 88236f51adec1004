"""An event loop in a thread of its own, for the synchronous clients.

All clients of a process share one (`shared_loop`), because gRPC's asyncio API is slow with several loops at once.
"""

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_STOP_SECONDS = 2.0
_FORKED_CLIENT = "this client was made before the process was forked, and does not work in the child"


class LoopLost(Exception):
    """Raised when the loop does not run in this process, which was forked or is about to end."""


class LoopThread:
    """A running event loop. Its methods may be called from any thread but its own."""

    def __init__(self, name: str = "lograft-client") -> None:
        # True in a forked child, which has the object but not the thread. Plain, because every record checks it.
        self._is_forked = False
        self.is_alive = True
        self._last_wishes: dict[Callable[[], None], None] = {}
        self._loop = asyncio.new_event_loop()
        _loops.add(self)
        started = threading.Event()
        # A daemon thread: a program that forgets to close a client must still be able to end.
        self._thread = threading.Thread(target=self._run, args=(started,), name=name, daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(started.set)
        try:
            self._loop.run_forever()
        finally:
            self.is_alive = False
            self._loop.close()

    def forked(self) -> None:
        """Note that this is a forked child, which does not have the thread."""
        self._is_forked, self.is_alive = True, False

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """Call `function` on the loop, run its coroutine there, and return or raise the outcome. If the caller is
        interrupted, cancel the coroutine."""
        # Avoid `Future.result`: Ctrl+C while it retakes its lock would surface as a RuntimeError about the lock.
        return self.run_serving(SimpleQueue(), function, *arguments, **named)

    def run_serving(
        self,
        calls: "SimpleQueue[Callable[[], None] | None]",
        function: Callable[P, Coroutine[Any, Any, T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run like `run`, and meanwhile call the functions put into `calls`, in the calling thread."""
        begin, outcome = self._call(partial(function, *arguments, **named))
        outcome.add_done_callback(lambda _: calls.put(None))
        try:
            self._loop.call_soon_threadsafe(begin)
            while (wanted := calls.get()) is not None:
                wanted()
            return outcome.result()
        except BaseException:
            # Probably Ctrl+C. If the coroutine itself raised, there is nothing left to cancel.
            outcome.cancel()
            raise

    def begin(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Start the coroutine like `run`, and return a future of its outcome at once. Cancelling the future cancels the
        coroutine."""
        begin, outcome = self._call(partial(function, *arguments, **named))
        self._loop.call_soon_threadsafe(begin)
        return outcome

    def _call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> tuple[Callable[[], None], Future[T]]:
        """Return the function that starts the call on the loop, and the future of its outcome."""
        self.check_may_wait()
        self.check()
        outcome: Future[T] = Future()
        return _Call(self._loop, make, outcome).begin, outcome

    def check_may_wait(self) -> None:
        """Raise `RuntimeError` on the loop's own thread, which must not wait for the loop."""
        if self.is_current:
            raise RuntimeError(
                "a callback on the client's own thread cannot wait for the client: it would do so for ever"
            )

    @property
    def is_current(self) -> bool:
        """Return whether the caller runs on the loop's own thread."""
        return threading.current_thread() is self._thread

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Schedule a call of `callback` on the loop."""
        self.check()
        self._loop.call_soon_threadsafe(callback, *arguments)

    def check(self) -> None:
        """Raise `LoopLost` unless the loop runs in this process."""
        if not self.is_alive:
            raise LoopLost(_FORKED_CLIENT if self._is_forked else "the process is ending, or the client's thread has")

    def before_stop(self, wish: Callable[[], None]) -> None:
        """Call `wish` before the loop stops, on the thread that stops it, unless `take_back` removes it."""
        self._last_wishes[wish] = None

    def take_back(self, wish: Callable[[], None]) -> None:
        self._last_wishes.pop(wish, None)

    def stop(self) -> None:
        """End all tasks on the loop, and the thread."""
        if not self.is_alive:
            return
        with contextlib.suppress(KeyboardInterrupt):  # an impatient user
            for wish in list(self._last_wishes):
                wish()
        ended = asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop)
        try:
            ended.result(_STOP_SECONDS)
        except TimeoutError:
            pass  # the process ends anyway
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_SECONDS)


class _Call(Generic[T]):
    """A coroutine on the loop, with an `outcome` that another thread waits for.

    The coroutine is created on the loop: Python would warn about one created earlier and not handed over because of
    Ctrl+C."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]], outcome: Future[T]
    ) -> None:
        self._loop = loop
        self._make = make
        # Dropped once it is known. A future keeps its callbacks, and so refers to this object. With a reference back,
        # both, and the megabytes received, would stay in memory until the next garbage collection.
        self._outcome: Future[T] | None = outcome
        self._task: asyncio.Task[T] | None = None
        outcome.add_done_callback(self._given_up)

    def begin(self) -> None:
        outcome = self._outcome
        assert outcome is not None, "it has not begun"
        if outcome.cancelled():
            self._outcome = None
            return
        try:
            self._task = self._loop.create_task(self._make())
        except Exception as error:
            self._outcome = None
            if outcome.set_running_or_notify_cancel():
                outcome.set_exception(error)
        else:
            self._task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[T]) -> None:
        outcome, self._outcome, self._task = self._outcome, None, None
        assert outcome is not None, "it is done once"
        if task.cancelled():
            outcome.cancel()
        if not outcome.set_running_or_notify_cancel():
            return
        if (error := task.exception()) is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(task.result())

    def _given_up(self, outcome: Future[T]) -> None:
        """Cancel the task if the outcome was cancelled. Called on any thread."""
        if outcome.cancelled():
            with contextlib.suppress(RuntimeError):  # a closed loop has already ended it
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


_loops: "weakref.WeakSet[LoopThread]" = weakref.WeakSet()
_shared: LoopThread | None = None
_making = threading.Lock()


def _after_fork() -> None:
    global _making
    _making = threading.Lock()  # another thread of the parent may have held it
    for loop in list(_loops):
        loop.forked()


os.register_at_fork(after_in_child=_after_fork)


def shared_loop() -> LoopThread:
    """Return the loop shared by all clients of this process. Create it at the first call; it ends with the process."""
    global _shared
    with _making:
        if _shared is None or not _shared.is_alive:
            _shared = LoopThread()
            atexit.register(_shared.stop)
        return _shared


class CallBacks:
    """Lets a coroutine call functions in the thread that waits for it, and wait for their results."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self._waiting: list[SimpleQueue[Callable[[], None] | None]] = []  # the last belongs to the innermost `run`

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """Run like `LoopThread.run`, for a coroutine that uses `call`."""
        calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._waiting.append(calls)
        try:
            return self._loop.run_serving(calls, function, *arguments, **named)
        finally:
            self._waiting.pop()

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call `function` in the thread that waits for this coroutine, and return or raise its outcome. Await it on the
        loop."""
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def answer(result: T | None, error: Exception | None) -> None:
            if reply.done():
                return
            if error is not None:
                reply.set_exception(error)
            else:
                reply.set_result(result)  # type: ignore[arg-type]

        def call() -> None:
            try:
                result = function(*arguments)
            except Exception as error:
                self._loop.post(answer, None, error)
            else:
                self._loop.post(answer, result, None)

        self._waiting[-1].put(call)
        return await reply
