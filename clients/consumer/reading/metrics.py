"""A consumer's metrics. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from lograft.clients.cluster.rates import Latencies, LatencySamples, Rate
from lograft.clients.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """Rates cover the last ten seconds. Records count when decoded, shortly before they are returned; bytes are those
    of received batches. `fetch_latency`: from subscribing to a partition at a broker until its first answer; later data
    is pushed. `buffered_bytes`: received and not decoded yet. `current_lag`: of each assigned partition, if known.
    `truncations`: how often returned records turned out to be lost by an unclean election. `bad_batches`: skipped
    because of `on_bad_batch="skip"`.
    """

    assigned_partitions: int
    records: int
    records_per_second: float
    bytes: int
    bytes_per_second: float
    fetch_latency: Latencies
    buffered_bytes: int
    current_lag: Mapping[TopicPartition, int | None]
    truncations: int
    bad_batches: int = 0


class FetchFigures:
    """Counters, updated where the events happen."""

    def __init__(self, now_ms: float) -> None:
        self.records = Rate(now_ms)
        self.bytes = Rate(now_ms)
        self.latency = LatencySamples()
        self.truncations = 0
        self.bad_batches = 0
