"""The read options: those of Spark's Kafka source, with the same names and meanings, and a few more. Pure.

Spark passes option names in lower case; error messages name them as users write them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lograft.clients.errors import InvalidArgument
from lograft.clients.times import BadTime, parse_duration
from lograft.spark.common.offset_options import (
    EARLIEST,
    LATEST,
    Edge,
    EdgeOfAll,
    OffsetsByPartition,
    TimeOfAll,
    TimesByPartition,
    Wanted,
    parse_offsets,
    parse_timestamp,
    parse_timestamps,
)
from lograft.spark.common.topic_options import (
    Assign,
    Subscribe,
    SubscribePattern,
    TopicChoice,
    parse_assign,
    parse_pattern,
    parse_topics,
    whole_number,
)

T = TypeVar("T")

BOOTSTRAP = ("lograft.bootstrap.servers", "kafka.bootstrap.servers")
RACK = ("lograft.client.rack", "kafka.client.rack")
GROUP_ID = ("lograft.group.id", "kafka.group.id")
_CLUSTER = (*BOOTSTRAP, *RACK, "timeoutMs")
_CHOICE = ("subscribe", "subscribePattern", "assign")
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_READING = (
    *_CHOICE, *_STARTS, "startingOffsetsByTimestampStrategy", "failOnDataLoss", "onBadBatch", "includeHeaders",
    "minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition", "readFrom", "groupIdPrefix",
)  # fmt: skip
READ_OPTIONS = (*_CLUSTER, *_READING, *_ENDS, "pushDown")
STREAM_OPTIONS = (
    *_CLUSTER, *_READING, *GROUP_ID, "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
)  # fmt: skip

DEFAULT_TIMEOUT_MS = 120_000
DEFAULT_GROUP_PREFIX = "spark-lograft-source"
DEFAULT_DELAY_MS = 15 * 60_000
MAX_PARTS = 100_000
_MAX_COUNT = 2**31 - 1
_MAX_OFFSETS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster to connect to. `timeout_ms`: how long an operation may take before it fails."""

    bootstrap: str
    rack: str | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How to split into Spark partitions: at least `min_partitions`, each with at most `max_records` and
    `max_bytes`."""

    min_partitions: int | None = None
    max_records: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a batch, or of a streaming query, which ignores `end`. `missing_start_is_latest`: start at the end
    if no record is as late as the start time, instead of failing. `spreads_reads`: read from any in-sync replica."""

    cluster: ClusterOptions
    choice: TopicChoice
    start: Wanted
    end: Wanted
    missing_start_is_latest: bool = False
    fail_on_data_loss: bool = True
    skips_bad_batches: bool = False
    include_headers: bool = False
    split: SplitOptions = SplitOptions()
    spreads_reads: bool = False
    pushes_down: bool = False


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of streaming queries only. `group`, or a name with `group_prefix`, is the consumer group that shows
    their progress."""

    group: str | None = None
    group_prefix: str = DEFAULT_GROUP_PREFIX
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = DEFAULT_DELAY_MS


class Options:
    """The given options, looked up by any of their names. Raises `InvalidArgument` for unknown or empty ones."""

    def __init__(self, given: Mapping[str, str], known: Iterable[str], purpose: str) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        by_lower = {name.lower(): name for name in known}
        for name, value in self._given.items():
            if name not in by_lower:
                raise InvalidArgument(
                    f"there is no option {name!r} for {purpose}: those there are, are {', '.join(by_lower.values())}"
                )
            if not value.strip():
                raise InvalidArgument(f"option {by_lower[name]} is empty: give a value, or leave it out")

    def text(self, *names: str) -> str | None:
        """Return the value given under any of these names. Raise `InvalidArgument` if they conflict."""
        found = {name: self._given[name.lower()].strip() for name in names if name.lower() in self._given}
        if len(set(found.values())) > 1:
            raise InvalidArgument(f"{' and '.join(found)} say different things: give one of them")
        return next(iter(found.values()), None)

    def read(self, name: str, parse: Callable[[str, str], T]) -> T | None:
        """Return `parse(name, value)`, or None if the option is not given."""
        value = self.text(name)
        return None if value is None else parse(name, value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise InvalidArgument(f"option {name} is {value!r}: give true or false")
        return value.lower() == "true"

    def count(self, name: str, largest: int = _MAX_COUNT) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        number = whole_number(value)
        if number is None or not 1 <= number <= largest:
            raise InvalidArgument(f"option {name} is {value!r}: give a number from 1 to {largest}")
        return number

    def choice(self, name: str, *accepted: str) -> str:
        """Return one of the accepted values; the first one is the default."""
        value = self.text(name)
        if value is not None and value.lower() not in accepted:
            raise InvalidArgument(f"option {name} is {value!r}: give {' or '.join(accepted)}")
        return accepted[0] if value is None else value.lower()


def cluster_options(options: Options) -> ClusterOptions:
    bootstrap = options.text(*BOOTSTRAP)
    if bootstrap is None:
        raise InvalidArgument(f"where is the cluster? Give option {BOOTSTRAP[0]}, such as localhost:9092")
    timeout_ms = options.count("timeoutMs") or DEFAULT_TIMEOUT_MS
    return ClusterOptions(bootstrap, options.text(*RACK), timeout_ms)


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a batch read. Raise `InvalidArgument` for any invalid one."""
    options = Options(given, READ_OPTIONS, "reading a batch")
    start = _edge(options, _STARTS, EARLIEST, forbidden=LATEST)
    end = _edge(options, _ENDS, LATEST, forbidden=EARLIEST)
    return _read_options(options, start, end, pushes_down=options.flag("pushDown", False))


def stream_options(given: Mapping[str, str]) -> tuple[ReadOptions, StreamOptions]:
    """Parse the options of a streaming read. Raise `InvalidArgument` for any invalid one."""
    for name in (*_ENDS, "pushDown"):
        if name.lower() in {key.lower() for key in given}:
            raise InvalidArgument(f"option {name} is for reading a batch: a streaming query has no end")
    options = Options(given, STREAM_OPTIONS, "a streaming query")
    reading = _read_options(options, _edge(options, _STARTS, LATEST, forbidden=None), EdgeOfAll(LATEST))
    limits = StreamOptions(
        group=options.text(*GROUP_ID),
        group_prefix=options.text("groupIdPrefix") or DEFAULT_GROUP_PREFIX,
        max_offsets=options.count("maxOffsetsPerTrigger", _MAX_OFFSETS),
        min_offsets=options.count("minOffsetsPerTrigger", _MAX_OFFSETS),
        max_delay_ms=options.read("maxTriggerDelay", _duration) or DEFAULT_DELAY_MS,
    )
    if limits.max_offsets is not None and (limits.min_offsets or 0) > limits.max_offsets:
        raise InvalidArgument(
            f"minOffsetsPerTrigger ({limits.min_offsets}) is more than maxOffsetsPerTrigger ({limits.max_offsets})"
        )
    return reading, limits


def _read_options(options: Options, start: Wanted, end: Wanted, *, pushes_down: bool = False) -> ReadOptions:
    return ReadOptions(
        cluster_options(options),
        _topic_choice(options),
        start,
        end,
        missing_start_is_latest=options.choice("startingOffsetsByTimestampStrategy", "error", "latest") == "latest",
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        skips_bad_batches=options.choice("onBadBatch", "raise", "skip") == "skip",
        include_headers=options.flag("includeHeaders", False),
        split=SplitOptions(
            options.count("minPartitions", MAX_PARTS),
            options.count("maxRecordsPerPartition", _MAX_OFFSETS),
            options.count("maxBytesPerPartition", _MAX_OFFSETS),
        ),
        spreads_reads=options.choice("readFrom", "leader", "any") == "any",
        pushes_down=pushes_down,
    )


def _topic_choice(options: Options) -> TopicChoice:
    parsers: dict[str, Callable[[str, str], Assign | Subscribe | SubscribePattern]] = {
        "subscribe": parse_topics, "subscribePattern": parse_pattern, "assign": parse_assign
    }  # fmt: skip
    found = {name: options.read(name, parse) for name, parse in parsers.items()}
    chosen = [(name, choice) for name, choice in found.items() if choice is not None]
    if not chosen:
        raise InvalidArgument(f"which topics? Give one of the options {', '.join(_CHOICE)}")
    if len(chosen) > 1:
        raise InvalidArgument(f"{' and '.join(name for name, _ in chosen)} exclude each other: give one of them")
    return chosen[0][1]


def _edge(options: Options, names: tuple[str, str, str], default: Edge, *, forbidden: Edge | None) -> Wanted:
    """Return where to start or end. One time takes precedence over times by partition, and those over offsets, as in
    Spark's Kafka source."""
    one_time, times, offsets = names
    found: TimeOfAll | TimesByPartition | EdgeOfAll | OffsetsByPartition | None = options.read(
        one_time, parse_timestamp
    )
    found = found or options.read(times, parse_timestamps)
    found = found or options.read(offsets, lambda name, value: parse_offsets(name, value, forbidden))
    return found or EdgeOfAll(default)


def _duration(name: str, value: str) -> int:
    try:
        return parse_duration(value)
    except BadTime as error:
        raise InvalidArgument(f"option {name}: {error}") from None
