"""A broker's heartbeats to one controller: a stream that is made anew whenever it is lost, or silent for too long."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from google.protobuf.message import DecodeError

from lograft.proto.controller_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from lograft.proto.methods import BROKER_HEARTBEAT
from lograft.runtime.clock import until_beat_ms
from lograft.runtime.network import ConnectFailed, Status, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.tasks.retry import Complaints, ExponentialWait, TryAgain, retrying
from lograft.runtime.tasks.silence import SILENCE_LIMIT_MS, Silence
from lograft.runtime.world import Runtime

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HeartbeatTimes:
    """The controller waits `first_retry_ms` many times over before it takes a broken stream for a broken broker."""

    interval_ms: int = 500
    silence_ms: int = SILENCE_LIMIT_MS
    connect_timeout_ms: int = 1000
    first_retry_ms: int = 20
    last_retry_ms: int = 500
    refused_retry_ms: int = 5000


class HeartbeatComposer(Protocol):
    """Composes a heartbeat from the present state. `is_to_active`: its receiver said that it is the active
    controller."""

    def __call__(self, *, is_to_active: bool) -> BrokerHeartbeatRequest: ...


class HeartbeatClient:
    """Sends heartbeats to controller `controller_id` at `address`. `heard` is called with each answer."""

    def __init__(
        self,
        runtime: Runtime,
        controller_id: int,
        address: str,
        compose: HeartbeatComposer,
        heard: Callable[[int, BrokerHeartbeatResponse], None],
        times: HeartbeatTimes,
    ) -> None:
        self._runtime = runtime
        self._controller_id = controller_id
        self._address = address
        self._compose = compose
        self._heard = heard
        self._times = times
        self._is_urgent = asyncio.Event()
        self._is_to_active = False
        self._wait = ExponentialWait(runtime.rng, times.first_retry_ms, times.last_retry_ms)
        self._complaints = Complaints(log.bind(controller=controller_id, address=address), "heartbeats_failed")

    def hurry(self) -> None:
        """Send the next heartbeat now: the broker wants something else."""
        self._is_urgent.set()

    async def run(self) -> None:
        """Keep a stream to the controller, until cancelled."""
        await retrying(self._runtime.clock, self._wait, on=())(self._converse_once)

    async def _converse_once(self) -> NoReturn:
        """Keep one stream until it ends. Raise `TryAgain`."""
        try:
            await self._converse()
        except ConnectFailed as error:
            self._complaints.complain("unreachable", error.reason)
        if self._complaints.kind == Status.FAILED_PRECONDITION.name.lower():
            # A controller of another cluster: somebody must change a setting first.
            await self._runtime.clock.sleep_ms(self._times.refused_retry_ms)
        raise TryAgain

    async def _converse(self) -> None:
        connection = await self._runtime.network.connect(self._address, self._times.connect_timeout_ms)
        try:
            stream = connection.open(BROKER_HEARTBEAT)
            silence = Silence(self._runtime.clock, self._times.silence_ms)
            await until_first(
                self._send(stream), self._receive(stream, silence), self._tire(silence), connection.broken.wait()
            )
        finally:
            await connection.close()

    async def _send(self, stream: Stream) -> None:
        try:
            while True:
                self._is_urgent.clear()
                heartbeat = self._compose(is_to_active=self._is_to_active)
                await stream.send(heartbeat.SerializeToString())
                wait_ms = until_beat_ms(self._runtime.clock.monotonic_ms(), self._times.interval_ms)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._is_urgent.wait()
        except StreamError as error:
            self._complaints.complain(error.status.name.lower(), error.message)

    async def _receive(self, stream: Stream, silence: Silence) -> None:
        try:
            while (data := await stream.receive()) is not None:
                silence.heard()
                answer = BrokerHeartbeatResponse.FromString(data)
                self._wait.succeeded()
                self._complaints.succeeded()
                self._is_to_active = answer.is_active
                self._heard(self._controller_id, answer)
            self._complaints.complain("ended", "the controller ended the stream")
        except StreamError as error:
            self._complaints.complain(error.status.name.lower(), error.message)
        except DecodeError as error:
            self._complaints.complain("unreadable", f"not a heartbeat's answer: {error}")

    async def _tire(self, silence: Silence) -> None:
        await silence.too_long()
        self._complaints.complain("silent", f"nothing heard for {self._times.silence_ms} ms")
