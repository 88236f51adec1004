"""Records written and read without a pause while a cluster has its troubles, and the check that all of them are there.

with SteadyLoad(bootstrap, "orders", partitions=3) as load:
    load.until_stored(500)          # so many more, from now on
    ...                             # trouble
load.check()
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from types import TracebackType
from typing import Self

from support.server_processes import DEADLINE_SECONDS, until

from lograft import Consumer, Delivery, Producer, Record, TopicPartition

_PACE_SECONDS = 0.005
_RECORDS_A_TURN = 12  # over all partitions
_MOST_IN_DOUBT = 4000
_POLL_SECONDS = 0.2


class SteadyLoad:
    """Writes to every partition of a topic that nobody else writes to, and reads along; each in a thread of its own.

    Leaving it waits until the fate of every record is known, and all of them were read. After a failed test it waits
    for nothing.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._names = [TopicPartition(topic, number) for number in range(partitions)]
        self._sent: dict[TopicPartition, list[Record]] = {name: [] for name in self._names}
        self._deliveries: dict[TopicPartition, list[Delivery]] = {name: [] for name in self._names}
        self._read: dict[TopicPartition, list[Record]] = {name: [] for name in self._names}
        self._sent_count = 0
        self._settled_at: list[float] = []
        self._has_settled = threading.Event()
        self._writing_ends = threading.Event()
        self._reading_ends = threading.Event()
        self._resources = ExitStack()

    # -- its life

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            threads = resources.enter_context(ThreadPoolExecutor(2))
            self._producer = Producer(self._bootstrap, acks="all", linger_ms=1, compression="lz4")
            resources.callback(self._producer.close, timeout=0)
            self._consumer = resources.enter_context(Consumer(self._bootstrap, auto_offset_reset="earliest"))
            self._writing = threads.submit(self._write)
            self._reading = threads.submit(self._read_along)
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._resources:
            self._writing_ends.set()
            try:
                if error is None:
                    self._writing.result(DEADLINE_SECONDS)
                    self._producer.flush(timeout=2 * DEADLINE_SECONDS)
                    until(lambda: self._has_read_all or self._reading.done(), "who reads along has read all")
            finally:
                self._reading_ends.set()
            if error is None:
                self._reading.result(DEADLINE_SECONDS)

    def _write(self) -> None:
        while not self._writing_ends.wait(_PACE_SECONDS):
            for _ in range(max(1, _RECORDS_A_TURN // len(self._names))):
                for name in self._names:
                    self._send(name)
            while self._sent_count - len(self._settled_at) > _MOST_IN_DOUBT and not self._writing_ends.is_set():
                self._has_settled.clear()
                self._has_settled.wait(_POLL_SECONDS)

    def _send(self, name: TopicPartition) -> None:
        record = _make_record(name, len(self._sent[name]))
        delivery = self._producer.send(
            record.topic, record.value, key=record.key, partition=record.partition, timestamp=record.timestamp,
            headers=record.headers,
        )  # fmt: skip
        self._sent[name].append(record)
        self._deliveries[name].append(delivery)
        self._sent_count += 1
        delivery.add_done_callback(self._note_settled)

    def _note_settled(self, _: Delivery) -> None:
        self._settled_at.append(time.monotonic())
        self._has_settled.set()

    def _read_along(self) -> None:
        assigned: list[TopicPartition] = []
        while not self._reading_ends.is_set():
            if assigned is not self._names:
                assigned = self._names
                self._consumer.assign(assigned)
            for record in self._consumer.poll(timeout=_POLL_SECONDS):
                self._read[record.topic, record.partition].append(record)  # type: ignore[index]

    @property
    def _has_read_all(self) -> bool:
        return all(len(self._read[name]) >= len(self._sent[name]) for name in self._names)

    # -- for the story

    def until_stored(self, count: int) -> None:
        """Return when the fate of `count` more records is known. It must be a good one, but that is for `check`."""
        goal = len(self._settled_at) + count
        until(lambda: len(self._settled_at) >= goal or self._writing.done(), f"{count} more records were stored")
        if self._writing.done():
            self._writing.result()

    def grow(self, partitions: int) -> None:
        """Write to so many partitions from now on, of which the topic got the last ones just now."""
        names = [TopicPartition(self._names[0].topic, number) for number in range(partitions)]
        for name in names[len(self._names) :]:
            self._sent[name], self._deliveries[name], self._read[name] = [], [], []
        self._names = names

    @property
    def longest_pause_ms(self) -> int:
        """Between one acknowledgement and the next."""
        return round(1000 * max((after - before for before, after in pairwise(self._settled_at)), default=0))

    def check(self) -> None:
        """Every record was acknowledged, and is there once, in the order of sending, unaltered, at the offset that was
        told: for who has read along, and for who comes now."""
        for name in self._names:
            errors = [error for delivery in self._deliveries[name] if (error := delivery.exception()) is not None]
            assert not errors, f"{len(errors)} of {name} failed, the first with {errors[0]!r}"
            told = [delivery.result().offset for delivery in self._deliveries[name]]
            assert told == list(range(len(told))), f"the offsets told of {name} are not 0, 1, 2..."
            check_same(self._sent[name], self._read[name], f"read along from {name}")
        for name, records in read_all(self._bootstrap, self._names).items():
            check_same(self._sent[name], records, f"in {name}")


def _make_record(name: TopicPartition, number: int) -> Record:
    """With or without a key, a value, headers, and of many sizes."""
    value = b"%d of %s-%d " % (number, name.topic.encode(), name.partition) + bytes([number % 256]) * (
        number * 37 % 400
    )
    return Record(
        name.topic, name.partition, number, time.time_ns() // 1_000_000,
        key=None if number % 7 == 0 else b"%d" % (number % 100),
        value=None if number % 50 == 49 else value,
        headers=(("number", b"%d" % number), ("nothing", None)) if number % 3 == 0 else (),
    )  # fmt: skip


def read_all(bootstrap: str, names: Sequence[TopicPartition]) -> dict[TopicPartition, list[Record]]:
    """All that the partitions have, by a consumer of its own."""
    found: dict[TopicPartition, list[Record]] = {name: [] for name in names}
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(names)
        ends = consumer.end_offsets(names)
        while any(consumer.position(name) < ends[name] for name in names):
            records = consumer.poll(timeout=DEADLINE_SECONDS)
            assert records, f"nothing more comes, at {[consumer.position(name) for name in names]} of {ends}"
            for record in records:
                found[TopicPartition(record.topic, record.partition)].append(record)
    return found


def check_same(expected: Sequence[Record], found: Sequence[Record], what: str) -> None:
    for number, (one, other) in enumerate(zip(expected, found, strict=False)):
        assert one == other, f"{what}, record {number} of {len(expected)}: {other} instead of {one}"
    assert len(expected) == len(found), f"{what}: {len(found)} records instead of {len(expected)}"
