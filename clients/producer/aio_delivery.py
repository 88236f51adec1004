"""What `send` and `send_many` give back: the fate of records, as soon as it is known."""

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
    """The fate of a record: `await` it for where the record was stored, or for the error.

    An error's `outcome_unknown` says whether the record may be stored all the same. Nothing is stored twice.
    """

    __slots__ = ("index", "source")

    def __init__(self, source: ResultSource, index: int) -> None:
        self.source = source
        self.index = index

    def __repr__(self) -> str:
        return f"<Delivery of {describe(self.source, self.index)}>"

    def done(self) -> bool:
        """Whether its fate is known."""
        return self.source.is_known(self.index)

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
    """The fate of records that were sent together: `await` it for where they were stored, or for the error.

    `len` says how many there are, and `[number]` gives the `Delivery` of one of them.
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
        """Whether the fate of all is known."""
        return all(submission.is_settled for submission in self._submissions)

    def result(self) -> list[StoredRange]:
        """Where they were stored, by partition. If any was not, an error that tells how many, and why. What is known of
        each is in its own `Delivery`. `InvalidStateError` if not all is known yet: await it first."""
        error = self.exception()
        if error is not None:
            raise error
        return stored_ranges(self._submissions)

    def exception(self) -> LograftError | None:
        """Their error; None if all were stored. `InvalidStateError` if that is not known yet."""
        if not self.done():
            raise asyncio.InvalidStateError("it is not known yet what became of all records")
        return joint_error(self._submissions)

    def add_done_callback(self, callback: "Callable[[Deliveries], object]") -> None:
        """Call `callback` with this, soon after the fate of all is known, on the loop."""
        loop = asyncio.get_running_loop()
        listen_to_all(self._submissions, lambda: loop.call_soon(callback, self))

    def __await__(self) -> Generator[Any, None, list[StoredRange]]:
        if not self.done():
            yield from _told(lambda tell: listen_to_all(self._submissions, tell))
        return self.result()


def find_record(submissions: Sequence[Submission], count: int, number: int) -> tuple[Submission, int]:
    """The submission that has it, and its index there. `IndexError` if there is none."""
    index = number + count if number < 0 else number
    for submission in submissions:
        if 0 <= index < len(submission):
            return submission, index
        index -= len(submission)
    raise IndexError(f"record {number} of {count}")


def listen_to_all(submissions: Sequence[Submission], listener: Callable[[], object]) -> None:
    """Call `listener` when the fate of all records is known: at once, if it is."""
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
