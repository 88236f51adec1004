"""Shrinks a failing run: fewer faults, a shorter duration, fewer clients and operators, while it fails alike. Pure.

Each attempt follows only from the outcomes of earlier ones. The only outside input is whether time is left.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lograft.chaos.simulate.case import Case
from lograft.chaos.simulate.run_result import RunResult

Run = Callable[[Case], RunResult]
T = TypeVar("T")

_SHARES = (8, 4, 2)  # an eighth, a quarter, a half of the duration
_LEAST_MS = 200


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest run found, and the number of runs that took. `is_smallest`: nothing more can be left out."""

    case: Case
    outcome: RunResult
    runs: int
    is_smallest: bool


class OutOfTime(Exception):
    pass


class Shrinking:
    def __init__(self, case: Case, outcome: RunResult, run: Run, is_time_left: Callable[[], bool]) -> None:
        """Shrink `case`, whose run failed with `outcome`."""
        assert outcome.failure is not None, "only what fails is made smaller"
        self._kind = outcome.failure.kind
        self._run = run
        self._is_time_left = is_time_left
        self._runs = 0
        self._in_vain: dict[Case, None] = {}  # cases that do not fail alike
        self._case, self._outcome = case, outcome

    def shrink(self) -> Shrunk:
        """Shrink repeatedly, until nothing more can be left out or no time is left."""
        is_smallest = False
        try:
            is_smaller = True
            while is_smaller:
                is_smaller = any([self._shorten(), self._fewer_faults(), self._fewer_clients()])
            is_smallest = True
        except OutOfTime:
            pass
        return Shrunk(self._case, self._outcome, self._runs, is_smallest)

    def _fails(self, case: Case) -> bool:
        """Return whether `case` fails alike. If so, make it the current case. Raise `OutOfTime` if time is up."""
        if case in self._in_vain:
            return False
        if not self._is_time_left():
            raise OutOfTime
        self._runs += 1
        outcome = self._run(case)
        if outcome.failure is None or outcome.failure.kind != self._kind:
            self._in_vain[case] = None
            return False
        self._case, self._outcome = case, outcome
        return True

    # -- shorter duration

    def _shorten(self) -> bool:
        duration_ms = self._outcome.duration_ms
        for share in _SHARES:
            shorter_ms = max(_LEAST_MS, duration_ms // share)
            if shorter_ms < self._outcome.duration_ms and self._fails(self._with(duration_ms=shorter_ms)):
                return True
        return False

    # -- fewer faults

    def _fewer_faults(self) -> bool:
        """Leave out faults: halves first, then smaller and smaller pieces (ddmin)."""
        before = len(self._outcome.faults)
        left = self._without_each(self._outcome.faults, lambda faults: self._with(only_faults=faults))
        if self._case.selection.only_faults != left:
            self._fails(self._with(only_faults=left))  # the command then names exactly the faults that took place
        return len(self._outcome.faults) < before

    def _without_each(self, items: tuple[T, ...], case_of: Callable[[tuple[T, ...]], Case]) -> tuple[T, ...]:
        parts = 2
        while items:
            parts = min(parts, len(items))
            for piece in _split(items, parts):
                fewer = tuple(one for one in items if one not in piece)
                if self._fails(case_of(fewer)):
                    items, parts = fewer, max(2, parts - 1)
                    break
            else:
                if parts == len(items):
                    break
                parts *= 2
        return items

    # -- fewer clients

    def _fewer_clients(self) -> bool:
        """Leave out all clients of one kind together, then clients one by one."""
        before = len(self._outcome.clients)
        for some in _kinds(self._outcome.clients):
            self._without_clients(some)
        for name in self._outcome.clients:
            self._without_clients((name,))
        return len(self._outcome.clients) < before

    def _without_clients(self, names: tuple[str, ...]) -> None:
        left_out = tuple(sorted({*self._case.selection.without_clients, *names}))
        if left_out != self._case.selection.without_clients:
            self._fails(self._with(without_clients=left_out))

    def _with(self, **changes: object) -> Case:
        return Case(self._case.seed, replace(self._case.selection, **changes))  # type: ignore[arg-type]


def _split(items: Sequence[T], parts: int) -> Iterator[tuple[T, ...]]:
    for part in range(parts):
        yield tuple(items[len(items) * part // parts : len(items) * (part + 1) // parts])


def _kinds(names: Sequence[str]) -> list[tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.rstrip("0123456789"), []).append(name)
    return [tuple(some) for some in found.values()]
