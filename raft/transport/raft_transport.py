"""Messages between nodes over the runtime's network. Each node connects to every other one: it sends over its own
streams and receives over those of the others.

    transport = RaftTransport(runtime, store.identity)
    server = await runtime.network.serve(address, transport.handlers(), on_panic)
    group.create_task(transport.run())
    transport.set_addresses({1: "host1:9093", 2: "host2:9093"})
    transport.start(node)

Both ends of a broken connection report it to their nodes: a message is lost only with a connection, or from a queue
that overflows (see `Outbox`), and a node that waits for an answer must learn of the loss.
"""

import asyncio
from collections.abc import Mapping

from lograft.proto.wire_format import CodecError
from lograft.raft.bootstrap.start_register import NotingEnded, StartRegister, StartStore
from lograft.raft.core.configuration import Member
from lograft.raft.core.messages import Envelope
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.interfaces import Inbox, Snapshot, StoreIdentity
from lograft.raft.transport.envelope_codec import decode_envelopes
from lograft.raft.transport.hello import admit
from lograft.raft.transport.peer_connection import MESSAGES_METHOD, PeerConnection, TransportLimits
from lograft.raft.transport.snapshot_stream import SNAPSHOT_METHOD, confirm, receive_snapshot
from lograft.runtime.network import Handler, Status, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.world import Runtime

log = get_logger(__name__)


class RaftTransport:
    """A `Transport`. The caller's server serves `handlers()`, which refuse until `start`. `store` keeps the noted
    openings of other members' stores (see `StartRegister`); with None, none is noted and none refused.

    Its tasks run inside `run`, which returns after `close`, and raises if an invariant breaks.
    """

    def __init__(
        self,
        runtime: Runtime,
        identity: StoreIdentity,
        limits: TransportLimits | None = None,
        store: StartStore | None = None,
    ) -> None:
        self.register = StartRegister(identity.member, store)
        self._runtime = runtime
        self._identity = identity
        self._limits = limits or TransportLimits()
        self._inbox: Inbox | None = None
        self._addresses: dict[int, str] = {}
        self._peers: dict[int, tuple[PeerConnection, asyncio.Task[None]]] = {}
        # The latest stream of each method and member: a new one means that the one before is dead.
        self._accepted: dict[tuple[str, Member], Stream] = {}
        self._group: asyncio.TaskGroup | None = None
        self._is_closing = asyncio.Event()
        self._is_closed = asyncio.Event()

    # -- life

    async def run(self) -> None:
        """Keep connections to all nodes until `close`."""
        assert self._group is None, "run twice"
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._follow_addresses()
                withdrawing = group.create_task(self._withdraw(), name="raft-withdraw")
                await self._is_closing.wait()
                withdrawing.cancel()
                for _, task in self._peers.values():
                    task.cancel()
        finally:
            self._is_closing.set()
            self._peers.clear()
            self._is_closed.set()

    def start(self, inbox: Inbox) -> None:
        assert self._inbox is None, "started twice"
        self._inbox = inbox
        self._follow_addresses()

    async def close(self) -> None:
        """End all connections and stop delivering messages."""
        self._is_closing.set()
        self.register.end()
        for stream in list(self._accepted.values()):
            stream.reset()
        if self._group is not None:
            await self._is_closed.wait()

    async def _withdraw(self) -> None:
        """End the peers once this node's store turns out to be an older copy: it must not answer other members
        either."""
        await self.register.until_outdated()
        for stream in list(self._accepted.values()):
            stream.reset()

    # -- outwards

    def set_addresses(self, addresses: Mapping[int, str]) -> None:
        self._addresses = {node: address for node, address in addresses.items() if node != self._identity.node_id}
        self._follow_addresses()

    def send(self, envelope: Envelope) -> None:
        known = self._peers.get(envelope.recipient.node_id)
        if known is not None:
            known[0].send(envelope)

    def send_snapshot(self, order: SnapshotToSend, snapshot: Snapshot) -> None:
        known = self._peers.get(order.recipient.node_id)
        if known is not None:
            known[0].send_snapshot(order, snapshot)
        elif self._inbox is not None:
            self._inbox.snapshot_reported(order.recipient, False)

    def connected_members(self) -> list[Member]:
        """Return the members that messages can be sent to now."""
        return [peer.member for peer, _ in self._peers.values() if peer.member is not None]

    def refusal_of(self, member: Member) -> str | None:
        """Return the operator-readable reason why this node refuses that member; None if it does not."""
        return self.register.refused.get(member)

    def _follow_addresses(self) -> None:
        """Keep one peer per address, once the transport runs and has started."""
        if self._group is None or self._inbox is None or self._is_closing.is_set():
            return
        for node_id, (peer, task) in list(self._peers.items()):
            if self._addresses.get(node_id) != peer.address:
                task.cancel()
                del self._peers[node_id]
        for node_id, address in self._addresses.items():
            if node_id not in self._peers:
                peer = PeerConnection(
                    self._runtime, self._identity, node_id, address, self._inbox, self._limits, self.register
                )  # fmt: skip
                self._peers[node_id] = (peer, self._group.create_task(peer.run()))

    # -- inwards

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers for the node's server, by method."""
        return {MESSAGES_METHOD: self._serve_messages, SNAPSHOT_METHOD: self._serve_snapshot}

    async def _serve_messages(self, stream: Stream) -> None:
        inbox, sender = await self._admit(stream, MESSAGES_METHOD)
        try:
            while (data := await stream.receive()) is not None:
                for envelope in _decode(data, sender):
                    # The node may have lost its disk since: a message for its earlier self is not for this one.
                    if envelope.recipient == self._identity.member:
                        inbox.receive(envelope.message)
        finally:
            self._release(stream, MESSAGES_METHOD, sender)
            inbox.connection_broken(sender)

    async def _serve_snapshot(self, stream: Stream) -> None:
        inbox, sender = await self._admit(stream, SNAPSHOT_METHOD)
        try:
            message = await receive_snapshot(stream, sender, self._identity.member, self._limits.max_snapshot_bytes)
            log.info("raft_snapshot_received", sender=str(sender), index=message.metadata.index)
            inbox.receive(message)
            await confirm(stream)
        finally:
            self._release(stream, SNAPSHOT_METHOD, sender)

    async def _admit(self, stream: Stream, method: str) -> tuple[Inbox, Member]:
        if self._inbox is None or self._is_closing.is_set():
            raise StreamError(Status.UNAVAILABLE, f"node {self._identity.node_id} takes no part yet, or no longer")
        if (reason := self.register.outdated_reason) is not None:
            raise StreamError(Status.FAILED_PRECONDITION, reason)
        try:
            sender = await admit(stream, self._identity, self.register)
        except NotingEnded:
            raise StreamError(Status.UNAVAILABLE, f"node {self._identity.node_id} takes no part any longer") from None
        if self._is_closing.is_set():
            raise StreamError(Status.UNAVAILABLE, f"node {self._identity.node_id} takes no part any longer")
        earlier = self._accepted.get((method, sender))
        if earlier is not None:
            earlier.reset()
        self._accepted[method, sender] = stream
        if sender.node_id in self._peers:
            self._peers[sender.node_id][0].is_heard_of()
        return self._inbox, sender

    def _release(self, stream: Stream, method: str, sender: Member) -> None:
        if self._accepted.get((method, sender)) is stream:
            del self._accepted[method, sender]


def _decode(data: bytes, sender: Member) -> list[Envelope]:
    try:
        envelopes = decode_envelopes(data)
    except CodecError as error:
        raise StreamError(Status.INVALID_ARGUMENT, str(error)) from error
    for envelope in envelopes:
        if envelope.message.sender != sender:
            raise StreamError(
                Status.INVALID_ARGUMENT, f"a message of {envelope.message.sender} on the stream of {sender}"
            )
    return envelopes
