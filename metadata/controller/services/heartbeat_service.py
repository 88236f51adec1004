"""The controllers' end of brokers' heartbeats: every controller records liveness, the active one carries out
requests."""

import asyncio
from collections.abc import Mapping

from google.protobuf.message import DecodeError

from lograft.metadata.controller.active_controller import ActiveController
from lograft.metadata.controller.broker_liveness import BrokerLiveness, Process
from lograft.metadata.controller.reported_disks import ReportedDisks
from lograft.metadata.controller.reported_ends import ReportedEnds
from lograft.metadata.decisions.brokers.fencing import shut_down, unfence
from lograft.metadata.decisions.checks import check_broker_epoch
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.proto import metadata_pb2
from lograft.proto.controller_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from lograft.proto.errors_pb2 import WRONG_CLUSTER
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import detail_of, to_stream_error
from lograft.rpc.unary import invalid
from lograft.runtime.clock import Clock
from lograft.runtime.network import Stream
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)

_STATES = {
    BrokerState.FENCED: metadata_pb2.BROKER_STATE_FENCED,
    BrokerState.ACTIVE: metadata_pb2.BROKER_STATE_ACTIVE,
    BrokerState.SHUTTING_DOWN: metadata_pb2.BROKER_STATE_SHUTTING_DOWN,
}


class HeartbeatService:
    """Answers each heartbeat at once with the present state, and again when its request is carried out."""

    def __init__(
        self,
        clock: Clock,
        cluster_id: str,
        active: ActiveController,
        machine: MetadataMachine,
        sessions: BrokerLiveness,
        reported_ends: ReportedEnds,
        addresses: Mapping[int, str],
        reported_disks: ReportedDisks | None = None,
    ) -> None:
        self._clock = clock
        self._cluster_id = cluster_id
        self._active = active
        self._machine = machine
        self._sessions = sessions
        self._reported_ends = reported_ends
        self._addresses = addresses
        self._reported_disks = reported_disks or ReportedDisks()

    async def serve(self, stream: Stream) -> None:
        first = await self._receive(stream)
        if first is None:
            return
        if first.cluster_id != self._cluster_id:
            message = f"this controller belongs to cluster {self._cluster_id!r}, not {first.cluster_id!r}"
            raise to_stream_error(ControllerError(WRONG_CLUSTER, f"{message}: check cluster_id"))
        process = (BrokerId(first.broker_id), BrokerEpoch(first.broker_epoch))
        conversation = _HeartbeatStream(self, stream, process)
        is_noted = self._note(process, is_first=True)
        try:
            async with asyncio.TaskGroup() as group:
                await conversation.answer(first, group)
                while (heartbeat := await self._receive(stream)) is not None:
                    if (heartbeat.broker_id, heartbeat.broker_epoch) != process:
                        raise invalid("a heartbeat of another process on this stream: open a stream for each epoch")
                    is_noted = self._note(process, is_first=not is_noted) or is_noted
                    await conversation.answer(heartbeat, group)
        finally:
            if is_noted:
                self._sessions.stream_broken(*process, self._clock.monotonic_ms())

    def _note(self, process: Process, *, is_first: bool) -> bool:
        """Note that the process was heard, and with its first heartbeat, that it has a stream. Return False on the
        active controller, which knows every registration, if there is no such registration; others may learn of it yet.
        """
        broker = self._machine.image.brokers.get(process[0])
        if self._active.is_active and (broker is None or broker.epoch != process[1]):
            return False
        note = self._sessions.stream_opened if is_first else self._sessions.heard
        note(*process, self._clock.monotonic_ms())
        return True

    async def _receive(self, stream: Stream) -> BrokerHeartbeatRequest | None:
        data = await stream.receive()
        try:
            return BrokerHeartbeatRequest.FromString(data) if data is not None else None
        except DecodeError as error:
            raise invalid(f"not a heartbeat: {error}") from None

    # -- what conversations need

    def note_report(self, process: Process, heartbeat: BrokerHeartbeatRequest) -> None:
        """Take note of the broker's report on its logs and disks."""
        try:
            self._reported_ends.note(process, heartbeat, self._machine.image)
            self._reported_disks.note(process, heartbeat, self._machine.image)
        except ControllerError as error:
            raise to_stream_error(error) from None

    def describe(self, process: Process, may_stop: bool) -> BrokerHeartbeatResponse:
        """Return this controller's present answer to the broker."""
        active_id = self._active.active_hint
        response = BrokerHeartbeatResponse(
            is_active=self._active.is_active,
            active_id=active_id,
            active_address=self._addresses.get(active_id) if active_id is not None else None,
            commit_index=self._machine.index,
            may_stop=may_stop,
        )
        try:
            response.state = _STATES[check_broker_epoch(self._machine.image, *process).state]
        except ControllerError as error:
            # One that is not the active controller may simply not know yet.
            if self._active.is_active:
                response.error.CopyFrom(detail_of(error))
        return response

    async def carry_out(self, process: Process, wanted: "BrokerHeartbeatRequest.Wanted") -> bool:
        """Carry out the broker's request unless it is fulfilled already. Return whether the broker may stop."""
        if wanted == BrokerHeartbeatRequest.READY:
            state = (await self._active.submit(lambda image: unfence(image, *process))).answer
            log.info("broker_unfenced", broker_id=process[0], epoch=process[1], state=state.name)
            return False
        may_stop = (await self._active.submit(lambda image: shut_down(image, *process))).answer
        if may_stop:
            log.info("broker_may_stop", broker_id=process[0], epoch=process[1])
        return may_stop

    def has_work(self, process: Process, wanted: "BrokerHeartbeatRequest.Wanted") -> bool:
        if not self._active.is_active:
            return False
        broker = self._active.image.brokers.get(process[0])
        if broker is None or broker.epoch != process[1]:
            return False
        if wanted == BrokerHeartbeatRequest.READY:
            return broker.state is BrokerState.FENCED
        return wanted == BrokerHeartbeatRequest.SHUT_DOWN


class _HeartbeatStream:
    """One stream. Requests are carried out beside it, one at a time: the quorum may be slow, and the broker must hear
    from this controller all the same."""

    def __init__(self, service: HeartbeatService, stream: Stream, process: Process) -> None:
        self._service = service
        self._stream = stream
        self._process = process
        self._is_busy = False
        self._may_stop = False
        self._sending = asyncio.Lock()

    async def answer(self, heartbeat: BrokerHeartbeatRequest, group: asyncio.TaskGroup) -> None:
        self._service.note_report(self._process, heartbeat)
        if heartbeat.wanted != BrokerHeartbeatRequest.SHUT_DOWN:
            self._may_stop = False  # it has changed its mind
        if not self._is_busy and not self._may_stop and self._service.has_work(self._process, heartbeat.wanted):
            self._is_busy = True
            group.create_task(self._work(heartbeat.wanted), name="heartbeat-wish")
        await self._send()

    async def _work(self, wanted: "BrokerHeartbeatRequest.Wanted") -> None:
        try:
            self._may_stop = await self._service.carry_out(self._process, wanted)
        except ControllerError as error:
            # It will be asked again with the next heartbeat.
            log.info("broker_wish_failed", broker_id=self._process[0], reason=error.message)
        finally:
            self._is_busy = False
        await self._send()

    async def _send(self) -> None:
        async with self._sending:
            response = self._service.describe(self._process, self._may_stop)
            await self._stream.send(response.SerializeToString())
