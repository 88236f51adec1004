"""What a producer can be told when it is made. Pure."""

from dataclasses import dataclass
from typing import TypedDict

from lograft.clients.errors import InvalidArgument
from lograft.clients.partitioning import Partitioner
from lograft.proto import log_pb2 as pb
from lograft.storage.batch import Compression
from lograft.storage.errors import UnknownCompression

MAX_DELIVERY_TIMEOUT_MS = 3_600_000
"""Brokers remember a producer for much longer than that, so a batch sent again is always recognised."""

_ACKS = {"all": pb.ACKS_ALL, "-1": pb.ACKS_ALL, "1": pb.ACKS_LEADER, "0": pb.ACKS_NONE}


class ProducerKeywords(TypedDict, total=False):
    """The keyword arguments of a producer; what they mean is said in `ProducerOptions`."""

    acks: str | int
    compression: str | None
    linger_ms: float
    batch_bytes: int
    buffer_bytes: int
    delivery_timeout_ms: int
    max_block_ms: int
    request_timeout_ms: int
    client_id: str
    partitioner: Partitioner | None


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """`acks`: when a record counts as stored: `all` in-sync replicas have it, the leader has it (1), or at once (0).
    `compression`: none, gzip, snappy, lz4 or zstd. `linger_ms`: how long a batch that is not full waits for more.
    `batch_bytes`: when it is full. `buffer_bytes`: for all records that are not acknowledged; when that is full, `send`
    blocks for up to `max_block_ms`, as it does while nothing is known of the topic. `delivery_timeout_ms`: after that a
    record that is not acknowledged has failed. `request_timeout_ms`: how long a broker waits for replicas at a time.
    `partitioner`: (topic, key, value, number of partitions) to a partition."""

    acks: str | int = "all"
    compression: str | None = None
    linger_ms: float = 0
    batch_bytes: int = 128 * 1024
    buffer_bytes: int = 32 * 1024 * 1024
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    request_timeout_ms: int = 30_000
    client_id: str = "lograft-python"
    partitioner: Partitioner | None = None

    def __post_init__(self) -> None:
        if str(self.acks) not in _ACKS:
            raise InvalidArgument(f"acks is {self.acks!r}: give 'all', 1 or 0")
        _ = self.compression_codec
        for name in ("batch_bytes", "buffer_bytes", "delivery_timeout_ms", "request_timeout_ms"):
            if getattr(self, name) <= 0:
                raise InvalidArgument(f"{name} is {getattr(self, name)}: give a number above 0")
        for name in ("linger_ms", "max_block_ms"):
            if getattr(self, name) < 0:
                raise InvalidArgument(f"{name} is {getattr(self, name)}: give 0 or more")
        if self.delivery_timeout_ms > MAX_DELIVERY_TIMEOUT_MS:
            raise InvalidArgument(
                f"delivery_timeout_ms is {self.delivery_timeout_ms}: give at most {MAX_DELIVERY_TIMEOUT_MS}, one hour"
            )

    @property
    def wire_acks(self) -> pb.Acks:
        return _ACKS[str(self.acks)]

    @property
    def compression_codec(self) -> Compression:
        try:
            return Compression.from_name(self.compression or "none")
        except UnknownCompression as error:
            raise InvalidArgument(str(error)) from None
