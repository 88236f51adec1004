"""Base of the simulated nodes of a metadata cluster: a host, a clock, and a life that can end at any moment."""

import asyncio
from typing import Any, Protocol

from lograft.chaos.harness.schedule import Detail
from lograft.chaos.metadata.rules.facts import Facts
from lograft.chaos.metadata.rules.invariants import MetadataInvariants
from lograft.chaos.metadata.stub.acknowledged_ledger import Ledger
from lograft.chaos.metadata.stub.messages import StubMessage
from lograft.chaos.metadata.weather import MetadataWeather
from lograft.chaos.world.crash import is_simulated_crash
from lograft.chaos.world.loop import VirtualClock
from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.metadata.image.partition import BrokerId
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

CLUSTER_ID = "simulated"

_LOOK_SECONDS = 0.05


class MetadataEnvironment(Protocol):
    """The simulation around a node."""

    weather: MetadataWeather
    network: VirtualNetwork
    facts: Facts
    invariants: MetadataInvariants
    ledger: Ledger
    controllers: dict[int, str]

    def note(self, event: str, *details: Detail) -> None: ...

    def post(self, sender: BrokerId, receiver: BrokerId, message: StubMessage) -> None:
        """Carry a message from one broker to another."""
        ...


class PausableClock(VirtualClock):
    """A clock whose timers do not fire while the node is paused, although its time continues."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._time = loop.time
        self.held_until = 0.0

    @property
    def is_held(self) -> bool:
        return self.held_until > self._time()

    async def sleep_ms(self, duration_ms: float) -> None:
        await super().sleep_ms(duration_ms)
        while (left_seconds := self.held_until - self._time()) > 0:  # noqa: ASYNC110  (the pause may end early)
            await asyncio.sleep(min(left_seconds, _LOOK_SECONDS))


class SimulatedNode:
    """One node on one host. Each of its lives is a task; `life` counts them."""

    def __init__(self, host: str, world: MetadataEnvironment, rng: Rng, group: asyncio.TaskGroup) -> None:
        self.host = host
        self.world = world
        self.rng = rng
        self.clock = PausableClock(asyncio.get_running_loop())
        self.speed = DiskSpeed(rng.fork())
        self.life = 0
        self._group = group
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self._task is not None

    @property
    def process(self) -> str:
        """The name of the present life."""
        return f"{self.host}#{self.life}"

    def start(self) -> None:
        assert self._task is None
        self.life += 1
        self._task = self._group.create_task(self._live(), name=self.process)

    def kill(self) -> None:
        """Kill the process: none of its code runs from now on, and only the network lets others notice."""
        assert self._task is not None
        task, self._task = self._task, None
        self._gone()
        self.world.network.crash(self.host)
        task.cancel()

    async def _live(self) -> None:
        try:
            await self._run(self._runtime())
        except BaseException as error:
            if self._task is asyncio.current_task():
                raise  # not killed: this is a genuine error
            if not isinstance(error, asyncio.CancelledError) and not is_simulated_crash(error):
                raise
        else:
            if self._task is asyncio.current_task():
                self.world.note("exit", self.process)
                self._task = None
                self._gone()
                self.world.network.crash(self.host)

    async def _run(self, runtime: Runtime) -> None:
        """Run one life, until it ends on its own."""
        raise NotImplementedError

    def _gone(self) -> None:
        """Clean up after a life that ended in any way."""

    def _runtime(self) -> Runtime:
        unused: Any = None
        network, rng = self.world.network.host(self.host), self.rng
        workers = VirtualWorkers(rng.fork(), self.speed)
        return Runtime(self.clock, rng.fork(), unused, network, VirtualBlocking(self.speed), workers)

    def _panicked(self, error: BaseException) -> None:
        self.world.note("panic", self.process, repr(error))
        raise error
