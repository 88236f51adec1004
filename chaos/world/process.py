"""A process of a simulated node: all that runs on its behalf can be told from the rest, and stopped (SIGSTOP).

Whatever a process starts (tasks, timers, callbacks) carries its context, and what arrives for it over the network is
delivered in it. While it is stopped, what becomes due waits; its time goes on all the same.
"""

import asyncio
from collections import deque
from contextvars import Context, ContextVar, copy_context

from lograft.runtime.rng import Rng


class Process:
    """Start its main task in `context`."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.context: Context = copy_context()
        self.context.run(_CURRENT.set, self)
        self._held: deque[asyncio.Handle] = deque()
        self._waiting: list[asyncio.Future[None]] = []

    def stop(self) -> None:
        """Nothing of it runs from now on."""
        self.is_stopped = True

    def hold(self, handle: asyncio.Handle) -> None:
        """It is due, and waits."""
        self._held.append(handle)

    def go_on(self, ready: "deque[asyncio.Handle]", rng: Rng) -> None:
        """All that became due meanwhile is `ready`: as it came, or the timers first, as a loop may look at its clock
        before it looks at its sockets."""
        self.is_stopped = False
        held, self._held = self._held, deque()
        if rng.random() < 0.5:
            timers = [handle for handle in held if isinstance(handle, asyncio.TimerHandle)]
            others = [handle for handle in held if not isinstance(handle, asyncio.TimerHandle)]
            held = deque((*timers, *others))
        ready.extend(held)
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def until_running(self) -> None:
        while self.is_stopped:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter


_CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process on whose behalf this runs; None: the world around them."""
    return _CURRENT.get()


def process_of(context: Context) -> Process | None:
    return context.get(_CURRENT)
