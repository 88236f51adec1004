"""Real Raft nodes with the metadata as their state machine and a controller on each, on a virtual loop."""

import asyncio
from typing import Any, cast

from support.raft_nodes import Cluster, CountingStore, Host, WireTransport

from lograft.metadata.controller.active_controller import ActiveController
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.raft.driver.raft_node import RaftNode


class MetadataHost(Host):
    """A machine on which a controller runs, from time to time."""

    machine: MetadataMachine  # type: ignore[assignment]
    controller: ActiveController

    async def start(self, **options: Any) -> RaftNode:
        memory = self.disk.open(self.speed, self.runtime.rng.fork())
        self.store = CountingStore(memory)
        self.transport = WireTransport(self._cluster.wires, self.member)
        self.machine = MetadataMachine()
        state = await memory.load()
        store = cast(Any, self.store)
        self.node = RaftNode(self.runtime, store, state, self.transport, self.machine, **self._cluster.options)
        self.controller = ActiveController(self.node, self.machine)
        self.node.observe(self.machine)
        self.node.observe(self.controller)
        self.task = asyncio.ensure_future(self._live(self.node, self.controller))
        await asyncio.sleep(0)
        return self.node

    async def _live(self, node: RaftNode, controller: ActiveController) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run())
            await node.run()
            controller.close()


class MetadataCluster(Cluster):
    hosts: dict[int, MetadataHost]  # type: ignore[assignment]

    def __init__(self, size: int, *, seed: int = 1, **options: Any) -> None:
        super().__init__(size, seed=seed, **options)
        self.hosts = {node_id: MetadataHost(self, node_id) for node_id in range(1, size + 1)}

    def __getitem__(self, node_id: int) -> MetadataHost:
        return self.hosts[node_id]
