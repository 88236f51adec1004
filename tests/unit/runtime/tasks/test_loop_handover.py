"""What threads leave for the loop is taken, even if they are interrupted while they say so."""

from collections.abc import Callable

import pytest

from lograft.runtime.tasks.loop_handover import LoopHandover


class Loop:
    """Is interrupted the first time it is asked for something."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []
        self._is_interrupted = True

    def post(self, callback: Callable[[], None]) -> None:
        if self._is_interrupted:
            self._is_interrupted = False
            raise KeyboardInterrupt
        self.posted.append(callback)


def test_who_is_interrupted_while_announcing_does_not_keep_others_from_it() -> None:
    loop, taken = Loop(), []
    handover = LoopHandover(loop, lambda: taken.append(True))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt), handover.lock:
        handover.announce()
    with handover.lock:
        handover.announce()
        handover.announce()
    assert len(loop.posted) == 1
    loop.posted[0]()
    assert taken == [True]
