"""The way to one controller: a connection, made when it is needed and shared by all calls."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lograft.rpc.unary import NotSent, exchange
from lograft.runtime.network import ConnectFailed, Connection, Status, StreamError
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.tasks.silence import SILENCE_LIMIT_MS, Silence
from lograft.runtime.world import Runtime


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """How long a client of the controllers waits, and for what."""

    connect_timeout_ms: int = 1000
    silence_ms: int = SILENCE_LIMIT_MS
    first_retry_ms: int = 100  # half of it at the least
    last_retry_ms: int = 500


class ControllerConnection:
    """To controller `controller_id` at `address`. Nothing is connected before the first `ask`."""

    def __init__(self, runtime: Runtime, controller_id: int, address: str, limits: ClientLimits) -> None:
        self.controller_id = controller_id
        self.address = address
        self.trouble = ""  # of the last attempt, for people
        self._runtime = runtime
        self._limits = limits
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._failures = 0  # to connect, so far
        self._failure = ""
        self._silences: dict[Silence, None] = {}
        self._is_closed = False

    def heard(self) -> None:
        """Note that the controller is alive: callers may keep waiting for its answer."""
        for silence in self._silences:
            silence.heard()

    async def ask(self, method: str, request: Callable[[], bytes]) -> bytes:
        """Return the answer to `request`, made once there is a connection. Raise `ConnectFailed` or `NotSent` if
        nothing was done; any other `StreamError` is the controller's, or has no detail: then the outcome is unknown.

        When a controller falls silent, its connection is closed, and all calls there fail.
        """
        connection = await self._connected()
        unanswered = StreamError(Status.DEADLINE_EXCEEDED, f"nothing heard for {self._limits.silence_ms} ms")
        outcome: bytes | StreamError = unanswered
        silence = Silence(self._runtime.clock, self._limits.silence_ms)

        async def ask() -> None:
            nonlocal outcome
            try:
                outcome = await exchange(connection, method, request())
            except StreamError as error:
                outcome = error

        self._silences[silence] = None
        try:
            await until_first(ask(), silence.too_long())
        finally:
            del self._silences[silence]
        if outcome is unanswered:
            await self._drop(connection)
        if isinstance(outcome, StreamError):
            raise outcome
        self.heard()
        return outcome

    async def close(self) -> None:
        self._is_closed = True
        async with self._connecting:
            if self._connection is not None:
                await self._drop(self._connection)

    async def _connected(self) -> Connection:
        failures = self._failures
        async with self._connecting:
            if self._is_closed:
                raise NotSent(StreamError(Status.UNAVAILABLE, "the client of the controllers is closed"))
            if self._failures != failures:
                # Another tried while we waited. Were each to try for itself, the last would wait for all of them.
                raise ConnectFailed(self.address, self._failure)
            if self._connection is not None and self._connection.broken.is_set():
                await self._drop(self._connection)
            if self._connection is None:
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> Connection:
        try:
            return await self._runtime.network.connect(self.address, self._limits.connect_timeout_ms)
        except ConnectFailed as error:
            self._failures += 1
            self._failure = error.reason
            raise

    async def _drop(self, connection: Connection) -> None:
        if self._connection is connection:
            self._connection = None
        await connection.close()
