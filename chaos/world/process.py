"""A process of a simulated node, so that everything it runs can be identified, and stopped (SIGSTOP).

Everything a process starts (tasks, timers, callbacks) carries its context, and the network delivers frames for it in
that context. While it is stopped, due callbacks wait, but its time continues.
"""

import asyncio
from collections import deque
from contextvars import Context, ContextVar, copy_context

from lograft.runtime.rng import Rng


class Process:
    """A process. Start its main task in `context`."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.context: Context = copy_context()
        self.context.run(_CURRENT.set, self)
        self._held: deque[asyncio.Handle] = deque()
        self._waiting: list[asyncio.Future[None]] = []

    def stop(self) -> None:
        """Run none of its callbacks from now on."""
        self.is_stopped = True

    def hold(self, handle: asyncio.Handle) -> None:
        """Keep a callback that is due until the process continues."""
        self._held.append(handle)

    def go_on(self, ready: "deque[asyncio.Handle]", rng: Rng) -> None:
        """Continue. Append everything that became due meanwhile to `ready`: in order, or timers first, because a loop
        may check its clock before its sockets."""
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
    """Return the process that runs this code, or None if it runs for the simulated world itself."""
    return _CURRENT.get()


def process_of(context: Context) -> Process | None:
    return context.get(_CURRENT)
