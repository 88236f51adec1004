"""Run simulated metadata clusters. One seed prints its story; many print what was met, and every seed that failed.

python tools/simulate_metadata.py --seeds 200
python tools/simulate_metadata.py --seed 17
"""

import argparse
import sys
import time
import traceback
from collections import Counter

from lograft.chaos.metadata_run import MetadataRun
from lograft.chaos.metadata_simulation import MetadataCluster, simulate_metadata
from lograft.runtime.rng import system_rng


def show(seed: int) -> int:
    """Print what happens in one run, to its end, good or bad."""
    made: list[MetadataCluster] = []
    run: MetadataRun | None = None
    try:
        run = simulate_metadata(seed, on_made=made.append)
        failure = ""
    except Exception:
        failure = traceback.format_exc()
    schedule = made[0].schedule
    for line in schedule.lines():
        print(line)
    if run is None:
        print(failure)
        print(f"seed {seed}: FAILED after {len(schedule)} events, {schedule.digest()[:16]}")
        return 1
    print(f"seed {seed}: {_described(run)}, {schedule.digest()[:16]}")
    return 0


def _described(run: MetadataRun) -> str:
    return (
        f"{run.virtual_ms / 1000:.1f} s, {run.operations} operations, {run.acknowledged} records acknowledged, "
        f"{run.unclean_elections} unclean elections gave up {run.given_up}"
    )


def sweep(seeds: int, first: int) -> int:
    """Run many seeds; the count of those that failed."""
    failed = 0
    totals: Counter[str] = Counter()
    started = time.monotonic()
    for seed in range(first, first + seeds):
        try:
            run = simulate_metadata(seed)
        except Exception as error:
            failed += 1
            print(f"seed {seed} FAILED: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        totals.update(run.schedule.counts)
        totals.update(run.wishes)
        totals.update(
            runs=1, milliseconds=run.virtual_ms, operations=run.operations, acknowledged=run.acknowledged,
            unclean_elections=run.unclean_elections, given_up=run.given_up,
        )  # fmt: skip
    elapsed = time.monotonic() - started
    print(f"{totals['runs']} runs from seed {first}, {failed} failed, {elapsed:.1f} s, ", end="")
    print(f"{totals['milliseconds'] / 1000 / max(elapsed, 0.001):.0f} simulated seconds a second")
    print(", ".join(f"{event} {count}" for event, count in sorted(totals.items())))
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100, help="how many fresh seeds")
    parser.add_argument("--first", type=int, help="the first of them, instead of a random one")
    parser.add_argument("--seed", type=int, help="this one only, and print its story")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return show(arguments.seed)
    first = arguments.first if arguments.first is not None else system_rng().randrange(1, 2**31)
    return 1 if sweep(arguments.seeds, first) else 0


if __name__ == "__main__":
    sys.exit(main())
