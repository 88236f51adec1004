"""Run simulated Raft clusters. One seed prints its schedule; many print what was met, and every seed that failed.

python tools/simulate_raft.py --seeds 2000
python tools/simulate_raft.py --seed 17 --tier streams --messages
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

from lograft.chaos.harness.schedule import Schedule
from lograft.chaos.raft.core_simulation import CoreCluster
from lograft.chaos.raft.node_simulation import NodeCluster, simulate_nodes
from lograft.chaos.raft.run import RaftRun
from lograft.runtime.rng import system_rng

TIERS = ("cores", "messages", "streams")
CORES_PER_DRIVER = 10  # seeds of bare cores for each of the others, which take so much longer


def simulate(tier: str, seed: int, on_schedule: Callable[[Schedule], None]) -> RaftRun:
    """Run `seed`; `on_schedule` is given what is being written down, so that a failed run can be shown, too."""
    if tier == "cores":
        cluster = CoreCluster(seed)
        on_schedule(cluster.schedule)
        return cluster.run()

    def on_made(made: NodeCluster) -> None:
        on_schedule(made.schedule)

    return simulate_nodes(seed, is_streamed=tier == "streams", on_made=on_made)


def show(tier: str, seed: int, *, with_messages: bool) -> int:
    """Print what happens in one run, to its end, good or bad."""
    schedules: list[Schedule] = []
    try:
        run = simulate(tier, seed, schedules.append)
    except Exception:
        _print_lines(schedules[0], with_messages)
        print(traceback.format_exc())
        print(f"seed {seed} ({tier}): FAILED after {len(schedules[0])} events, {schedules[0].digest()[:16]}")
        return 1
    _print_lines(run.schedule, with_messages)
    print(f"seed {seed} ({tier}): {_described(run)}, {run.schedule.digest()[:16]}")
    return 0


def _print_lines(schedule: Schedule, with_messages: bool) -> None:
    for line in schedule.lines(with_messages=with_messages):
        print(line)


def _described(run: RaftRun) -> str:
    return (
        f"{run.virtual_ms / 1000:.1f} s, {run.elections} elections, {run.truncations} truncations, "
        f"{run.configurations} configurations, {run.committed} entries, {run.acknowledged}/{run.operations} calls ok"
    )


def sweep(seeds: int, first: int, tiers: tuple[str, ...]) -> int:
    """Run many seeds; the count of those that failed."""
    failed = 0
    totals: Counter[str] = Counter()
    started = time.monotonic()
    for seed in range(first, first + seeds):
        for tier in tiers:
            if tier != "cores" and seed % CORES_PER_DRIVER:
                continue
            try:
                run = simulate(tier, seed, lambda schedule: None)
            except Exception as error:
                failed += 1
                print(f"seed {seed} ({tier}) FAILED: {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            totals.update(run.schedule.counts)
            totals.update(
                runs=1, milliseconds=run.virtual_ms, elections=run.elections, truncations=run.truncations,
                configurations=run.configurations, entries=run.committed,
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
    parser.add_argument("--seed", type=int, help="this one only, and print its schedule")
    parser.add_argument("--tier", choices=TIERS, help="bare cores, drivers with single messages, or with real streams")
    parser.add_argument("--messages", action="store_true", help="print every message, too")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return show(arguments.tier or "cores", arguments.seed, with_messages=arguments.messages)
    first = arguments.first if arguments.first is not None else system_rng().randrange(1, 2**31)
    tiers = (arguments.tier,) if arguments.tier else TIERS
    return 1 if sweep(arguments.seeds, first, tiers) else 0


if __name__ == "__main__":
    sys.exit(main())
