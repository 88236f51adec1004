"""An event loop in a thread of its own, for synchronous callers: the synchronous clients.

All of a process's clients share one (`shared_loop`): gRPC's asyncio side serves several loops at once only haltingly.
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
    """The loop does not run in this process: it was forked, or is about to end."""


class LoopThread:
    """A running loop. Its methods may be called from any thread but its own."""

    def __init__(self, name: str = "lograft-client") -> None:
        # In this process, that is: a child has the object, but not the thread. Plain, because each record looks at it.
        self._is_forked = False
        self.is_alive = True
        self._last_wishes: dict[Callable[[], None], None] = {}
        self._loop = asyncio.new_event_loop()
        _loops.add(self)
        started = threading.Event()
        # A daemon: a program that forgets to close a client must still be able to end.
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
        """In a child, which has no thread of this."""
        self._is_forked, self.is_alive = True, False

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """Run the coroutine that `function` returns on the loop, and return or raise its outcome. `function` is called
        on the loop; if the caller is interrupted, the coroutine is cancelled."""
        # Not `Future.result`: Ctrl+C while that takes its lock again would come out as a RuntimeError about the lock.
        return self.run_serving(SimpleQueue(), function, *arguments, **named)

    def run_serving(
        self,
        calls: "SimpleQueue[Callable[[], None] | None]",
        function: Callable[P, Coroutine[Any, Any, T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """As `run`; what is put into `calls` meanwhile is called by the thread that waits."""
        begin, outcome = self._call(partial(function, *arguments, **named))
        outcome.add_done_callback(lambda _: calls.put(None))
        try:
            self._loop.call_soon_threadsafe(begin)
            while (wanted := calls.get()) is not None:
                wanted()
            return outcome.result()
        except BaseException:
            # Ctrl+C, most likely; what the coroutine itself raised leaves nothing to cancel.
            outcome.cancel()
            raise

    def begin(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """As `run`, while the caller goes on. Whoever cancels the future cancels the coroutine."""
        begin, outcome = self._call(partial(function, *arguments, **named))
        self._loop.call_soon_threadsafe(begin)
        return outcome

    def _call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> tuple[Callable[[], None], Future[T]]:
        """What begins it on the loop, and what will come of it."""
        self.check_may_wait()
        self.check()
        outcome: Future[T] = Future()
        return _Call(self._loop, make, outcome).begin, outcome

    def check_may_wait(self) -> None:
        """`RuntimeError` on its own thread."""
        if self.is_current:
            raise RuntimeError(
                "a callback on the client's own thread cannot wait for the client: it would do so for ever"
            )

    @property
    def is_current(self) -> bool:
        """Whether it is this thread that asks."""
        return threading.current_thread() is self._thread

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Have `callback` called on the loop, soon."""
        self.check()
        self._loop.call_soon_threadsafe(callback, *arguments)

    def check(self) -> None:
        """`LoopLost` unless it runs, in this process."""
        if not self.is_alive:
            raise LoopLost(_FORKED_CLIENT if self._is_forked else "the process is ending, or the client's thread has")

    def before_stop(self, wish: Callable[[], None]) -> None:
        """Call `wish` when the loop is to be stopped, on the thread that does so, unless it is taken back."""
        self._last_wishes[wish] = None

    def take_back(self, wish: Callable[[], None]) -> None:
        self._last_wishes.pop(wish, None)

    def stop(self) -> None:
        """End the thread, and whatever still runs on the loop."""
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
    """A coroutine on the loop, for whoever waits for its `outcome` on another thread.

    It is made on the loop: one that is made before, and not handed over because of Ctrl+C, Python would tell of."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]], outcome: Future[T]
    ) -> None:
        self._loop = loop
        self._make = make
        # Until it is known. A future keeps what is to be called when it is done, so it has a hold on this: with one on
        # it, both, and the megabytes that were received, would stay until the next garbage collection.
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
        """On whichever thread has cancelled it, if somebody has."""
        if outcome.cancelled():
            with contextlib.suppress(RuntimeError):  # a loop that is closed has ended it
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
    _making = threading.Lock()  # some other thread of the parent's may have had it
    for loop in list(_loops):
        loop.forked()


os.register_at_fork(after_in_child=_after_fork)


def shared_loop() -> LoopThread:
    """Return the one that all clients of this process share; made when first asked for, ended with the process."""
    global _shared
    with _making:
        if _shared is None or not _shared.is_alive:
            _shared = LoopThread()
            atexit.register(_shared.stop)
        return _shared


class CallBacks:
    """Has functions called by the thread that waits for a coroutine, which waits for them."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self._waiting: list[SimpleQueue[Callable[[], None] | None]] = []  # the last is that of who waits now

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """As `LoopThread.run`, for a coroutine that uses `call`."""
        calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._waiting.append(calls)
        try:
            return self._loop.run_serving(calls, function, *arguments, **named)
        finally:
            self._waiting.pop()

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """On the loop: what `function` returns or raises, in the thread that waits for this."""
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
