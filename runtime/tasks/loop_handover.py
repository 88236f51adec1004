"""A handover of data from threads to the event loop, with back pressure."""

import threading
from collections.abc import Callable

from lograft.runtime.tasks.loop_thread import LoopThread


class LoopHandover:
    """The user owns the data, and adds and takes it while holding `lock`. The handover calls `take` on the event loop
    soon after an announcement."""

    def __init__(self, loop: LoopThread, take: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.is_announced = False  # announced and not taken yet
        self._room = threading.Condition(self.lock)
        self._waiting = 0
        self._loop = loop
        self._take = take

    def announce(self) -> None:
        """Schedule `take` on the event loop, unless it is already scheduled. Call it with the lock held."""
        if not self.is_announced:
            # In this order, an interrupt in between makes the loop take twice instead of never.
            self._loop.post(self.take)
            self.is_announced = True

    def take(self) -> None:
        """Take the available data, on the event loop."""
        with self.lock:
            self.is_announced = False
            self._take()

    def wait_for_room(self, has_room: Callable[[], bool], timeout_seconds: float) -> bool:
        """Wait for room, with the lock released meanwhile, and return whether there is room. Call it with the lock
        held. Do not wait in a callback on the event loop, because only the loop makes room."""
        if self._loop.is_current:
            return has_room()
        self._waiting += 1
        try:
            return self._room.wait_for(has_room, timeout_seconds)
        finally:
            self._waiting -= 1

    def made_room(self) -> None:
        """Wake the threads that wait for room. Call it without the lock."""
        if self._waiting:
            with self.lock:
                self._room.notify_all()
