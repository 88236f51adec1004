"""The interface of a rebalance listener, called when a consumer's partitions are assigned, revoked or lost."""

from collections.abc import Awaitable
from typing import Protocol

from lograft.clients.types import TopicPartition


class RebalanceListener(Protocol):
    """Derive from this class, override the methods you need, and pass an instance to `subscribe`. The consumer calls
    them inside `poll`, `unsubscribe` and `close`, on the caller's thread; they may commit, seek and ask for positions.
    For asyncio, they may be coroutines. `poll` raises their exceptions, after the rebalance step took effect.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions were added to the assignment. None of their records has been returned yet."""
        return None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are being revoked. No more of their records are returned; this is the last chance to
        commit."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are already lost: other members may read them, and their offsets can no longer be
        committed."""
        return self.on_partitions_revoked(partitions)
