"""Compares the copies of a partition on the brokers' disks, range by range."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lograft.clients.admin.model.types import PartitionVerification, ReplicaDescription
from lograft.clients.admin.replicas.replica_comparison import (
    BatchDigest,
    CompactedComparison,
    Difference,
    RecordDigest,
    compare_batches,
)
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.errors import LograftError, StorageFailed
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DIGEST_REPLICA
from lograft.runtime.network import ConnectFailed

_RANGE = 200_000  # offsets compared at a time, which bounds the memory per broker
_TRIMMING_MS = 2000  # ample time for followers to move their log start to the leader's

D = TypeVar("D")


class Unverifiable(Exception):
    """A broker could not report its copy. `damaged`: that broker, if its copy is damaged."""

    def __init__(self, message: str, damaged: int | None = None) -> None:
        super().__init__(message)
        self.damaged = damaged


@dataclass(frozen=True, slots=True)
class _Copies:
    """The range to compare: [start, end) on these brokers. `starts`: the log start of each."""

    partition: TopicPartition
    topic_id: bytes
    brokers: tuple[int, ...]
    start: int
    end: int
    starts: Mapping[int, int] = field(default_factory=dict)


async def verify_copies(
    cluster: ClusterClient,
    topic_id: bytes,
    partition: TopicPartition,
    in_sync: Sequence[int],
    describe: Callable[[], Awaitable[Sequence[ReplicaDescription]]],
    *,
    is_compacted: bool,
) -> PartitionVerification:
    """Compare the in-sync copies below the leader's high watermark. `describe` asks brokers for their replicas."""
    copies = _Copies(partition, topic_id, (), 0, 0)
    comparison = CompactedComparison()
    compare = _compare_compacted if is_compacted else _compare
    try:
        copies = _find(copies, in_sync, await describe())
        difference, suspected = await compare(cluster, copies, comparison)
        if suspected:
            copies = _find(copies, in_sync, await describe())
            comparison = CompactedComparison()
            difference, again = await compare(cluster, copies, comparison)
            difference = difference or next((each for each in again if each in suspected), None)
        if difference is None and _differ(copies.starts):
            await cluster.runtime.clock.sleep_ms(_TRIMMING_MS)
            starts = _find(copies, in_sync, await describe()).starts
            if starts == copies.starts:
                return PartitionVerification(
                    partition, copies.brokers, copies.start, copies.end, min(starts.values()), _told_starts(starts)
                )
    except Unverifiable as error:
        damaged = () if error.damaged is None else (error.damaged,)
        return PartitionVerification(
            partition, copies.brokers, copies.start, copies.end, problem=str(error), damaged=damaged
        )
    problem = None if difference is None else _told(difference)
    offset = None if difference is None else difference.offset
    undecodable = tuple((batch.base_offset, batch.next_offset - 1) for batch in comparison.undecodable)
    return PartitionVerification(
        partition, copies.brokers, copies.start, copies.end, offset, problem, undecodable=undecodable
    )


def _find(copies: _Copies, in_sync: Sequence[int], replicas: Sequence[ReplicaDescription]) -> _Copies:
    """Return the range that can be compared now. Raise `Unverifiable` if the leader or an in-sync broker is missing."""
    described = {replica.broker: replica for replica in replicas if replica.broker in in_sync}
    leader = next((replica for replica in described.values() if replica.is_leader), None)
    absent = [broker for broker in in_sync if broker not in described]
    if leader is None or leader.high_watermark is None:
        raise Unverifiable("nobody leads it who knows what is committed: try again")
    if absent:
        raise Unverifiable(f"broker {', '.join(map(str, absent))} is in sync, but does not say what it has: is it up?")
    starts = {broker: replica.start for broker, replica in described.items()}
    start = max(starts.values())
    return replace(copies, brokers=tuple(described), start=start, end=max(start, leader.high_watermark), starts=starts)


def _differ(starts: Mapping[int, int]) -> bool:
    return len(set(starts.values())) > 1


def _told_starts(starts: Mapping[int, int]) -> str:
    each = "; ".join(f"broker {broker} has nothing below {start}" for broker, start in starts.items())
    return f"the log starts differ: {each}"


def _told(difference: Difference) -> str:
    each = "; ".join(f"broker {broker} has {what}" for broker, what in difference.what.items())
    return f"differs at offset {difference.offset}: {each}"


async def _compare(
    cluster: ClusterClient, copies: _Copies, comparison: CompactedComparison
) -> tuple[Difference | None, list[Difference]]:
    """Compare batch by batch; fall back to `_compare_compacted` for a part that was compacted in the past. Return the
    same as that."""
    for first in range(copies.start, copies.end, _RANGE):
        found, cleaned_below = await _ask_all(cluster, copies, first, _batches_in, by_record=False)
        difference = compare_batches(found)
        if difference is not None and difference.offset >= cleaned_below:
            return difference, []
        if difference is not None:
            # The topic is no longer compacted, but once was.
            after = replace(copies, start=min(cleaned_below, copies.end))
            difference, _ = await _compare(cluster, after, comparison)
            return (difference, []) if difference is not None else await _compare_compacted(cluster, copies, comparison)
    return None, []


async def _compare_compacted(
    cluster: ClusterClient, copies: _Copies, comparison: CompactedComparison
) -> tuple[Difference | None, list[Difference]]:
    """Return a certain difference, and the keys that seem to be missing: as `CompactedComparison` explains, those count
    only if found twice."""
    for first in range(copies.start, copies.end, _RANGE):
        answers, _ = await _ask_all(cluster, copies, first, lambda response: [response], by_record=True)
        undecodable = {
            broker: [each for one in found for each in _batches_in(one)] for broker, found in answers.items()
        }
        records = {broker: [each for one in found for each in _records_in(one)] for broker, found in answers.items()}
        difference = comparison.add_undecodable(undecodable) or comparison.add(records)
        if difference is not None:
            return difference, []
    return None, comparison.missing()


async def _ask_all(
    cluster: ClusterClient,
    copies: _Copies,
    first: int,
    read: Callable[[pb.DigestReplicaResponse], list[D]],
    *,
    by_record: bool,
) -> tuple[dict[int, list[D]], int]:
    """Return each broker's part of the range that begins at `first`, and the offset below which any copy is
    compacted."""
    last = min(first + _RANGE, copies.end)
    found: dict[int, list[D]] = {broker: [] for broker in copies.brokers}
    cleaned_below = dict.fromkeys(copies.brokers, 0)

    async def ask(broker: int) -> None:
        position = first
        while position < last:
            request = pb.DigestReplicaRequest(
                topic_id=copies.topic_id,
                partition=copies.partition.partition,
                start=position,
                end=last,
                by_record=by_record,
            )
            try:
                response = await cluster.call_broker(broker, DIGEST_REPLICA, request, pb.DigestReplicaResponse)
            except StorageFailed as error:
                raise Unverifiable(f"broker {broker}: {error.message}", damaged=broker) from None
            except (ConnectFailed, LograftError) as error:
                raise Unverifiable(f"broker {broker} cannot tell what it has: {error}") from None
            if response.log_start > copies.start:
                raise Unverifiable(f"broker {broker} has deleted some of it meanwhile, as it was old: try again")
            found[broker] += read(response)
            cleaned_below[broker] = response.cleaned_below
            if response.next_offset <= position:
                return
            position = response.next_offset

    try:
        async with asyncio.TaskGroup() as group:
            for broker in copies.brokers:
                group.create_task(ask(broker))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return found, max(cleaned_below.values(), default=0)


def _batches_in(response: pb.DigestReplicaResponse) -> list[BatchDigest]:
    return [
        BatchDigest(batch.base_offset, batch.next_offset, batch.leader_epoch, batch.size_bytes, batch.crc)
        for batch in response.batches
    ]


def _records_in(response: pb.DigestReplicaResponse) -> list[RecordDigest]:
    columns = zip(response.offsets, response.keys, response.contents, strict=True)
    return [RecordDigest(offset, key, content) for offset, key, content in columns]
