"""Run simulated clusters. One seed prints its story; many print what was met, and every seed that failed.

python tools/simulate_cluster.py --seeds 200
python tools/simulate_cluster.py --seed 17
"""

import sys

from simulating import Simulation

from lograft.chaos.cluster_run import ClusterRun
from lograft.chaos.cluster_simulation import simulate_cluster


def described(run: ClusterRun) -> str:
    return (
        f"{run.sent} records sent: {run.acknowledged} acknowledged, {run.failed} failed, {run.unknown} unknown; "
        f"{run.read} read, {run.told} watermarks told, {run.epochs} leader epochs"
    )


def counted(run: ClusterRun) -> dict[str, dict[str, int]]:
    records = {"sent": run.sent, "acknowledged": run.acknowledged, "failed": run.failed, "unknown": run.unknown}
    return {
        "clients": {**records, "deletions": run.deletions, "read": run.read, "watermarks told": run.told},
        "met": {**run.sights, "leader epochs": run.epochs},
        "crashes": run.crashes,
    }


if __name__ == "__main__":
    sys.exit(Simulation(simulate_cluster, described, counted, "sim-cluster").main(__doc__))
