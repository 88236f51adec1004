"""The decisions to publish batches, and which are published: a topic that all drivers of all queries share.

A batch of a query is decided once: by the first record that says so. Whoever comes later, be it the driver itself
restarted, or one that was believed to be dead, finds that record, and does what it says: which is the same for all.
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
    """What a target gets: where it ended before, and how many records are added."""

    end_before: int
    records: int


@dataclass(frozen=True, slots=True)
class Decision:
    """To publish what is staged at `staged` (offsets by partition of the staging topic, in that order), as batches of
    one producer that are numbered from 0 in each target."""

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
    """The latest batch of a query that was decided, where in the ledger that is and since when, and whether it is all
    published. `decision` is None if only that is left to be read."""

    batch_id: int
    decision: Decision | None
    offset: int
    decided_ms: int
    is_published: bool


class Ledger:
    """Of one query."""

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
        """None: nothing of the query was ever decided. That may be what was true a moment ago, told by a leader that
        does not know yet that it was replaced: who decides because of it is told better by `decide`."""
        return self._read_on(self._edge("latest"))

    def decide(self, decision: Decision) -> tuple[LedgerState, bool]:
        """Have it written, and return what holds, and whether that is this one: another of the same batch may have
        been written before."""
        own = self._append(decision.to_json())
        state = self._read_on(own + 1)
        assert state is not None, "the ledger has what was just written to it"
        assert state.batch_id >= decision.batch_id, "what was just written holds, unless something else does"
        # Many queries have one batch and no more, those that are no streams: nobody will look for what they decided.
        if state.batch_id > 0:
            self._remember(state.offset)
        return state, state.offset == own

    def _read_on(self, end: int) -> LedgerState | None:
        """All records before `end`, and perhaps more, are taken into account."""
        entries = self._first_entries(end) if self._read_to is None else self._entries(self._read_to, end)
        for record, content in entries:
            self._state = _after(self._state, record, content)
        self._read_to = max(end, self._read_to or 0)
        return self._state

    def published(self, batch_id: int) -> None:
        """All of the batch is."""
        self._append(json.dumps({"kind": "published", "batch": batch_id}))

    # -- where to look

    def _first_entries(self, end: int) -> Iterator[tuple[Record, Any]]:
        """From the latest decision that is remembered, or all there is. What is remembered may be of a ledger that is
        no more: it counts only if the decision is there."""
        start, remembered = self._edge("earliest"), self._remembered()
        if remembered is not None and start <= remembered < end:
            entries = self._entries(remembered, end)
            first = next(entries, None)
            if first is not None and first[0].offset == remembered and _is_decision(first[1]):
                return chain([first], entries)
        return self._entries(start, end)

    def _remembered(self) -> int | None:
        """Where a decision is, kept as a group's offset."""
        with suppress(LograftError), Admin(self._options.bootstrap, timeout_ms=_HINT_MS) as admin:
            known = admin.group_offsets(self._group, [self._partition]).get(self._partition)
            return None if known is None else known.committed
        return None

    def _remember(self, offset: int) -> None:
        with suppress(LograftError), Admin(self._options.bootstrap, timeout_ms=_HINT_MS) as admin:
            admin.alter_group_offsets(self._group, {self._partition: offset})

    # -- records

    def _append(self, text: str) -> int:
        """Return where it is, once it is there to stay."""
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
    """What holds when one more record was read."""
    try:
        batch_id = content["batch"]
        match content["kind"]:
            case "decided" if state is None or batch_id > state.batch_id:
                decision = _read_decision(content)
                return LedgerState(batch_id, decision, record.offset, record.timestamp, is_published=False)
            case "published" if state is None or batch_id > state.batch_id:
                # The decision is gone, as retention goes by age: what is said of it counts no less.
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
    """Most are 1, which is shorter."""
    return [offset - before for before, offset in zip([0, *offsets], offsets, strict=False)]


def _sums(differences: Sequence[int]) -> list[int]:
    total, offsets = 0, []
    for difference in differences:
        total += difference
        offsets.append(total)
    return offsets
