"""Nodes that are nothing but a transport and an inbox that remembers."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

from lograft.raft.core.configuration import Member, configuration
from lograft.raft.core.entries import Command, Entry, SnapshotMetadata
from lograft.raft.core.messages import AppendRequest, Envelope, Heartbeat, Message
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.interfaces import Snapshot, StoreIdentity
from lograft.raft.transport.peer_connection import TransportLimits
from lograft.raft.transport.raft_transport import RaftTransport
from lograft.runtime.clock import LoopClock
from lograft.runtime.network import Network
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

CLUSTER = "test-cluster"
TERM = 3


def member(node_id: int, directory: int = 0) -> Member:
    return Member(node_id, UUID(int=node_id * 1000 + directory))


def heartbeat(sender: Member, number: int) -> Heartbeat:
    return Heartbeat(sender, TERM, commit_index=0, round=number)


def append(sender: Member, size_bytes: int) -> AppendRequest:
    return AppendRequest(sender, TERM, 0, 0, (Entry(1, TERM, Command(bytes(size_bytes))),), 0)


def snapshot_of(data: bytes, index: int = 7) -> Snapshot:
    return Snapshot(SnapshotMetadata(index, TERM, configuration([member(1), member(2)])), data)


def order_of(snapshot: Snapshot, recipient: Member, term: int = TERM) -> SnapshotToSend:
    return SnapshotToSend(recipient, term, snapshot.metadata)


class RecordingInbox:
    """Keeps what it is told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.broken: list[Member] = []
        self.reports: list[tuple[Member, bool]] = []
        self._changed = asyncio.Event()

    def receive(self, message: Message) -> None:
        self.messages.append(message)
        self._changed.set()

    def connection_broken(self, broken: Member) -> None:
        self.broken.append(broken)
        self._changed.set()

    def snapshot_reported(self, recipient: Member, is_delivered: bool) -> None:
        self.reports.append((recipient, is_delivered))
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class WireNode:
    """One node. `async with` runs it; its server is the test's to start and stop."""

    def __init__(
        self, network: Network, who: Member, cluster_id: str = CLUSTER, limits: TransportLimits | None = None
    ) -> None:
        self.member = who
        self.inbox = RecordingInbox()
        unused: Any = None
        runtime = Runtime(LoopClock(), Rng(who.node_id), unused, network, unused, unused)
        identity = StoreIdentity(cluster_id, who.node_id, who.directory_id)
        self.transport = RaftTransport(runtime, identity, limits)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "WireNode":
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(self.transport.run())
        self._stack.push_async_callback(self.transport.close)
        self.transport.start(self.inbox)
        return self

    async def __aexit__(self, *exception: Any) -> bool | None:
        return await self._stack.__aexit__(*exception)

    def send(self, recipient: Member, message: Message) -> None:
        self.transport.send(Envelope(recipient, message))

    def is_connected_to(self, other: Member) -> bool:
        return other in self.transport.connected_members()

    async def until_connected(self, other: "WireNode | Member") -> None:
        """No event tells of it: the core has no use for one."""
        who = other.member if isinstance(other, WireNode) else other
        while not self.is_connected_to(who):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
