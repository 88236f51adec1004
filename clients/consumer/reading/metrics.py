"""What a consumer can say of itself. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from lograft.clients.cluster.rates import Latencies, LatencySamples, Rate
from lograft.clients.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """Rates are of the last ten seconds. Records count when they are decoded, a moment before they are given; bytes are
    those of batches as they came. `fetch_latency`: from asking a broker for a partition to its first answer; after that
    it sends by itself. `buffered_bytes`: what came and is not decoded yet. `current_lag`: of each partition that is
    assigned, as far as is known. `truncations`: how often what was given turned out to be lost by an unclean election.
    `bad_batches`: those left out because of `on_bad_batch="skip"`.
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
    """Counted where it happens."""

    def __init__(self, now_ms: float) -> None:
        self.records = Rate(now_ms)
        self.bytes = Rate(now_ms)
        self.latency = LatencySamples()
        self.truncations = 0
        self.bad_batches = 0
