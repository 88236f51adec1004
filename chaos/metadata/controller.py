"""A simulated controller: the production node with an in-memory store, watched by the checker."""

import asyncio

from lograft.chaos.metadata.node import CLUSTER_ID, MetadataEnvironment, SimulatedNode
from lograft.chaos.world.raft_store import MemoryDisk, MemoryStore
from lograft.metadata.controller.timers import ControllerTiming
from lograft.metadata.controller_node import ControllerNode, ControllerSettings
from lograft.metadata.image.delta_buffer import DeltaBuffer, DeltaLimits
from lograft.metadata.image.records import Record
from lograft.metadata.image.state_machine import MachineListener, MetadataMachine
from lograft.raft.core.roles import Leader
from lograft.raft.driver.snapshots import SnapshotPolicy
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

PORT = 9093


class _Watch(MachineListener):
    """Reports the metadata changes of one controller process to the checker."""

    def __init__(self, world: MetadataEnvironment, process: str, machine: MetadataMachine) -> None:
        self._world = world
        self._process = process
        self._machine = machine

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        self._world.invariants.applied(self._process, index, records, self._machine.image)

    def restored(self, index: int) -> None:
        self._world.note("restored", self._process, index)
        self._world.invariants.restored(self._process, index, self._machine.image)


class SimulatedController(SimulatedNode):
    """A controller whose disk outlives it. `node` is None while it is down."""

    def __init__(self, node_id: int, world: MetadataEnvironment, rng: Rng, group: asyncio.TaskGroup) -> None:
        super().__init__(f"controller{node_id}", world, rng, group)
        self.node_id = node_id
        self.disk = MemoryDisk(CLUSTER_ID, node_id, rng.fork())
        self.node: ControllerNode | None = None
        self._store: MemoryStore | None = None

    @property
    def leads(self) -> bool:
        raft = self.node.raft if self.node is not None else None
        return raft is not None and isinstance(raft.core.role, Leader)

    @property
    def is_active(self) -> bool:
        return self.node is not None and self.node.active.is_active

    async def _run(self, runtime: Runtime) -> None:
        weather = self.world.weather
        self._store = store = self.disk.open(self.speed, self.rng.fork())
        state = await store.load()
        settings = ControllerSettings(
            timing=ControllerTiming(rebalance_ms=4_000, next_rebalance_ms=500),
            snapshots=SnapshotPolicy(entries=weather.snapshot_every, kept_entries=weather.snapshot_every // 3),
        )
        node = ControllerNode(runtime, store, state, self.world.controllers, settings)
        node.machine.deltas = DeltaBuffer(DeltaLimits(max_count=weather.max_deltas))
        node.machine.listen(_Watch(self.world, self.process, node.machine))
        self.node = node
        await runtime.network.serve(self.world.controllers[self.node_id], node.handlers(), self._panicked)
        await node.run()

    def _gone(self) -> None:
        self.node = None
        if self._store is not None:
            self._store.kill()
            self._store = None

    def close(self) -> None:
        """Ask the process to shut down in an orderly way. It is up until it has."""
        if self.node is not None:
            self._group.create_task(self.node.close())
