"""What the synchronous clients share: they hand all work to a loop in another thread, and wait for it."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from lograft.clients.errors import ClientClosed
from lograft.runtime.tasks.loop_thread import LoopLost, shared_loop

T = TypeVar("T")
P = ParamSpec("P")


class SyncClient:
    """May be used from any thread. Not from a child that was forked later: that gets `ClientClosed`."""

    def __init__(self) -> None:
        self._loop = shared_loop()

    def _wait(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """What the coroutine of `function` gives on the loop, where it is made."""
        try:
            return self._loop.run(function, *arguments, **named)
        except LoopLost as error:
            raise ClientClosed(str(error)) from None

    def _ask(self, function: Callable[[], T]) -> T:
        """What `function` gives on the loop, where what it looks at does not change meanwhile."""

        async def ask() -> T:
            return function()

        return self._wait(ask)
