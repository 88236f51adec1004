"""Simulated metadata clusters: fresh seeds every time, and those that once failed."""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from lograft.chaos.metadata_simulation import simulate_metadata
from lograft.runtime.rng import system_rng

REPLAYED_SEED = 19  # short, with elections, kills and reassignments
FRESH_SEEDS = 20
SECONDS = 40

# Found by the simulator; each failed before its cause was mended.
REGRESSIONS: list[tuple[int, str]] = [
    (17, "a controller without a leader asked itself for the latest index without a pause"),
    (18, "a corrupt replica, out of the ISR already, was taken back by what it had before"),
]


def test_fresh_seeds_keep_every_promise() -> None:
    """So many seeds, or as many as the time allows. A failing one is printed: it replays exactly."""
    first = system_rng().randrange(1, 2**31)
    end = time.monotonic() + SECONDS
    seed = first
    while seed < first + FRESH_SEEDS and time.monotonic() < end:
        print(f"make sim-metadata SEED={seed}")
        simulate_metadata(seed)
        seed += 1
    print(f"{seed - first} seeds from {first}")


@pytest.mark.parametrize(("seed", "cause"), REGRESSIONS)
def test_seeds_that_once_failed_do_not_any_more(seed: int, cause: str) -> None:
    simulate_metadata(seed)


def test_the_simulator_meets_what_it_is_for() -> None:
    met: Counter[str] = Counter()
    for seed in range(8):
        run = simulate_metadata(seed)
        met.update(run.schedule.counts)
        met.update({wish.split()[0]: count for wish, count in run.wishes.items() if wish.endswith(" ok")})
    events = [
        "kill", "power", "wipe", "stop", "stopped", "start", "pause", "resume", "cut", "heal", "slow", "break", "rot",
        "transfer", "restored", "registered", "isr", "create", "delete", "add_partitions", "set_min_isr",
        "set_retention", "reassign", "cancel", "elect_preferred", "read",
    ]  # fmt: skip
    assert not [event for event in events if met[event] == 0], met


def test_a_seed_replays_exactly() -> None:
    """In one process, and in others whose strings hash differently."""
    digests = [simulate_metadata(REPLAYED_SEED).schedule.digest() for _ in range(2)]
    program = "from lograft.chaos.metadata_simulation import simulate_metadata; "
    program += f"print(simulate_metadata({REPLAYED_SEED}).schedule.digest())"
    for hash_seed in ("1", "2"):
        completed = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(completed.stdout.strip().splitlines()[-1])
    assert digests == [digests[0]] * 4


def test_one_seed_prints_what_happened() -> None:
    tool = Path(__file__).resolve().parents[2] / "tools" / "simulate_metadata.py"
    completed = subprocess.run(
        [sys.executable, str(tool), "--seed", str(REPLAYED_SEED)], capture_output=True, text=True, check=True
    )
    lines = completed.stdout.splitlines()
    assert f"seed {REPLAYED_SEED}: " in lines[-1]
    for event in ("weather", "registered", "metadata", "kill", "recovery"):
        assert any(f"  {event} " in line for line in lines), event
