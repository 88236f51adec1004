"""Composes a whole node: everything that `lograft server` runs.

node = Node(runtime, config, HostProcess(boot_id(), open_lmdb_store), on_panic)
await node.run()                # until node.stop() is called

Start: lock the directories, open the metadata store, bind the addresses; then run controller and broker. The broker
registers, recovers its logs, and reports that it is ready. An orderly stop reverses this, with the controller last.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from lograft.broker.hosting.disk_watch import DiskWatch
from lograft.broker.hosting.maintenance import MaintenanceTimes
from lograft.broker.metrics import families
from lograft.broker.metrics.node_metrics import add_disks, add_process
from lograft.broker.node.broker_role import BrokerRole, NoPlaceInCluster, open_broker
from lograft.broker.node.cluster_settings_check import ClusterSettingsCheck
from lograft.broker.node.config import NodeConfig
from lograft.broker.node.controller_role import ControllerRole, StoreOpener, open_controller
from lograft.broker.node.descriptors import Descriptors, share_out
from lograft.broker.node.log_level_setting import LogLevelSetting
from lograft.metadata.image.partition import BrokerId
from lograft.raft.store.errors import StoreRefused
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.files import is_without_room
from lograft.runtime.network import AddressInUse, PanicHandler
from lograft.runtime.observability.http_server import HttpServer, Page
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.observability.process_stats import ProcessStats
from lograft.runtime.observability.prometheus_text import CONTENT_TYPE, Exposition
from lograft.runtime.proof.node_proof import NodeIdentity
from lograft.runtime.proof.proven_network import ProvenNetwork
from lograft.runtime.tasks.loop_lag import LoopLag
from lograft.runtime.world import Runtime
from lograft.storage.errors import DirectoryFailed, DirectoryRefused
from lograft.storage.log.data_directory import DataDirectory, DirectoryOwner, open_directory

log = get_logger(__name__)


class NodeRefused(Exception):
    """Raised when the node cannot run with this configuration. The message states the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class HostProcess:
    """The parts of the machine and process that a node uses beside its runtime.

    `boot_id`: changes whenever the page cache may have been lost. `set_log_level`: sets the level of the process; None
    if the node has no process of its own. `lag`: measures the event loop. `process`: returns the process's resource
    usage. `version`: of lograft. `max_files`: the process's limit of descriptors; None for no limit."""

    boot_id: str
    open_store: StoreOpener
    set_log_level: Callable[[str], None] | None = None
    lag: LoopLag | None = None
    process: Callable[[], ProcessStats] | None = None
    version: str = ""
    max_files: int | None = None


class Node:
    """A node; a process runs it once. `run` returns after `stop`. It raises `NodeRefused`; any other exception means a
    broken invariant or a failed disk, and the process must exit."""

    def __init__(
        self,
        runtime: Runtime,
        config: NodeConfig,
        machine: HostProcess,
        on_panic: PanicHandler,
        upkeep: MaintenanceTimes | None = None,
    ) -> None:
        self._runtime = runtime
        self._links = _links(runtime, config)
        self._config = config
        self._machine = machine
        self._upkeep = upkeep or MaintenanceTimes()
        self._descriptors = _descriptors(config, machine)
        self._on_panic = on_panic
        self._directories: list[DataDirectory] = []
        self._left_out: list[str] = []  # paths of directories that failed under an earlier process
        self.controller: ControllerRole | None = None
        self.broker: BrokerRole | None = None
        self._http: HttpServer | None = None
        self._is_stopping = asyncio.Event()

    def stop(self) -> None:
        """Begin an orderly shutdown."""
        self._is_stopping.set()

    def why_not_ready(self) -> str | None:
        """Return a readable reason, or None if the node performs all of its roles."""
        if self._is_stopping.is_set():
            return "shutting down"
        parts = [part for part in (self.controller, self.broker) if part is not None]
        if not parts:
            return "starting"
        return next((reason for part in parts if (reason := part.why_not_ready()) is not None), None)

    async def run(self) -> None:
        try:
            await self._live()
        except (AddressInUse, DirectoryRefused, NoPlaceInCluster, StoreRefused) as error:
            raise NodeRefused(_reason(error)) from None
        except OSError as error:
            if not is_without_room(error):
                raise
            raise NodeRefused(
                f"{error.filename or 'a disk'} has no space left: free some space, then start the node"
            ) from None

    async def _live(self) -> None:
        try:
            await self._open()
            async with asyncio.TaskGroup() as group:
                await self._work(group)
        except BaseException as failure:
            try:
                await self._release()
            except Exception:  # report the original failure, not its consequence
                log.exception("release_failed")
            raise _cause_of(failure) from None
        await self._release()
        log.info("node_stopped")

    # -- start

    async def _open(self) -> None:
        config = self._config
        log.info("node_starting", cluster_id=config.cluster_id, roles=[role.value for role in config.roles])
        await self._open_directories()
        if config.is_controller:
            self.controller = await open_controller(self._links, config, self._machine.open_store)
            limits = None if self._descriptors is None else self._descriptors.controllers
            await self.controller.listen(self._on_panic, limits)
        if config.is_broker:
            self.broker = await open_broker(
                self._runtime, self._links, config, self._directories, self._machine.boot_id, self._upkeep,
                self._machine.lag, self._machine.version or None,
            )  # fmt: skip
            await self.broker.listen(self._on_panic, self._descriptors)
        self._heed_settings()
        if config.http is not None:
            self._http = HttpServer(
                {"/healthz": self._health_page, "/readyz": self._readiness_page, "/metrics": self._metrics_page},
                **({} if self._descriptors is None else {"max_connections": self._descriptors.http}),
            )
            await self._http.listen(config.http)

    async def _open_directories(self) -> None:
        """Open all directories. A broker omits those that failed under an earlier process, as long as one is left."""
        config, failed = self._config, None
        max_segments = None if self._descriptors is None else self._descriptors.segments
        owner = DirectoryOwner(config.cluster_id, config.node_id)
        for path in config.data_dirs if config.is_broker else config.data_dirs[:1]:
            try:
                directory = await open_directory(self._runtime, path, owner, max_segments)
                self._directories.append(directory)
                await directory.reserve(config.disk_reserve_bytes)
            except DirectoryFailed as error:
                if config.is_controller and path == config.data_dirs[0]:
                    raise  # it holds the controller's metadata
                log.error("directory_left_out", path=path, reason=str(error))
                self._left_out.append(path)
                failed = error
        if failed is not None and not self._directories:
            raise failed

    def _heed_settings(self) -> None:
        if self.broker is not None:
            follower = self.broker.membership.follower
            follower.listen(ClusterSettingsCheck(self._config.cluster_settings, lambda: follower.image))
            if self._machine.set_log_level is not None:
                own_id, level = BrokerId(self._config.node_id), self._config.log_level
                follower.listen(LogLevelSetting(own_id, level, lambda: follower.image, self._machine.set_log_level))
        elif self.controller is not None:
            machine = self.controller.node.machine
            machine.listen(ClusterSettingsCheck(self._config.cluster_settings, lambda: machine.image))

    async def _health_page(self) -> Page:
        return Page(200, "alive\n")

    async def _readiness_page(self) -> Page:
        reason = self.why_not_ready()
        return Page(200, "ready\n") if reason is None else Page(503, f"{reason}\n")

    async def _metrics_page(self) -> Page:
        return Page(200, await self.metrics(), CONTENT_TYPE)

    async def metrics(self) -> str:
        """Return all metrics in Prometheus's text format. Large collections are read in parts, so that the event loop
        stays responsive."""
        page, machine = Exposition(), self._machine
        page.add(families.BUILD_INFO, 1, machine.version)
        page.add(families.READY, int(self.why_not_ready() is None))
        if machine.lag is not None:
            page.add_histogram(families.LOOP_LAG, machine.lag.seconds)
        if machine.process is not None:
            add_process(page, machine.process())
        if isinstance(self._links.network, ProvenNetwork):
            page.add(families.NODES_NOT_BELIEVED, self._links.network.refused)
        add_disks(page, self._directories)
        if self.controller is not None:
            self.controller.add_metrics(page)
        if self.broker is not None:
            await self.broker.add_metrics(page)
        for path in self._left_out:
            page.add(families.DISK_FAILED, 1, path)
        return page.text()

    # -- work and orderly stop

    async def _work(self, group: asyncio.TaskGroup) -> None:
        tasks = {
            part: group.create_task(part.run(), name=type(part).__name__)
            for part in (self.controller, self.broker)
            if part is not None
        }
        watching = group.create_task(DiskWatch(self._runtime.clock, self._directories).run(), name="disk-watch")
        measuring = group.create_task(self._machine.lag.run(), name="loop-lag") if self._machine.lag else None
        await self._is_stopping.wait()
        if measuring is not None:
            measuring.cancel()
        log.info("node_stopping")
        if (broker := self.broker) is not None:
            await broker.leave()
            await broker.release()
        watching.cancel()
        for directory in self._directories:
            directory.stop_waiting()
        if broker is not None:
            tasks[broker].cancel()
            await asyncio.wait([tasks[broker]])
            await self._close_directories(broker)
        if self.controller is not None:
            await self.controller.close()
            await asyncio.wait([tasks[self.controller]])

    async def _close_directories(self, broker: BrokerRole) -> None:
        """Close all directories cleanly, so that the next process need not scan them for damage. It scans those that
        could not be closed."""
        while self._directories:
            directory = self._directories.pop()
            try:
                await directory.close(broker.clean_epoch_of(directory))
            except DiskFailed as error:
                log.error("directory_not_left_clean", path=directory.path, reason=str(error))

    async def _release(self) -> None:
        """Release all remaining resources, even if releasing one of them fails."""
        async with AsyncExitStack() as held:  # released in reverse order
            if self.controller is not None:
                held.push_async_callback(self.controller.release)
            for directory in self._directories:
                held.push_async_callback(directory.close)
            if self.broker is not None:
                held.push_async_callback(self.broker.release)
            if self._http is not None:
                held.push_async_callback(self._http.stop)


def _descriptors(config: NodeConfig, machine: HostProcess) -> Descriptors | None:
    if machine.max_files is None:
        return None
    shares = share_out(
        machine.max_files,
        len(config.data_dirs),
        config.max_connections,
        config.max_connections_per_address,
        None if config.network_buffer_bytes is None else config.network_buffer_bytes // 2,
    )
    log.info("descriptors_shared", clients=shares.clients.total, files=shares.files, limit=machine.max_files)
    if config.max_connections is not None and shares.clients.total < config.max_connections:
        log.warning(
            "max_connections_lowered",
            wanted=config.max_connections,
            taken=shares.clients.total,
            remedy=f"the process may open {machine.max_files} files, and its data needs some: raise the limit "
            "(`ulimit -Hn`, or LimitNOFILE= in a systemd unit)",
        )
    return shares


def _links(runtime: Runtime, config: NodeConfig) -> Runtime:
    """Return the runtime for connections between nodes, authenticated if there are cluster secrets."""
    if not config.cluster_secrets:
        return runtime
    identity = NodeIdentity(config.cluster_id, config.node_id, config.cluster_secrets)
    return replace(runtime, network=ProvenNetwork(runtime.network, identity, runtime.rng, runtime.clock))


def _cause_of(failure: BaseException) -> BaseException:
    """Return the first exception of nested exception groups."""
    return _cause_of(failure.exceptions[0]) if isinstance(failure, BaseExceptionGroup) else failure


def _reason(error: Exception) -> str:
    if isinstance(error, AddressInUse):
        return f"{error}; stop the process that uses it, or choose another address"
    return f"the cluster refuses this node: {error}" if isinstance(error, NoPlaceInCluster) else str(error)
