"""A whole controller: the Raft node, its metadata, the active controller's logic, and its services.

node = ControllerNode(runtime, store, await store.load(), {1: "host1:9093", ...})
server = await runtime.network.serve(address, node.handlers(), on_panic)
group.create_task(node.run())
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from lograft.metadata.controller.active_controller import ActiveController
from lograft.metadata.controller.broker_liveness import BrokerLiveness, SessionTiming
from lograft.metadata.controller.initial_records import InitialRecords
from lograft.metadata.controller.reported_disks import ReportedDisks
from lograft.metadata.controller.reported_ends import ReportedEnds
from lograft.metadata.controller.services.admin_service import AdminService
from lograft.metadata.controller.services.heartbeat_service import HeartbeatService
from lograft.metadata.controller.services.internal_service import ControllerService
from lograft.metadata.controller.services.metadata_publisher import MetadataPublisher
from lograft.metadata.controller.services.quorum_service import QuorumService
from lograft.metadata.controller.timers import ControllerTimers, ControllerTiming, usual_chores
from lograft.metadata.decisions.partitions.log_ends import LogEnds
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.metadata.membership.cluster_service import ClusterService
from lograft.metadata.quorum_view import Quorum, VoterList
from lograft.raft.bootstrap.bootstrapper import Bootstrapper
from lograft.raft.core.raft_core import RaftTiming
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.driver.snapshots import SnapshotPolicy
from lograft.raft.interfaces import Store, StoredState
from lograft.raft.transport.raft_transport import RaftTransport
from lograft.runtime.network import Handler
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.world import Runtime


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Timing, snapshot limits, and the configuration of a new cluster."""

    timing: ControllerTiming = field(default_factory=ControllerTiming)
    sessions: SessionTiming = field(default_factory=SessionTiming)
    raft: RaftTiming = field(default_factory=RaftTiming)
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)
    cluster_settings: Mapping[str, str] = field(default_factory=dict)


class ControllerNode:
    """`controllers`: the address of each controller by node id, this one included. The caller owns the server, and must
    serve `handlers()` from before `run` until after it: at a first start the controllers have to find each other.

    `run` ends with `close`, the store closed; or it raises after a failed store or a broken invariant. Then the node
    must stop.
    """

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        state: StoredState,
        controllers: Mapping[int, str],
        settings: ControllerSettings | None = None,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._settings = settings or ControllerSettings()
        self._controllers = dict(controllers)
        identity, clock = store.identity, runtime.clock
        self._bootstrapping = Bootstrapper(runtime, store, state, controllers)
        self._transport = RaftTransport(runtime, identity, store=store)
        self.quorum = Quorum(identity.member, clock)
        self.machine = MetadataMachine()
        self.active = ActiveController(self.quorum, self.machine)
        self.sessions = BrokerLiveness(self._settings.sessions)
        self._reported_ends = ReportedEnds()
        self.machine.listen(self._reported_ends)
        reported_disks, disks_changed = ReportedDisks(), asyncio.Event()
        reported_disks.on_change = disks_changed.set
        self._publishing = MetadataPublisher(runtime, self.machine, identity.cluster_id)
        self._first_records = InitialRecords(clock, self.active, self._settings.cluster_settings)
        self._timers = ControllerTimers(
            runtime, self.active, self.sessions,
            usual_chores(self._log_ends, self._settings.timing, reported_disks.room, disks_changed),
            self._settings.timing,
        )  # fmt: skip
        heartbeats = HeartbeatService(
            clock, identity.cluster_id, self.active, self.machine, self.sessions, self._reported_ends,
            self._controllers, reported_disks,
        )  # fmt: skip
        self._services = (
            ControllerService(
                clock,
                runtime.rng,
                identity.cluster_id,
                self.active,
                self.sessions,
                heartbeats,
                self.quorum.latest_index,
                self._controllers,
                reported_disks.room,
            ),
            AdminService(runtime, self.active, self._controllers, self._log_ends, reported_disks.room),
            QuorumService(
                runtime,
                lambda: self.raft,
                self._transport,
                self._bootstrapping.who_answers,
                self._controllers,
                identity.cluster_id,
            ),
            ClusterService(
                runtime, self.machine, identity.cluster_id, self.quorum.latest_index, lambda: self.active.active_hint
            ),
        )
        self._is_closing = asyncio.Event()

    @property
    def raft(self) -> RaftNode | None:
        """The Raft node; None until this node takes part in the quorum."""
        return self.quorum.node

    @property
    def outdated_reason(self) -> str | None:
        """Why another member refuses this node, for people: its store is from the past; None if no member does."""
        return self._transport.register.outdated_reason

    @property
    def waiting_reason(self) -> str | None:
        """Why the node does not take part yet, for people; None once it does."""
        return self._bootstrapping.waiting_reason

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers, by method."""
        handlers = {**self._bootstrapping.handlers(), **self._transport.handlers(), **self._publishing.handlers()}
        for service in self._services:
            handlers.update(service.handlers())
        return handlers

    async def run(self) -> None:
        """Take part, until `close`."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._transport.run(), name="raft-transport")
                self._transport.set_addresses(self._controllers)
                state = await self._until_taking_part()
                if state is None:
                    await self._transport.close()
                else:
                    await self._take_part(state, group)
        except BaseExceptionGroup as failures:
            raise _cause_of(failures) from None
        finally:
            # The Raft node does so itself, but it may not have begun; once more is harmless.
            await self._store.close()

    async def close(self) -> None:
        """Make `run` end, now or as soon as it begins. Waiting requests are answered with an error."""
        self._is_closing.set()

    async def _until_taking_part(self) -> StoredState | None:
        """Return the state that the node starts with; None if it closes before."""
        state: StoredState | None = None

        async def bootstrap() -> None:
            nonlocal state
            state = await self._bootstrapping.run()

        await until_first(bootstrap(), self._is_closing.wait())
        return state if not self._is_closing.is_set() else None

    async def _take_part(self, state: StoredState, group: asyncio.TaskGroup) -> None:
        settings = self._settings
        raft = RaftNode(
            self._runtime, self._store, state, self._transport, self.machine,
            timing=settings.raft, policy=settings.snapshots,
        )  # fmt: skip
        voters = VoterList(self.quorum, self._controllers)
        for observer in (self.machine, self.active, self._first_records, self._timers, voters):
            raft.observe(observer)
        self._bootstrapping.follow(lambda: raft.status().configuration)
        running = group.create_task(raft.run(), name="raft")
        deciding = group.create_task(self.active.run(), name="active-controller")
        beside = [
            group.create_task(part.run(), name=type(part).__name__) for part in (self._first_records, self._timers)
        ]
        self.quorum.node = raft
        await self._is_closing.wait()
        self.active.close()
        await raft.close()
        await asyncio.wait([running, deciding])  # which ends once the fate of all its proposals is known
        for task in beside:
            task.cancel()

    def _log_ends(self) -> LogEnds:
        return self._reported_ends.log_ends


def _cause_of(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure out of nested groups."""
    first = failures.exceptions[0]
    return _cause_of(first) if isinstance(first, BaseExceptionGroup) else first
