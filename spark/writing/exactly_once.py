"""Exactly-once writes, regardless of retries: tasks stage their rows, then the driver decides and publishes.

1. Each task stages its rows as batches in a staging topic, and reports their offsets. A failed attempt leaves batches
   there that are never read.
2. The driver writes a decision to the ledger: which staged batches to publish, and under which producer id. The first
   decision on a query's batch holds, whichever driver wrote it.
3. The driver publishes those batches, and then records completion in the ledger.

After a restart, the driver has its tasks stage the batch again, finds the earlier decision, and carries that out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from lograft.clients.admin.sync_admin import Admin
from lograft.clients.errors import OffsetOutOfRange, UnknownTopicId, WrongCluster
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import INIT_PRODUCER
from lograft.spark.common.cluster_access import ClusterAccess, cluster_access, renewed_access
from lograft.spark.common.error_text import one_sentence
from lograft.spark.common.options import ClusterOptions
from lograft.spark.reading.planner import open_admin
from lograft.spark.writing.commit_ledger import Decision, Ledger, Share
from lograft.spark.writing.publisher import publish
from lograft.spark.writing.staged_batches import Target
from lograft.spark.writing.staged_rows import Staged, check_topics, ensure_topics
from lograft.spark.writing.write_options import STAGED_TOPIC


@one_sentence()
def commit_staged(messages: Sequence[Staged], batch_id: int, options: ClusterOptions) -> None:
    """Publish the batch: the rows of `messages`, unless an earlier decision holds. Return when that is done."""
    query_ids = {message.query_id for message in messages}
    if not query_ids:
        return  # no task, no rows
    (query_id,) = query_ids
    access = cluster_access(options.bootstrap)
    try:
        _commit(messages, batch_id, query_id, options, access)
    except WrongCluster:  # the worker's access was to a replaced cluster, so start over in the new one
        _commit(messages, batch_id, query_id, options, renewed_access(access, options.bootstrap))


def _commit(
    messages: Sequence[Staged], batch_id: int, query_id: str, options: ClusterOptions, access: ClusterAccess
) -> None:
    with open_admin(options) as admin:
        ensure_topics(admin)
        check_topics(admin)
        ledger = Ledger(admin, access, options, query_id)
        looked_ms = access.cluster.runtime.clock.wall_ms()
        state, is_resumed = ledger.latest(), True
        if state is None or state.batch_id < batch_id:
            decision = _decide(admin, access, options, messages, batch_id)
            if not decision.targets:
                return
            state, is_ours = ledger.decide(decision)
            is_resumed = not is_ours
        if state.batch_id > batch_id or state.is_published:
            return
        assert state.decision is not None, "an unpublished batch has no decision"
        decided_ms = state.decided_ms if is_resumed else None
        publish(admin, access, options, state.decision, decided_ms=decided_ms, looked_ms=looked_ms)
        ledger.published(batch_id)


def _decide(
    admin: Admin, access: ClusterAccess, options: ClusterOptions, messages: Sequence[Staged], batch_id: int
) -> Decision:
    staged: dict[int, list[int]] = {}
    names: dict[bytes, str] = {}
    records: Counter[Target] = Counter()
    for message in messages:
        staged.setdefault(message.partition, []).extend(message.offsets)
        names |= message.topics
        records.update(message.targets)
    targets = sorted(records)
    _check_staged(admin, {message.staged_topic_id for message in messages}, staged)
    partitions = [TopicPartition(names[target.topic_id], target.partition) for target in targets]
    ends = admin.list_offsets(partitions, "latest") if partitions else {}

    async def identify() -> pb.InitProducerResponse:
        cluster = access.cluster
        async with cluster.within(options.timeout_ms, "no producer id was to be had"):
            request = pb.InitProducerRequest(client_id="lograft-spark")
            return await cluster.call_any(INIT_PRODUCER, request, pb.InitProducerResponse, repeatable=True)

    producer = access.loop.begin(identify).result()
    return Decision(
        batch_id,
        producer.producer_id,
        producer.producer_epoch,
        messages[0].staged_topic_id,
        {partition: sorted(offsets) for partition, offsets in sorted(staged.items()) if offsets},
        {target: Share(ends[name] or 0, records[target]) for target, name in zip(targets, partitions, strict=True)},
        names,
    )


def _check_staged(admin: Admin, topic_ids: set[bytes], staged: Mapping[int, Sequence[int]]) -> None:
    """Raise unless every staged batch exists, because a decision can never be revoked."""
    if topic_ids != {admin.describe_topic(STAGED_TOPIC).id.bytes}:
        raise UnknownTopicId(f"{STAGED_TOPIC} was recreated while rows were being staged there: do it again")
    partitions = [TopicPartition(STAGED_TOPIC, number) for number, offsets in staged.items() if offsets]
    if not partitions:
        return
    for name, first in admin.list_offsets(partitions, "earliest").items():
        if min(staged[name.partition]) < (first or 0):
            raise OffsetOutOfRange(
                f"{name} begins at {first}, and rows that were staged before that are gone: nothing was decided yet; "
                f"start the query again, and have {STAGED_TOPIC} kept longer (retention.ms) than a batch takes"
            )
