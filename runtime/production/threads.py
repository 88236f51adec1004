"""Threads beside the event loop: the production implementation of `blocking`. They share only queues with the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from lograft.runtime.blocking import Worker
from lograft.runtime.network import PanicHandler

T = TypeVar("T")
Operation = TypeVar("Operation")
R = TypeVar("R")


class _Close:
    """Queued after the last operation."""


class ThreadWorker(Generic[Operation, R]):
    """One thread that performs all waiting operations in rounds. Create, use and close it on the event loop.

    An exception from `perform` or `completed` is a broken invariant: the worker calls `on_panic` on the loop, and
    performs and completes nothing more.
    """

    def __init__(
        self,
        name: str,
        perform: Callable[[list[Operation]], R],
        completed: Callable[[R], None],
        on_panic: PanicHandler,
    ) -> None:
        self._perform = perform
        self._completed = completed
        self._on_panic = on_panic
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Operation | _Close] = SimpleQueue()
        self._panicked = False
        self._closing = False
        self._finished: asyncio.Future[None] = self._loop.create_future()
        # A daemon thread, so that a panicking node does not wait for a hanging disk.
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, operation: Operation) -> None:
        assert not self._closing, "submitted to a closed worker"
        self._queue.put(operation)

    async def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._queue.put(_Close())
        await asyncio.shield(self._finished)
        self._thread.join()

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            taken = [self._queue.get()]
            # Only this thread takes operations, so all that are counted are available.
            taken.extend(self._queue.get_nowait() for _ in range(self._queue.qsize()))
            operations = [operation for operation in taken if not isinstance(operation, _Close)]
            open_for_more = len(operations) == len(taken)
            if operations and not self._panicked and not self._perform_and_post(operations):
                return
        self._post(self._finish)

    def _perform_and_post(self, operations: list[Operation]) -> bool:
        """Perform the operations, and post the outcome to the loop. Return False if the loop is closed."""
        try:
            result = self._perform(operations)
        except BaseException as error:
            self._panicked = True
            return self._post(self._on_panic, error)
        return self._post(self._complete, result)

    def _post(self, callback: Callable[..., None], *arguments: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop was closed before the worker: the node has ended, and nothing waits for the outcome.
            return False
        return True

    def _complete(self, result: R) -> None:
        if self._panicked:
            return
        try:
            self._completed(result)
        except Exception as error:
            self._panicked = True
            self._on_panic(error)

    def _finish(self) -> None:
        self._finished.set_result(None)


class ThreadWorkers:
    """Creates the workers of one node, as a `WorkerFactory`. `close` closes those that their owners did not."""

    def __init__(self, on_panic: PanicHandler) -> None:
        self._on_panic = on_panic
        self._workers: list[ThreadWorker[Any, Any]] = []

    def __call__(self, name: str, perform: Callable[[list[Any]], R], completed: Callable[[R], None]) -> Worker[Any]:
        worker = ThreadWorker(name, perform, completed, self._on_panic)
        self._workers.append(worker)
        return worker

    async def close(self) -> None:
        for worker in self._workers:
            await worker.close()
        self._workers.clear()


class ThreadBlocking:
    """A pool of at most `max_threads` threads. Further work waits for a free one."""

    def __init__(self, max_threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="lograft-blocking")

    async def run_blocking(self, function: Callable[..., T], *arguments: Any) -> T:
        """Implement `Blocking`. Cancelling the caller does not stop a function that has started. Raise RuntimeError if
        the pool is closed."""
        return await asyncio.wrap_future(self._pool.submit(function, *arguments))

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        stopped = loop.create_future()

        def stop() -> None:
            self._pool.shutdown(wait=True)
            loop.call_soon_threadsafe(stopped.set_result, None)

        # Waiting for the pool blocks, and a thread of the pool cannot wait for itself, so use another thread.
        thread = Thread(target=stop, name="lograft-blocking-stop")
        thread.start()
        await asyncio.shield(stopped)
        thread.join()
