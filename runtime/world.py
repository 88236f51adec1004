"""The outside world of a node. All effects of a node go through one argument, its `Runtime`."""

from dataclasses import dataclass

from lograft.runtime.blocking import Blocking, WorkerFactory
from lograft.runtime.clock import Clock
from lograft.runtime.files import Files
from lograft.runtime.network import Network
from lograft.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class Runtime:
    """Created by `production.node_runtime.production_runtime`, or by `lograft.chaos` for simulations."""

    clock: Clock
    rng: Rng
    files: Files
    network: Network
    blocking: Blocking
    make_worker: WorkerFactory
