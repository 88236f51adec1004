"""Run simulated metadata clusters. One seed prints its story; many print what was met, and every seed that failed.

python tools/simulate_metadata.py --seeds 200
python tools/simulate_metadata.py --seed 17
"""

import sys

from simulation_cli import Simulation

from lograft.chaos.metadata.run import MetadataRun
from lograft.chaos.metadata.simulation import simulate_metadata


def described(run: MetadataRun) -> str:
    return (
        f"{run.operations} operations, {run.acknowledged} records acknowledged, "
        f"{run.unclean_elections} unclean elections gave up {run.given_up}"
    )


def counted(run: MetadataRun) -> dict[str, dict[str, int]]:
    return {
        "met": {
            "operations": run.operations,
            "acknowledged": run.acknowledged,
            "unclean elections": run.unclean_elections,
            "given up": run.given_up,
        }
    }


if __name__ == "__main__":
    sys.exit(Simulation(simulate_metadata, described, counted, "sim-metadata").main(__doc__))
