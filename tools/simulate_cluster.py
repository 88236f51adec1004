"""Run simulated clusters. One seed prints its story; many print what was met, and every seed that failed.

python tools/simulate_cluster.py --seeds 200
python tools/simulate_cluster.py --seed 17
"""

import argparse
import sys
import time
import traceback
from collections import Counter

from lograft.chaos.cluster_run import ClusterRun
from lograft.chaos.cluster_simulation import SimulatedCluster, simulate_cluster
from lograft.runtime.rng import system_rng


def show(seed: int) -> int:
    """Print what happens in one run, to its end, good or bad."""
    made: list[SimulatedCluster] = []
    run: ClusterRun | None = None
    try:
        run = simulate_cluster(seed, on_made=made.append)
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


def _described(run: ClusterRun) -> str:
    return (
        f"{run.virtual_ms / 1000:.1f} s, {run.sent} records sent: {run.acknowledged} acknowledged, "
        f"{run.failed} failed, {run.unknown} unknown; "
        f"{run.read} read, {run.told} watermarks told, {run.epochs} leader epochs"
    )


def sweep(seeds: int, first: int) -> int:
    """Run many seeds; the count of those that failed."""
    failed = 0
    totals: Counter[str] = Counter()
    started = time.monotonic()
    for seed in range(first, first + seeds):
        try:
            run = simulate_cluster(seed)
        except Exception as error:
            failed += 1
            print(f"seed {seed} FAILED: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        totals.update(run.schedule.counts)
        totals.update(run.wishes)
        totals.update(
            runs=1, milliseconds=run.virtual_ms, sent=run.sent, acknowledged=run.acknowledged, failed_sends=run.failed,
            unknown_sends=run.unknown, read=run.read, told=run.told, epochs=run.epochs,
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
