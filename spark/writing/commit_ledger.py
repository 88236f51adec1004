"""The ledger: a topic, shared by all drivers of all queries, that records decisions to publish batches and their
completion.

The first decision on a query's batch in the ledger is final. Any driver that comes later, be it the restarted one or
one that was believed dead, finds that record and carries it out, with the same result.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple

from lograft.clients.admin.sync_admin import Admin
from lograft.clients.errors import InvalidArgument, LograftError
from lograft.clients.producer.sync_producer import Producer
from lograft.clients.types import TopicPartition
from lograft.spark.common.cluster_access import ClusterAccess
from lograft.spark.common.options import ClusterOptions
from lograft.spark.common.range_reader import OffsetRange, records_of
from lograft.spark.writing.staged_batches import Target
from lograft.spark.writing.write_options import LEDGER_PARTITIONS, LEDGER_TOPIC
from lograft.storage.batch.codec import Record

_GROUP_PREFIX = "lograft-spark-ledger-"
_HINT_MS = 5000


class Share(NamedTuple):
    """A target's part of a batch: its end before the batch, and the number of records to add."""

    end_before: int
    records: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision to publish the batches staged at `staged` (offsets by partition of the staging topic, in that order),
    under one producer id, with sequences from 0 in each target."""

    batch_id: int
    producer_id: int
    producer_epoch: int
    staged_topic_id: bytes
    staged: dict[int, Sequence[int]]
    targets: dict[Target, Share]
    topics: dict[bytes, str]

    def to_json(self) -> str:
        return json.dumps(
            {
                "kind": "decided",
                "batch": self.batch_id,
                "producer": [self.producer_id, self.producer_epoch],
                "stagedTopic": self.staged_topic_id.hex(),
                "staged": {str(partition): _differences(offsets) for partition, offsets in self.staged.items()},
                "targets": [[each.topic_id.hex(), each.partition, *share] for each, share in self.targets.items()],
                "topics": {topic_id.hex(): name for topic_id, name in self.topics.items()},
            },
            separators=(",", ":"),
        )


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The latest decided batch of a query: its offset in the ledger, its time, and whether it is fully published.
    `decision` is None if only the record of its completion still exists."""

    batch_id: int
    decision: Decision | None
    offset: int
    decided_ms: int
    is_published: bool


class Ledger:
    """The ledger's records of one query."""

    def __init__(self, admin: Admin, access: ClusterAccess, options: ClusterOptions, query_id: str) -> None:
        self._admin = admin
        self._access = access
        self._options = options
        self._query = query_id.encode()
        self._group = _GROUP_PREFIX + query_id
        topic = admin.describe_topic(LEDGER_TOPIC)
        self._topic_id = topic.id.bytes
        if len(topic.partitions) < LEDGER_PARTITIONS:
            raise InvalidArgument(
                f"{LEDGER_TOPIC} has {len(topic.partitions)} partitions, and {LEDGER_PARTITIONS} at least are needed: "
                "add some"
            )
        self._partition = TopicPartition(LEDGER_TOPIC, zlib.crc32(self._query) % LEDGER_PARTITIONS)
        self._read_to: int | None = None
        self._state: LedgerState | None = None

    def latest(self) -> LedgerState | None:
        """Return the latest state, or None if no batch of the query was ever decided. It may be out of date if the
        leader was replaced and does not know it yet; `decide` returns the state that holds."""
        return self._read_on(self._edge("latest"))

    def decide(self, decision: Decision) -> tuple[LedgerState, bool]:
        """Append the decision. Return the state that holds, and whether it is this decision: another one on the same
        batch may have been appended first."""
        own = self._append(decision.to_json())
        state = self._read_on(own + 1)
        assert state is not None, "the ledger lacks the record just appended"
        assert state.batch_id >= decision.batch_id, "the ledger's latest batch is older than the decision"
        # A query with a single batch is no stream: no later batch will look for its decision, so do not remember it.
        if state.batch_id > 0:
            self._remember(state.offset)
        return state, state.offset == own

    def _read_on(self, end: int) -> LedgerState | None:
        """Apply at least all records before `end`, and return the state."""
        entries = self._first_entries(end) if self._read_to is None else self._entries(self._read_to, end)
        for record, content in entries:
            self._state = _after(self._state, record, content)
        self._read_to = max(end, self._read_to or 0)
        return self._state

    def published(self, batch_id: int) -> None:
        """Record that all of the batch is published."""
        self._append(json.dumps({"kind": "published", "batch": batch_id}))

    # -- where to start reading

    def _first_entries(self, end: int) -> Iterator[tuple[Record, Any]]:
        """Yield the entries from the latest remembered decision on, or all. The remembered offset may belong to a
        deleted ledger, so use it only if there is a decision at that offset."""
        start, remembered = self._edge("earliest"), self._remembered()
        if remembered is not None and start <= remembered < end:
            entries = self._entries(remembered, end)
            first = next(entries, None)
            if first is not None and first[0].offset == remembered and _is_decision(first[1]):
                return chain([first], entries)
        return self._entries(start, end)

    def _remembered(self) -> int | None:
        """Return the offset of a decision, which is stored as a group's committed offset."""
        with suppress(LograftError), Admin(self._options.bootstrap, timeout_ms=_HINT_MS) as admin:
            known = admin.group_offsets(self._group, [self._partition]).get(self._partition)
            return None if known is None else known.committed
        return None

    def _remember(self, offset: int) -> None:
        with suppress(LograftError), Admin(self._options.bootstrap, timeout_ms=_HINT_MS) as admin:
            admin.alter_group_offsets(self._group, {self._partition: offset})

    # -- records

    def _append(self, text: str) -> int:
        """Append a record, wait until it is committed, and return its offset."""
        with Producer(self._options.bootstrap, delivery_timeout_ms=self._options.timeout_ms) as producer:
            sent = producer.send(LEDGER_TOPIC, text.encode(), key=self._query, partition=self._partition.partition)
            return sent.result().offset

    def _edge(self, edge: Literal["earliest", "latest"]) -> int:
        return self._admin.list_offsets([self._partition], edge)[self._partition] or 0

    def _entries(self, start: int, end: int) -> Iterator[tuple[Record, Any]]:
        wanted = OffsetRange(LEDGER_TOPIC, self._topic_id, self._partition.partition, start, end)
        for record in records_of(self._access.read(wanted, self._options, spreads=False)):
            if record.key == self._query:
                yield record, _content(record)


def _content(record: Record) -> Any:
    try:
        return json.loads(record.value or b"")
    except ValueError as error:
        raise _not_ours(record, error) from None


def _not_ours(record: Record, error: Exception) -> InvalidArgument:
    return InvalidArgument(
        f"{LEDGER_TOPIC} has a record at {record.offset} that is not ours ({error!r}): let nobody else write there"
    )


def _is_decision(content: Any) -> bool:
    return isinstance(content, dict) and content.get("kind") == "decided"


def _after(state: LedgerState | None, record: Record, content: Any) -> LedgerState | None:
    """Return the state after one more record."""
    try:
        batch_id = content["batch"]
        match content["kind"]:
            case "decided" if state is None or batch_id > state.batch_id:
                decision = _read_decision(content)
                return LedgerState(batch_id, decision, record.offset, record.timestamp, is_published=False)
            case "published" if state is None or batch_id > state.batch_id:
                # Retention has deleted the decision, but its completion still counts.
                return LedgerState(batch_id, None, record.offset, record.timestamp, is_published=True)
            case "published" if state is not None and batch_id == state.batch_id:
                return replace(state, is_published=True)
    except (KeyError, TypeError, ValueError) as error:
        raise _not_ours(record, error) from None
    return state


def _read_decision(content: Any) -> Decision:
    producer_id, epoch = content["producer"]
    return Decision(
        content["batch"],
        producer_id,
        epoch,
        bytes.fromhex(content["stagedTopic"]),
        {int(partition): _sums(numbers) for partition, numbers in content["staged"].items()},
        {
            Target(bytes.fromhex(topic_id), partition): Share(end, records)
            for topic_id, partition, end, records in content["targets"]
        },
        {bytes.fromhex(topic_id): name for topic_id, name in content["topics"].items()},
    )


def _differences(offsets: Sequence[int]) -> list[int]:
    """Return the offsets as differences, which are shorter, as most are 1."""
    return [offset - before for before, offset in zip([0, *offsets], offsets, strict=False)]


def _sums(differences: Sequence[int]) -> list[int]:
    total, offsets = 0, []
    for difference in differences:
        total += difference
        offsets.append(total)
    return offsets
