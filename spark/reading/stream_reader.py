"""The reader of `spark.readStream.format("lograft")`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lograft.clients.admin.sync_admin import Admin
from lograft.clients.errors import LogTruncated, UnknownTopic
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import LoopClock
from lograft.runtime.rng import system_rng
from lograft.spark.common.error_text import one_sentence
from lograft.spark.common.offset_options import LATEST
from lograft.spark.common.options import ReadOptions, StreamOptions
from lograft.spark.common.topic_options import names_to_describe, without_missing
from lograft.spark.reading.planner import Chosen, Planner, open_admin, range_of
from lograft.spark.reading.progress_group import ShownProgress
from lograft.spark.reading.range_partition import RangePartition, read_partition
from lograft.spark.reading.stream_offsets import StreamOffset, limited, read_offset

DOUBT_SECONDS = 10.0
"""A partition that ends before the query's position for this long has lost records."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in one process of the driver while the query runs; copies of it read on the executors."""

    def __init__(self, schema: StructType, options: ReadOptions, limits: StreamOptions) -> None:
        self._schema = schema
        self._options = options
        self._limits = limits
        self._admin: Admin | None = None
        self._target: Mapping[TopicPartition, int] | None = None  # the fixed end of a query with trigger availableNow
        self._latest: StreamOffset | None = None  # the ends seen last
        self._waiting_since: float | None = None  # for `minOffsetsPerTrigger`
        self._short_since: dict[TopicPartition, float] = {}  # partitions that end before the query's position
        self._progress = ShownProgress(options.cluster.bootstrap, limits)

    # -- offsets

    @one_sentence()
    def initialOffset(self) -> dict[str, Any]:
        planner = self._planner()
        chosen = planner.choose()
        source = system_rng().uuid().hex[:16]
        return StreamOffset(source, chosen.topic_ids, planner.stream_starts(chosen)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._limits.max_offsets is None else ReadMaxRows(self._limits.max_offsets)

    @one_sentence()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._planner().edges(self._choose().partitions, LATEST)

    @one_sentence()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = read_offset(start)
        # Spark commits a batch only when it plans the next one, so show the last batch's progress here.
        self._progress.show(begun)
        now = self._look(begun)
        if self._is_too_little(begun, now):
            return start
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return StreamOffset(begun.source, now.topic_ids, limited(begun.offsets, now.offsets, max_rows)).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else self._latest.to_json()

    def _look(self, begun: StreamOffset) -> StreamOffset:
        """Return the ends of all current partitions, including new ones, up to the query's target."""
        chosen = self._choose()
        begun.check_same_topics(chosen.topic_ids)
        self._check_none_missing(begun, chosen)
        ends = self._planner().edges(chosen.partitions, LATEST)
        self._latest = StreamOffset(begun.source, chosen.topic_ids, ends)
        if self._target is not None:
            ends = {each: min(end, self._target[each]) for each, end in ends.items() if each in self._target}
        ends = {each: self._not_before(begun, each, end) for each, end in ends.items()}
        return StreamOffset(begun.source, chosen.topic_ids, ends)

    def _choose(self) -> Chosen:
        """Return the chosen topics and partitions that exist."""
        planner = self._planner()
        try:
            return planner.choose()
        except UnknownTopic:
            known = planner.admin.list_topics(include_internal=True)
            return planner.choose(without_missing(self._options.choice, known))

    def _check_none_missing(self, begun: StreamOffset, chosen: Chosen) -> None:
        """Raise `UnknownTopic` if a chosen topic is missing, unless `failOnDataLoss` is false: after a batch without a
        deleted topic, the checkpoint cannot tell it from a name that never existed. A new query is checked in either
        case, by `initialOffset`."""
        if not self._options.fail_on_data_loss:
            return
        for topic in begun.topic_ids:
            if topic not in chosen.topic_ids:
                raise UnknownTopic(
                    f"topic {topic!r} is gone, which the query was reading: set failOnDataLoss to false to go on "
                    "without it"
                )
        for topic in names_to_describe(self._options.choice, ()):
            if topic not in chosen.topic_ids:
                raise UnknownTopic(f"there is no topic {topic!r}: create it, or check the name")

    def _not_before(self, begun: StreamOffset, partition: TopicPartition, end: int) -> int:
        first = begun.first_of(partition)
        if end >= first or self._target is not None:
            self._short_since.pop(partition, None)
            return max(end, first)
        # A leader that was replaced and does not know it yet may lack records that the query has read.
        now_seconds = LoopClock().monotonic_seconds()
        if now_seconds - self._short_since.setdefault(partition, now_seconds) < DOUBT_SECONDS:
            return first
        if self._options.fail_on_data_loss:
            raise LogTruncated(
                f"{partition} ends at {end}, before {first}, up to which the query has read: an unclean election lost "
                "what is missing; set failOnDataLoss to false to go on with what is stored from now on"
            )
        return end

    def _is_too_little(self, begun: StreamOffset, now: StreamOffset) -> bool:
        """Return True if the query should wait for more records: up to `maxTriggerDelay`, and never if it reads to a
        fixed end."""
        if self._limits.min_offsets is None or self._target is not None:
            return False
        clock_ms = LoopClock().monotonic_seconds() * 1000
        fresh = sum(max(end - begun.first_of(partition), 0) for partition, end in now.offsets.items())
        if self._waiting_since is None:
            self._waiting_since = clock_ms
        is_late = clock_ms - self._waiting_since >= self._limits.max_delay_ms
        if fresh >= self._limits.min_offsets or (is_late and fresh):
            self._waiting_since = None
            return False
        return True

    # -- batches

    @one_sentence()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, ended = read_offset(start), read_offset(end)
        begun.check_same_topics(ended.topic_ids)
        ranges = [
            range_of(ended.topic_ids, each, begun.first_of(each), offset) for each, offset in ended.offsets.items()
        ]
        return [RangePartition(each) for each in self._planner().split(ranges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._schema, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        self._progress.show(read_offset(end))

    # -- the cluster

    def _planner(self) -> Planner:
        if self._admin is None:
            self._admin = open_admin(self._options.cluster)
        return Planner(self._admin, self._options)

    def stop(self) -> None:
        self._progress.close()
        if self._admin is not None:
            self._admin.close()
