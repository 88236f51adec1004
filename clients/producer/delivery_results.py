"""Summaries of the results of many records. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lograft.clients.errors import LograftError
from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.types import RecordMetadata


class ResultSource(Protocol):
    """Knows the result of each record by its index: a batch, or a submission whose records are routed to batches."""

    @property
    def topic(self) -> str: ...

    def is_known(self, index: int, /) -> bool: ...

    def result(self, index: int, /) -> RecordMetadata | LograftError: ...

    def listen(self, index: int, listener: Callable[[], object], /) -> None: ...


def describe(source: ResultSource, index: int) -> str:
    """Describe a record, for the `repr` of its delivery."""
    if not source.is_known(index):
        return f"a record for {source.topic}: not acknowledged yet"
    result = source.result(index)
    if isinstance(result, LograftError):
        return f"a record for {source.topic}: failed, {type(result).__name__}: {result.message}"
    return f"{result.topic}-{result.partition} offset {result.offset}"


def describe_all(submissions: Sequence[Submission], count: int) -> str:
    """Describe records, for the `repr` of their deliveries."""
    topic = f" for {submissions[0].topic}" if submissions else ""
    if not all(submission.is_settled for submission in submissions):
        return f"{count} records{topic}: not all acknowledged yet"
    error = joint_error(submissions)
    return (
        f"{count} records{topic}: {'stored' if error is None else f'failed, {type(error).__name__}: {error.message}'}"
    )


@dataclass(frozen=True, slots=True)
class StoredRange:
    """Where records were stored: `count` of them, from `offset` on. `offset` is -1 if unknown, as in
    `RecordMetadata`."""

    topic: str
    partition: int
    offset: int
    count: int


def stored_ranges(submissions: Iterable[Submission]) -> list[StoredRange]:
    """Return where the records of the submissions were stored, by partition, omitting failed ones."""
    ranges: list[StoredRange] = []
    results = [result for submission in submissions for result in submission.results()]
    stored = [(found, count) for count, found in results if isinstance(found, RecordMetadata)]
    for found, count in sorted(stored, key=lambda each: each[0][:3]):
        last = ranges[-1] if ranges else None
        if last is not None and last.partition == found.partition and _follows(last, found.offset):
            ranges[-1] = replace(last, count=last.count + count)
        else:
            ranges.append(StoredRange(found.topic, found.partition, found.offset, count))
    return ranges


def _follows(last: StoredRange, offset: int) -> bool:
    return offset == -1 if last.offset == -1 else offset == last.offset + last.count


def joint_error(submissions: Iterable[Submission]) -> LograftError | None:
    """Return one error for all failed records, with the first cause, or None if all were stored."""
    total = failed = 0
    first: LograftError | None = None
    outcome_unknown = False
    for submission in submissions:
        total += len(submission)
        for count, found in submission.results():
            if isinstance(found, LograftError):
                first = first or found
                failed += count
                outcome_unknown = outcome_unknown or found.outcome_unknown
    if first is None:
        return None
    error = type(first)(f"{failed} of {total} records: {first.message}", outcome_unknown=outcome_unknown)
    error.__cause__ = first
    return error
