"""A producer's metrics, and the counters behind them. Pure."""

from dataclasses import dataclass, field

from lograft.clients.cluster.rates import Latencies, LatencySamples, Rate
from lograft.clients.errors import LograftError
from lograft.clients.producer.pipeline.pending_batch import PendingBatch


@dataclass(frozen=True, slots=True)
class ProducerMetrics:
    """A producer's metrics since it was created; rates cover the last ten seconds.

    `records_sent` and `bytes_sent` include retries; `bytes_sent` is the compressed size. `records_acknowledged` and
    `records_failed` count records with a result. `batch_retries`: how often a batch was sent again. `batch_records`,
    `batch_bytes`: averages per batch. `compression_ratio`: record bytes per byte sent. `request_latency`: from taking a
    batch for sending until its answer. `buffer_bytes`: the part of `buffer_limit_bytes` now in use.
    """

    records_sent: int = 0
    bytes_sent: int = 0
    batches_sent: int = 0
    records_acknowledged: int = 0
    records_failed: int = 0
    batch_retries: int = 0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    batch_records: float = 0.0
    batch_bytes: float = 0.0
    compression_ratio: float = 1.0
    request_latency: Latencies = field(default_factory=Latencies)
    buffer_bytes: int = 0
    buffer_limit_bytes: int = 0


class ProducerCounters:
    """Counts batches as they are sent, answered and settled."""

    def __init__(self, now_ms: float) -> None:
        self._records = Rate(now_ms)
        self._bytes = Rate(now_ms)
        self._latency = LatencySamples()
        self._batches = 0
        self._records_bytes = 0
        self._acknowledged = 0
        self._failed = 0
        self._retries = 0

    def sent(self, batch: PendingBatch, encoded_bytes: int, now_ms: float) -> None:
        self._batches += 1
        self._retries += batch.attempts > 0
        self._records_bytes += batch.columns.size_bytes
        self._records.add(batch.record_count, now_ms)
        self._bytes.add(encoded_bytes, now_ms)

    def answered(self, latency_ms: float) -> None:
        self._latency.add(latency_ms)

    def settled(self, batch: PendingBatch) -> None:
        if isinstance(batch.outcome, LograftError):
            self._failed += batch.record_count
        else:
            self._acknowledged += batch.record_count

    def refused(self, records: int) -> None:
        """Count records that failed before they were put into a batch."""
        self._failed += records

    def read(self, now_ms: float, buffer_bytes: int, buffer_limit_bytes: int) -> ProducerMetrics:
        batches = max(self._batches, 1)
        return ProducerMetrics(
            records_sent=self._records.total,
            bytes_sent=self._bytes.total,
            batches_sent=self._batches,
            records_acknowledged=self._acknowledged,
            records_failed=self._failed,
            batch_retries=self._retries,
            records_per_second=self._records.per_second(now_ms),
            bytes_per_second=self._bytes.per_second(now_ms),
            batch_records=self._records.total / batches,
            batch_bytes=self._bytes.total / batches,
            compression_ratio=self._records_bytes / self._bytes.total if self._bytes.total else 1.0,
            request_latency=self._latency.summary(),
            buffer_bytes=buffer_bytes,
            buffer_limit_bytes=buffer_limit_bytes,
        )
