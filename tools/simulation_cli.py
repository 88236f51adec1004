"""What the tools that run simulations have in common: one seed prints its story; many print what was met, and
failures."""

import argparse
import gc
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lograft.runtime.rng import system_rng

_PROGRESS_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Simulation:
    """`simulate(seed, on_made=...)` runs one cluster and gives its run; `describe` says in a line what came of that,
    `count` in figures that can be added up, by what they are about. `target` of the Makefile runs the tool."""

    simulate: Callable[..., Any]
    describe: Callable[[Any], str]
    count: Callable[[Any], Mapping[str, Mapping[str, int]]]
    target: str

    def show(self, seed: int) -> int:
        """Print what happens in one run, to its end, good or bad."""
        made: list[Any] = []
        run, failure = None, ""
        started = time.process_time()
        try:
            run = self.simulate(seed, on_made=made.append)
        except Exception:
            failure = traceback.format_exc()
        elapsed = time.process_time() - started
        schedule = made[0].schedule
        for line in schedule.lines():
            print(line)
        if run is None:
            print(failure)
            print(f"seed {seed}: FAILED after {len(schedule)} events, {schedule.digest()[:16]}")
            return 1
        print(
            f"seed {seed}: {run.virtual_ms / 1000:.1f} s in {elapsed:.1f}, {self.describe(run)}, "
            f"{schedule.digest()[:16]}"
        )
        return 0

    def sweep(self, seeds: int, first: int) -> int:
        """Run many seeds; the count of those that failed."""
        sweep = _Sweep(first)
        for seed in range(first, first + seeds):
            try:
                run = self.simulate(seed)
            except Exception as error:
                sweep.failed += 1
                print(f"seed {seed} FAILED: {type(error).__name__}: {str(error)[:300]}")
                print(f"    make {self.target} SEED={seed}", flush=True)
            else:
                sweep.add(run, self.count(run))
                del run
            gc.collect()  # a cluster is left tied in knots, with all its disks: many of them would fill the memory
            sweep.tell_progress()
        sweep.conclude()
        return sweep.failed

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


class _Sweep:
    """What many runs came to."""

    def __init__(self, first: int) -> None:
        self.failed = 0
        self._first = first
        self._runs = 0
        self._virtual_ms = 0
        self._totals: dict[str, Counter[str]] = {}
        self._started, self._started_cpu = time.monotonic(), time.process_time()
        self._told = self._started

    def add(self, run: Any, counts: Mapping[str, Mapping[str, int]]) -> None:
        self._runs += 1
        self._virtual_ms += run.virtual_ms
        for about, figures in {**counts, "wishes": run.wishes, "events": run.schedule.counts}.items():
            self._totals.setdefault(about, Counter()).update(figures)

    def tell_progress(self) -> None:
        if time.monotonic() - self._told > _PROGRESS_SECONDS:
            self._told = time.monotonic()
            print(f"{self._runs + self.failed} runs, {self.failed} failed", file=sys.stderr, flush=True)

    def conclude(self) -> None:
        elapsed, cpu = time.monotonic() - self._started, max(time.process_time() - self._started_cpu, 0.001)
        runs, virtual = self._runs + self.failed, self._virtual_ms / 1000
        for about, totals in self._totals.items():
            print(f"{about}: " + ", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
        print(
            f"{runs} runs from seed {self._first}, {self.failed} failed, {elapsed:.0f} s, {cpu:.0f} of them computing"
        )
        print(
            f"a run: {virtual / max(self._runs, 1):.1f} simulated seconds, {cpu / max(runs, 1):.2f} computing; "
            f"{virtual / cpu:.0f} simulated seconds a second"
        )
