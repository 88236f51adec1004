"""A network that authenticates nodes: each must prove that it knows the cluster's secret. Only this module does so.

links = ProvenNetwork(network, identity, rng, clock)
connection = await links.connect(address)           # both ends are proven, or ConnectFailed
server = await links.serve(address, handlers, on_panic)

gRPC has no handshake of a connection that could carry the proof. So the first stream of a connection does, and every
other stream between nodes begins with a ticket from it. A transport with a handshake of its own would need neither.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from lograft.proto import errors_pb2
from lograft.proto.errors import error_detail
from lograft.proto.methods import PROVE, is_between_nodes
from lograft.runtime.clock import Clock
from lograft.runtime.network import (
    ConnectFailed,
    Connection,
    ConnectionLimits,
    Handler,
    Network,
    PanicHandler,
    Server,
    Status,
    Stream,
    StreamError,
)
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.proof.node_proof import (
    NONCE_BYTES,
    Callee,
    Caller,
    NodeIdentity,
    NotProven,
    Session,
    read_ticket,
)
from lograft.runtime.rng import Rng

log = get_logger(__name__)

_ROUND_TRIPS = 2


@dataclass(frozen=True, slots=True)
class ProofLimits:
    """Limits for strangers: peers that have not proved themselves.

    `proof_ms`: the most time for a proof. `unproven`: the most concurrent streams of strangers; another one ends the
    oldest stream of the peer with the most. `unread_bytes`: the most bytes, of all strangers together, that no handler
    has received; beyond it, the connections that sent the most are ended. `message_bytes`: the largest message from a
    stranger, for methods open to anybody. `told_every_ms`: the shortest time between log events about refusals."""

    proof_ms: int = 3000
    unproven: int = 256
    unread_bytes: int = 16 * 1024 * 1024
    message_bytes: int = 4 * 1024 * 1024
    told_every_ms: int = 10_000


class ProvenNetwork:
    """A `Network` between nodes. Methods for clients at the same address are open to anybody."""

    def __init__(
        self, network: Network, identity: NodeIdentity, rng: Rng, clock: Clock, limits: ProofLimits | None = None
    ) -> None:
        assert identity.secrets, "nothing to prove with"
        self._network = network
        self._identity = identity
        self._rng = rng
        self._clock = clock
        self._limits = limits or ProofLimits()
        self._refusals: list[_Refusals] = []

    @property
    def refused(self) -> int:
        """The number of streams refused because their peers had not proved themselves."""
        return sum(refusals.count for refusals in self._refusals)

    async def connect(self, address: str, timeout_ms: int = 3000) -> Connection:
        """Return a proven connection. Raise `ConnectFailed` also if either end rejects the other's proof."""
        connection = await self._network.connect(address, timeout_ms)
        proof_ms = _ROUND_TRIPS * timeout_ms  # each may take as long as connecting
        try:
            async with asyncio.timeout(proof_ms / 1000):
                session = await self._prove(connection)
        except (TimeoutError, NotProven, StreamError) as error:
            await connection.close()
            raise ConnectFailed(address, _reason(error, proof_ms)) from None
        except BaseException:
            await connection.close()
            raise
        return _ProvenConnection(connection, session)

    async def _prove(self, connection: Connection) -> Session:
        """Exchange proofs on a stream that stays open: the session lasts as long as the stream."""
        caller = Caller(self._identity, self._rng.secret_bytes(NONCE_BYTES))
        stream = connection.open(PROVE)
        await stream.send(caller.hello())
        try:
            proof, session = caller.prove(await stream.receive())
        except NotProven:
            # Let the other end detect the failure, too: its operator may be the one who must act.
            with contextlib.suppress(StreamError):
                await stream.half_close()
                await stream.receive()
            raise
        await stream.send(proof)
        if await stream.receive() is None:
            raise NotProven("the other end went away when it was to believe this one")
        return session

    async def serve(
        self,
        address: str,
        handlers: Mapping[str, Handler],
        on_panic: PanicHandler,
        limits: ConnectionLimits | None = None,
    ) -> Server:
        refusals = _Refusals(self._clock, address, self._limits.told_every_ms)
        self._refusals.append(refusals)
        guard = _Guard(self._identity, self._rng, self._limits, address, refusals)
        guarded = {
            method: guard.guarding(method, handler) if is_between_nodes(method) else guard.for_anybody(handler)
            for method, handler in handlers.items()
        }
        if limits is not None:
            limits = replace(limits, unread_bytes=self._limits.unread_bytes, believed=guard.believed)
        return await self._network.serve(address, {**guarded, PROVE: guard.serve_proof}, on_panic, limits)


def _reason(error: TimeoutError | NotProven | StreamError, proof_ms: int) -> str:
    match error:
        case StreamError(status=Status.UNIMPLEMENTED):
            return "the node there asks for no proof: give it this cluster's cluster_secret_file"
        case StreamError(message=message):
            return message
        case NotProven():
            return str(error)
    return f"no proof of the cluster's secret within {proof_ms} ms"


class _ProvenConnection:
    """A connection whose streams between nodes begin with a ticket."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection = connection
        self._session = session

    def open(self, method: str) -> Stream:
        stream = self._connection.open(method)
        return _TicketedStream(stream, self._session.ticket(method)) if is_between_nodes(method) else stream

    @property
    def broken(self) -> asyncio.Event:
        return self._connection.broken

    async def close(self) -> None:
        await self._connection.close()


class _TicketedStream:
    """Sends its ticket before the first message is sent or received."""

    def __init__(self, stream: Stream, ticket: bytes) -> None:
        self._stream = stream
        self._ticket: bytes | None = ticket
        self._showing = asyncio.Lock()

    @property
    def peer(self) -> str:
        return self._stream.peer

    async def send(self, message: bytes) -> None:
        await self._show()
        await self._stream.send(message)

    async def receive(self) -> bytes | None:
        await self._show()
        return await self._stream.receive()

    async def half_close(self) -> None:
        try:
            await self._show()
        except StreamError:
            return  # already over: `receive` reports the outcome
        await self._stream.half_close()

    def reset(self) -> None:
        self._stream.reset()

    async def _show(self) -> None:
        if self._ticket is None:
            return
        try:
            async with self._showing:
                if self._ticket is not None:
                    await self._stream.send(self._ticket)
                    self._ticket = None
        except asyncio.CancelledError:
            self._stream.reset()
            raise


class _Guard:
    """Checks, at one address, which peers may act as nodes."""

    def __init__(
        self, identity: NodeIdentity, rng: Rng, limits: ProofLimits, address: str, refusals: "_Refusals"
    ) -> None:
        self._identity = identity
        self._rng = rng
        self._limits = limits
        self._address = address
        self._sessions: dict[bytes, tuple[Session, str]] = {}  # by name, with the peer of the connection
        self._unproven: dict[asyncio.Timeout, str] = {}  # the peers by timeout, the earliest first
        self._refusals = refusals

    def believed(self) -> list[str]:
        """Return the peers whose connections are proven. May be called from other threads."""
        return [peer for _, peer in list(self._sessions.values())]

    async def serve_proof(self, stream: Stream) -> None:
        async with self._proving(stream):
            callee = Callee(self._identity, await stream.receive(), self._rng.secret_bytes(NONCE_BYTES))
            await stream.send(callee.answer)
            session = callee.check(await stream.receive())
        self._sessions[session.name] = (session, stream.peer)
        try:
            await stream.send(b"")
            while await stream.receive() is not None:
                pass
        finally:
            del self._sessions[session.name]

    def guarding(self, method: str, handler: Handler) -> Handler:
        async def serve(stream: Stream) -> None:
            async with self._proving(stream):
                ticket = read_ticket(await stream.receive())
                session, peer = self._sessions.get(ticket.session, (None, ""))
                if session is None or peer != stream.peer:
                    raise NotProven("its ticket is of no connection that is proven")
                session.take(ticket, method)
            await handler(stream)

        return serve

    def for_anybody(self, handler: Handler) -> Handler:
        async def serve(stream: Stream) -> None:
            is_stranger = stream.peer not in self.believed()
            await handler(_StrangersStream(stream, self._limits.message_bytes) if is_stranger else stream)

        return serve

    @asynccontextmanager
    async def _proving(self, stream: Stream) -> AsyncIterator[None]:
        """Limit the time and the number of unproven streams, and refuse the stream on `NotProven`."""
        # Streams on a proven connection are a node's, and are never ended in favour of a stranger.
        is_stranger = stream.peer not in self.believed()
        while is_stranger and len(self._unproven) >= self._limits.unproven:
            surplus = self._surplus()
            del self._unproven[surplus]
            if not surplus.expired():
                surplus.reschedule(asyncio.get_running_loop().time())
        timeout = asyncio.timeout(self._limits.proof_ms / 1000)
        try:
            async with timeout:
                if is_stranger:
                    self._unproven[timeout] = stream.peer
                yield
        except TimeoutError:
            raise self._refusal(stream, "it proved nothing in time") from None
        except NotProven as error:
            raise self._refusal(stream, str(error)) from None
        finally:
            self._unproven.pop(timeout, None)

    def _surplus(self) -> asyncio.Timeout:
        """Return the earliest stream of the connection with the most, at the address with the most: a node has only
        one."""
        by_peer = Counter(self._unproven.values())
        by_host = Counter(peer.rpartition(":")[0] for peer in self._unproven.values())

        def share(timeout: asyncio.Timeout) -> tuple[int, int]:
            peer = self._unproven[timeout]
            return by_host[peer.rpartition(":")[0]], by_peer[peer]

        return max(self._unproven, key=share)

    def _refusal(self, stream: Stream, reason: str) -> StreamError:
        self._refusals.note(stream.peer, reason)
        message = f"not taken for a node of cluster {self._identity.cluster_id!r} at {self._address}: {reason}"
        # The call had no effect, and another node may accept it.
        detail = error_detail(errors_pb2.UNAVAILABLE, message)
        return StreamError(Status.UNAUTHENTICATED, message, detail.SerializeToString())


class _StrangersStream:
    """Refuses messages that are larger than strangers may send."""

    def __init__(self, stream: Stream, message_bytes: int) -> None:
        self._stream = stream
        self._message_bytes = message_bytes
        self.send = stream.send
        self.half_close = stream.half_close
        self.reset = stream.reset

    @property
    def peer(self) -> str:
        return self._stream.peer

    async def receive(self) -> bytes | None:
        message = await self._stream.receive()
        if message is not None and len(message) > self._message_bytes:
            reason = (
                f"a message of {len(message)} bytes: this port is for nodes, and takes at most {self._message_bytes} "
                "bytes from others; send it to a broker's `listen` address, or in parts"
            )
            detail = error_detail(errors_pb2.INVALID_REQUEST, reason)
            raise StreamError(Status.RESOURCE_EXHAUSTED, reason, detail.SerializeToString())
        return message


class _Refusals:
    """Logs refusals at a limited rate, because there may be many strangers, which retry."""

    def __init__(self, clock: Clock, address: str, told_every_ms: int) -> None:
        self._clock = clock
        self._log = log.bind(address=address)
        self._told_every_ms = told_every_ms
        self.count = 0
        self._told_ms: int | None = None
        self._untold = 0

    def note(self, peer: str, reason: str) -> None:
        self.count += 1
        now_ms = self._clock.monotonic_ms()
        if self._told_ms is not None and now_ms - self._told_ms < self._told_every_ms:
            self._untold += 1
            return
        self._log.warning("node_not_believed", peer=peer, reason=reason, untold_before=self._untold)
        self._told_ms, self._untold = now_ms, 0
