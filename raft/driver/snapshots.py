"""Snapshots of a node's own: when they are taken, and how they get to the disk and to others."""

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
    """A snapshot is due after so many entries, or bytes of them, since the last one.

    The log ends where its snapshot begins, so a follower that is one entry behind that point needs the snapshot whole.
    Hence the state is captured when it is due, but saved, and the log cut, only `kept_entries` (or bytes) later: by
    then that many entries follow it, which a follower that was away for a moment is sent instead.
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
    """Captures and saves, one at a time. `saved` is told when one is durable."""

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
        self._newest_index = 0  # of the snapshots that the store was given

    def start(self, metadata: SnapshotMetadata) -> None:
        """The store has this one: its own, or a leader's, which takes the place of whatever was captured."""
        self._newest_index = metadata.index
        self._captured = None
        self._since = _Amount()

    def applied(self, entries: tuple[Entry, ...], configuration: Configuration, group: asyncio.TaskGroup) -> None:
        """The state machine is at the last of `entries`, where `configuration` is in force."""
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
        """Does enough of the log follow what was captured?"""
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
    """Hands the store's snapshot to the transport, for each peer one at a time."""

    def __init__(self, store: Store, transport: Transport) -> None:
        self._store = store
        self._transport = transport
        self._under_way: dict[Member, None] = {}

    def send(self, order: SnapshotToSend, group: asyncio.TaskGroup) -> None:
        """Ordered again while it is on its way: what becomes of that one answers both."""
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
