"""The consumer, for asyncio."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from lograft.clients.cluster.bootstrap import parse_bootstrap
from lograft.clients.cluster.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.cluster.dropped_client import when_dropped
from lograft.clients.cluster.offset_lookup import AT_TIME, EARLIEST, LATEST, OffsetLookup, OffsetQuestion
from lograft.clients.cluster.shared_cluster import join_cluster
from lograft.clients.consumer.aio_group_consumer import GroupConsumer, call_listener
from lograft.clients.consumer.consumer_work import ConsumerWork
from lograft.clients.consumer.group.session import Called, GroupSession
from lograft.clients.consumer.reading.fetched_partition import Anchor
from lograft.clients.consumer.reading.metrics import ConsumerMetrics
from lograft.clients.consumer.reading.options import ConsumerKeywords, ConsumerOptions, poll_limit
from lograft.clients.consumer.reading.partition_reader import PartitionReader
from lograft.clients.consumer.reading.record_queue import RecordQueue
from lograft.clients.consumer.reading.record_run import Position, RecordRun
from lograft.clients.errors import InvalidArgument, LograftError, NotAssigned
from lograft.clients.types import MAX_INTEGER, TopicPartition, check_topic, partition_name
from lograft.proto import log_pb2 as pb
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.world import Runtime
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

log = get_logger(__name__)

_CLOSE_MS = 10_000
_HOW_TO_READ = ("assign([(topic, partition), ...])", "subscribe([topic, ...]) or assign([(topic, partition), ...])")
_DROPPED = (
    "a consumer was dropped without being closed: its group commits nothing more, and waits for its session to end"
)


class Consumer(GroupConsumer, Generic[K, V]):
    """Reads records, in order within each partition, alone (`assign`) or as a member of a group (`subscribe`).

    async with Consumer("localhost:9092", group="billing", auto_offset_reset="earliest") as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer: ...

    `Consumer[str, Order]` tells type checkers what the key and value deserializers return.

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

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        runtime: Runtime | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> None:
        self._options = ConsumerOptions.of(options)
        self._bootstrap = parse_bootstrap(bootstrap, "Consumer")
        self._given_runtime = runtime
        self._runtime: Runtime
        self._cluster: ClusterClient
        self._reader: PartitionReader
        self._lookup: OffsetLookup
        self._queue: RecordQueue
        self._records: Iterator[Record[K, V]]
        self._group: GroupSession | None = None
        self.call_listener: Called = call_listener
        self._work = ConsumerWork()
        self._task = self._work.task
        self._keep: Callable[[], object] = lambda: None

    # -- life

    async def start(self) -> None:
        """Start the consumer; `async with` does it."""
        if self._task.is_running:
            return
        self._task.check_may_start()
        times = ClusterTimes(first_contact_ms=self._options.first_contact_ms)
        self._cluster = join_cluster(self._given_runtime, self._bootstrap, times)
        self._runtime = self._cluster.runtime
        self._reader = PartitionReader(self._cluster, self._options, self._task)
        self._queue = RecordQueue(self._options.deserializers, self._reader.give_back, self._reader.ready_now)
        self._records = iter(self._queue)
        self._lookup = OffsetLookup(self._cluster)
        if self._options.group is not None:
            self._group = GroupSession(self._cluster, self._reader, self._options, self.call_listener)
        self._work.start(self._cluster, self._reader, self._group)
        if self._given_runtime is None:
            self._keep = when_dropped(self, self._work.end, _DROPPED)

    async def close(self) -> None:
        """Commit if `auto_commit` is set, and leave the group at once, within a few seconds."""
        if not self._task.is_running:
            return
        try:
            if self._group is not None and self._task.failure is None:
                async with self._cluster.within(min(self._options.request_timeout_ms, _CLOSE_MS), "it was not left"):
                    await self._group.close()
        except LograftError as error:
            log.warning("group_not_left", group=self._options.group, reason=str(error))
        finally:
            await self._close()

    async def _close(self) -> None:
        self._keep()
        await self._work.end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- partitions

    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read exactly these partitions. Partitions that were assigned before continue at their positions; others begin
        at the group's committed offset or, without one, where `auto_offset_reset` says, unless you seek first. Raise
        `UnknownTopic` or `UnknownPartition`, without changing the assignment."""
        self._task.check()
        if self._group is not None and self._group.is_subscribed:
            raise InvalidArgument("the consumer is subscribed, which excludes assigning: unsubscribe first")
        names = [partition_name(each) for each in partitions]
        async with self._within("nothing could be learnt of the topics"):
            topic_ids = {name: (await self._cluster.partition(*name)).id for name in names}
            starts = {} if self._group is None or not names else await self._group.committed(topic_ids)
        self._reader.remove(*(name for name in self._reader.partitions if name not in topic_ids))
        for name, topic_id in topic_ids.items():
            start = starts.get(name)
            self._reader.add(name, topic_id, None if start is None else Position(start.offset, start.leader_epoch))

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that the consumer reads."""
        return sorted(self._reading().partitions)

    def metrics(self) -> ConsumerMetrics:
        """Return rates, latencies, buffered bytes, and lag."""
        return self._reading().metrics()

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of a topic."""
        self._task.check()
        check_topic(topic)
        async with self._within(f"nothing could be learnt of topic {topic!r}"):
            count = (await self._cluster.topic(topic)).partition_count
        return [TopicPartition(topic, number) for number in range(count)]

    # -- records

    async def poll(self, timeout: float | None = None, max_records: int | None = None) -> list[Record[K, V]]:
        """Return records as soon as there are any, at most `max_poll_records`; return none after `timeout` seconds
        (None: wait indefinitely).

        Raise a partition's failure once there is nothing else to return; it persists until you seek. Raise
        `NotAssigned` if the consumer has neither a subscription nor an assignment.
        """
        limit = poll_limit(max_records, self._options.max_poll_records)
        self._reading().check_woken()
        self._queue.begin()
        while True:
            if self._group is not None:
                await self._group.polled()
            records = self._queue.take(limit)
            if records:
                return records
            runs = await self.ready(timeout, limit)
            if not runs:
                return []
            self._queue.replace(runs)

    async def poll_arrow(self, timeout: float | None = None, max_records: int | None = None) -> "pyarrow.Table":
        """Like `poll`, but return everything that has arrived, or at most `max_records`, as a table of
        `lograft.ARROW_SCHEMA`; an empty one at the timeout. There is no work per record, and nothing is deserialized.
        Where possible, the table uses the memory that the records arrived in."""
        from lograft.clients.records.arrow_table import table_of

        return table_of(await self.take_arrow(timeout, max_records))

    # -- for the synchronous consumer

    async def ready(self, timeout: float | None, at_least: int) -> list[RecordRun]:
        """Return runs of about `at_least` records as soon as there are any; return none after `timeout` seconds.

        The caller takes records from them at any time, and calls again once all are taken. Until then, every call
        returns the same runs, so no record is lost if an answer does not reach the caller.
        """
        reader = self._reading()
        return await self._first(timeout, lambda: reader.ready_now(at_least))

    async def take_arrow(
        self, timeout: float | None, max_records: int | None, ticket: object = None
    ) -> "list[tuple[TopicPartition, pyarrow.RecordBatch]]":
        """Return Arrow RecordBatches as soon as there are any, at most `max_records` records; return none after
        `timeout` seconds. A caller that did not receive them gives them back by its `ticket`."""
        reader, limit = self._reading(), poll_limit(max_records, MAX_INTEGER)
        return await self._first(timeout, lambda: reader.arrow_now(limit, ticket))

    async def _first(self, timeout: float | None, look: Callable[[], list[T]]) -> list[T]:
        """Call `look` until it finds something, and return that; return nothing after `timeout` seconds."""
        group = self._group
        if not self._reader.partitions and (group is None or not group.is_subscribed):
            raise NotAssigned(f"the consumer has nothing to read: {_HOW_TO_READ[group is not None]} first")
        if group is None:
            return await self._reader.first(timeout, look)
        return await group.poll(timeout, lambda left: self._reader.first(left, look))

    def give_back(self, run: RecordRun, index: int) -> None:
        """See `PartitionReader.give_back`."""
        self._reading().give_back(run, index)

    def give_back_arrow(self, ticket: object) -> None:
        """See `PartitionReader.give_back_arrow`."""
        self._reading().give_back_arrow(ticket)

    def _reading(self) -> PartitionReader:
        self._task.check()
        return self._reader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[K, V]:
        """Return the next record. After a `break`, iterating or polling continues after the last one."""
        self._reading().check_woken()
        while (record := next(self._records, None)) is None:
            self._queue.replace(await self.ready(None, self._options.max_poll_records))
            self._records = iter(self._queue)
        return record

    def wakeup(self) -> None:
        """Make the waiting `poll`, or else the next one, raise `WakeupError`. On a synchronous consumer, any thread or
        signal handler may call this."""
        self._reading().wake_up()

    # -- positions

    async def seek(self, partition: tuple[str, int], offset: int) -> None:
        """Continue at `offset`."""
        if not isinstance(offset, int) or not 0 <= offset <= MAX_INTEGER:
            raise InvalidArgument(f"there is no offset {offset}: give 0 or more, or use seek_to_end")
        self._reading().seek(partition, Position(offset))

    async def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Continue at the first existing offset of these partitions, or of all."""
        self._reading().seek_anchor(partitions, Anchor.EARLIEST)

    async def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Continue with records stored from now on in these partitions, or in all."""
        self._reading().seek_anchor(partitions, Anchor.LATEST)

    async def position(self, partition: tuple[str, int]) -> int:
        """Return the offset of the partition's next record to be returned by `poll`."""
        reader = self._reading()
        async with self._within("the position could not be found out"):
            return await reader.position(partition)

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets the position is behind the last known end of the partition; None if none is known
        yet. `end_offsets` asks the brokers."""
        return self._reading().assigned(partition).lag

    async def pause(self, *partitions: tuple[str, int]) -> None:
        """Stop returning records of these partitions, or of all, until they are resumed."""
        self._reading().pause(partitions)

    async def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of these partitions, or of all, again."""
        self._reading().resume(partitions)

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return sorted(name for name, partition in self._reading().partitions.items() if partition.is_paused)

    # -- offsets

    async def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the first existing offset of each partition."""
        return _all_found(await self._offsets(dict.fromkeys(map(partition_name, partitions), 0), EARLIEST))

    async def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the end of each partition: the offset of the next record to be committed."""
        return _all_found(await self._offsets(dict.fromkeys(map(partition_name, partitions), 0), LATEST))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition's first record at or after its time (in milliseconds), or None if there
        is no such record."""
        for moment in times.values():
            if not isinstance(moment, int) or abs(moment) > MAX_INTEGER:
                raise InvalidArgument(f"{moment!r} is not a time: give milliseconds since 1970")
        return await self._offsets({partition_name(name): moment for name, moment in times.items()}, AT_TIME)

    async def _offsets(
        self, times: Mapping[TopicPartition, int], kind: pb.ListOffsetsRequest.Kind
    ) -> dict[TopicPartition, int | None]:
        self._task.check()
        async with self._within("the offsets could not be found out"):
            questions = {
                name: OffsetQuestion((await self._cluster.partition(*name)).id, kind, moment)
                for name, moment in times.items()
            }
            return await self._lookup.find(questions)


def _all_found(offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    return {name: offset for name, offset in offsets.items() if offset is not None}
