"""Simulated worker threads: work runs on the loop, in one step, after a random delay of virtual time."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lograft.chaos.world.crash import SimulatedCrash
from lograft.runtime.blocking import Worker
from lograft.runtime.rng import Rng

T = TypeVar("T")
Operation = TypeVar("Operation")
R = TypeVar("R")

_NOTICE_MS = 0.05  # the loop is notified of a finished operation within this time


class DiskSpeed:
    """The speed of one node's disk: mostly under a millisecond, occasionally twenty, multiplied by `slowdown`."""

    def __init__(self, rng: Rng, slowdown: float = 1.0) -> None:
        self._rng = rng
        self.slowdown = slowdown

    def work_s(self) -> float:
        milliseconds = self._rng.uniform(0.05, 1) if self._rng.random() < 0.9 else self._rng.uniform(1, 20)
        return milliseconds * self.slowdown / 1000

    def notice_s(self) -> float:
        return self._rng.uniform(0, _NOTICE_MS) / 1000


class VirtualWorker(Generic[Operation, R]):
    """Performs queued operations in order, then notifies the loop. Any error it raises reaches the loop's exception
    handler.

    As with a thread, a round may start before the previous one is reported. `kill` ends the worker at any point; after
    that, calls by its node's code raise `SimulatedCrash`.
    """

    def __init__(
        self,
        perform: Callable[[list[Operation]], R],
        completed: Callable[[R], None],
        rng: Rng,
        speed: DiskSpeed,
    ) -> None:
        self._perform = perform
        self._completed = completed
        self._rng = rng
        self._speed = speed
        self._loop = asyncio.get_running_loop()
        self._queue: list[Operation] = []
        self._round_is_due = False
        self._results: deque[R] = deque()
        self._closing = False
        self._idle: asyncio.Future[None] = self._loop.create_future()
        self._killed = False

    def submit(self, operation: Operation) -> None:
        self._check_alive()
        assert not self._closing, "submitted to a closed worker"
        self._queue.append(operation)
        self._start_round()

    async def close(self) -> None:
        self._check_alive()
        self._closing = True
        self._finish_if_idle()
        await asyncio.shield(self._idle)

    def kill(self) -> None:
        """Drop everything submitted, and notify no caller."""
        self._killed = True
        self._queue.clear()
        self._results.clear()

    def _check_alive(self) -> None:
        if self._killed:
            raise SimulatedCrash("the worker's node has crashed")

    def _start_round(self) -> None:
        if self._queue and not self._round_is_due:
            self._round_is_due = True
            self._loop.call_later(self._speed.work_s(), self._run_round)

    def _run_round(self) -> None:
        self._round_is_due = False
        if self._killed:
            return
        # A thread may look at its queue before the last operations were submitted.
        count = len(self._queue) if self._rng.random() < 0.75 else self._rng.randint(1, len(self._queue))
        operations = self._queue[:count]
        del self._queue[:count]
        try:
            result = self._perform(operations)
        except BaseException:
            self.kill()
            raise
        self._results.append(result)
        self._loop.call_later(self._speed.notice_s(), self._report)
        self._start_round()

    def _report(self) -> None:
        if self._killed:
            return
        # The timers of two rounds may fire out of order; their results are reported in order.
        try:
            self._completed(self._results.popleft())
        except BaseException:
            self.kill()
            raise
        self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        if self._closing and not self._queue and not self._results and not self._idle.done():
            self._idle.set_result(None)


class VirtualWorkers:
    """Creates the workers of one simulated node (`WorkerFactory`). They die together."""

    def __init__(self, rng: Rng, speed: DiskSpeed) -> None:
        self._rng = rng
        self._speed = speed
        self._workers: list[VirtualWorker[Any, Any]] = []

    def __call__(self, name: str, perform: Callable[[list[Any]], R], completed: Callable[[R], None]) -> Worker[Any]:
        worker = VirtualWorker(perform, completed, self._rng.fork(), self._speed)
        self._workers.append(worker)
        return worker

    def kill(self) -> None:
        """Kill all workers with their node."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()


class VirtualBlocking:
    """Runs functions inline, after a delay. As with a thread, cancelling the caller does not stop the function."""

    def __init__(self, speed: DiskSpeed) -> None:
        self._speed = speed
        self._running: dict[asyncio.Future[Any], asyncio.TimerHandle] = {}
        self._idle: asyncio.Future[None] | None = None
        self._closed = False
        self._killed = False

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._killed:
            raise SimulatedCrash("the node has crashed")
        if self._closed:
            raise RuntimeError("no new work after close")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._running[done] = loop.call_later(self._speed.work_s(), self._run, done, function, arguments)
        return await done

    def _run(self, done: "asyncio.Future[T]", function: Callable[..., T], arguments: tuple[Any, ...]) -> None:
        del self._running[done]
        try:
            result = function(*arguments)
        except BaseException as error:
            if not done.done():
                done.set_exception(error)
            elif isinstance(error, SimulatedCrash):
                raise  # no caller waits for it, but it must not be lost
        else:
            if not done.done():
                done.set_result(result)
        if self._idle is not None and not self._running and not self._idle.done():
            self._idle.set_result(None)

    async def close(self) -> None:
        if self._killed:
            raise SimulatedCrash("the node has crashed")
        self._closed = True
        if self._running:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def kill(self) -> None:
        """Cancel all functions that have not run, and notify no caller."""
        self._killed = True
        for handle in self._running.values():
            handle.cancel()
        self._running.clear()
