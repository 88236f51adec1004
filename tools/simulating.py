"""What the tools that run simulations have in common: one seed prints its story; many print what was met, and
failures."""

import argparse
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lograft.runtime.rng import system_rng


@dataclass(frozen=True, slots=True)
class Simulation:
    """`simulate(seed, on_made=...)` runs one cluster and gives its run; `describe` says in a line what came of that,
    `count` in figures that can be added up."""

    simulate: Callable[..., Any]
    describe: Callable[[Any], str]
    count: Callable[[Any], Mapping[str, int]]

    def show(self, seed: int) -> int:
        """Print what happens in one run, to its end, good or bad."""
        made: list[Any] = []
        run, failure = None, ""
        try:
            run = self.simulate(seed, on_made=made.append)
        except Exception:
            failure = traceback.format_exc()
        schedule = made[0].schedule
        for line in schedule.lines():
            print(line)
        if run is None:
            print(failure)
            print(f"seed {seed}: FAILED after {len(schedule)} events, {schedule.digest()[:16]}")
            return 1
        print(f"seed {seed}: {run.virtual_ms / 1000:.1f} s, {self.describe(run)}, {schedule.digest()[:16]}")
        return 0

    def sweep(self, seeds: int, first: int) -> int:
        """Run many seeds; the count of those that failed."""
        failed = 0
        totals: Counter[str] = Counter()
        started = time.monotonic()
        for seed in range(first, first + seeds):
            try:
                run = self.simulate(seed)
            except Exception as error:
                failed += 1
                print(f"seed {seed} FAILED: {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            totals.update(run.schedule.counts)
            totals.update(run.wishes)
            totals.update(self.count(run))
            totals.update(runs=1, milliseconds=run.virtual_ms)
        elapsed = time.monotonic() - started
        print(f"{totals['runs']} runs from seed {first}, {failed} failed, {elapsed:.1f} s, ", end="")
        print(f"{totals['milliseconds'] / 1000 / max(elapsed, 0.001):.0f} simulated seconds a second")
        print(", ".join(f"{event} {count}" for event, count in sorted(totals.items())))
        return failed

    def main(self, description: str | None) -> int:
        """The exit code."""
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--seeds", type=int, default=100, help="how many fresh seeds")
        parser.add_argument("--first", type=int, help="the first of them, instead of a random one")
        parser.add_argument("--seed", type=int, help="this one only, and print its story")
        arguments = parser.parse_args()
        if arguments.seed is not None:
            return self.show(arguments.seed)
        first = arguments.first if arguments.first is not None else system_rng().randrange(1, 2**31)
        return 1 if self.sweep(arguments.seeds, first) else 0
