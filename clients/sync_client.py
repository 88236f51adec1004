"""What the synchronous clients share: they hand all work to a loop in another thread, and wait for it."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from lograft.clients.errors import ClientClosed
from lograft.runtime.loop_thread import LoopLost, shared_loop

T = TypeVar("T")


class SyncClient:
    """May be used from any thread. Not from a child that was forked later: that gets `ClientClosed`."""

    def __init__(self) -> None:
        self._loop = shared_loop()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run(coroutine)
        except LoopLost as error:
            raise ClientClosed(str(error)) from None

    def _ask(self, function: Callable[[], T]) -> T:
        """What `function` gives on the loop, where what it looks at does not change meanwhile."""

        async def ask() -> T:
            return function()

        return self._wait(ask())
