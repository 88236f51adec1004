"""The way to one other node: a connection that is made anew whenever it is lost, and what is sent over it."""

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
from lograft.runtime.world import Runtime

MESSAGES_METHOD = "/lograft.internal.v1.Raft/Messages"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Of one peer. The queue holds all that the core lets be under way to a peer, and more."""

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
    """Node `node_id` at `address`. What is sent while there is no connection is dropped: it would be stale by then.

    `member` is who answers there at the moment; messages for another member (the node with an earlier disk) go nowhere.
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
        self._failures = 0
        self._complaint = ""
        self._log = log.bind(node_id=identity.node_id, peer=node_id, address=address)

    # -- what the transport asks for

    def send(self, envelope: Envelope) -> None:
        if envelope.recipient == self.member:
            self._outbox.put(envelope)
            self._has_mail.set()

    def send_snapshot(self, order: SnapshotToSend, snapshot: Snapshot) -> None:
        """Send it in the place of an earlier one that is still on its way: that is of an earlier term."""
        if order.recipient != self.member:
            self._inbox.snapshot_reported(order.recipient, False)
        elif self._order is None or self._order[0] != order:
            self._order = (order, snapshot)
            self._is_ordered.set()

    def is_heard_of(self) -> None:
        """The node was heard of from elsewhere: if we wait to try again, try now."""
        self._is_alive.set()

    async def run(self) -> None:
        """Keep the connection, until cancelled, or this node is found to have a store from the past."""
        while self._register.outdated_reason is None:
            self._is_alive.clear()
            try:
                await self._converse()
            except ConnectFailed as error:
                self._complain("unreachable", error.reason)
            except StreamError as error:
                self._complain(error.status.name.lower(), error.message)
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
        """Who is there. A process that is stopped takes connections, but does not answer."""
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
        self._failures, self._complaint = 0, ""
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
        """However it ended: whoever waits for an answer must hear of it."""
        self.member = None
        self._outbox.clear()
        self._is_alive.clear()
        order, self._order = self._order, None
        if order is not None:
            self._inbox.snapshot_reported(member, False)
        self._inbox.connection_broken(member)

    async def _write(self, stream: Stream) -> None:
        """Everything that waits goes in one message: what a message costs hardly depends on its size."""
        while True:
            await self._has_mail.wait()
            self._has_mail.clear()
            while envelopes := self._outbox.take(self._limits.max_message_bytes):
                try:
                    await stream.send(encode_envelopes(envelopes))
                except StreamError:
                    return

    async def _listen(self, stream: Stream) -> None:
        """Nothing comes this way but the end: the peer's messages come over its own stream."""
        try:
            while await stream.receive() is not None:
                pass
        except StreamError as error:
            self._complain(error.status.name.lower(), error.message)

    async def _send_snapshots(self, connection: Connection) -> None:
        """One at a time; a new order ends the one before."""
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
            return  # a later one took its place; the outcome of that one will count
        self._order = None
        self._inbox.snapshot_reported(order.recipient, is_delivered)

    # -- failures

    def _complain(self, kind: str, reason: str) -> None:
        """Once for each kind of failure, not at every attempt."""
        self._failures += 1
        if kind != self._complaint:
            self._complaint = kind
            self._log.warning("raft_peer_failed", kind=kind, reason=reason)

    def _next_delay_ms(self) -> float:
        """With jitter, so that nodes do not meet halfway again and again."""
        limits = self._limits
        if self._complaint == Status.FAILED_PRECONDITION.name.lower():
            longest_ms = limits.refused_retry_ms  # someone has to change a setting first
        else:
            longest_ms = min(limits.last_retry_ms, limits.first_retry_ms << min(self._failures, 10))
        return self._runtime.rng.uniform(longest_ms / 2, longest_ms)
