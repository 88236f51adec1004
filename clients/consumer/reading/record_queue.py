"""The consumer's queue of records ready to return: runs of several partitions, served in turn. Pure."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from lograft.clients.consumer.reading.record_run import RecordRun
from lograft.clients.errors import DeserializationError
from lograft.clients.records.serializers import Deserializer, deserialize
from lograft.storage.batch.codec import Record

Deserializers: TypeAlias = tuple[Deserializer | None, Deserializer | None]
"""For keys and for values."""


class RecordQueue:
    """`give_back(run, index)`: records of the run from `index` on did not reach the caller. `more(count)`: returns runs
    of about `count` received records."""

    def __init__(
        self,
        deserializers: Deserializers,
        give_back: Callable[[RecordRun, int], None],
        more: Callable[[int], Iterable[RecordRun]] = lambda _: (),
    ) -> None:
        self._deserializers = deserializers
        self._has_deserializer = any(deserializers)
        self._give_back = give_back
        self._more = more
        self._runs: deque[RecordRun] = deque()
        self._taken: list[tuple[RecordRun, int]] = []  # since `begin`, with the first index taken

    def replace(self, runs: Iterable[RecordRun]) -> None:
        """Replace all runs. `runs` must include those queued that have records left."""
        self._runs = deque(runs)

    def take(self, limit: int) -> list[Record[Any, Any]]:
        """Return the next records, at most `limit`. Partitions served come last the next time.

        Raise `DeserializationError` if the next record cannot be deserialized. It stays the next one.
        """
        records: list[Record[Any, Any]] = []
        while len(records) < limit and self._has_more(limit - len(records)):
            run, count, index = self._runs[0], len(records), self._runs[0].index
            self._taken.append((run, index))
            taken = run.take(limit - count)
            if not self._has_deserializer:
                records += taken
            elif error := self._deserialize(taken, records):
                self._give_back(run, index + len(records) - count)
                if records:
                    return records
                raise error
            self._runs.rotate(-1)
            if not run.left:
                self._runs.pop()
        return records

    def begin(self) -> None:
        """Confirm that everything taken so far has reached the caller."""
        self._taken.clear()

    def undo(self) -> None:
        """Give back everything taken since `begin`, which did not reach the caller. Only for queues without `more`:
        records of a run that was replaced cannot be given back."""
        for run, index in self._taken:
            self._give_back(run, index)
        self._taken.clear()

    def _has_more(self, count: int) -> bool:
        if not self._runs:
            self._runs.extend(self._more(count))
        return bool(self._runs)

    def _deserialize(self, taken: list[Record[Any, Any]], into: list[Record[Any, Any]]) -> DeserializationError | None:
        """Deserialize records until one fails. Return its error."""
        try:
            for record in taken:
                into.append(self._deserialized(record))
        except DeserializationError as error:
            return error
        return None

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        """Yield all records, without work per record unless there is a deserializer. A later iteration continues after
        the last yielded record."""
        while self._runs:
            run = self._runs[0]
            if not self._has_deserializer:
                yield from run.ready
            else:
                yield from self._deserialized_run(run)
            # The run may be gone: between yields, the caller may have called other methods of the consumer.
            if self._runs and self._runs[0] is run:
                self._runs.popleft()

    def _deserialized_run(self, run: RecordRun) -> Iterator[Record[Any, Any]]:
        for record in run.ready:
            try:
                converted = self._deserialized(record)
            except BaseException:
                self._give_back(run, run.index - 1)
                raise
            yield converted

    def _deserialized(self, record: Record) -> Record[Any, Any]:
        topic, partition, offset, _, key, value, _ = record
        of_key, of_value = self._deserializers
        return record._replace(
            key=deserialize(of_key, topic, "key", key, partition, offset),
            value=deserialize(of_value, topic, "value", value, partition, offset),
        )
