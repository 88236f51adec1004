"""A broker's session: it registers, then sends heartbeats with what it wants to every controller.

session = BrokerSession(runtime, client, controllers, cluster_id, registration, ports)
group.create_task(session.run())
await session.wait_until(lambda: session.is_registered)
await follower.wait_for(session.registration_index)
session.set_wanted(Wanted.READY)
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from lograft.metadata.decisions.brokers.registration import Registration
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import BrokerEpoch, LeaderEpoch, TopicId
from lograft.metadata.membership.controller_client import ControllerClient
from lograft.metadata.membership.heartbeat_client import HeartbeatClient, HeartbeatTimes
from lograft.metadata.membership.metadata_follower import Lag
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    LatestEpochRequest,
    LatestEpochResponse,
    RegisterRequest,
    RegisterResponse,
)
from lograft.proto.metadata_pb2 import BROKER_STATE_ACTIVE, BROKER_STATE_FENCED, BROKER_STATE_SHUTTING_DOWN
from lograft.proto.methods import LATEST_EPOCH, REGISTER
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import error_of
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.tasks.retry import Complaints, ExponentialWait, retrying
from lograft.runtime.world import Runtime

log = get_logger(__name__)

_REGISTER_FIRST_RETRY_MS = 100
_REGISTER_LAST_RETRY_MS = 2000

# After these the process has lost its broker epoch: another process has its place, or an operator removed it.
_REPLACED = (errors_pb2.STALE_BROKER_EPOCH, errors_pb2.UNKNOWN_BROKER)

_STATES: dict[int, BrokerState] = {
    BROKER_STATE_FENCED: BrokerState.FENCED,
    BROKER_STATE_ACTIVE: BrokerState.ACTIVE,
    BROKER_STATE_SHUTTING_DOWN: BrokerState.SHUTTING_DOWN,
}


class Wanted(Enum):
    """What a broker asks of the controller with each heartbeat."""

    RUN = BrokerHeartbeatRequest.RUN
    READY = BrokerHeartbeatRequest.READY
    SHUT_DOWN = BrokerHeartbeatRequest.SHUT_DOWN


@dataclass(frozen=True, slots=True)
class ReplicaEnd:
    """Where this broker's log of a partition ends. `last_epoch` -1: the log is empty. `is_damaged`: records are
    missing, and this is where the remaining ones end."""

    topic_id: TopicId
    number: int
    last_epoch: LeaderEpoch
    end_offset: int
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class FullDirectory:
    """A data directory that takes no records of users' topics; `is_critical`: nor of internal ones."""

    directory_id: UUID
    is_critical: bool


@dataclass(frozen=True, slots=True)
class SessionHooks:
    """The session's calls to its broker.

    - `metadata_index()`: the index of the broker's image.
    - `log_ends()`: ends of local logs whose partitions have no leader.
    - `commit_index_heard(index)`: the metadata is committed up to there.
    - `controller_learned(controller_id, address)`: there is one more controller than was known.
    - `full_directories()`: all full directories; None: not known.
    """

    metadata_index: Callable[[], int]
    log_ends: Callable[[], Iterable[ReplicaEnd]]
    commit_index_heard: Callable[[int], None]
    controller_learned: Callable[[int, str], None]
    full_directories: Callable[[], Iterable[FullDirectory] | None] = lambda: None


class BrokerSession:
    """The session of one process. All its tasks are inside `run`.

    Only the answers of an active controller count, and if two controllers believe that they are active, those of the
    one with the higher index: `state` and other values from the controller never go back to what an old one still
    believes.
    """

    def __init__(
        self,
        runtime: Runtime,
        client: ControllerClient,
        controllers: Mapping[int, str],
        cluster_id: str,
        registration: Registration,
        ports: SessionHooks,
        times: HeartbeatTimes | None = None,
    ) -> None:
        self.state = BrokerState.FENCED
        self.commit_index = 0  # the highest that was heard of
        self.may_stop = asyncio.Event()
        self._runtime = runtime
        self._client = client
        self._controllers = dict(controllers)
        self._cluster_id = cluster_id
        self._registration = registration
        self._ports = ports
        self._times = times or HeartbeatTimes()
        self._wanted = Wanted.RUN
        self._registered: RegisterResponse | None = None
        self._lag = Lag()
        self._last_active_contact_ms = 0
        self._active_index = 0  # the commit index of the latest word of an active controller
        self._group: asyncio.TaskGroup | None = None
        self._streams: dict[int, HeartbeatClient] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._refusal: asyncio.Future[ControllerError] | None = None
        self._bell = asyncio.Event()
        self._log = log.bind(broker_id=registration.broker_id)
        self._complaints = Complaints(self._log, "broker_refused")

    # -- for the broker

    @property
    def is_registered(self) -> bool:
        return self._registered is not None

    @property
    def broker_epoch(self) -> BrokerEpoch:
        assert self._registered is not None, "not registered yet"
        return BrokerEpoch(self._registered.broker_epoch)

    @property
    def registration_index(self) -> int:
        """The index of the registration. An older image describes an earlier process of this broker."""
        assert self._registered is not None, "not registered yet"
        return self._registered.index

    @property
    def stale_directories(self) -> tuple[UUID, ...]:
        """The data directories that the controller found to be from the past when this process registered."""
        assert self._registered is not None, "not registered yet"
        return tuple(UUID(bytes=directory) for directory in self._registered.stale_directories)

    @property
    def wanted(self) -> Wanted:
        return self._wanted

    @property
    def last_active_contact_ms(self) -> int:
        """When an active controller was last heard, on the runtime's monotonic clock."""
        return self._last_active_contact_ms

    @property
    def metadata_behind_since_ms(self) -> int | None:
        """Since when the broker's image lacks a change that is known to be committed; None if it lacks none."""
        return self._lag.behind_since_ms(self._ports.metadata_index())

    def set_wanted(self, wanted: Wanted) -> None:
        """Announce `wanted` to all controllers at once. READY is announced only once the image has the registration."""
        if wanted is not self._wanted:
            self._wanted = wanted
            self.hurry()

    def hurry(self) -> None:
        """Send the next heartbeat to each controller now: its content has changed."""
        for stream in self._streams.values():
            stream.hurry()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return when `condition` holds; it is checked whenever the session changes."""
        while not condition():
            await self._bell.wait()

    async def wait_until_may_stop(self, *, at_most_ms: int = 30_000, without_active_ms: int = 2_000) -> bool:
        """Return whether the controller lets the broker stop, after `set_wanted(SHUT_DOWN)`. False: it did not in time,
        or there is no active controller."""
        clock = self._runtime.clock
        began_ms = clock.monotonic_ms()
        while not self.may_stop.is_set():
            contact_ms = max(began_ms, self._last_active_contact_ms)
            left_ms = min(began_ms + at_most_ms, contact_ms + without_active_ms) - clock.monotonic_ms()
            if left_ms <= 0:
                return False
            await until_first(self.may_stop.wait(), clock.sleep_ms(left_ms))
        return True

    # -- the session

    async def run(self) -> None:
        """Register, and keep the session until cancelled.

        Raise `ControllerError` if the broker is refused finally. At registration that is any error that a retry cannot
        help, such as WRONG_CLUSTER. Later it is STALE_BROKER_EPOCH (another process of this broker has registered) or
        UNKNOWN_BROKER (the broker was unregistered while it was away). A registration is committed before it is
        answered, so it is never lost in any other way. The process must stop then; a restart registers again.
        """
        await self._register()
        self._refusal = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            self._group = group
            for controller_id, address in self._controllers.items():
                self._begin(controller_id, address)
            try:
                refusal = await self._refusal
            finally:
                self._group = None
            for task in self._tasks:
                task.cancel()
        raise refusal

    async def _register(self) -> None:
        """Register, however long it takes: without controllers there is nothing else to do."""
        wait = ExponentialWait(self._runtime.rng, _REGISTER_FIRST_RETRY_MS, _REGISTER_LAST_RETRY_MS)
        self._registered = await retrying(self._runtime.clock, wait, on=_may_register_later)(self._register_once)
        self._log.info("broker_registered", epoch=self.broker_epoch, index=self.registration_index)
        self._complaints.succeeded()
        self._last_active_contact_ms = self._runtime.clock.monotonic_ms()
        self._active_index = self.registration_index
        self._ring()

    async def _register_once(self) -> RegisterResponse:
        try:
            return await self._register_after(await self._latest_epoch())
        except ControllerError as error:
            if _may_register_later(error):
                self._complaints.complain(errors_pb2.ErrorCode.Name(error.code), error.message)
            raise

    async def _latest_epoch(self) -> BrokerEpoch | None:
        """Return the epoch of an earlier process, or of this one if it is registered and the answer was lost."""
        request = LatestEpochRequest(cluster_id=self._cluster_id, broker_id=self._registration.broker_id)
        latest = await self._client.call(LATEST_EPOCH, request, LatestEpochResponse, repeatable=True)
        return BrokerEpoch(latest.broker_epoch) if latest.HasField("broker_epoch") else None

    async def _register_after(self, previous_epoch: BrokerEpoch | None) -> RegisterResponse:
        request = _register_request(self._cluster_id, self._registration, previous_epoch)
        return await self._client.call(REGISTER, request, RegisterResponse, repeatable=True)

    def _begin(self, controller_id: int, address: str) -> None:
        assert self._group is not None
        stream = HeartbeatClient(self._runtime, controller_id, address, self._compose, self._answered, self._times)
        self._streams[controller_id] = stream
        self._tasks.append(self._group.create_task(stream.run(), name=f"heartbeats-{controller_id}"))

    def _compose(self, *, is_to_active: bool) -> BrokerHeartbeatRequest:
        """Compose a heartbeat. Log ends go to the active controller alone: no other decides by them, and they may be
        many."""
        index = self._ports.metadata_index()
        wanted = self._wanted
        if wanted is Wanted.READY and index < self.registration_index:
            wanted = Wanted.RUN
        request = BrokerHeartbeatRequest(
            cluster_id=self._cluster_id,
            broker_id=self._registration.broker_id,
            broker_epoch=self.broker_epoch,
            metadata_index=index,
            wanted=wanted.value,
        )
        full_directories = self._ports.full_directories()
        if full_directories is not None:
            request.full_directories.SetInParent()
            for full in full_directories:
                request.full_directories.directories.add(
                    directory_id=full.directory_id.bytes, is_critical=full.is_critical
                )
        if is_to_active:
            for end in self._ports.log_ends():
                request.log_ends.add(
                    topic_id=end.topic_id.bytes,
                    partition=end.number,
                    last_epoch=end.last_epoch,
                    end_offset=end.end_offset,
                    is_damaged=end.is_damaged,
                )
        return request

    # -- what the controllers say

    def _answered(self, controller_id: int, answer: BrokerHeartbeatResponse) -> None:
        # One that was replaced, but has not noticed yet, may not even know of our registration.
        is_active = answer.is_active and answer.commit_index >= self._active_index
        self._client.heard_from(controller_id, is_active=is_active)
        self._learn(answer)
        self.commit_index = max(self.commit_index, answer.commit_index)
        self._lag.heard(self.commit_index, self._ports.metadata_index(), self._runtime.clock.monotonic_ms())
        self._ports.commit_index_heard(self.commit_index)
        if is_active:
            self._active_index = answer.commit_index
            self._heed(answer)
        self._ring()

    def _heed(self, answer: BrokerHeartbeatResponse) -> None:
        """Take over the active controller's answer."""
        self._last_active_contact_ms = self._runtime.clock.monotonic_ms()
        if answer.HasField("error"):
            self._refused(error_of(answer.error))
            return
        self._complaints.succeeded()
        state = _STATES.get(answer.state, self.state)
        if state is not self.state:
            self._log.info("broker_state_changed", before=self.state.name, after=state.name)
            self.state = state
        if answer.may_stop and self._wanted is Wanted.SHUT_DOWN:
            self.may_stop.set()

    def _refused(self, error: ControllerError) -> None:
        self._complaints.complain(errors_pb2.ErrorCode.Name(error.code), error.message)
        if error.code in _REPLACED and self._refusal is not None and not self._refusal.done():
            self._refusal.set_result(error)

    def _learn(self, answer: BrokerHeartbeatResponse) -> None:
        """Learn of members that the quorum has got since this broker was configured."""
        controller_id, address = answer.active_id, answer.active_address
        if self._group is not None and address and controller_id not in self._streams:
            self._log.info("controller_learned", controller=controller_id, address=address)
            self._client.learn(controller_id, address)
            self._ports.controller_learned(controller_id, address)
            self._begin(controller_id, address)

    def _ring(self) -> None:
        self._bell.set()
        self._bell = asyncio.Event()


def _may_register_later(error: BaseException) -> bool:
    # A stale epoch does not condemn this process: another request was served between its question and its registration.
    return isinstance(error, ControllerError) and (error.retriable or error.code == errors_pb2.STALE_BROKER_EPOCH)


def _register_request(
    cluster_id: str, registration: Registration, previous_epoch: BrokerEpoch | None
) -> RegisterRequest:
    request = RegisterRequest(
        cluster_id=cluster_id,
        broker_id=registration.broker_id,
        incarnation=registration.incarnation.bytes,
        address=registration.address,
        rack=registration.rack,
        directories=[directory.bytes for directory in registration.directories],
        boot_id=registration.boot_id,
        clean_epoch=registration.clean_epoch,
        min_feature_level=registration.min_feature_level,
        max_feature_level=registration.max_feature_level,
        previous_epoch=previous_epoch,
        nodes_address=registration.nodes_address,
        version=registration.version,
    )
    for use in registration.uses:
        # A controller that does not know of damage yet takes the directory for one that was put back: all the same.
        request.uses.add(
            directory_id=use.directory_id.bytes,
            used_epoch=use.used_epoch,
            is_restored=use.is_restored or use.damage is not None,
            damage=use.damage,
        )
    return request
