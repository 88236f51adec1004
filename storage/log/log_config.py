"""The topic configuration that storage acts on, under Kafka's names. Pure."""

from dataclasses import dataclass
from enum import Enum

from lograft.storage.batch.compression import Compression

MAX_SEGMENT_BYTES = 2**31 - 1  # positions in an index are 32 bits


class FlushMode(Enum):
    """The durability an acknowledgement waits for: the disk, or only the operating system."""

    FSYNC = "fsync"
    OS = "os"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Configuration of one partition's log. Defaults are Kafka's, except the safe `flush_mode`."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024 * 1024 + 12
    retention_ms: int = 7 * 24 * 3600 * 1000  # -1: no limit
    retention_bytes: int = -1  # -1: no limit
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    min_compaction_lag_ms: int = 0
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    append_time: bool = False  # message.timestamp.type=LogAppendTime
    compression: Compression | None = None  # None is `producer`: store as received
    validate_batches: bool = False  # also decode compressed batches before storing them
    flush_mode: FlushMode = FlushMode.FSYNC
    flush_messages: int | None = None  # with flush.mode=os, fsync after this many records
    flush_ms: int | None = None  # and after this time
    tail_bytes: int = 4 * 1024 * 1024  # newest batches kept in memory

    def __post_init__(self) -> None:
        assert 0 < self.segment_bytes <= MAX_SEGMENT_BYTES
        assert self.index_interval_bytes >= 0
        assert self.max_message_bytes > 0

    @property
    def asks_for_flushes(self) -> bool:
        """True if appends need periodic flushes beyond what `flush_mode` syncs."""
        return self.flush_mode is FlushMode.OS and not (self.flush_messages is None and self.flush_ms is None)
