"""The outside world of a node: `Runtime` is the one argument through which effects come in."""

from dataclasses import dataclass

from lograft.runtime.blocking import Blocking, WorkerFactory
from lograft.runtime.clock import Clock
from lograft.runtime.files import Files
from lograft.runtime.network import Network
from lograft.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class Runtime:
    """`production.node_runtime.production_runtime` makes the production one, `lograft.chaos` a simulated one."""

    clock: Clock
    rng: Rng
    files: Files
    network: Network
    blocking: Blocking
    make_worker: WorkerFactory
