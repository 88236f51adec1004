"""Appended batches that wait for acknowledgement, and their outcomes. Does no IO, and has no clock of its own."""

import asyncio
import heapq
from collections.abc import Callable, Iterable
from itertools import count

from lograft.broker.replica.interfaces import Appended
from lograft.rpc.coded_error import ReplicaError


class AppendWaiter:
    """One batch, which ends before `next_offset`. Its outcome is set only once."""

    __slots__ = ("_appended", "_callbacks", "_outcome", "deadline_ms", "next_offset")

    def __init__(self, appended: Appended, next_offset: int, deadline_ms: int) -> None:
        self.next_offset = next_offset
        self.deadline_ms = deadline_ms
        self._appended = appended
        self._outcome: Appended | ReplicaError | None = None
        self._callbacks: list[Callable[[], None]] = []

    # -- for the caller of the append

    def done(self) -> bool:
        return self._outcome is not None

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        if self._outcome is None:
            self._callbacks.append(callback)
        else:
            callback()

    def result(self) -> Appended:
        assert self._outcome is not None, "the outcome is not known yet"
        if isinstance(self._outcome, ReplicaError):
            raise self._outcome
        return self._outcome

    async def outcome(self) -> Appended:
        if self._outcome is None:
            known = asyncio.get_running_loop().create_future()
            self.add_done_callback(lambda: None if known.done() else known.set_result(None))
            await known
        return self.result()

    # -- for the replica

    def acknowledge(self) -> None:
        self._settle(self._appended)

    def fail(self, error: ReplicaError) -> None:
        self._settle(error)

    def _settle(self, outcome: Appended | ReplicaError) -> None:
        if self._outcome is None:
            self._outcome = outcome
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()


class AppendWaiters:
    """Batches that wait until an end of the log has passed them: the high watermark, or the durable end."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, AppendWaiter]] = []  # by the offset waited for, then by age
        self._count = count()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, pending: AppendWaiter) -> None:
        heapq.heappush(self._heap, (pending.next_offset, next(self._count), pending))

    def reached(self, end: int) -> None:
        """Acknowledge all batches that end at or before `end`, in order."""
        while self._heap and self._heap[0][0] <= end:
            heapq.heappop(self._heap)[2].acknowledge()

    def fail(self, error: ReplicaError) -> None:
        """Fail all batches: this broker can no longer acknowledge them."""
        waiting, self._heap = sorted(self._heap), []
        for _, _, pending in waiting:
            pending.fail(error)

    def expire(self, now_ms: int, error: Callable[[], ReplicaError]) -> None:
        """Fail and forget the batches whose deadline has passed."""
        if any(pending.deadline_ms <= now_ms for _, _, pending in self._heap):
            waiting = sorted(self._heap)
            # A filtered sorted list is still sorted, and so a heap.
            self._heap = [entry for entry in waiting if entry[2].deadline_ms > now_ms]
            for _, _, pending in waiting:
                if pending.deadline_ms <= now_ms:
                    pending.fail(error())

    def deadlines_ms(self) -> Iterable[int]:
        return (pending.deadline_ms for _, _, pending in self._heap)
