"""An event loop on virtual time: when nothing is ready to run, its clock jumps to the next timer.

A program and a seed always give the same run, step by step, in any process. There are no sockets and no threads.
"""

import asyncio
import contextvars
import gc
import heapq
import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from itertools import count
from typing import Any, TypeVar

from lograft.chaos.world.crash import is_simulated_crash
from lograft.chaos.world.process import Process, process_of
from lograft.runtime.rng import Rng

T = TypeVar("T")

_STEPS_BETWEEN_COLLECTIONS = 200_000
_MAX_STEPS_AT_ONE_INSTANT = 300_000
_CLEANING_UP_STEPS = 1_000_000
_CALENDAR_START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class SimulationError(Exception):
    """A failure of a run other than an exception in its code."""


class SimulationDeadlock(SimulationError):
    """The run is not done, but no future event is scheduled."""


class SimulationOverrun(SimulationError):
    """The run exceeded its limit of steps or virtual time."""


class VirtualTask(asyncio.Task[T]):
    """A task whose hash is its number: asyncio keeps tasks in sets, whose order must not depend on addresses."""

    def __init__(self, number: int, coroutine: Any, **arguments: Any) -> None:
        self._number = number
        super().__init__(coroutine, **arguments)

    def __hash__(self) -> int:
        return self._number


class VirtualFuture(asyncio.Future[T]):
    """A future whose hash is its number, like that of a `VirtualTask`."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


# Sockets, signals and processes are left out and raise NotImplementedError; a type checker would require them.
_EventLoop: Any = asyncio.AbstractEventLoop


class VirtualLoop(_EventLoop):  # type: ignore[misc]
    """Runs callbacks in the order they became due; callbacks due together run in the order they were scheduled.

    An unhandled exception (in a callback, or in a task that nothing awaits) ends the run and is raised from it, unless
    it is a simulated crash.
    """

    def __init__(
        self, *, start_time: float = 0.0, max_steps: int | None = None, max_virtual_seconds: float | None = None
    ) -> None:
        self.steps = 0
        self._steps_at_last_advance = 0
        self._time = start_time
        self._max_steps = max_steps
        self._end_time = None if max_virtual_seconds is None else start_time + max_virtual_seconds
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count(1)
        self._task_names = count(1)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._generators: dict[int, weakref.ref[AsyncGenerator[Any, Any]]] = {}
        self._errors: list[BaseException] = []
        self._running = False
        self._stopping = False
        self._is_cleaning_up = False
        self._closed = False

    # -- scheduling

    def time(self) -> float:
        return self._time

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    # There are no other threads.
    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_open()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if when <= self._time:
            self._ready.append(timer)
        else:
            heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing. Loops must have this method; a cancelled timer is dropped when it becomes due."""

    def create_future(self) -> asyncio.Future[Any]:
        return VirtualFuture(next(self._numbers), loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_ignored: Any,
    ) -> asyncio.Task[T]:
        self._check_open()
        name = name or f"task-{next(self._task_names)}"
        task: asyncio.Task[T] = VirtualTask(next(self._numbers), coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def let_go_on(self, process: Process, rng: Rng) -> None:
        """Resume a stopped process. Everything that became due meanwhile becomes ready."""
        process.go_on(self._ready, rng)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        raise RuntimeError("no threads in a simulation: use the runtime's run_blocking")

    # -- running

    def run_until_complete(self, future: Any) -> Any:
        self._check_open()
        task: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        self._run(lambda: task.done(), task)
        return task.result()

    def run_forever(self) -> None:
        self._stopping = False
        self._run(lambda: self._stopping, None)

    def stop(self) -> None:
        self._stopping = True

    def _run(self, is_done: Callable[[], bool], main: asyncio.Future[Any] | None) -> None:
        assert not self._running, "the loop runs already"
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generator_started, finalizer=self._generator_dropped)
        self._running = True
        asyncio._set_running_loop(self)
        try:
            while not is_done():
                self._run_one()
                if self._errors and not self._is_cleaning_up:
                    self._raise_errors(main)
        finally:
            asyncio._set_running_loop(None)
            self._running = False
            sys.set_asyncgen_hooks(*hooks)

    def _run_one(self) -> None:
        if not self._ready:
            self._advance_time()
        handle = self._ready.popleft()
        if handle.cancelled():
            return
        process = process_of(handle._context)  # type: ignore[attr-defined]
        if process is not None and process.is_stopped:
            process.hold(handle)
            return
        self.steps += 1
        if self._max_steps is not None and self.steps > self._max_steps:
            raise SimulationOverrun(f"not done after {self._max_steps} steps, at {self._time:.3f} s")
        if self.steps - self._steps_at_last_advance > _MAX_STEPS_AT_ONE_INSTANT:
            raise SimulationOverrun(f"something spins: time stands still at {self._time:.3f} s;{self._waiting()}")
        if self.steps % _STEPS_BETWEEN_COLLECTIONS == 0 and not gc.isenabled():
            gc.collect()  # at fixed steps, because finalizers are part of the run
        handle._run()

    def _advance_time(self) -> None:
        """Jump to the next timer, and make all timers due by then ready."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise SimulationDeadlock(f"nothing can happen any more at {self._time:.3f} s; waiting:{self._waiting()}")
        self._time = self._timers[0][0]
        self._steps_at_last_advance = self.steps
        if self._end_time is not None and self._time > self._end_time:
            raise SimulationOverrun(f"not done at {self._end_time:.3f} s of virtual time; waiting:{self._waiting()}")
        while self._timers and self._timers[0][0] <= self._time:
            self._ready.append(heapq.heappop(self._timers)[2])

    def _waiting(self) -> str:
        lines = []
        for task in self._tasks:
            frames = task.get_stack()
            place = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "?"
            coroutine: Any = task.get_coro()
            lines.append(f"\n  {task.get_name()} {getattr(coroutine, '__qualname__', coroutine)} at {place}")
        return "".join(lines) or " no task"

    # -- errors

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            self._errors.append(SimulationError(f"{context['message']} ({context.get('task') or ''})"))
        elif not is_simulated_crash(error):
            error.add_note(f"in the simulation at {self._time:.3f} s: {context['message']}")
            self._errors.append(error)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def _raise_errors(self, main: asyncio.Future[Any] | None) -> None:
        errors, self._errors = self._errors, []
        if main is not None and main.done() and not main.cancelled() and (own := main.exception()) is not None:
            errors.insert(0, own)
        if len(errors) == 1:
            raise errors[0]
        raise BaseExceptionGroup("errors in the simulation", errors)

    # -- shutdown

    def cancel_leftovers(self) -> None:
        """Cancel all tasks, oldest first, and run until they end; then close unfinished generators.

        Errors raised meanwhile are kept for `raise_collected`.
        """
        self._is_cleaning_up = True
        self._steps_at_last_advance = self.steps
        self._max_steps = self.steps + _CLEANING_UP_STEPS
        self._end_time = None
        while leftovers := [task for task in self._tasks if not task.done()]:
            for task in leftovers:
                task.cancel()
            self.run_until_complete(asyncio.wait(leftovers))
            for task in leftovers:
                if not task.cancelled() and (error := task.exception()) is not None:
                    self.call_exception_handler(
                        {"message": f"{task.get_name()} failed when cancelled", "exception": error}
                    )
        self.run_until_complete(self.shutdown_asyncgens())

    async def shutdown_asyncgens(self) -> None:
        references, self._generators = list(self._generators.values()), {}
        for reference in references:
            if (generator := reference()) is not None:
                await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is no executor."""

    def raise_collected(self) -> None:
        """Raise the errors reported during cleanup, or by finalizers since."""
        if self._errors:
            self._raise_errors(None)

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        assert not self._running, "a running loop cannot be closed"
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Do nothing: asyncio's debug mode is about real time and threads."""

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the loop is closed")

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = weakref.ref(generator)

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators.pop(id(generator), None)
        if not self._closed:
            self.create_task(generator.aclose())


def run_virtual(
    main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]],
    *,
    start_time: float = 0.0,
    max_steps: int | None = None,
    max_virtual_seconds: float | None = None,
) -> T:
    """Run `main` in a new loop, cancel the tasks it leaves behind, and return its result.

    Garbage is collected only at fixed steps, and once at the end, to find failed tasks that nothing awaited.
    """
    loop = VirtualLoop(start_time=start_time, max_steps=max_steps, max_virtual_seconds=max_virtual_seconds)
    collects_by_itself = gc.isenabled()
    gc.disable()
    gc.freeze()  # existing objects are not part of the run, and need not be traversed
    try:
        return _run_to_the_end(loop, main)
    finally:
        loop.close()
        gc.unfreeze()
        if collects_by_itself:
            gc.enable()


def _run_to_the_end(loop: VirtualLoop, main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def start() -> T:
        return await (main() if callable(main) else main)

    try:
        result: T = loop.run_until_complete(loop.create_task(start(), name="main"))
    except BaseException as error:
        try:
            loop.cancel_leftovers()
            loop.raise_collected()
        except BaseException as another:
            error.add_note(f"then, while cleaning up: {another!r}")
        raise
    loop.cancel_leftovers()
    gc.collect()
    loop.raise_collected()
    return result


class VirtualClock:
    """A node's clock: the loop's time, at its own rate, with a calendar that may be wrong.

    `rate` is the number of this clock's seconds per second of the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rate: float = 1.0, wall_offset_ms: int = 0) -> None:
        assert rate > 0
        self._loop = loop
        self._rate = rate
        self._base_ms = 0.0
        self._base_time = 0.0
        self.wall_offset_ms = wall_offset_ms

    def wall_ms(self) -> int:
        return _CALENDAR_START_MS + self.wall_offset_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        # Round to the microsecond first: a sleep of 5 ms must not end at 4.999999.
        return round(self._now_ms() * 1000) // 1000

    def monotonic_seconds(self) -> float:
        return self._now_ms() / 1000

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / 1000 / self._rate)

    def set_rate(self, rate: float) -> None:
        """Change the rate from now on. Sleeps already begun end at their original time."""
        assert rate > 0
        self._base_ms, self._base_time = self._now_ms(), self._loop.time()
        self._rate = rate

    def _now_ms(self) -> float:
        return self._base_ms + (self._loop.time() - self._base_time) * 1000 * self._rate
