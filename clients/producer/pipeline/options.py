"""A producer's options and their validation. Pure."""

from dataclasses import dataclass, fields
from typing import Literal, Self, TypeAlias, TypedDict

from lograft.clients.errors import InvalidArgument
from lograft.clients.option_checks import check_client_id, check_duration, check_integer, check_names
from lograft.clients.producer.pipeline.partitioner import Partitioner
from lograft.clients.records.serializers import SerializerOption, find_serializer
from lograft.clients.records.validation import MAX_RECORD_BYTES
from lograft.proto import log_pb2 as pb
from lograft.runtime.tasks.deadline import MAX_TIMEOUT_MS
from lograft.storage.batch.codec import Compression
from lograft.storage.errors import UnknownCompression

MAX_DELIVERY_TIMEOUT_MS = 3_600_000
"""Brokers remember a producer for much longer than this, so they always recognize a retried batch."""

_NO_LIMIT = 2**63
_ACKS = {"all": pb.ACKS_ALL, "-1": pb.ACKS_ALL, "1": pb.ACKS_LEADER, "0": pb.ACKS_NONE}


AcksOption: TypeAlias = Literal["all", "-1", "0", "1", -1, 0, 1]
CompressionOption: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class ProducerKeywords(TypedDict, total=False):
    """The keyword arguments of a producer, explained in its docstring."""

    acks: AcksOption
    compression: CompressionOption | None
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
    """The validated options of a producer, explained in its docstring."""

    acks: AcksOption = "all"
    compression: CompressionOption | None = None
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

    @classmethod
    def of(cls, given: ProducerKeywords) -> Self:
        """Validate the keyword arguments of a producer. Raise `TypeError` for an unknown one, `InvalidArgument` for an
        invalid value."""
        check_names("Producer", given, (each.name for each in fields(cls)))
        return cls(**given)

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
