"""The base of the synchronous clients: they run all work on an event loop in another thread and wait for it."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from lograft.clients.errors import ClientClosed
from lograft.runtime.tasks.loop_thread import LoopLost, shared_loop

T = TypeVar("T")
P = ParamSpec("P")


class SyncClient:
    """May be used from any thread, but not from a child process forked later, which gets `ClientClosed`."""

    def __init__(self) -> None:
        self._loop = shared_loop()

    def _wait(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """Call `function` on the loop, await its coroutine there, and return the result."""
        try:
            return self._loop.run(function, *arguments, **named)
        except LoopLost as error:
            raise ClientClosed(str(error)) from None

    def _ask(self, function: Callable[[], T]) -> T:
        """Call `function` on the loop, where its data cannot change meanwhile, and return the result."""

        async def ask() -> T:
            return function()

        return self._wait(ask)
