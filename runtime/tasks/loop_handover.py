"""A place where threads leave things for the loop, and wait while there is no room for more."""

import threading
from collections.abc import Callable

from lograft.runtime.tasks.loop_thread import LoopThread


class LoopHandover:
    """What is left there is the user's own affair: it is put there, and `take` takes it, while `lock` is held. `take`
    is called on the loop, soon after something was announced."""

    def __init__(self, loop: LoopThread, take: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.is_announced = False  # and not taken yet
        self._room = threading.Condition(self.lock)
        self._waiting = 0
        self._loop = loop
        self._take = take

    def announce(self) -> None:
        """With the lock held: have the loop come and take what is there. Does nothing if it is about to."""
        if not self.is_announced:
            # In this order: an interrupt between the two makes the loop come twice, and not never.
            self._loop.post(self.take)
            self.is_announced = True

    def take(self) -> None:
        """On the loop: take what is there now."""
        with self.lock:
            self.is_announced = False
            self._take()

    def wait_for_room(self, has_room: Callable[[], bool], timeout_seconds: float) -> bool:
        """With the lock held, which is given up meanwhile: whether there is room, at last. A callback on the loop does
        not wait: nobody else could make room."""
        if self._loop.is_current:
            return has_room()
        self._waiting += 1
        try:
            return self._room.wait_for(has_room, timeout_seconds)
        finally:
            self._waiting -= 1

    def made_room(self) -> None:
        """There may be more room than before: those who wait for it are to look. Without the lock."""
        if self._waiting:
            with self.lock:
                self._room.notify_all()
