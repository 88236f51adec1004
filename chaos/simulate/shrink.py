"""A run that fails, made smaller: fewer faults, shorter, fewer clients and operators, as long as it fails alike. Pure.

What is tried follows from what failed before, and from nothing else; only whether there is time left is asked.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lograft.chaos.simulate.case import Case
from lograft.chaos.simulate.run_result import RunResult

Run = Callable[[Case], RunResult]
T = TypeVar("T")

_SHARES = (8, 4, 2)  # of a duration: an eighth, a quarter, a half
_LEAST_MS = 200


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest that was found, and how many runs that took. `is_smallest`: nothing more could be left out."""

    case: Case
    outcome: RunResult
    runs: int
    is_smallest: bool


class OutOfTime(Exception):
    pass


class Shrinking:
    def __init__(self, case: Case, outcome: RunResult, run: Run, is_time_left: Callable[[], bool]) -> None:
        """`outcome`: of `case`, which failed."""
        assert outcome.failure is not None, "only what fails is made smaller"
        self._kind = outcome.failure.kind
        self._run = run
        self._is_time_left = is_time_left
        self._runs = 0
        self._in_vain: dict[Case, None] = {}  # those that do not fail alike
        self._case, self._outcome = case, outcome

    def shrink(self) -> Shrunk:
        """Again and again, until nothing more can be left out, or there is no time left."""
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
        """Alike? Then that is what is made smaller from now on."""
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

    # -- shorter

    def _shorten(self) -> bool:
        duration_ms = self._outcome.duration_ms
        for share in _SHARES:
            shorter_ms = max(_LEAST_MS, duration_ms // share)
            if shorter_ms < self._outcome.duration_ms and self._fails(self._with(duration_ms=shorter_ms)):
                return True
        return False

    # -- fewer faults

    def _fewer_faults(self) -> bool:
        """Whole halves at once, then less and less (ddmin)."""
        before = len(self._outcome.faults)
        left = self._without_each(self._outcome.faults, lambda faults: self._with(only_faults=faults))
        if self._case.selection.only_faults != left:
            self._fails(self._with(only_faults=left))  # as the command names them: those that took place
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
        """All of a kind, then one by one."""
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
