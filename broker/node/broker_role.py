"""A node's broker role: membership in the cluster, partitions, and servers."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from lograft.broker.groups.coordinator import GroupCoordinator
from lograft.broker.groups.service import GroupService
from lograft.broker.hosting.maintenance import MaintenanceTimes
from lograft.broker.hosting.replica_manager import ReplicaManager
from lograft.broker.metrics import families
from lograft.broker.metrics.broker_metrics import BrokerMetrics
from lograft.broker.metrics.node_metrics import add_budget, add_connections, add_server
from lograft.broker.metrics.remote_log_ends import RemoteLogEnds
from lograft.broker.node.config import NodeConfig
from lograft.broker.node.descriptors import Descriptors
from lograft.broker.replica.traffic import Traffic
from lograft.broker.replication.follower_client import FollowerClient, FollowerIdentity
from lograft.broker.replication.leader_server import LeaderServer
from lograft.broker.requests.call_stats import ServerStats, counted
from lograft.broker.requests.request_limit import RequestLimit
from lograft.broker.requests.slow_requests import SlowRequestSetting
from lograft.broker.server.load_service import LoadService
from lograft.broker.server.log_service import LogServices
from lograft.metadata.controller.broker_liveness import SessionTiming
from lograft.metadata.controller.initial_records import FEATURE_LEVEL, MIN_FEATURE_LEVEL
from lograft.metadata.decisions.brokers.registration import DirectoryUse, Registration
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.metadata.membership.broker_session import FullDirectory, Wanted
from lograft.metadata.membership.cluster_membership import ClusterMembership
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.reflection import with_standard_services
from lograft.runtime.limits.buffer_budget import DEFAULT_BUDGET_BYTES, BufferBudget, budgeted
from lograft.runtime.network import AddressInUse, ConnectionLimits, PanicHandler, Server
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.observability.prometheus_text import Exposition
from lograft.runtime.tasks.loop_lag import LoopLag
from lograft.runtime.tasks.retry import ExponentialWait, retrying
from lograft.runtime.world import Runtime
from lograft.storage.log.data_directory import DataDirectory
from lograft.storage.state import used_epoch as directory_use

log = get_logger(__name__)

_LISTEN_AGAIN_MS = 100
_HAND_OVER_MS = 3000
_SHOWN_PARTITIONS = 3
_STOP_GRACE_MS = 100  # for answers being sent; open-ended streams are cut


class NoPlaceInCluster(Exception):
    """Raised when the cluster refuses this process, and retrying cannot help."""


class BrokerRole:
    """Created by `open_broker`. Call `listen`, then `run`, which runs until cancelled; always call `release`. The owner
    closes the directories. `links`: `runtime` with the network between nodes."""

    def __init__(
        self,
        runtime: Runtime,
        links: Runtime,
        config: NodeConfig,
        registration: Registration,
        directories: Sequence[DataDirectory],
        upkeep: MaintenanceTimes,
        lag: LoopLag | None = None,
    ) -> None:
        self._runtime = runtime
        self._links = links
        self._config = config
        self._directories = directories
        self._broker_id = own_id = registration.broker_id
        cluster_id = config.cluster_id
        self.membership = membership = ClusterMembership(
            links,
            config.controllers,
            cluster_id,
            registration,
            lambda: self.replicas.log_ends(),
            self._full_directories,
        )
        for directory in directories:
            directory.space.on_change = membership.session.hurry
        follower = FollowerIdentity(cluster_id, own_id, lambda: membership.broker_epoch, self._address_of)
        self._sink = FollowerClient(links, follower)
        traffic = Traffic(config.metrics_topics)
        self.replicas = ReplicaManager(runtime, own_id, membership, directories, self._sink, upkeep, traffic)
        self._groups = GroupCoordinator(
            runtime.clock,
            lambda: membership.image,
            self.replicas,
            membership.create_internal_topic,
            membership.catch_up,
        )
        membership.follower.listen(self._groups)
        source = LeaderServer(runtime, cluster_id, own_id, self.replicas, lambda: membership.image)
        self._stats = stats = ServerStats()
        membership.follower.listen(SlowRequestSetting(own_id, lambda: membership.image, stats.slow))
        load = LoadService(runtime.clock, own_id, lambda: membership.image, self.replicas, stats, lag, directories)
        self._elsewhere = RemoteLogEnds(runtime, lambda: membership.image)
        self._budget = BufferBudget(config.network_buffer_bytes or DEFAULT_BUDGET_BYTES, runtime.clock)
        services = LogServices(runtime, membership, self.replicas, stats, load, self._budget)
        self._metrics = BrokerMetrics(
            lambda: membership.image,
            self.replicas,
            directories,
            self._groups.partitions,
            self._elsewhere,
            services,
            most_groups=config.metrics_topics,
        )
        others = {
            **membership.handlers(),
            **services.other_handlers(),
            **GroupService(self._groups, lambda: membership.image, own_id).handlers(),
        }
        handlers, self._health = with_standard_services({**services.handlers(), **budgeted(others, self._budget)})
        self._client_handlers = counted(handlers, stats, runtime.clock)
        self._node_handlers = counted(source.handlers(), stats, runtime.clock)
        self._servers: dict[str, Server] = {}
        self._request_limit = RequestLimit(lambda: membership.image, config.max_request_bytes)
        membership.follower.listen(self._request_limit)
        self._on_panic: PanicHandler | None = None
        self._for_clients: ConnectionLimits | None = None
        self._released = asyncio.Event()

    @property
    def broker_epoch(self) -> BrokerEpoch | None:
        """The broker epoch; None until registered."""
        session = self.membership.session
        return session.broker_epoch if session.is_registered else None

    def clean_epoch_of(self, directory: DataDirectory) -> BrokerEpoch | None:
        """Return the epoch in which the directory is clean: all its data is on disk once the open logs are closed.
        Return None if it may not be clean."""
        if self.broker_epoch is None:
            # A process that never registered has changed nothing, so the previous process's epoch still holds.
            return None if directory.clean_epoch is None else BrokerEpoch(directory.clean_epoch)
        # Logs that were not opened are as the previous process left them.
        is_clean = self.replicas.is_recovered or directory.clean_epoch is not None
        return self.broker_epoch if is_clean else None

    def why_not_ready(self) -> str | None:
        """Return a readable reason, or None if the broker is ready."""
        session = self.membership.session
        if not session.is_registered:
            trouble = self.membership.client.trouble
            return f"not registered with the cluster yet{f': {trouble}' if trouble else ''}"
        if session.wanted is Wanted.RUN:
            return "recovering its logs"
        reason = why_not_ready(self.membership.image, self._broker_id, session.state)
        return f"{reason}{self._stale_words()}" if reason is not None else None

    def _stale_words(self) -> str:
        return "".join(f" ({path} is stale: {reason})" for path, reason in self._stale())

    def _stale(self) -> list[tuple[str, str]]:
        """Return the directories whose replicas do not count until they have caught up, with the reasons."""
        stale = self.membership.session.stale_directories
        return [(each.path, _why_stale(each.use)) for each in self._directories if each.identity in stale]

    async def add_metrics(self, page: Exposition) -> None:
        add_server(page, "broker", self._stats)
        add_budget(page, self._budget)
        for listener, server in self._servers.items():
            add_connections(page, listener, server)
        page.add(families.ACTIVE, int(self._is_taken_for_live()))
        page.add(families.METADATA_INDEX, self.membership.follower.index)
        await self._metrics.add_to(page)

    def _is_taken_for_live(self) -> bool:
        """Return whether the active controller may still consider this broker live. A broker that hears from no active
        controller must assume that none hears from it."""
        silent_ms = self._runtime.clock.monotonic_ms() - self.membership.session.last_active_contact_ms
        return self._health.is_serving and silent_ms <= SessionTiming().session_ms

    async def listen(self, on_panic: PanicHandler, descriptors: Descriptors | None = None) -> None:
        """Serve clients and other brokers at separate addresses. Brokers trust each other's messages, so clients must
        not reach the brokers' address."""
        self._on_panic = on_panic
        self._for_clients, for_nodes = (None, None) if descriptors is None else (descriptors.clients, descriptors.nodes)
        self._servers["clients"] = await self._serve_clients(on_panic)
        nodes_listen, serve = self._config.nodes_listen, self._links.network.serve
        assert nodes_listen is not None
        self._servers["nodes"] = await serve(nodes_listen, self._node_handlers, on_panic, for_nodes)

    async def _serve_clients(self, on_panic: PanicHandler) -> Server:
        assert self._config.listen is not None
        limits = self._for_clients
        if limits is not None:
            limits = replace(limits, message_bytes=self._request_limit.size_bytes)
        return await self._runtime.network.serve(self._config.listen, self._client_handlers, on_panic, limits)

    async def _follow_request_limit(self) -> None:
        """Replace the clients' listener when a topic accepts batches over its message limit: gRPC fixes the limit of a
        listener at its start. Clients lose their connections, and reconnect."""
        await self._request_limit.has_grown.wait()
        server, on_panic = self._servers.get("clients"), self._on_panic
        if server is None or on_panic is None or self._for_clients is None:
            return
        log.info(
            "larger_requests_taken", size_bytes=self._request_limit.size_bytes, reason="a topic's max.message.bytes"
        )
        async with asyncio.TaskGroup() as group:
            # Answer calls under way first: one of them changed the topic.
            group.create_task(server.stop(_HAND_OVER_MS), name="former-listener")
            await self._listen_again(on_panic)

    async def _listen_again(self, on_panic: PanicHandler) -> None:
        wait = ExponentialWait(None, _LISTEN_AGAIN_MS, _LISTEN_AGAIN_MS)
        async for attempt in retrying(self._runtime.clock, wait, on=AddressInUse):
            with attempt:
                if self._released.is_set():
                    return
                try:
                    again = await self._serve_clients(on_panic)
                except AddressInUse as error:
                    log.warning("not_listening_yet", reason=str(error))
                    raise
                if self._released.is_set():
                    await again.stop()
                else:
                    self._servers["clients"] = again

    async def run(self) -> None:
        """Join the cluster and serve. Raise `NoPlaceInCluster` if the cluster refuses this broker."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._be_member(), name="membership")
                group.create_task(self._groups.run(), name="groups")
                group.create_task(self.replicas.run(), name="replicas")
                group.create_task(self._sink.run(), name="replication")
                group.create_task(self._elsewhere.run(), name="ends-elsewhere")
                group.create_task(self._follow_request_limit(), name="request-limit")
                await self.replicas.until_recovered()
                for path, reason in self._stale():
                    log.warning("stale_directory", path=path, reason=reason)
                if self.membership.session.wanted is Wanted.RUN:  # otherwise it is already leaving
                    self.membership.session.set_wanted(Wanted.READY)
                await self._follow_state()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def _full_directories(self) -> list[FullDirectory]:
        return [
            FullDirectory(directory.identity, directory.space.is_critical)
            for directory in self._directories
            if directory.space.is_full
        ]

    def _address_of(self, broker_id: BrokerId) -> str | None:
        broker = self.membership.image.brokers.get(broker_id)
        return broker.nodes_address if broker is not None else None

    async def _be_member(self) -> None:
        try:
            await self.membership.run()
        except ControllerError as error:
            raise NoPlaceInCluster(error.message) from None

    async def _follow_state(self) -> None:
        session = self.membership.session
        while True:
            state = session.state
            self._health.set_serving(state is BrokerState.ACTIVE)
            if state is BrokerState.ACTIVE:
                log.info("broker_ready", epoch=session.broker_epoch, address=self._config.advertised)
            await session.wait_until(lambda before=state: session.state is not before)  # type: ignore[misc]

    async def leave(self) -> None:
        """Ask the controller to move leadership away from this broker, and wait for its agreement within a time
        limit."""
        session = self.membership.session
        if session.is_registered:
            session.set_wanted(Wanted.SHUT_DOWN)
            is_agreed = await session.wait_until_may_stop()
            log.info("broker_leaves", agreed=is_agreed)
        self._health.set_serving(False)

    async def release(self) -> None:
        """Stop serving, and release the addresses."""
        self._released.set()
        servers, self._servers = list(self._servers.values()), {}
        async with asyncio.TaskGroup() as group:
            for server in servers:
                group.create_task(server.stop(_STOP_GRACE_MS))


async def open_broker(
    runtime: Runtime,
    links: Runtime,
    config: NodeConfig,
    directories: Sequence[DataDirectory],
    boot_id: str,
    upkeep: MaintenanceTimes,
    lag: LoopLag | None,
    version: str | None,
) -> BrokerRole:
    assert config.advertised is not None
    registration = Registration(
        broker_id=BrokerId(config.node_id),
        incarnation=runtime.rng.uuid(),
        address=config.advertised,
        rack=config.rack,
        directories=tuple(directory.identity for directory in directories),
        boot_id=boot_id,
        clean_epoch=await _clean_epoch(directories),
        min_feature_level=MIN_FEATURE_LEVEL,
        max_feature_level=FEATURE_LEVEL,
        nodes_address=config.nodes_advertised,
        uses=tuple(map(use_of, directories)),
        version=version,
    )
    return BrokerRole(runtime, links, config, registration, directories, upkeep, lag)


def use_of(directory: DataDirectory) -> DirectoryUse:
    """Return the directory's recorded use, in the form of a registration."""
    epoch = directory.use.used_epoch
    used_epoch = None if epoch is None else BrokerEpoch(epoch)
    return DirectoryUse(directory.identity, used_epoch, directory.use.is_restored, directory.use.damage)


def _why_stale(use: directory_use.RecordedUse) -> str:
    """Return a readable reason, from the directory's own records."""
    consequence = "its replicas are not eligible to lead until they have caught up"
    if use.damage is not None:
        return f"{use.damage}, {consequence}"
    if use.used_epoch is None and not use.is_restored:
        return f"used-epoch is missing, {consequence}"
    return f"restored from an older copy, {consequence}"


async def _clean_epoch(directories: Sequence[DataDirectory]) -> BrokerEpoch | None:
    """Return the previous process's epoch if it closed all directories with data cleanly, otherwise None."""
    epochs = [directory.clean_epoch for directory in directories if await directory.partitions()]
    if not epochs or epochs[0] is None or any(epoch != epochs[0] for epoch in epochs):
        return None
    return BrokerEpoch(epochs[0])


def why_not_ready(image: ClusterImage, broker_id: BrokerId, state: BrokerState) -> str | None:
    """Return a readable reason why the broker is not ready, or None if it is.

    A ready broker is unfenced, and in the ISR of all its partitions that have a leader. Replicas that a reassignment is
    adding do not count, because that may take days. `state`: the state last reported by the active controller."""
    if state is BrokerState.SHUTTING_DOWN:
        return "shutting down"
    if state is not BrokerState.ACTIVE:
        return "fenced: the active controller does not consider this broker alive yet"
    behind = [
        f"{image.topics[topic_id].name}-{number}"
        for topic_id, number, partition in image.hosted_by(broker_id)
        if partition.leader is not None and broker_id not in partition.isr and broker_id not in partition.adding
    ]
    if not behind:
        return None
    more = f" and {len(behind) - _SHOWN_PARTITIONS} more" if len(behind) > _SHOWN_PARTITIONS else ""
    return f"catching up on {len(behind)} of its partitions: {', '.join(sorted(behind)[:_SHOWN_PARTITIONS])}{more}"
