"""Publishes staged batches to their targets: in order, with sequences from 0, under one producer id.

The decision alone determines the batches and their sequences. So publishing is idempotent: it may be repeated from the
beginning, or done by several drivers at once, because brokers store each sequence once.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from google.protobuf.message import DecodeError

from lograft.clients.admin.model.types import ConfigKind
from lograft.clients.admin.sync_admin import Admin
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.errors import (
    ConnectionLost,
    LograftError,
    OffsetOutOfRange,
    OutOfOrderSequence,
    TimedOut,
    UnknownProducerId,
    UnknownTopicId,
    error_of,
    error_of_stream,
)
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import PRODUCE
from lograft.runtime.network import ConnectFailed, StreamError
from lograft.runtime.tasks.retry import ExponentialWait
from lograft.spark.common.cluster_access import ClusterAccess
from lograft.spark.common.options import ClusterOptions
from lograft.spark.common.range_reader import OffsetRange, RangePart, records_of
from lograft.spark.writing.commit_ledger import Decision
from lograft.spark.writing.staged_batches import StagedBatch, Target, read_staged
from lograft.spark.writing.write_options import STAGED_TOPIC
from lograft.storage.batch.codec import iterate_batches
from lograft.storage.batch.header import renumber

# Brokers recognize duplicates of a producer's last five batches.
_WINDOW = 5
_WINDOW_BYTES = 4 * 1024 * 1024
_ROUND_BYTES = 16 * 1024 * 1024
_SEQUENCE_MASK = 0x7FFFFFFF
_AT_ONCE = 16  # targets
_ATTEMPT_MS = 35_000  # a broker waits 30 s for replicas
_FIRST_RETRY_MS = 20
_LAST_RETRY_MS = 500

TRUST_MS = 12 * 3600 * 1000
"""Brokers remember a producer for 24 hours. If the last check of how much is published is older than half of that,
check again before sending more: brokers would store forgotten batches a second time."""


class LookedTooLongAgo(Exception):
    """The last check of how much is published is older than `TRUST_MS`: the machine slept, or the cluster accepted
    nothing for half a day."""


@dataclass(slots=True)
class _Progress:
    """The progress of one target. `next_sequence`: that of the next staged batch, not wrapped."""

    next_sequence: int = 0
    waiting: list[bytes] = field(default_factory=list)


def publish(
    admin: Admin,
    access: ClusterAccess,
    options: ClusterOptions,
    decision: Decision,
    *,
    decided_ms: int | None,
    looked_ms: int,
) -> None:
    """Publish the decision, and return when all of it is acknowledged. `decided_ms`: when an earlier driver decided it,
    which may have published some of it; None if it was decided after `looked_ms` and nothing is published yet."""
    publisher = Publisher(access.cluster, options.timeout_ms, looked_ms)
    access.loop.begin(publisher.look_up, decision).result()
    stored: Mapping[Target, int] = dict.fromkeys(decision.targets, 0)
    if decided_ms is not None:
        stored = _all_stored(admin, access, options, decision, decided_ms)
    # A batch that is already complete does not need the staged rows, which may no longer exist.
    while any(stored[target] < share.records for target, share in decision.targets.items()):
        try:
            _publish_rest(access, options, decision, publisher, stored)
            return
        except (OutOfOrderSequence, UnknownProducerId) as error:
            # Another driver is publishing the same, and is ahead by more than brokers remember: skip what it published.
            before, stored = stored, _all_stored(admin, access, options, decision, decided_ms)
            if stored == before:
                raise _cannot_be_told(type(error), decision, error.message) from None
        except LookedTooLongAgo:
            publisher.look_again()
            decided_ms = decided_ms or looked_ms
            stored = _all_stored(admin, access, options, decision, decided_ms)


def _cannot_be_told(kind: type[LograftError], decision: Decision, reason: str) -> LograftError:
    return kind(
        f"batch {decision.batch_id} was published in part, and how far cannot be told any more ({reason}): look at "
        "what its topics have, then start the query with a new checkpoint"
    )


def _publish_rest(
    access: ClusterAccess,
    options: ClusterOptions,
    decision: Decision,
    publisher: "Publisher",
    stored: Mapping[Target, int],
) -> None:
    progress = {target: _Progress() for target in decision.targets}
    size_bytes = 0
    for staged in _staged(access, options, decision):
        own = progress[staged.target]
        sequence, own.next_sequence = own.next_sequence, own.next_sequence + staged.record_count
        if sequence < stored[staged.target]:
            continue
        batch = renumber(staged.batch, decision.producer_id, decision.producer_epoch, sequence & _SEQUENCE_MASK)
        own.waiting.append(batch)
        size_bytes += len(batch)
        if size_bytes >= _ROUND_BYTES:
            access.loop.begin(publisher.store, _taken(progress)).result()
            size_bytes = 0
    access.loop.begin(publisher.store, _taken(progress)).result()


def _taken(progress: dict[Target, _Progress]) -> dict[Target, list[bytes]]:
    taken = {}
    for target, each in progress.items():
        if each.waiting:
            taken[target], each.waiting = each.waiting, []
    return taken


def _staged(access: ClusterAccess, options: ClusterOptions, decision: Decision) -> Iterator[StagedBatch]:
    """Yield the staged batches of the decision, in the order of their sequence numbers."""
    for partition, offsets in sorted(decision.staged.items()):
        wanted = set(offsets)
        whole = OffsetRange(STAGED_TOPIC, decision.staged_topic_id, partition, min(offsets), max(offsets) + 1)
        try:
            for record in records_of(access.read(whole, options, spreads=False)):
                if record.offset in wanted:
                    wanted.remove(record.offset)
                    yield read_staged(record.key, record.value)
        except (OffsetOutOfRange, UnknownTopicId) as error:
            raise _staged_is_gone(type(error), decision, error.message) from None
        if wanted:
            raise _staged_is_gone(OffsetOutOfRange, decision, f"{whole.name} has no record at {min(wanted)}")


def _staged_is_gone(kind: type[LograftError], decision: Decision, reason: str) -> LograftError:
    """Return the error for missing staged rows, which the staging topic keeps for a day by default."""
    return kind(
        f"batch {decision.batch_id} was decided to be published, and perhaps is in part, but what was staged of it in "
        f"{STAGED_TOPIC} is gone ({reason}): look at what its topics have, then start the query with a new checkpoint"
    )


def _all_stored(
    admin: Admin, access: ClusterAccess, options: ClusterOptions, decision: Decision, decided_ms: int | None
) -> dict[Target, int]:
    """Return the sequence, not wrapped, up to which each target has the producer's records."""
    clock = access.cluster.runtime.clock
    # While brokers remember the producer, they refuse duplicates of records that retention deleted. After that, a
    # missing record could have been published and deleted, so refuse to guess.
    is_old = decided_ms is not None and clock.wall_ms() - decided_ms > TRUST_MS
    if is_old:
        _check_no_target_is_compacted(admin, decision)
    stored = {}
    for target, share in decision.targets.items():
        name = TopicPartition(decision.topics[target.topic_id], target.partition)
        first = admin.list_offsets([name], "earliest")[name] or 0
        if is_old and first > share.end_before:
            reason = f"{name} begins at {first} by now, and it was decided too long ago"
            raise _cannot_be_told(OffsetOutOfRange, decision, reason)
        end = admin.list_offsets([name], "latest")[name] or 0
        whole = OffsetRange(name.topic, target.topic_id, name.partition, max(first, share.end_before), end)
        stored[target] = stored_of(decision.producer_id, access.read(whole, options, spreads=False))
    return stored


def _check_no_target_is_compacted(admin: Admin, decision: Decision) -> None:
    for name in sorted(decision.topics.values()):
        (policy,) = admin.describe_config(ConfigKind.TOPIC, name, ("cleanup.policy",))
        if "compact" in (policy.value or ""):
            reason = f"topic {name!r} is compacted, and it was decided too long ago"
            raise _cannot_be_told(OffsetOutOfRange, decision, reason)


def stored_of(producer_id: int, parts: Iterable[RangePart]) -> int:
    """Return the end of the producer's sequences in these parts, not wrapped. Its batches are in order."""
    stored = 0
    for part in parts:
        for _, header in iterate_batches(memoryview(part.batches)):
            if header.producer_id == producer_id:
                stored += (header.last_sequence + 1 - stored) & _SEQUENCE_MASK
    return stored


def _window(batches: Sequence[bytes]) -> Sequence[bytes]:
    """Return the batches to send together: few enough for brokers to recognize duplicates, and to fit in a message."""
    ends = accumulate(map(len, batches[:_WINDOW]))
    return batches[: max(1, sum(end <= _WINDOW_BYTES for end in ends))]


class Publisher:
    """Stores batches that already have sequences, under a producer id that other drivers may use at the same time."""

    def __init__(self, cluster: ClusterClient, patience_ms: int, looked_ms: int) -> None:
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._patience_ms = patience_ms
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._looked_ms = looked_ms  # wall-clock time, which advances while the machine sleeps

    def look_again(self) -> None:
        """Note that the caller is about to check how much of the batch is published."""
        self._looked_ms = self._clock.wall_ms()

    async def look_up(self, decision: Decision) -> None:
        """Look up the leaders of the decision's targets. Raise `UnknownTopicId` if a topic was recreated."""
        for topic_id, name in decision.topics.items():
            last = max((each.partition for each in decision.targets if each.topic_id == topic_id), default=0)
            async with self._cluster.within(self._patience_ms, f"nothing could be learnt of topic {name!r}"):
                topic = await self._cluster.topic_with(name, topic_id, last)
            if topic.id != topic_id:
                raise UnknownTopicId(f"topic {name!r} was recreated while rows were being written to it")

    async def store(self, batches: Mapping[Target, Sequence[bytes]]) -> None:
        """Store the batches, those of each target in order. Return when all are acknowledged."""
        try:
            async with asyncio.TaskGroup() as group:
                for target, some in batches.items():
                    group.create_task(self._store(target, list(some)))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _store(self, target: Target, batches: list[bytes]) -> None:
        backoff = ExponentialWait(self._cluster.runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)
        progress_ms = self._clock.monotonic_ms()
        while batches:
            async with self._turns:
                if self._clock.wall_ms() - self._looked_ms > TRUST_MS:
                    raise LookedTooLongAgo
                stored, error = await self._attempt(target, _window(batches))
            del batches[:stored]
            if stored:
                progress_ms = self._clock.monotonic_ms()
                backoff.succeeded()
            if error is None:
                continue
            if not error.retriable:
                raise error
            self._cluster.hinted(*target, error)
            if self._clock.monotonic_ms() - progress_ms >= self._patience_ms:
                raise TimedOut(f"partition {target.partition} took nothing for {self._patience_ms} ms: {error}")
            await self._clock.sleep_ms(backoff.next_ms())

    async def _attempt(self, target: Target, batches: Sequence[bytes]) -> tuple[int, LograftError | None]:
        """Send batches once. Return how many are stored, and the error of the next. Raise `UnknownTopicId` if the topic
        was deleted."""
        leader = self._cluster.view.leader(*target)
        if leader is None:
            raise UnknownTopicId("the topic was deleted while rows were being written to it")
        if leader.broker_id is None:
            return 0, ConnectionLost("nobody leads the partition at the moment")
        request = pb.ProduceRequest(acks=pb.ACKS_ALL, client_id="lograft-spark")
        for number, batch in enumerate(batches):
            request.items.add(
                number=number,
                topic_id=target.topic_id,
                partition=target.partition,
                leader_epoch=leader.epoch,
                batch=batch,
            )
        results: dict[int, LograftError | None] = {}
        error: LograftError | None = None
        try:
            async with asyncio.timeout(_ATTEMPT_MS / 1000):
                await self._ask(leader.broker_id, request, results)
        except TimeoutError:
            error = TimedOut(f"broker {leader.broker_id} did not answer within {_ATTEMPT_MS} ms")
        except ConnectFailed as failure:
            error = ConnectionLost(str(failure))
        except LograftError as failure:
            error = failure
        for number in range(len(batches)):
            if number not in results:
                return number, error or ConnectionLost(f"broker {leader.broker_id} did not answer for all")
            if results[number] is not None:
                return number, results[number]
        return len(batches), None

    async def _ask(self, broker_id: int, request: pb.ProduceRequest, results: dict[int, LograftError | None]) -> None:
        stream = (await self._cluster.connect(broker_id)).open(PRODUCE)
        try:
            await stream.send(request.SerializeToString())
            while len(results) < len(request.items):
                data = await stream.receive()
                if data is None:
                    return
                for result in pb.ProduceResponse.FromString(data).results:
                    results[result.number] = error_of(result.error) if result.HasField("error") else None
        except StreamError as error:
            raise error_of_stream(error) from None
        except DecodeError as error:
            raise ConnectionLost(f"{stream.peer} gave what is no answer: {error}") from None
        finally:
            stream.reset()
