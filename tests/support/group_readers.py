"""Consumers of a group, each in a thread or a process of its own, and what they have read together."""

import sys
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, Unpack

from support.programs import Program
from support.server_processes import DEADLINE_SECONDS, until

from lograft import Consumer, Producer, RebalanceListener, TopicPartition
from lograft.clients.consumer.reading.options import ConsumerKeywords

_POLL_SECONDS = 0.1


class NumberedRecords:
    """Writes 0, 1, 2 and so on to a topic without a pause, until it is left; then all of them are acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.count = 0
        self._ends = threading.Event()

    def __enter__(self) -> Self:
        self._threads = ThreadPoolExecutor(1)
        self._writing = self._threads.submit(self._write)
        return self

    def _write(self) -> None:
        with Producer(self._bootstrap, linger_ms=1) as producer:
            while not self._ends.wait(0.01):
                for _ in range(20):
                    producer.send(self._topic, b"%d" % self.count, key=b"%d" % self.count)
                    self.count += 1
            producer.flush(timeout=2 * DEADLINE_SECONDS)

    def until_written(self, more: int) -> None:
        wanted = self.count + more
        until(lambda: self.count >= wanted or self._writing.done(), f"{more} more records are written")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ends.set()
        self._writing.result(3 * DEADLINE_SECONDS)
        self._threads.shutdown()


class ReadTogether:
    """How often each record was read, by whichever member."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[int] = Counter()

    def add(self, values: list[int]) -> None:
        with self._lock:
            self._counts.update(values)

    def has_all(self, count: int) -> bool:
        with self._lock:
            return len(self._counts) >= count

    def missing(self, count: int) -> list[int]:
        with self._lock:
            return [number for number in range(count) if number not in self._counts]

    @property
    def more_than_once(self) -> int:
        with self._lock:
            return sum(count > 1 for count in self._counts.values())


class Told(RebalanceListener):
    """What a member was told, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("lost", partitions))


class GroupReader:
    """One member, which polls in a thread of its own until it is left."""

    def __init__(self, bootstrap: str, topic: str, together: ReadTogether, **options: Unpack[ConsumerKeywords]) -> None:
        self._topic = topic
        self._together = together
        self._ends = threading.Event()
        self.told = Told()
        self.assignment: list[TopicPartition] = []
        keywords: ConsumerKeywords = {"group": topic, "auto_offset_reset": "earliest", **options}
        self._consumer = Consumer(bootstrap, **keywords)
        self._threads = ThreadPoolExecutor(1)
        self._reading: Future[None] = self._threads.submit(self._read)

    def _read(self) -> None:
        with self._consumer as consumer:
            consumer.subscribe([self._topic], self.told)
            while not self._ends.is_set():
                records = consumer.poll(_POLL_SECONDS)
                self._together.add([int(record.value or b"") for record in records])
                self.assignment = consumer.assignment()

    def until_has(self, count: int) -> None:
        until(lambda: len(self.assignment) == count or self._reading.done(), f"the member has {count} partitions")
        assert not self._reading.done(), self._reading.exception()

    def stop(self) -> None:
        """It leaves the group."""
        self._ends.set()
        self._reading.result(DEADLINE_SECONDS)
        self._threads.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._ends.is_set():
            self.stop()


_PROCESS = """
import sys
from lograft import Consumer, errors

with Consumer(sys.argv[1], group=sys.argv[2], auto_offset_reset="earliest", auto_commit=False,
              session_timeout_ms=2000) as consumer:
    consumer.subscribe([sys.argv[2]])
    while not (records := consumer.poll(0.1)):
        pass
    print("READ", len(records), flush=True)
    sys.stdin.readline()
    try:
        consumer.commit()
        print("COMMITTED", flush=True)
    except errors.CommitFailed as error:
        print("REFUSED", error, flush=True)
    while not (records := consumer.poll(0.1)):
        pass
    print("READ AGAIN", flush=True)
"""


def reading_process(bootstrap: str, topic: str) -> Program:
    """Reads something of the topic, in the group of that name, and says so; commits when it is told a line, and says
    what came of it; reads again."""
    return Program(sys.executable, "-c", _PROCESS, bootstrap, topic)
