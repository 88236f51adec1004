"""The openings of other members' stores that this node has seen, by which it rejects restored older copies.

A restored older store has forgotten votes it gave and entries it acknowledged, so nodes that may have counted them must
not listen to it. Before this node counts anything a member says, it notes the opening of that member's store, durably;
from then on it refuses a store of that member that never had the opening.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from lograft.raft.core.configuration import Member
from lograft.raft.store_starts import StoreStart, StoreStarts
from lograft.runtime.observability.logging import get_logger

log = get_logger(__name__)


class OutdatedStore(Exception):
    """A member's store is from the past: it never had the opening `seen`, which is noted here."""

    def __init__(self, member: Member, seen: StoreStart, starts: StoreStarts) -> None:
        super().__init__(
            f"the store of node {member.node_id} is from the past: it was seen at its start {seen.number} before, and "
            f"knows nothing of that at its start {starts.count}; {remedy(member.node_id)}"
        )
        self.member = member
        self.seen = seen


class NotingEnded(Exception):
    """Raised to callers that wait for a note when the node stops."""


class StartStore(Protocol):
    """The part of `Store` that the register needs."""

    @property
    def starts(self) -> StoreStarts: ...

    @property
    def seen_starts(self) -> Mapping[Member, StoreStart]: ...

    async def note_start(self, member: Member, start: StoreStart) -> None: ...


def remedy(node_id: int) -> str:
    """Tell the operator what to do. One node at a time, because a majority of voters without stores ends the quorum."""
    return (
        f"stop node {node_id}, move its metadata folder away, start it, and give it its vote again with "
        f"`lograft quorum replace {node_id}`; one node at a time: wait until that command has succeeded before you "
        "stop the next"
    )


class StartRegister:
    """Notes openings in `store`, this node's own. With None it judges no member, and no member can judge this node."""

    def __init__(self, own: Member, store: StartStore | None) -> None:
        self._own = own
        self._store = store
        self._seen = dict(store.seen_starts) if store is not None else {}
        self._noting = asyncio.Lock()
        self._is_ended = False
        self._refused: dict[Member, str] = {}
        self._outdated_reason: str | None = None
        self._is_outdated = asyncio.Event()

    @property
    def own_starts(self) -> StoreStarts | None:
        return self._store.starts if self._store is not None else None

    @property
    def refused(self) -> Mapping[Member, str]:
        """Members whose last seen store was an older copy, with an operator-readable reason."""
        return self._refused

    @property
    def outdated_reason(self) -> str | None:
        """Why this node takes no part; None unless another member has seen a newer opening of this node's own store."""
        return self._outdated_reason

    async def admit(self, member: Member, starts: StoreStarts | None) -> None:
        """Note the opening of the member's store, durably. Raise OutdatedStore if the store is an older copy. `starts`
        is None if the member runs a version that does not count openings."""
        if self._store is None or starts is None:
            return
        async with self._noting:
            seen = self._seen.get(member)
            if seen is not None and not starts.has_had(seen):
                raise self._refusal(member, seen, starts)
            self._refused.pop(member, None)
            if seen != starts.latest:
                if self._is_ended:
                    raise NotingEnded
                await self._store.note_start(member, starts.latest)
                self._seen[member] = starts.latest

    def _refusal(self, member: Member, seen: StoreStart, starts: StoreStarts) -> OutdatedStore:
        refusal = OutdatedStore(member, seen, starts)
        if member not in self._refused:
            log.error("raft_store_refused", member=str(member), reason=str(refusal))
        self._refused[member] = str(refusal)
        return refusal

    def refused_by(self, node_id: int, number: int) -> None:
        """Take this node out: another member has seen opening `number` of its store, which this store never had."""
        if self._outdated_reason is None:
            self._outdated_reason = (
                f"the controller's store is from the past: node {node_id} has seen its start {number}, of which it "
                f"knows nothing; {remedy(self._own.node_id)}"
            )
            self._is_outdated.set()
            log.error("raft_store_outdated", reason=self._outdated_reason)

    async def until_outdated(self) -> None:
        """Wait until there is an `outdated_reason`."""
        await self._is_outdated.wait()

    def end(self) -> None:
        """Stop noting; fail the callers that wait."""
        self._is_ended = True
