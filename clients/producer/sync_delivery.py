"""The return values of the synchronous producer's `send` and `send_many`: results of records, for any thread."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from lograft.clients.errors import ClientClosed, LograftError
from lograft.clients.producer.aio_delivery import find_record, listen_to_all
from lograft.clients.producer.delivery_results import StoredRange, describe, describe_all, joint_error, stored_ranges
from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.types import RecordMetadata
from lograft.runtime.tasks.loop_thread import LoopLost, LoopThread


class Delivery:
    """The result of one record.

    If an error's `outcome_unknown` is true, the record may be stored anyway. No record is stored twice.
    """

    __slots__ = ("_index", "_submission")

    def __init__(self, submission: Submission, index: int) -> None:
        self._submission = submission
        self._index = index

    def __repr__(self) -> str:
        return f"<Delivery of {describe(self._submission, self._index)}>"

    def done(self) -> bool:
        """Return whether the result is known."""
        return self._submission.is_known(self._index)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record was stored, or raise its error. Raise `TimeoutError` if the result is not known after
        `timeout` seconds."""
        result = self._settled(timeout)
        if isinstance(result, LograftError):
            raise result
        return result

    def exception(self, timeout: float | None = None) -> LograftError | None:
        """Return the record's error, or None if it was stored. Raise `TimeoutError` if the result is not known after
        `timeout` seconds."""
        result = self._settled(timeout)
        return result if isinstance(result, LograftError) else None

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Call `callback` with this delivery on the client's thread when the result is known. It must not block."""
        _post(self._submission.loop, self._listen, lambda: callback(self))

    def _settled(self, timeout: float | None) -> RecordMetadata | LograftError:
        if not self.done():
            _wait(self._submission.loop, self._listen, timeout)
        return self._submission.result(self._index)

    def _listen(self, listener: Callable[[], object]) -> None:
        self._submission.listen(self._index, listener)


class Deliveries:
    """The results of records that were sent together.

    `len` is the number of records, and `[number]` the `Delivery` of one of them.
    """

    __slots__ = ("_count", "_loop", "_submissions")

    def __init__(self, loop: LoopThread, submissions: Sequence[Submission]) -> None:
        self._loop = loop
        self._submissions = submissions
        self._count = sum(map(len, submissions))

    def __repr__(self) -> str:
        return f"<Deliveries of {describe_all(self._submissions, self._count)}>"

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Delivery:
        submission, index = find_record(self._submissions, self._count, number)
        return Delivery(submission, index)

    def __iter__(self) -> Iterator[Delivery]:
        return (Delivery(submission, index) for submission in self._submissions for index in range(len(submission)))

    def done(self) -> bool:
        """Return whether all results are known."""
        return all(submission.is_settled for submission in self._submissions)

    def result(self, timeout: float | None = None) -> list[StoredRange]:
        """Return where the records were stored, by partition. If any failed, raise an error with their number and the
        first cause; the individual `Delivery` has each record's result. Raise `TimeoutError` if not all results are
        known after `timeout` seconds."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return stored_ranges(self._submissions)

    def exception(self, timeout: float | None = None) -> LograftError | None:
        """Return the records' error, or None if all were stored. Raise `TimeoutError` if not all results are known
        after `timeout` seconds."""
        if not self.done():
            _wait(self._loop, self._listen, timeout)
        return joint_error(self._submissions)

    def add_done_callback(self, callback: "Callable[[Deliveries], object]") -> None:
        """Call `callback` with these deliveries on the client's thread when all results are known. It must not
        block."""
        _post(self._loop, self._listen, lambda: callback(self))

    def _listen(self, listener: Callable[[], object]) -> None:
        listen_to_all(self._submissions, listener)


_Listen = Callable[[Callable[[], object]], None]


def _post(loop: LoopThread | None, listen: _Listen, tell: Callable[[], object]) -> None:
    assert loop is not None
    try:
        # The loop reports a callback's exception, which must not keep other listeners from their results.
        loop.post(lambda: listen(lambda: asyncio.get_running_loop().call_soon(tell)))
    except LoopLost as error:
        raise ClientClosed(str(error)) from None


def _wait(loop: LoopThread | None, listen: _Listen, timeout: float | None) -> None:
    assert loop is not None

    async def told() -> None:
        settled = asyncio.Event()
        listen(settled.set)
        async with asyncio.timeout(timeout):
            await settled.wait()

    try:
        loop.run(told)
    except LoopLost as error:
        raise ClientClosed(str(error)) from None
