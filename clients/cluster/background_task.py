"""The background work of one client: started by `start`, ended by `close`, and never lost silently."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from lograft.clients.errors import ClientClosed, Internal, LograftError, WrongCluster
from lograft.runtime.production.client_runtime import ForkedTooLate, client_runtime
from lograft.runtime.world import Runtime


def open_runtime(given: Runtime | None) -> Runtime:
    """Return the given runtime, or the client runtime. Raise `ClientClosed` in a process forked too late for one."""
    try:
        return given or client_runtime()
    except ForkedTooLate as error:
        raise ClientClosed(str(error)) from None


class ClientTask:
    """Owns the task that is the parent of all of a client's tasks."""

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._name = name
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def check_may_start(self) -> None:
        """Raise `ClientClosed` if it was closed."""
        if self._is_closed:
            raise ClientClosed(f"the {self._name} is closed: make another one")

    def start(self) -> None:
        self.check_may_start()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name=f"lograft-{self._name}")

    @property
    def is_running(self) -> bool:
        """True if it was started and not closed."""
        return self._task is not None and not self._is_closed

    def closing(self) -> None:
        """Make `check` raise `ClientClosed` from now on."""
        self._is_closed = True

    def check(self) -> None:
        """Raise `ClientClosed` or the failure unless the task runs."""
        if self._is_closed or self._task is None:
            state = "closed: make another one" if self._is_closed else "not started: use `async with`, or await start()"
            raise ClientClosed(f"the {self._name} is {state}")
        failure = self.failure
        if failure is not None:
            raise failure

    @property
    def failure(self) -> LograftError | None:
        """Why the task ended without being closed: the cluster was replaced by another, or a bug."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        error = self._task.exception()
        wrong = _wrong_cluster(error)
        if wrong is not None:
            return WrongCluster(wrong.message)
        failure = Internal(f"the {self._name} has failed, which is a bug: {error!r}")
        failure.__cause__ = error
        return failure

    def when_failed(self, callback: Callable[[LograftError], None]) -> None:
        """Call `callback` if the task ends without being closed."""
        assert self._task is not None

        def ended(_: asyncio.Task[None]) -> None:
            if self.failure is not None:
                callback(self.failure)

        self._task.add_done_callback(ended)

    async def close(self) -> None:
        """Cancel the task and wait for it to end."""
        self._is_closed = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])


def _wrong_cluster(error: BaseException | None) -> WrongCluster | None:
    """Return the `WrongCluster` that every one of a client's tasks failed with; None if any failed otherwise."""
    if isinstance(error, BaseExceptionGroup):
        found = [_wrong_cluster(each) for each in error.exceptions]
        return found[0] if all(found) else None
    return error if isinstance(error, WrongCluster) else None
