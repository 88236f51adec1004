"""The consumer for synchronous code: runs the awaitable client on an event loop in another thread.

This file handles what threads need: the loop hands over many records at a time, the polling thread calls listeners,
and an interrupt loses no records.
"""

import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, Unpack

from lograft.clients.consumer import aio_consumer
from lograft.clients.consumer.aio_group_consumer import CommitCallback
from lograft.clients.consumer.group.offset_commits import GivenOffsets
from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
from lograft.clients.consumer.reading.options import ConsumerKeywords, ConsumerOptions, poll_limit
from lograft.clients.consumer.reading.record_queue import RecordQueue
from lograft.clients.consumer.reading.record_run import RecordRun
from lograft.clients.consumer.sync_consumer_calls import SyncConsumerCalls
from lograft.clients.errors import ClientClosed, InvalidArgument
from lograft.clients.types import TopicPartition
from lograft.runtime.tasks.loop_thread import CallBacks, LoopLost
from lograft.storage.batch.codec import Record

if TYPE_CHECKING:  # defaults of type variables came to `typing` in Python 3.13
    import pyarrow
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["Consumer"]

T = TypeVar("T")
P = ParamSpec("P")

_AHEAD_RECORDS = 1000  # handed over by the loop at a time, so that most polls need not ask it


class Consumer(SyncConsumerCalls, Generic[K, V]):
    """Reads records, in order within each partition, alone (`assign`) or as a member of a group (`subscribe`). Not
    thread-safe: use it from one thread at a time.

    with Consumer("localhost:9092", group="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer: ...

    `Consumer[str, Order]` says what keys and values deserializers return, for type checkers.

    Options, all by name, with their defaults:

    group=None: the group whose members share topics, and whose offsets are committed. `subscribe` and `commit` need it.
    auto_offset_reset="latest": where to begin without a committed offset, or to continue when an offset no longer
        exists: "earliest", "latest", a duration (a timedelta, or "1h": the first record at most that old), or "none",
        which raises `OffsetOutOfRange`.
    key_deserializer=None, value_deserializer=None: how to decode keys and values: "bytes", "string", "json", or a
        function of the topic and the bytes.
    max_poll_records=500: the most records that `poll` returns.
    auto_commit=True: commit positions every `auto_commit_interval_ms`, when partitions are revoked, and in `close`.
    auto_commit_interval_ms=5000: see `auto_commit`.
    session_timeout_ms=10000: a member loses its partitions if its coordinator hears nothing from it for this long.
    max_poll_interval_ms=300000: a member also loses its partitions if it does not poll for this long.
    assignor=None: how partitions are shared: "uniform", "range" or "roundrobin"; None: the group's current assignor.
    instance_id=None: a fixed name for a member, which keeps its partitions if it restarts within a session timeout.
    rack=None: the consumer's location. It reads from in-sync replicas in the same rack if the leader is elsewhere.
    on_bad_batch="raise": how to handle records that cannot be decoded: "raise", or "skip", which omits them, logs a
        warning, and counts them in `metrics()`. Records with a wrong CRC are never skipped: the consumer first
        fetches them again from other replicas, and raises if that fails.
    fetch_buffer_bytes=16777216: how much to fetch ahead from each broker.
    fetch_partition_bytes=1048576: how much of one partition to fetch at a time.
    request_timeout_ms=30000: the timeout of methods without a timeout argument.
    client_id="lograft-python": the name of this client in brokers' logs and metrics.
    first_contact_ms=None: give up if no broker was reached within this time; None: wait as long as the call allows.
    """

    def __init__(self, bootstrap: str | Iterable[str], **options: Unpack[ConsumerKeywords]) -> None:
        super().__init__()
        self._inner = aio_consumer.Consumer(bootstrap, **options)
        self._call_backs = CallBacks(self._loop)
        self._has_listener = False
        # The inner consumer must not refer to this object, which could then never be garbage-collected.
        self._inner.call_listener = partial(_call_listener, self._call_backs)
        checked = ConsumerOptions.of(options)
        self._max_poll_records = checked.max_poll_records
        self._queue = RecordQueue(checked.deserializers, self._give_back)
        self._wait(self._inner.start)

    def close(self) -> None:
        """Commit if `auto_commit` is set, and leave the group at once, within a few seconds."""
        self._call(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- subscribing

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Replace the subscription with these topics, whose partitions the group's members share. A pattern must match
        the whole name; the client applies it again as topics are created and deleted, and never to internal ones.
        `listener` is called when partitions are assigned or revoked; on a synchronous consumer, by the polling
        thread.

        Return at once: the client joins the group in the background. If it finds no cluster or no coordinator in time,
        the next poll raises the error, and the client tries again."""
        self._call(self._inner.subscribe, topics, listener)
        self._has_listener = listener is not None

    def unsubscribe(self) -> None:
        """Stop reading. A member has its partitions revoked, as in a rebalance, and leaves its group."""
        self._call(self._inner.unsubscribe)

    def commit_async(self, offsets: GivenOffsets | None = None, callback: CommitCallback | None = None) -> None:
        """Commit without waiting. Commits are carried out in the order of the calls. `callback` is called on the
        client's event loop, where it must not block, with the offsets (None: all positions) and the error, or None."""

        async def commit_async() -> None:
            self._inner.commit_async(offsets, callback)

        # Wait for the loop, so that positions are those of now, not of when the loop gets to it.
        self._wait(commit_async)

    # -- records

    def poll(self, timeout: float | None = None, max_records: int | None = None) -> list[Record[K, V]]:
        """Return records as soon as there are any, at most `max_poll_records`; return none after `timeout` seconds
        (None: wait indefinitely).

        Raise a partition's failure once there is nothing else to return; it persists until you seek. Raise
        `NotAssigned` if the consumer has neither a subscription nor an assignment.
        """
        limit = poll_limit(max_records, self._max_poll_records)
        self._queue.begin()
        while True:
            try:
                records = self._queue.take(limit)
                if records:
                    return records
            except KeyboardInterrupt:
                self._queue.undo()
                raise
            runs = self._call(self._inner.ready, timeout, max(limit, _AHEAD_RECORDS))
            if not runs:
                return []
            self._queue.replace(runs)

    def poll_arrow(self, timeout: float | None = None, max_records: int | None = None) -> "pyarrow.Table":
        """Like `poll`, but return everything that has arrived, or at most `max_records`, as a table of
        `lograft.ARROW_SCHEMA`; an empty one at the timeout. There is no work per record, and nothing is deserialized.
        Where possible, the table uses the memory that the records arrived in."""
        from lograft.clients.records.arrow_table import table_of

        ticket = object()
        try:
            return table_of(self._call(self._inner.take_arrow, timeout, max_records, ticket))
        except KeyboardInterrupt:
            self._ask(lambda: self._inner.give_back_arrow(ticket))
            raise

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Yield records indefinitely. After a `break`, iterating or polling continues after the last one."""
        while True:
            yield from self._queue
            self._queue.replace(self._call(self._inner.ready, None, _AHEAD_RECORDS))

    def __next__(self) -> Record[K, V]:
        return next(iter(self))

    def _give_back(self, run: RecordRun, index: int) -> None:
        self._ask(lambda: self._inner.give_back(run, index))

    def wakeup(self) -> None:
        """Make the waiting `poll`, or else the next one, raise `WakeupError`. On a synchronous consumer, any thread or
        signal handler may call this."""
        try:
            self._loop.post(self._inner.wakeup)
        except LoopLost as error:
            raise ClientClosed(str(error)) from None

    def _call(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """Like `_wait`, for calls that may run a listener, in this thread."""
        if not self._has_listener:
            return self._wait(function, *arguments, **named)
        try:
            return self._call_backs.run(function, *arguments, **named)
        except LoopLost as error:
            raise ClientClosed(str(error)) from None


async def _call_listener(
    call_backs: CallBacks, method: Callable[[list[TopicPartition]], Any], partitions: list[TopicPartition]
) -> None:
    await call_backs.call(_call_method, method, partitions)


def _call_method(method: Callable[[list[TopicPartition]], Any], names: list[TopicPartition]) -> None:
    result = method(names)
    if inspect.iscoroutine(result):
        result.close()
        raise InvalidArgument("the listener's methods are coroutines: that is for lograft.aio.Consumer")
