"""What a producer can be told when it is made. Pure."""

from dataclasses import dataclass
from typing import TypedDict

from lograft.clients.errors import InvalidArgument
from lograft.clients.option_checks import check_client_id, check_duration, check_integer
from lograft.clients.producer.pipeline.partitioner import Partitioner
from lograft.clients.records.serializers import SerializerOption, find_serializer
from lograft.clients.records.validation import MAX_RECORD_BYTES
from lograft.proto import log_pb2 as pb
from lograft.runtime.tasks.deadline import MAX_TIMEOUT_MS
from lograft.storage.batch.codec import Compression
from lograft.storage.errors import UnknownCompression

MAX_DELIVERY_TIMEOUT_MS = 3_600_000
"""Brokers remember a producer for much longer than that, so a batch sent again is always recognised."""

_NO_LIMIT = 2**63
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
    first_contact_ms: int | None
    partitioner: Partitioner | None
    key_serializer: SerializerOption
    value_serializer: SerializerOption


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """`acks`: when a record counts as stored: `all` in-sync replicas have it, the leader has it (1), or at once
    (0). `compression`: none, gzip, snappy, lz4 or zstd. `linger_ms`: how long a batch that is not full waits for
    more; while the one before it is under way, at least 5 ms or until that is acknowledged. `batch_bytes`: when it is
    full. `buffer_bytes`: for all records that are not acknowledged; when that is full, `send` blocks for up to
    `max_block_ms`, as it does while nothing is known of the topic. `delivery_timeout_ms`: after that a record that
    is not acknowledged has failed. `request_timeout_ms`: how long a broker waits for replicas at a time.
    `first_contact_ms`: how long to look for any broker at all; None: for as long as a call may take. `partitioner`:
    (topic, key, value, number of partitions) to a partition. `key_serializer`, `value_serializer`: what makes bytes
    of keys and values: `"string"`, `"json"`, or a function of the topic and the key or value; None: they are bytes."""

    acks: str | int = "all"
    compression: str | None = None
    linger_ms: float = 0
    batch_bytes: int = 512 * 1024
    buffer_bytes: int = 32 * 1024 * 1024
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    request_timeout_ms: int = 30_000
    client_id: str = "lograft-python"
    first_contact_ms: int | None = None
    partitioner: Partitioner | None = None
    key_serializer: SerializerOption = None
    value_serializer: SerializerOption = None

    def __post_init__(self) -> None:
        if str(self.acks) not in _ACKS:
            raise InvalidArgument(f"acks is {self.acks!r}: give 'all', 1 or 0")
        _ = self.compression_codec
        check_integer("batch_bytes", self.batch_bytes, 1, MAX_RECORD_BYTES)
        check_integer("buffer_bytes", self.buffer_bytes, 1, _NO_LIMIT)
        check_integer("request_timeout_ms", self.request_timeout_ms, 1, MAX_TIMEOUT_MS)
        check_integer("delivery_timeout_ms", self.delivery_timeout_ms, 1)
        if self.delivery_timeout_ms > MAX_DELIVERY_TIMEOUT_MS:
            raise InvalidArgument(
                f"delivery_timeout_ms is {self.delivery_timeout_ms}: give at most {MAX_DELIVERY_TIMEOUT_MS}, one hour"
            )
        check_duration("linger_ms", self.linger_ms)
        check_duration("max_block_ms", self.max_block_ms)
        check_client_id(self.client_id)
        if self.first_contact_ms is not None:
            check_integer("first_contact_ms", self.first_contact_ms, 1)
        if self.partitioner is not None and not callable(self.partitioner):
            raise InvalidArgument(f"partitioner is {self.partitioner!r}: give a function")
        find_serializer("key_serializer", self.key_serializer)
        find_serializer("value_serializer", self.value_serializer)

    @property
    def wire_acks(self) -> pb.Acks:
        return _ACKS[str(self.acks)]

    @property
    def compression_codec(self) -> Compression:
        try:
            return Compression.from_name(str(self.compression or "none"))
        except UnknownCompression as error:
            raise InvalidArgument(str(error)) from None
