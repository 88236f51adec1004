"""Limits for bytes and batches received but not yet answered: the basis of back-pressure."""

import asyncio


class TotalInFlight:
    """The sum over all streams."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self.waiting: dict[StreamInFlight, None] = {}

    @property
    def has_room(self) -> bool:
        return self.size_bytes < self.limit_bytes


class StreamInFlight:
    """One stream's share. `room` waits while the stream or the total is over its limits, so that the stream reads no
    further requests. A stream with nothing in flight always has room; otherwise, others could starve it."""

    def __init__(self, limit_bytes: int, limit_count: int, total: TotalInFlight) -> None:
        self._limit_bytes = limit_bytes
        self._limit_count = limit_count
        self._total = total
        self._waiter: asyncio.Future[None] | None = None
        self.size_bytes = 0
        self.count = 0

    @property
    def has_room(self) -> bool:
        is_within = self.size_bytes < self._limit_bytes and self.count < self._limit_count and self._total.has_room
        return is_within or self.count == 0

    def add(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self.count += 1
        self._total.size_bytes += size_bytes

    def remove(self, size_bytes: int, count: int) -> None:
        self.size_bytes -= size_bytes
        self.count -= count
        self._total.size_bytes -= size_bytes
        assert self.size_bytes >= 0
        assert self.count >= 0
        if self._waiter is not None:
            self._wake()
        if self._total.waiting and self._total.has_room:
            for other in self._total.waiting:
                other._wake()

    def clear(self) -> None:
        """Stop counting this stream, which has ended."""
        self.remove(self.size_bytes, self.count)

    async def room(self) -> None:
        """Return when there is room for more."""
        assert self._waiter is None, "two tasks wait for room for one stream"
        try:
            while not self.has_room:
                self._waiter = asyncio.get_running_loop().create_future()
                self._total.waiting[self] = None
                await self._waiter
        finally:
            self._waiter = None
            self._total.waiting.pop(self, None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done() and self.has_room:
            self._waiter.set_result(None)
