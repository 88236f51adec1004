"""Relays TCP connections to another address: a network that fails on demand."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from lograft.runtime.network import AddressInUse
from lograft.runtime.rng import Rng

Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK_BYTES = 64 * 1024
_HELD_BYTES = 1024 * 1024  # the most in transit in one direction; beyond that the sender must wait


_RESEND_MS = 200.0  # the delay before TCP resends lost data; it doubles each time
_RESENT_AT_MOST = 6  # then TCP gives up


@dataclass(slots=True)
class RelayDirection:
    """The current state of one direction.

    While `passes` is False, data waits. `loss`: the probability of losing a chunk; TCP resends it, which delays all
    that follows, and ends the connection after too many losses."""

    passes: bool = True
    delay_ms: float = 0.0
    bytes_per_second: int | None = None
    loss: float = 0.0


@dataclass(slots=True)
class LinkState:
    """The state of a link between two processes. `there`: from the connecting process. `back`: to it."""

    there: RelayDirection = field(default_factory=RelayDirection)
    back: RelayDirection = field(default_factory=RelayDirection)


class RelayedConnection:
    """One relayed connection."""

    def __init__(self, source: object, state: LinkState, changed: asyncio.Condition, rng: Rng) -> None:
        self.source = source
        self._rng = rng
        self.state = state
        self._changed = changed
        self._tasks: list[asyncio.Task[None]] = []

    async def run(
        self,
        ours: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        theirs: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Relay until either end is closed, or until `cut`."""
        async with asyncio.TaskGroup() as group:
            self._tasks = [
                group.create_task(self._pass_on(ours[0], theirs[1], self.state.there)),
                group.create_task(self._pass_on(theirs[0], ours[1], self.state.back)),
            ]
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self.cut()

    def cut(self) -> None:
        """Break the connection for both ends."""
        for task in self._tasks:
            task.cancel()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: RelayDirection) -> None:
        """Relay one direction. Delay each chunk independently of how many are in transit."""
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_HELD_BYTES // _CHUNK_BYTES)
        loop = asyncio.get_running_loop()

        async def read() -> None:
            while data := await reader.read(_CHUNK_BYTES):
                await due.put((loop.time() + way.delay_ms / 1000, data))
            await due.put((loop.time() + way.delay_ms / 1000, b""))

        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read())
            with contextlib.suppress(ConnectionError):
                while True:
                    moment, data = await due.get()
                    await asyncio.sleep(max(moment - loop.time(), 0))
                    async with self._changed:
                        await self._changed.wait_for(lambda: way.passes)
                    if not data or not await self._gets_through(way):
                        break
                    writer.write(data)
                    await writer.drain()
                    if way.bytes_per_second is not None:
                        await asyncio.sleep(len(data) / way.bytes_per_second)
            reading.cancel()

    async def _gets_through(self, way: RelayDirection) -> bool:
        """Return True after the simulated retransmissions of a chunk, or False if TCP gives up."""
        for attempt in range(_RESENT_AT_MOST):
            if self._rng.random() >= way.loss:
                return True
            await asyncio.sleep(_RESEND_MS * 2**attempt / 1000)
        return False


class TcpRelay:
    """Relays from `listen` to `target`.

    `source_of`: returns the connecting process, by its port. `state_of`: returns the state of the link from there; the
    connection keeps it, and its owner may change it, and then calls `tell_changed`. `rng`: decides losses."""

    def __init__(
        self,
        listen: str,
        target: str,
        source_of: Callable[[int], object],
        state_of: Callable[[object], LinkState],
        rng: Rng,
    ) -> None:
        self._rng = rng
        self.listen = listen
        self.target = target
        self._source_of = source_of
        self._state_of = state_of
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Condition()
        self._connections: set[RelayedConnection] = set()
        self._serving: set[asyncio.Task[None]] = set()  # one per connection

    async def start(self) -> None:
        """Start to listen. Raise `AddressInUse` if that is impossible."""
        host, _, port = self.listen.rpartition(":")
        try:
            self._server = await asyncio.start_server(self._connected, host, int(port))
        except OSError as error:
            raise AddressInUse(self.listen, str(error)) from None

    async def stop(self) -> None:
        """Stop listening, and return when all connections have ended."""
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        await self._server.wait_closed()

    async def tell_changed(self) -> None:
        """Make waiting connections check the state of their links again."""
        async with self._changed:
            self._changed.notify_all()

    def break_connections(self, whose: Callable[[object], bool]) -> int:
        """Break the connections from the chosen sources. Return how many."""
        chosen = [each for each in self._connections if whose(each.source)]
        for connection in chosen:
            connection.cut()
        return len(chosen)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name=f"relay-to-{self.target}")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0)  # let the loop detect whether the caller has hung up
        if _has_hung_up(reader):  # it gave up while the relay was busy, so do not search for its process
            await _close(writer)
            return
        source = self._source_of(writer.get_extra_info("peername")[1])
        connection = RelayedConnection(source, self._state_of(source), self._changed, self._rng)
        self._connections.add(connection)
        try:
            # While nothing passes, the target is unreachable: do not connect to it.
            async with self._changed:
                await self._changed.wait_for(lambda: connection.state.there.passes)
            if _has_hung_up(reader):
                return
            host, _, port = self.target.rpartition(":")
            theirs = await asyncio.open_connection(host, int(port))
            try:
                await connection.run((reader, writer), theirs)
            finally:
                await _close(theirs[1])
        except (ConnectionError, ExceptionGroup):
            pass  # refused, or lost in transit: closing tells the other end
        finally:
            self._connections.discard(connection)
            await _close(writer)


def _has_hung_up(reader: asyncio.StreamReader) -> bool:
    """Return whether the connecting process has closed its end, so that the target need not be contacted."""
    is_over: bool = getattr(reader, "_eof")  # noqa: B009 (asyncio tells only when all before it is read)
    return is_over


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close at once, and lose unsent data, as when a connection breaks."""
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
