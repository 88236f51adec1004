"""Snapshots of the node's own state machine: when to take them, saving them, and sending them to peers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import Entry, SnapshotMetadata
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.interfaces import Snapshot, StateMachine, Store, Transport
from lograft.runtime.blocking import Blocking
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """A snapshot is due after this many entries, or bytes of entries, since the last one.

    A follower that is one entry behind the start of the log needs the whole snapshot. Hence the node captures the state
    when a snapshot is due, but saves it and cuts the log only `kept_entries` (or bytes) later: a follower that was away
    briefly then gets those entries instead.
    """

    entries: int = 10_000
    size_bytes: int = 64 * 1024 * 1024
    kept_entries: int = 2_000
    kept_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        assert self.entries > 0
        assert self.size_bytes > 0


@dataclass(slots=True)
class _Amount:
    entries: int = 0
    size_bytes: int = 0

    def add(self, entry: Entry) -> None:
        self.entries += 1
        self.size_bytes += entry.size_bytes


@dataclass(frozen=True, slots=True)
class _Captured:
    metadata: SnapshotMetadata
    content: bytes | Callable[[], bytes]


class SnapshotTaker:
    """Captures and saves snapshots, one at a time. Calls `saved` when one is durable."""

    def __init__(
        self,
        policy: SnapshotPolicy,
        state_machine: StateMachine,
        store: Store,
        blocking: Blocking,
        saved: Callable[[SnapshotMetadata], None],
    ) -> None:
        self._policy = policy
        self._state_machine = state_machine
        self._store = store
        self._blocking = blocking
        self._saved = saved
        self._since = _Amount()  # the last capture
        self._captured: _Captured | None = None
        self._is_saving = False
        self._newest_index = 0  # of the snapshots handed to the store

    def start(self, metadata: SnapshotMetadata) -> None:
        """Start from this snapshot, the store's own or a leader's; discard a captured one."""
        self._newest_index = metadata.index
        self._captured = None
        self._since = _Amount()

    def applied(self, entries: tuple[Entry, ...], configuration: Configuration, group: asyncio.TaskGroup) -> None:
        """Note that the state machine has applied `entries`; `configuration` is in force at the last one."""
        for entry in entries:
            self._since.add(entry)
        if self._is_saving:
            return
        if self._captured is None and self._is_due:
            metadata = SnapshotMetadata(entries[-1].index, entries[-1].term, configuration)
            self._captured = _Captured(metadata, self._state_machine.snapshot())
            self._since = _Amount()
        if self._captured is not None and self._is_followed:
            captured, self._captured, self._is_saving = self._captured, None, True
            group.create_task(self._save(captured), name="raft-snapshot")

    @property
    def _is_due(self) -> bool:
        return self._since.entries >= self._policy.entries or self._since.size_bytes >= self._policy.size_bytes

    @property
    def _is_followed(self) -> bool:
        """Return True if enough of the log follows the captured state."""
        policy = self._policy
        return self._since.entries >= policy.kept_entries or self._since.size_bytes >= policy.kept_bytes

    async def _save(self, captured: _Captured) -> None:
        content, metadata = captured.content, captured.metadata
        data = content if isinstance(content, bytes) else await self._blocking.run_blocking(content)
        if metadata.index > self._newest_index:  # else a leader's overtook it
            self._newest_index = metadata.index
            await self._store.save_own_snapshot(Snapshot(metadata, data))
            log.info("raft_snapshot_saved", index=metadata.index, term=metadata.term, size_bytes=len(data))
            self._saved(metadata)
        self._is_saving = False


class SnapshotSender:
    """Hands the store's snapshot to the transport, one at a time per peer."""

    def __init__(self, store: Store, transport: Transport) -> None:
        self._store = store
        self._transport = transport
        self._under_way: dict[Member, None] = {}

    def send(self, order: SnapshotToSend, group: asyncio.TaskGroup) -> None:
        """Send the snapshot to a peer. The outcome of one in flight answers a repeated order, too."""
        if order.recipient not in self._under_way:
            self._under_way[order.recipient] = None
            group.create_task(self._send(order), name=f"raft-snapshot-to-{order.recipient.node_id}")

    def reported(self, recipient: Member) -> None:
        self._under_way.pop(recipient, None)

    async def _send(self, order: SnapshotToSend) -> None:
        snapshot = await self._store.read_snapshot()
        assert snapshot is not None
        assert snapshot.metadata.index >= order.metadata.index
        self._transport.send_snapshot(order, snapshot)
