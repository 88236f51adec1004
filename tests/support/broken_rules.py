"""Breaking a rule on purpose, and waiting for the simulator to notice."""

from collections.abc import Callable

import pytest

from lograft.chaos.harness.failures import InvariantBroken, NotLive
from lograft.chaos.raft.linearizability import NotLinearizable

CAUGHT = (InvariantBroken, NotLinearizable, NotLive, AssertionError)


def expect_noticed(
    monkeypatch: pytest.MonkeyPatch,
    break_rule: Callable[[pytest.MonkeyPatch], None],
    simulate: Callable[[int], object],
    seeds: int,
    quickest: int = 0,
) -> str:
    """What the simulator says of the first seed, of so many, that fails with the rule broken and passes otherwise.
    `quickest`: the seed that is known to; it is tried first, and the others only if it does not any more."""
    for seed in dict.fromkeys([quickest, *range(seeds)]):
        error = _failure(monkeypatch, break_rule, simulate, seed)
        if error is not None:
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:200]}")
            simulate(seed)
            return f"{type(error).__name__}: {error}"
    pytest.fail(f"not noticed in {seeds} seeds")


def _failure(
    monkeypatch: pytest.MonkeyPatch,
    break_rule: Callable[[pytest.MonkeyPatch], None],
    simulate: Callable[[int], object],
    seed: int,
) -> BaseException | None:
    with monkeypatch.context() as broken:
        break_rule(broken)
        try:
            simulate(seed)
        except CAUGHT as error:
            return error
    return None
