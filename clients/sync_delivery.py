"""What `send` of the synchronous producer gives back: the fate of one record, to be asked for from any thread."""

import asyncio
from collections.abc import Callable

from lograft.clients.delivery import Delivery as LoopDelivery
from lograft.clients.errors import ClientClosed, LograftError
from lograft.clients.topic_partition import RecordMetadata
from lograft.runtime.loop_thread import LoopLost, LoopThread


class Delivery:
    """The fate of a record.

    An error's `outcome_unknown` says whether the record may be stored all the same. Nothing is stored twice.
    """

    # Changed on the loop only. A record is bound once it is in a batch, or has failed before that.
    __slots__ = ("_error", "_inner", "_loop", "_when_bound")

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self._inner: LoopDelivery | None = None
        self._error: LograftError | None = None
        self._when_bound: list[Callable[[], object]] = []

    # -- for whoever sent the record

    def done(self) -> bool:
        """Whether its fate is known."""
        inner = self._inner
        return self._error is not None or (inner is not None and inner.done())

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where it was stored, or its error raised; `TimeoutError` if that is not known after `timeout` seconds."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        assert self._inner is not None
        return self._inner.result()

    def exception(self, timeout: float | None = None) -> LograftError | None:
        """Its error; None if it was stored. `TimeoutError` if that is not known after `timeout` seconds."""
        if not self.done():
            try:
                self._loop.run(self._settled(timeout))
            except LoopLost as error:
                raise ClientClosed(str(error)) from None
        if self._error is not None:
            return self._error
        assert self._inner is not None
        return self._inner.exception()

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Call `callback` with this when its fate is known, on the client's thread: it should be quick."""
        try:
            self._loop.post(self._tell_when_settled, callback)
        except LoopLost as error:
            raise ClientClosed(str(error)) from None

    # -- on the loop

    def bind(self, delivery: LoopDelivery) -> None:
        """The record is in a batch."""
        self._inner = delivery
        self._tell_bound()

    def fail(self, error: LograftError) -> None:
        """The record was not taken."""
        self._error = error
        self._tell_bound()

    def _tell_bound(self) -> None:
        listeners, self._when_bound = self._when_bound, []
        for listener in listeners:
            listener()

    async def _settled(self, timeout: float | None) -> None:
        settled = asyncio.Event()
        self._tell_when_settled(lambda _: settled.set())
        async with asyncio.timeout(timeout):
            await settled.wait()

    def _tell_when_settled(self, callback: "Callable[[Delivery], object]") -> None:
        if self._inner is not None:
            self._inner.add_done_callback(lambda _: callback(self))
        elif self._error is not None:
            asyncio.get_running_loop().call_soon(callback, self)
        else:
            self._when_bound.append(lambda: self._tell_when_settled(callback))
