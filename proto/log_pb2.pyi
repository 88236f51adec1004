from lograft.proto import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Acks(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACKS_ALL: _ClassVar[Acks]
    ACKS_LEADER: _ClassVar[Acks]
    ACKS_NONE: _ClassVar[Acks]
ACKS_ALL: Acks
ACKS_LEADER: Acks
ACKS_NONE: Acks

class ProduceRequest(_message.Message):
    __slots__ = ("acks", "timeout_ms", "items", "client_id")
    class Item(_message.Message):
        __slots__ = ("number", "topic_id", "partition", "leader_epoch", "batch")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        BATCH_FIELD_NUMBER: _ClassVar[int]
        number: int
        topic_id: bytes
        partition: int
        leader_epoch: int
        batch: bytes
        def __init__(self, number: _Optional[int] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., batch: _Optional[bytes] = ...) -> None: ...
    ACKS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    acks: Acks
    timeout_ms: int
    items: _containers.RepeatedCompositeFieldContainer[ProduceRequest.Item]
    client_id: str
    def __init__(self, acks: _Optional[_Union[Acks, str]] = ..., timeout_ms: _Optional[int] = ..., items: _Optional[_Iterable[_Union[ProduceRequest.Item, _Mapping]]] = ..., client_id: _Optional[str] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("number", "base_offset", "append_time", "log_start", "error")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
        APPEND_TIME_FIELD_NUMBER: _ClassVar[int]
        LOG_START_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        number: int
        base_offset: int
        append_time: int
        log_start: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, number: _Optional[int] = ..., base_offset: _Optional[int] = ..., append_time: _Optional[int] = ..., log_start: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ProduceResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[ProduceResponse.Result, _Mapping]]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("add", "remove", "seek", "credit_bytes", "client_id")
    class Add(_message.Message):
        __slots__ = ("handle", "topic_id", "partition", "leader_epoch", "offset", "max_bytes", "from_follower", "last_epoch")
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
        FROM_FOLLOWER_FIELD_NUMBER: _ClassVar[int]
        LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
        handle: int
        topic_id: bytes
        partition: int
        leader_epoch: int
        offset: int
        max_bytes: int
        from_follower: bool
        last_epoch: int
        def __init__(self, handle: _Optional[int] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., from_follower: _Optional[bool] = ..., last_epoch: _Optional[int] = ...) -> None: ...
    class Seek(_message.Message):
        __slots__ = ("handle", "offset", "number")
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        handle: int
        offset: int
        number: int
        def __init__(self, handle: _Optional[int] = ..., offset: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    SEEK_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    add: _containers.RepeatedCompositeFieldContainer[FetchRequest.Add]
    remove: _containers.RepeatedScalarFieldContainer[int]
    seek: _containers.RepeatedCompositeFieldContainer[FetchRequest.Seek]
    credit_bytes: int
    client_id: str
    def __init__(self, add: _Optional[_Iterable[_Union[FetchRequest.Add, _Mapping]]] = ..., remove: _Optional[_Iterable[int]] = ..., seek: _Optional[_Iterable[_Union[FetchRequest.Seek, _Mapping]]] = ..., credit_bytes: _Optional[int] = ..., client_id: _Optional[str] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("data",)
    class Data(_message.Message):
        __slots__ = ("handle", "seek", "batches", "next_offset", "high_watermark", "log_start", "error")
        HANDLE_FIELD_NUMBER: _ClassVar[int]
        SEEK_FIELD_NUMBER: _ClassVar[int]
        BATCHES_FIELD_NUMBER: _ClassVar[int]
        NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
        HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
        LOG_START_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        handle: int
        seek: int
        batches: bytes
        next_offset: int
        high_watermark: int
        log_start: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, handle: _Optional[int] = ..., seek: _Optional[int] = ..., batches: _Optional[bytes] = ..., next_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: _containers.RepeatedCompositeFieldContainer[FetchResponse.Data]
    def __init__(self, data: _Optional[_Iterable[_Union[FetchResponse.Data, _Mapping]]] = ...) -> None: ...

class ReadRangeRequest(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "leader_epoch", "start", "end", "max_message_bytes", "from_follower")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FROM_FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    start: int
    end: int
    max_message_bytes: int
    from_follower: bool
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., from_follower: _Optional[bool] = ...) -> None: ...

class ReadRangeResponse(_message.Message):
    __slots__ = ("batches", "start_offset", "next_offset", "high_watermark", "is_last")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    batches: bytes
    start_offset: int
    next_offset: int
    high_watermark: int
    is_last: bool
    def __init__(self, batches: _Optional[bytes] = ..., start_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., is_last: _Optional[bool] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class NewRecord(_message.Message):
    __slots__ = ("key", "value", "headers", "timestamp")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    timestamp: int
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., timestamp: _Optional[int] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "leader_epoch", "records", "acks", "timeout_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    records: _containers.RepeatedCompositeFieldContainer[NewRecord]
    acks: Acks
    timeout_ms: int
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., records: _Optional[_Iterable[_Union[NewRecord, _Mapping]]] = ..., acks: _Optional[_Union[Acks, str]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("base_offset", "append_time", "log_start")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    append_time: int
    log_start: int
    def __init__(self, base_offset: _Optional[int] = ..., append_time: _Optional[int] = ..., log_start: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "leader_epoch", "offset", "max_records", "max_bytes", "wait_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: int
    max_records: int
    max_bytes: int
    wait_ms: int
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., offset: _Optional[int] = ..., max_records: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class StoredRecord(_message.Message):
    __slots__ = ("offset", "timestamp", "key", "value", "headers")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    timestamp: int
    key: bytes
    value: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, offset: _Optional[int] = ..., timestamp: _Optional[int] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("records", "next_offset", "high_watermark", "log_start")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[StoredRecord]
    next_offset: int
    high_watermark: int
    log_start: int
    def __init__(self, records: _Optional[_Iterable[_Union[StoredRecord, _Mapping]]] = ..., next_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start: _Optional[int] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("items",)
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[ListOffsetsRequest.Kind]
        EARLIEST: _ClassVar[ListOffsetsRequest.Kind]
        LATEST: _ClassVar[ListOffsetsRequest.Kind]
        AT_TIME: _ClassVar[ListOffsetsRequest.Kind]
        GREATEST_TIME: _ClassVar[ListOffsetsRequest.Kind]
    UNSPECIFIED: ListOffsetsRequest.Kind
    EARLIEST: ListOffsetsRequest.Kind
    LATEST: ListOffsetsRequest.Kind
    AT_TIME: ListOffsetsRequest.Kind
    GREATEST_TIME: ListOffsetsRequest.Kind
    class Item(_message.Message):
        __slots__ = ("topic", "topic_id", "partition", "leader_epoch", "kind", "timestamp")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
        topic: str
        topic_id: bytes
        partition: int
        leader_epoch: int
        kind: ListOffsetsRequest.Kind
        timestamp: int
        def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., kind: _Optional[_Union[ListOffsetsRequest.Kind, str]] = ..., timestamp: _Optional[int] = ...) -> None: ...
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ListOffsetsRequest.Item]
    def __init__(self, items: _Optional[_Iterable[_Union[ListOffsetsRequest.Item, _Mapping]]] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("offset", "timestamp", "leader_epoch", "error")
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        offset: int
        timestamp: int
        leader_epoch: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, offset: _Optional[int] = ..., timestamp: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ListOffsetsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[ListOffsetsResponse.Result, _Mapping]]] = ...) -> None: ...

class DescribeReplicasRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeReplicasResponse(_message.Message):
    __slots__ = ("replicas",)
    class Replica(_message.Message):
        __slots__ = ("topic", "topic_id", "partition", "is_leader", "leader_epoch", "log_start", "log_end", "high_watermark", "size_bytes", "directory_id")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        IS_LEADER_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        LOG_START_FIELD_NUMBER: _ClassVar[int]
        LOG_END_FIELD_NUMBER: _ClassVar[int]
        HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
        SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
        DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
        topic: str
        topic_id: bytes
        partition: int
        is_leader: bool
        leader_epoch: int
        log_start: int
        log_end: int
        high_watermark: int
        size_bytes: int
        directory_id: bytes
        def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., is_leader: _Optional[bool] = ..., leader_epoch: _Optional[int] = ..., log_start: _Optional[int] = ..., log_end: _Optional[int] = ..., high_watermark: _Optional[int] = ..., size_bytes: _Optional[int] = ..., directory_id: _Optional[bytes] = ...) -> None: ...
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[DescribeReplicasResponse.Replica]
    def __init__(self, replicas: _Optional[_Iterable[_Union[DescribeReplicasResponse.Replica, _Mapping]]] = ...) -> None: ...

class DescribeLoadRequest(_message.Message):
    __slots__ = ("topics", "omit_partitions")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    OMIT_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    omit_partitions: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., omit_partitions: _Optional[bool] = ...) -> None: ...

class DescribeLoadResponse(_message.Message):
    __slots__ = ("broker_id", "uptime_ms", "at_ms", "requests", "errors", "bytes_in", "records_in", "bytes_out", "records_out", "replicated_bytes_in", "replicated_bytes_out", "event_loop_lag_ms", "open_streams", "partitions", "disks")
    class Partition(_message.Message):
        __slots__ = ("topic", "topic_id", "partition", "is_leader", "bytes_in", "records_in", "bytes_out", "records_out", "replicated_bytes_in", "replicated_bytes_out")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        IS_LEADER_FIELD_NUMBER: _ClassVar[int]
        BYTES_IN_FIELD_NUMBER: _ClassVar[int]
        RECORDS_IN_FIELD_NUMBER: _ClassVar[int]
        BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
        RECORDS_OUT_FIELD_NUMBER: _ClassVar[int]
        REPLICATED_BYTES_IN_FIELD_NUMBER: _ClassVar[int]
        REPLICATED_BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
        topic: str
        topic_id: bytes
        partition: int
        is_leader: bool
        bytes_in: int
        records_in: int
        bytes_out: int
        records_out: int
        replicated_bytes_in: int
        replicated_bytes_out: int
        def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., is_leader: _Optional[bool] = ..., bytes_in: _Optional[int] = ..., records_in: _Optional[int] = ..., bytes_out: _Optional[int] = ..., records_out: _Optional[int] = ..., replicated_bytes_in: _Optional[int] = ..., replicated_bytes_out: _Optional[int] = ...) -> None: ...
    class Disk(_message.Message):
        __slots__ = ("directory_id", "path", "free_bytes", "total_bytes", "reserve_bytes", "is_full")
        DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
        PATH_FIELD_NUMBER: _ClassVar[int]
        FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
        TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
        RESERVE_BYTES_FIELD_NUMBER: _ClassVar[int]
        IS_FULL_FIELD_NUMBER: _ClassVar[int]
        directory_id: bytes
        path: str
        free_bytes: int
        total_bytes: int
        reserve_bytes: int
        is_full: bool
        def __init__(self, directory_id: _Optional[bytes] = ..., path: _Optional[str] = ..., free_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ..., reserve_bytes: _Optional[int] = ..., is_full: _Optional[bool] = ...) -> None: ...
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    RECORDS_IN_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_OUT_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    EVENT_LOOP_LAG_MS_FIELD_NUMBER: _ClassVar[int]
    OPEN_STREAMS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    uptime_ms: int
    at_ms: int
    requests: int
    errors: int
    bytes_in: int
    records_in: int
    bytes_out: int
    records_out: int
    replicated_bytes_in: int
    replicated_bytes_out: int
    event_loop_lag_ms: float
    open_streams: int
    partitions: _containers.RepeatedCompositeFieldContainer[DescribeLoadResponse.Partition]
    disks: _containers.RepeatedCompositeFieldContainer[DescribeLoadResponse.Disk]
    def __init__(self, broker_id: _Optional[int] = ..., uptime_ms: _Optional[int] = ..., at_ms: _Optional[int] = ..., requests: _Optional[int] = ..., errors: _Optional[int] = ..., bytes_in: _Optional[int] = ..., records_in: _Optional[int] = ..., bytes_out: _Optional[int] = ..., records_out: _Optional[int] = ..., replicated_bytes_in: _Optional[int] = ..., replicated_bytes_out: _Optional[int] = ..., event_loop_lag_ms: _Optional[float] = ..., open_streams: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[DescribeLoadResponse.Partition, _Mapping]]] = ..., disks: _Optional[_Iterable[_Union[DescribeLoadResponse.Disk, _Mapping]]] = ...) -> None: ...

class DigestReplicaRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "start", "end", "by_record")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    BY_RECORD_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    start: int
    end: int
    by_record: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., by_record: _Optional[bool] = ...) -> None: ...

class DigestReplicaResponse(_message.Message):
    __slots__ = ("next_offset", "batches", "offsets", "keys", "contents", "log_start", "cleaned_below")
    class Batch(_message.Message):
        __slots__ = ("base_offset", "next_offset", "leader_epoch", "size_bytes", "crc")
        BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
        NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
        CRC_FIELD_NUMBER: _ClassVar[int]
        base_offset: int
        next_offset: int
        leader_epoch: int
        size_bytes: int
        crc: int
        def __init__(self, base_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., size_bytes: _Optional[int] = ..., crc: _Optional[int] = ...) -> None: ...
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    CLEANED_BELOW_FIELD_NUMBER: _ClassVar[int]
    next_offset: int
    batches: _containers.RepeatedCompositeFieldContainer[DigestReplicaResponse.Batch]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    keys: _containers.RepeatedScalarFieldContainer[int]
    contents: _containers.RepeatedScalarFieldContainer[int]
    log_start: int
    cleaned_below: int
    def __init__(self, next_offset: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[DigestReplicaResponse.Batch, _Mapping]]] = ..., offsets: _Optional[_Iterable[int]] = ..., keys: _Optional[_Iterable[int]] = ..., contents: _Optional[_Iterable[int]] = ..., log_start: _Optional[int] = ..., cleaned_below: _Optional[int] = ...) -> None: ...

class InitProducerRequest(_message.Message):
    __slots__ = ("client_id",)
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    def __init__(self, client_id: _Optional[str] = ...) -> None: ...

class InitProducerResponse(_message.Message):
    __slots__ = ("producer_id", "producer_epoch")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...
