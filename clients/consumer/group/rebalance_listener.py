"""The interface of a listener to rebalances: which partitions a consumer gets, and which it gives up."""

from collections.abc import Awaitable
from typing import Protocol

from lograft.clients.types import TopicPartition


class RebalanceListener(Protocol):
    """Give one to `subscribe`; derive from this, and say what matters. All of it is called inside `poll` (and
    `unsubscribe` and `close`), by whoever polls, and may commit, seek and ask for positions. For asyncio, the methods
    may be coroutines. What they raise comes out of `poll`; partitions come and go all the same.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These are read from now on, beside what was before. Nothing of them was given yet."""
        return None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These have to be given up. Nothing more of them is given; this is the last moment to commit."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These are gone already: others may read them. Nothing of them can be committed."""
        return self.on_partitions_revoked(partitions)
