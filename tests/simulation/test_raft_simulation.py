"""Simulated Raft clusters: some seeds, and those that once failed. `make sim` and `make soak` run others."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.seeds import seeds

from lograft.chaos.raft.core_simulation import simulate_cores
from lograft.chaos.raft.node_simulation import simulate_nodes
from lograft.chaos.raft.run import RaftRun


def cores(seed: int) -> RaftRun:
    return simulate_cores(seed)


def messages(seed: int) -> RaftRun:
    return simulate_nodes(seed, is_streamed=False)


def streams(seed: int) -> RaftRun:
    return simulate_nodes(seed, is_streamed=True)


TIERS: dict[str, Callable[[int], RaftRun]] = {"cores": cores, "messages": messages, "streams": streams}

REPLAYED_SEED = 9  # short, with elections and crashes

# Found by the simulator; each failed before its cause was mended.
REGRESSIONS: list[tuple[str, int, str]] = [
    ("cores", 1, "an append was lost, and the leader waited for its answer for ever"),
    ("cores", 3, "an append was lost, and the leader waited for its answer for ever"),
]


@pytest.mark.parametrize(("tier", "count"), [("cores", 60), ("messages", 6), ("streams", 6)], ids=list(TIERS))
def test_every_promise_is_kept(tier: str, count: int) -> None:
    """A failing seed is named: it replays exactly."""
    for seed in seeds(1000, count):
        try:
            TIERS[tier](seed)
        except Exception as error:
            error.add_note(f"make sim SEED={seed} TIER={tier}")
            raise


@pytest.mark.parametrize(("tier", "seed", "cause"), REGRESSIONS)
def test_seeds_that_once_failed_do_not_any_more(tier: str, seed: int, cause: str) -> None:
    TIERS[tier](seed)


def test_the_simulator_meets_what_it_is_for() -> None:
    met: Counter[str] = Counter()
    for seed in range(15):
        run = simulate_cores(seed)
        met.update(run.schedule.counts)
        met.update(elections=run.elections, truncations=run.truncations, configurations=run.configurations)
    events = [
        "elections", "truncations", "configurations", "snapshot", "crash", "stop", "restart", "wipe", "stall", "cut",
        "heal", "break", "disk", "clock", "transfer", "change", "lose", "ok", "fail", "unknown",
    ]  # fmt: skip
    assert not [event for event in events if met[event] == 0], met


@pytest.mark.parametrize("tier", TIERS)
def test_a_seed_replays_exactly(tier: str) -> None:
    """In one process, and in others whose strings hash differently."""
    digests = [TIERS[tier](REPLAYED_SEED).schedule.digest() for _ in range(2)]
    program = "import sys; sys.path += sys.argv[3:]; sys.path.insert(0, sys.argv[1]); "
    program += "import test_raft_simulation as simulation; "
    program += "print(simulation.TIERS[sys.argv[2]](simulation.REPLAYED_SEED).schedule.digest())"
    for hash_seed in ("1", "2"):
        completed = subprocess.run(
            [sys.executable, "-c", program, os.path.dirname(__file__), tier, str(Path(__file__).parents[1])],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(completed.stdout.strip().splitlines()[-1])
    assert digests == [digests[0]] * 4


def test_one_seed_prints_what_happened() -> None:
    tool = Path(__file__).resolve().parents[2] / "tools" / "simulate_raft.py"
    completed = subprocess.run(
        [sys.executable, str(tool), "--seed", "1", "--messages"], capture_output=True, text=True, check=True
    )
    lines = completed.stdout.splitlines()
    assert "seed 1 (cores)" in lines[-1]
    assert lines[-1].endswith(simulate_cores(1).schedule.digest()[:16])
    for event in ("weather", "leader", "deliver", "recovery"):
        assert any(f"  {event} " in line for line in lines), event


def test_another_seed_is_another_run() -> None:
    assert simulate_cores(1).schedule.digest() != simulate_cores(2).schedule.digest()
