"""Crash points of a simulated node: the calls at which it may crash, and the code that made them."""

import contextlib
import re
import sys
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from lograft.runtime.rng import Rng

T = TypeVar("T")

_RECENT_CALLS = 200

_OURS = "lograft."
_SIMULATED = "lograft.chaos."
_OUTSIDE_WORLD = "lograft.runtime."
_NAMES = re.compile(r"\.[0-9a-f]{32}|\d+")


class SimulatedCrash(BaseException):
    """Unwinds all running code of a crashed node. Not an `Exception`, so that no code of the node can survive it."""


def is_simulated_crash(error: BaseException) -> bool:
    """Return whether `error` is a crash, or a group that contains only crashes."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_simulated_crash(inner) for inner in error.exceptions)
    return isinstance(error, SimulatedCrash)


class _Moment(Enum):
    BEFORE = "nothing of the call happened"
    MIDDLE = "part of it did"
    AFTER = "all of it did, but the caller never learns"


class CrashPoints:
    """Numbers calls from 1. After one has crashed, every later call raises `SimulatedCrash` until `restart`."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._crash_at: int | None = None
        self._crash_probability = 0.0
        self.calls = 0
        self.recent: deque[str] = deque(maxlen=_RECENT_CALLS)  # e.g. "17 write 00000.log", printed with a failure
        self.crashed = False
        self.on_crash: Callable[[str], None] | None = None

    def crash_at(self, call: int) -> None:
        """Crash in the call with this number, which must not have happened yet."""
        assert call > self.calls, "that call is past"
        self._crash_at = call

    def crash_with(self, probability: float) -> None:
        """Crash in each call with this probability."""
        self._crash_probability = probability

    def restart(self) -> None:
        """Let calls through again, and disarm all crashes."""
        self.crashed = False
        self._crash_at = None
        self._crash_probability = 0.0

    def check_alive(self) -> None:
        if self.crashed:
            raise SimulatedCrash(f"after the crash: {self.recent[-1]}" if self.recent else "after the crash")

    def call(self, name: str, effect: Callable[[], T], partial: Callable[[], object] | None = None) -> T:
        """Return `effect()`, unless this call crashes. `partial` performs part of the effect, where it has parts."""
        self.check_alive()
        self.calls += 1
        self.recent.append(f"{self.calls} {name}")
        if not self._is_chosen():
            return effect()
        moment = self._rng.choice(list(_Moment))
        # The process dies in this call, so it never sees the call's error.
        with contextlib.suppress(OSError):
            if moment is _Moment.AFTER:
                effect()
            elif moment is _Moment.MIDDLE and partial is not None:
                partial()
        self.crashed = True
        if self.on_crash is not None:
            self.on_crash(self.recent[-1])
        raise SimulatedCrash(f"{moment.name.lower()} call {self.recent[-1]}")

    def _is_chosen(self) -> bool:
        if self.calls == self._crash_at:
            return True
        return self._crash_probability > 0 and self._rng.random() < self._crash_probability


def calling_code() -> str:
    """Return the innermost production function on the stack, such as `storage.log.truncate`. Fall back to a function of
    `runtime` only if there is no other."""
    frame, outermost = sys._getframe(1), ""
    while frame.f_back is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        place = f"{module.removeprefix(_OURS)}.{name}"
        if module.startswith(_OURS) and not module.startswith((_SIMULATED, _OUTSIDE_WORLD)):
            return place
        if module.startswith(_OUTSIDE_WORLD) and not outermost:
            outermost = place
        frame = frame.f_back
    return outermost or "?"


def without_numbers(call: str) -> str:
    """Strip call number and numbered names: `17 write 00000000000000000042.log` becomes `write *.log`."""
    return _NAMES.sub("*", call.partition(" ")[2])
