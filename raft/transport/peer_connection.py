"""The outgoing connection to one other node, re-established whenever it breaks."""

import asyncio
from dataclasses import dataclass

from lograft.raft.bootstrap.start_register import NotingEnded, StartRegister
from lograft.raft.core.configuration import Member
from lograft.raft.core.messages import Envelope
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.interfaces import Inbox, Snapshot, StoreIdentity
from lograft.raft.transport.envelope_codec import encode_envelopes
from lograft.raft.transport.hello import introduce
from lograft.raft.transport.outbox import Outbox
from lograft.raft.transport.snapshot_stream import send_snapshot
from lograft.runtime.network import ConnectFailed, Connection, Status, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.tasks.retry import Complaints, ExponentialWait
from lograft.runtime.world import Runtime

MESSAGES_METHOD = "/lograft.internal.v1.Raft/Messages"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Limits of one peer. The queue holds more than the core's in-flight limit."""

    max_queued_messages: int = 4096
    max_queued_bytes: int = 32 * 1024 * 1024
    max_message_bytes: int = 2 * 1024 * 1024  # on the wire; a larger entry goes alone
    snapshot_chunk_bytes: int = 512 * 1024
    max_snapshot_bytes: int = 1024 * 1024 * 1024
    connect_timeout_ms: int = 1000
    first_retry_ms: int = 40
    last_retry_ms: int = 500
    refused_retry_ms: int = 5000


class PeerConnection:
    """Node `node_id` at `address`. Messages sent without a connection are dropped: they would be stale once it is back.

    `member` is the member that answers there now; messages for another one (the node with an earlier disk) are dropped.
    """

    def __init__(
        self,
        runtime: Runtime,
        identity: StoreIdentity,
        node_id: int,
        address: str,
        inbox: Inbox,
        limits: TransportLimits,
        register: StartRegister,
    ) -> None:
        self.node_id = node_id
        self.address = address
        self.member: Member | None = None
        self._runtime = runtime
        self._identity = identity
        self._inbox = inbox
        self._limits = limits
        self._register = register
        self._outbox = Outbox(limits.max_queued_messages, limits.max_queued_bytes)
        self._has_mail = asyncio.Event()
        self._order: tuple[SnapshotToSend, Snapshot] | None = None
        self._is_ordered = asyncio.Event()
        self._is_alive = asyncio.Event()
        # Jitter keeps two nodes from meeting halfway again and again.
        self._wait = ExponentialWait(runtime.rng, limits.first_retry_ms, limits.last_retry_ms)
        # An operator has to change a setting first.
        self._wait_refused = ExponentialWait(runtime.rng, limits.refused_retry_ms, limits.refused_retry_ms)
        self._log = log.bind(node_id=identity.node_id, peer=node_id, address=address)
        self._complaints = Complaints(self._log, "raft_peer_failed")

    # -- requests of the transport

    def send(self, envelope: Envelope) -> None:
        if envelope.recipient == self.member:
            self._outbox.put(envelope)
            self._has_mail.set()

    def send_snapshot(self, order: SnapshotToSend, snapshot: Snapshot) -> None:
        """Send a snapshot. It replaces one that is still in flight, which is of an earlier term."""
        if order.recipient != self.member:
            self._inbox.snapshot_reported(order.recipient, False)
        elif self._order is None or self._order[0] != order:
            self._order = (order, snapshot)
            self._is_ordered.set()

    def is_heard_of(self) -> None:
        """Retry at once if this connection waits to retry: the node called us."""
        self._is_alive.set()

    async def run(self) -> None:
        """Keep the connection until cancelled, or until this node's store turns out to be an older copy."""
        while self._register.outdated_reason is None:
            self._is_alive.clear()
            try:
                await self._converse()
            except ConnectFailed as error:
                self._complaints.complain("unreachable", error.reason)
            except StreamError as error:
                self._complaints.complain(error.status.name.lower(), error.message)
            await until_first(self._runtime.clock.sleep_ms(self._next_delay_ms()), self._is_alive.wait())

    # -- one connection

    async def _converse(self) -> None:
        connection = await self._runtime.network.connect(self.address, self._limits.connect_timeout_ms)
        try:
            stream = connection.open(MESSAGES_METHOD)
            member = await self._introduce(stream)
            await self._talk(connection, stream, member)
        finally:
            await connection.close()

    async def _introduce(self, stream: Stream) -> Member:
        """Return the member that answers in time. A stopped process accepts connections, but does not answer."""
        outcome: Member | StreamError = StreamError(Status.DEADLINE_EXCEEDED, "no hello in time")

        async def greet() -> None:
            nonlocal outcome
            try:
                outcome = await introduce(stream, self._identity, self.node_id, self._register)
            except StreamError as error:
                outcome = error
            except NotingEnded:
                pass  # about to be cancelled

        await until_first(greet(), self._runtime.clock.sleep_ms(self._limits.connect_timeout_ms))
        if isinstance(outcome, StreamError):
            raise outcome
        return outcome

    async def _talk(self, connection: Connection, stream: Stream, member: Member) -> None:
        """Carry messages until the connection or the stream ends."""
        self._log.info("raft_peer_connected", member=str(member))
        self._wait.succeeded()
        self._complaints.succeeded()
        self.member = member
        try:
            await until_first(
                self._write(stream),
                self._listen(stream),
                connection.broken.wait(),
                self._send_snapshots(connection),
                self._register.until_outdated(),
            )
        finally:
            self._log.info("raft_peer_lost", member=str(member))
            self._lost(member)

    def _lost(self, member: Member) -> None:
        """Report the end of the connection, however it came, to everything that waits for an answer."""
        self.member = None
        self._outbox.clear()
        self._is_alive.clear()
        order, self._order = self._order, None
        if order is not None:
            self._inbox.snapshot_reported(member, False)
        self._inbox.connection_broken(member)

    async def _write(self, stream: Stream) -> None:
        """Send everything that waits in one message: its cost hardly depends on its size."""
        while True:
            await self._has_mail.wait()
            self._has_mail.clear()
            while envelopes := self._outbox.take(self._limits.max_message_bytes):
                try:
                    await stream.send(encode_envelopes(envelopes))
                except StreamError:
                    return

    async def _listen(self, stream: Stream) -> None:
        """Wait for the end of the stream: the peer's messages arrive over its own stream."""
        try:
            while await stream.receive() is not None:
                pass
        except StreamError as error:
            self._complaints.complain(error.status.name.lower(), error.message)

    async def _send_snapshots(self, connection: Connection) -> None:
        """Send snapshots one at a time; a new order aborts the current one."""
        while True:
            await self._is_ordered.wait()
            self._is_ordered.clear()
            if self._order is not None:
                await until_first(self._deliver(connection, *self._order), self._is_ordered.wait())

    async def _deliver(self, connection: Connection, order: SnapshotToSend, snapshot: Snapshot) -> None:
        try:
            await send_snapshot(
                connection, self._identity, self._register, order, snapshot, self._limits.snapshot_chunk_bytes
            )
            is_delivered = True
        except StreamError as error:
            self._log.warning("raft_snapshot_failed", index=snapshot.metadata.index, reason=str(error))
            is_delivered = False
        if self._order is None or self._order[0] != order:
            return  # a later order replaced it, whose outcome will count
        self._order = None
        self._inbox.snapshot_reported(order.recipient, is_delivered)

    # -- failures

    def _next_delay_ms(self) -> float:
        is_refused = self._complaints.kind == Status.FAILED_PRECONDITION.name.lower()
        return (self._wait_refused if is_refused else self._wait).next_ms()
