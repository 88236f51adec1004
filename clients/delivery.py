"""What `send` gives back: the fate of one record, as soon as it is known."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from lograft.clients.errors import LograftError
from lograft.clients.pending_batch import PendingBatch
from lograft.clients.topic_partition import RecordMetadata


class Delivery:
    """The fate of a record: `await` it for where the record was stored, or for the error.

    An error's `outcome_unknown` says whether the record may be stored all the same. Nothing is stored twice.
    """

    __slots__ = ("batch", "index")

    def __init__(self, batch: PendingBatch, index: int) -> None:
        self.batch = batch
        self.index = index

    def done(self) -> bool:
        return self.batch.is_settled

    def result(self) -> RecordMetadata:
        """Where it was stored, or its error raised. `InvalidStateError` if that is not known yet: await it first."""
        result = self._settled()
        if isinstance(result, LograftError):
            raise result
        return result

    def exception(self) -> LograftError | None:
        """Its error; None if it was stored. `InvalidStateError` if that is not known yet."""
        result = self._settled()
        return result if isinstance(result, LograftError) else None

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Call `callback` with this, soon after its fate is known, on the loop."""
        loop = asyncio.get_running_loop()
        self._when_settled(lambda: loop.call_soon(callback, self))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._when_settled(lambda: None if waiter.done() else waiter.set_result(None))
            yield from waiter
        return self.result()

    def _settled(self) -> RecordMetadata | LograftError:
        if not self.done():
            raise asyncio.InvalidStateError("it is not known yet what became of the record")
        return self.batch.result(self.index)

    def _when_settled(self, tell: Callable[[], object]) -> None:
        if self.done():
            tell()
        else:
            self.batch.listen(tell)
