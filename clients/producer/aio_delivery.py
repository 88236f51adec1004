"""The return values of the asyncio producer's `send` and `send_many`: results of records, once known."""

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from lograft.clients.errors import LograftError
from lograft.clients.producer.delivery_results import (
    ResultSource,
    StoredRange,
    describe,
    describe_all,
    joint_error,
    stored_ranges,
)
from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.types import RecordMetadata


class Delivery:
    """The result of one record: `await` it to get its `RecordMetadata` or raise its error.

    If an error's `outcome_unknown` is true, the record may be stored anyway. No record is stored twice.
    """

    __slots__ = ("index", "source")

    def __init__(self, source: ResultSource, index: int) -> None:
        self.source = source
        self.index = index

    def __repr__(self) -> str:
        return f"<Delivery of {describe(self.source, self.index)}>"

    def done(self) -> bool:
        """Return whether the result is known."""
        return self.source.is_known(self.index)

    def result(self) -> RecordMetadata:
        """Return where the record was stored, or raise its error. Raise `InvalidStateError` if the result is not known
        yet: await it first."""
        result = self._settled()
        if isinstance(result, LograftError):
            raise result
        return result

    def exception(self) -> LograftError | None:
        """Return the record's error, or None if it was stored. Raise `InvalidStateError` if the result is not known
        yet."""
        result = self._settled()
        return result if isinstance(result, LograftError) else None

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Call `callback` with this delivery on the loop soon after the result is known."""
        loop = asyncio.get_running_loop()
        self.source.listen(self.index, lambda: loop.call_soon(callback, self))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            yield from _told(lambda tell: self.source.listen(self.index, tell))
        return self.result()

    def _settled(self) -> RecordMetadata | LograftError:
        if not self.done():
            raise asyncio.InvalidStateError("it is not known yet what became of the record")
        return self.source.result(self.index)


class Deliveries:
    """The results of records that were sent together: `await` it to get where they were stored or raise their error.

    `len` is the number of records, and `[number]` the `Delivery` of one of them.
    """

    __slots__ = ("_count", "_submissions")

    def __init__(self, submissions: Sequence[Submission]) -> None:
        self._submissions = submissions
        self._count = sum(map(len, submissions))

    def __repr__(self) -> str:
        return f"<Deliveries of {describe_all(self._submissions, self._count)}>"

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Delivery:
        return Delivery(*find_record(self._submissions, self._count, number))

    def __iter__(self) -> Iterator[Delivery]:
        return (Delivery(submission, index) for submission in self._submissions for index in range(len(submission)))

    def done(self) -> bool:
        """Return whether all results are known."""
        return all(submission.is_settled for submission in self._submissions)

    def result(self) -> list[StoredRange]:
        """Return where the records were stored, by partition. If any failed, raise an error with their number and the
        first cause; the individual `Delivery` has each record's result. Raise `InvalidStateError` if not all results
        are known yet: await it first."""
        error = self.exception()
        if error is not None:
            raise error
        return stored_ranges(self._submissions)

    def exception(self) -> LograftError | None:
        """Return the records' error, or None if all were stored. Raise `InvalidStateError` if not all results are known
        yet."""
        if not self.done():
            raise asyncio.InvalidStateError("it is not known yet what became of all records")
        return joint_error(self._submissions)

    def add_done_callback(self, callback: "Callable[[Deliveries], object]") -> None:
        """Call `callback` with these deliveries on the loop soon after all results are known."""
        loop = asyncio.get_running_loop()
        listen_to_all(self._submissions, lambda: loop.call_soon(callback, self))

    def __await__(self) -> Generator[Any, None, list[StoredRange]]:
        if not self.done():
            yield from _told(lambda tell: listen_to_all(self._submissions, tell))
        return self.result()


def find_record(submissions: Sequence[Submission], count: int, number: int) -> tuple[Submission, int]:
    """Return the submission that has the record, and its index there. Raise `IndexError` if there is none."""
    index = number + count if number < 0 else number
    for submission in submissions:
        if 0 <= index < len(submission):
            return submission, index
        index -= len(submission)
    raise IndexError(f"record {number} of {count}")


def listen_to_all(submissions: Sequence[Submission], listener: Callable[[], object]) -> None:
    """Call `listener` when all results are known; at once if they already are."""
    left = len(submissions)

    def one_settled() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            listener()

    if not submissions:
        listener()
    for submission in submissions:
        submission.listen_to_all(one_settled)


def _told(listen: Callable[[Callable[[], object]], object]) -> Generator[Any, None, None]:
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    listen(lambda: None if waiter.done() else waiter.set_result(None))
    yield from waiter
