"""A node's controller role: the metadata store, the quorum member, and its server."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from lograft.broker.metrics.controller_metrics import add_controller
from lograft.broker.metrics.node_metrics import add_connections, add_server
from lograft.broker.node.config import NodeConfig
from lograft.broker.requests.call_stats import ServerStats, counted
from lograft.broker.requests.slow_requests import SlowRequestSetting
from lograft.metadata.controller_node import ControllerNode, ControllerSettings
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.state_machine import MachineListener
from lograft.raft.interfaces import Store, StoredState
from lograft.rpc.health import HealthService
from lograft.rpc.reflection import with_standard_services
from lograft.runtime.network import ConnectionLimits, PanicHandler, Server
from lograft.runtime.observability.prometheus_text import Exposition
from lograft.runtime.world import Runtime

METADATA_FOLDER = "metadata"

StoreOpener: TypeAlias = Callable[[Runtime, str, str, int], Awaitable[Store]]
"""`(runtime, directory, cluster_id, node_id)`: opens the node's store in the directory, and creates it if missing."""


class ControllerRole:
    """Created by `open_controller`. Call `listen`, then `run`, which returns after `close`; always call `release`."""

    def __init__(self, runtime: Runtime, config: NodeConfig, store: Store, state: StoredState) -> None:
        settings = ControllerSettings(cluster_settings=config.cluster_settings)
        self._runtime = runtime
        self._config = config
        self._store = store
        self.node = ControllerNode(runtime, store, state, config.controllers, settings)
        handlers, health = with_standard_services(self.node.handlers())
        self._stats = ServerStats()
        self._handlers = counted(handlers, self._stats, runtime.clock)
        machine = self.node.machine
        machine.listen(SlowRequestSetting(BrokerId(config.node_id), lambda: machine.image, self._stats.slow))
        self.node.machine.listen(_Serving(health))
        self._server: Server | None = None

    def why_not_ready(self) -> str | None:
        """Return a readable reason, or None if the node is a voter of the quorum."""
        if self.node.outdated_reason is not None:
            return self.node.outdated_reason
        if self.node.waiting_reason is not None:
            return self.node.waiting_reason
        raft, own = self.node.raft, self._config.node_id
        if raft is None:
            return "the controller is starting"
        if raft.status().role == "learner":
            remedy = f"`quorum replace {own}` if it lost its disk (one node at a time), `quorum add {own}` if it is new"
            return f"not a voter of the quorum: {remedy}"
        return None

    def add_metrics(self, page: Exposition) -> None:
        add_server(page, "controller", self._stats)
        if self._server is not None:
            add_connections(page, "controllers", self._server)
        add_controller(page, self.node)

    async def listen(self, on_panic: PanicHandler, limits: ConnectionLimits | None = None) -> None:
        assert self._config.controller_listen is not None
        serve = self._runtime.network.serve
        self._server = await serve(self._config.controller_listen, self._handlers, on_panic, limits)

    async def run(self) -> None:
        await self.node.run()

    async def close(self) -> None:
        """Make `run` return."""
        await self.node.close()

    async def release(self) -> None:
        """Release the address and the store."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
        await self._store.close()


class _Serving(MachineListener):
    """Reports the controller as serving once it has applied metadata."""

    def __init__(self, health: HealthService) -> None:
        self._health = health

    def restored(self, index: int) -> None:
        self._health.set_serving(True)

    def advanced(self, index: int) -> None:
        self._health.set_serving(True)


async def open_controller(runtime: Runtime, config: NodeConfig, open_store: StoreOpener) -> ControllerRole:
    """Open the controller's store. Raise `StoreRefused` if it belongs to another node, is in use, or is unusable."""
    directory = f"{config.data_dirs[0]}/{METADATA_FOLDER}"
    store = await open_store(runtime, directory, config.cluster_id, config.node_id)
    try:
        return ControllerRole(runtime, config, store, await store.load())
    except BaseException:
        await store.close()
        raise
