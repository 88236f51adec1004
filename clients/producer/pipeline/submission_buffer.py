"""The buffer of submissions between the sending threads and the loop, in sending order. Pure."""

from collections.abc import Callable

from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.records.list_columns import HeaderPairs, SizedLists

SUBMISSION_BYTES = 256 * 1024
"""The size at which a submission is full, small enough for the loop to handle without a pause."""


class OpenSubmission:
    """A submission that accepts more records, up to `limit_bytes`, which are reserved in the producer's buffer.
    `is_plain`: all records only have a value and a timestamp. A caller that appends to the columns directly must `cut`
    the record off again if it is interrupted."""

    __slots__ = ("_lists", "ends", "is_plain", "limit_bytes", "size_bytes", "submission", "timestamps", "values")

    def __init__(self, submission: Submission, limit_bytes: int) -> None:
        assert isinstance(submission.columns, SizedLists)
        self.submission = submission
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self.is_plain = True
        self._lists = submission.columns.lists
        self.values = self._lists.values
        self.timestamps = self._lists.timestamps
        self.ends = submission.columns.ends

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: HeaderPairs,
        partition: int | None,
        size_bytes: int,
    ) -> int:
        """Append a record, and return its index. The append is atomic under interrupts, which may occur between any two
        lines."""
        lists, index = self._lists, len(self.ends)
        try:
            self.values.append(value)
            self.timestamps.append(timestamp)
            if key is not None or lists.keys is not None:
                lists.add_key(key, index)
            if headers or lists.headers is not None:
                lists.add_headers(headers, index)
            if partition is not None or self.submission.partitions is not None:
                self._add_partition(partition, index)
            self.is_plain = lists.keys is None and lists.headers is None and self.submission.partitions is None
            self.size_bytes += size_bytes
            self.ends.append(self.size_bytes)
        except BaseException:
            self.cut(index)
            raise
        return index

    def _add_partition(self, partition: int | None, index: int) -> None:
        if self.submission.partitions is None:
            self.submission.partitions = [None] * index
        self.submission.partitions.append(partition)

    def cut(self, count: int) -> None:
        """Keep the first `count` records only."""
        lists = self._lists
        columns = (self.values, lists.keys, self.timestamps, lists.headers, self.submission.partitions, self.ends)
        for column in columns:
            if column is not None:
                del column[count:]
        self.size_bytes = self.ends[-1] if self.ends else 0


class SubmissionBuffer:
    """Invariant: each topic has at most one open submission, which is the topic's last."""

    def __init__(self, make_submission: Callable[[str, SizedLists], Submission]) -> None:
        self._make_submission = make_submission
        self._submissions: list[Submission] = []
        self.open_submissions: dict[str, OpenSubmission] = {}

    @property
    def size_bytes(self) -> int:
        """The size of all records, including the bytes reserved by open submissions."""
        aside_bytes = sum(each.limit_bytes - each.size_bytes for each in self.open_submissions.values())
        return aside_bytes + sum(submission.size_bytes for submission in self._submissions)

    def open(self, topic: str, limit_bytes: int) -> OpenSubmission:
        """Open another submission for the topic, after everything sent before."""
        submission = self._make_submission(topic, SizedLists())
        self._submissions.append(submission)
        opened = self.open_submissions[topic] = OpenSubmission(submission, limit_bytes)
        return opened

    def put(self, submission: Submission) -> None:
        """Append a complete submission, after everything sent before."""
        self.open_submissions.pop(submission.topic, None)
        self._submissions.append(submission)

    def close_all(self) -> None:
        """Close all open submissions, and release their reserved bytes."""
        self.open_submissions.clear()

    def take(self) -> list[Submission]:
        """Remove and return all submissions."""
        self.close_all()
        submissions, self._submissions = self._submissions, []
        return [submission for submission in submissions if len(submission)]
