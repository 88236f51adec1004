from lograft.proto import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReplicateRequest(_message.Message):
    __slots__ = ("hello", "unsubscribe", "subscribe", "acknowledgements", "window_bytes", "barriers", "without_room")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_ROOM_FIELD_NUMBER: _ClassVar[int]
    hello: ReplicaHello
    unsubscribe: _containers.RepeatedScalarFieldContainer[int]
    subscribe: _containers.RepeatedCompositeFieldContainer[Subscribe]
    acknowledgements: _containers.RepeatedCompositeFieldContainer[ReplicaAcknowledgement]
    window_bytes: int
    barriers: _containers.RepeatedCompositeFieldContainer[ReplicaBarrier]
    without_room: _containers.RepeatedCompositeFieldContainer[ReplicaWithoutRoom]
    def __init__(self, hello: _Optional[_Union[ReplicaHello, _Mapping]] = ..., unsubscribe: _Optional[_Iterable[int]] = ..., subscribe: _Optional[_Iterable[_Union[Subscribe, _Mapping]]] = ..., acknowledgements: _Optional[_Iterable[_Union[ReplicaAcknowledgement, _Mapping]]] = ..., window_bytes: _Optional[int] = ..., barriers: _Optional[_Iterable[_Union[ReplicaBarrier, _Mapping]]] = ..., without_room: _Optional[_Iterable[_Union[ReplicaWithoutRoom, _Mapping]]] = ...) -> None: ...

class ReplicaWithoutRoom(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class ReplicaHello(_message.Message):
    __slots__ = ("cluster_id", "broker_id", "broker_epoch", "leader_id")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    broker_id: int
    broker_epoch: int
    leader_id: int
    def __init__(self, cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., leader_id: _Optional[int] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("handle", "topic_id", "partition", "leader_epoch", "end_offset", "last_epoch", "directory_id", "partition_epoch", "tombstones_removed_below", "answers_barriers")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_REMOVED_BELOW_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_BARRIERS_FIELD_NUMBER: _ClassVar[int]
    handle: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    end_offset: int
    last_epoch: int
    directory_id: bytes
    partition_epoch: int
    tombstones_removed_below: int
    answers_barriers: bool
    def __init__(self, handle: _Optional[int] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ..., last_epoch: _Optional[int] = ..., directory_id: _Optional[bytes] = ..., partition_epoch: _Optional[int] = ..., tombstones_removed_below: _Optional[int] = ..., answers_barriers: _Optional[bool] = ...) -> None: ...

class ReplicaAcknowledgement(_message.Message):
    __slots__ = ("handle", "leader_epoch", "end_offset", "partition_epoch")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    handle: int
    leader_epoch: int
    end_offset: int
    partition_epoch: int
    def __init__(self, handle: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ..., partition_epoch: _Optional[int] = ...) -> None: ...

class ReplicaBarrier(_message.Message):
    __slots__ = ("handle", "leader_epoch", "number")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    handle: int
    leader_epoch: int
    number: int
    def __init__(self, handle: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class ReplicateResponse(_message.Message):
    __slots__ = ("matched", "truncate", "reset", "refused", "frames", "watermarks")
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    matched: _containers.RepeatedCompositeFieldContainer[ReplicaMatched]
    truncate: _containers.RepeatedCompositeFieldContainer[ReplicaTruncate]
    reset: _containers.RepeatedCompositeFieldContainer[ReplicaReset]
    refused: _containers.RepeatedCompositeFieldContainer[ReplicaRefused]
    frames: _containers.RepeatedCompositeFieldContainer[ReplicaFrame]
    watermarks: _containers.RepeatedCompositeFieldContainer[ReplicaWatermark]
    def __init__(self, matched: _Optional[_Iterable[_Union[ReplicaMatched, _Mapping]]] = ..., truncate: _Optional[_Iterable[_Union[ReplicaTruncate, _Mapping]]] = ..., reset: _Optional[_Iterable[_Union[ReplicaReset, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[ReplicaRefused, _Mapping]]] = ..., frames: _Optional[_Iterable[_Union[ReplicaFrame, _Mapping]]] = ..., watermarks: _Optional[_Iterable[_Union[ReplicaWatermark, _Mapping]]] = ...) -> None: ...

class ReplicaMatched(_message.Message):
    __slots__ = ("handle", "high_watermark", "log_start", "tombstones_removed_below", "cleaned_below")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_REMOVED_BELOW_FIELD_NUMBER: _ClassVar[int]
    CLEANED_BELOW_FIELD_NUMBER: _ClassVar[int]
    handle: int
    high_watermark: int
    log_start: int
    tombstones_removed_below: int
    cleaned_below: int
    def __init__(self, handle: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start: _Optional[int] = ..., tombstones_removed_below: _Optional[int] = ..., cleaned_below: _Optional[int] = ...) -> None: ...

class ReplicaTruncate(_message.Message):
    __slots__ = ("handle", "epoch", "end_offset")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    handle: int
    epoch: int
    end_offset: int
    def __init__(self, handle: _Optional[int] = ..., epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class ReplicaReset(_message.Message):
    __slots__ = ("handle", "log_start", "epochs", "producers")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    handle: int
    log_start: int
    epochs: _containers.RepeatedCompositeFieldContainer[ReplicaEpoch]
    producers: bytes
    def __init__(self, handle: _Optional[int] = ..., log_start: _Optional[int] = ..., epochs: _Optional[_Iterable[_Union[ReplicaEpoch, _Mapping]]] = ..., producers: _Optional[bytes] = ...) -> None: ...

class ReplicaEpoch(_message.Message):
    __slots__ = ("epoch", "start_offset")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    start_offset: int
    def __init__(self, epoch: _Optional[int] = ..., start_offset: _Optional[int] = ...) -> None: ...

class ReplicaRefused(_message.Message):
    __slots__ = ("handle", "error")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    handle: int
    error: _errors_pb2.ErrorDetail
    def __init__(self, handle: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class ReplicaFrame(_message.Message):
    __slots__ = ("handle", "start", "end", "batches", "epochs", "high_watermark", "log_start")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    handle: int
    start: int
    end: int
    batches: bytes
    epochs: _containers.RepeatedCompositeFieldContainer[ReplicaEpoch]
    high_watermark: int
    log_start: int
    def __init__(self, handle: _Optional[int] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., batches: _Optional[bytes] = ..., epochs: _Optional[_Iterable[_Union[ReplicaEpoch, _Mapping]]] = ..., high_watermark: _Optional[int] = ..., log_start: _Optional[int] = ...) -> None: ...

class ReplicaWatermark(_message.Message):
    __slots__ = ("handle", "high_watermark", "log_start", "barrier")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    handle: int
    high_watermark: int
    log_start: int
    barrier: int
    def __init__(self, handle: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start: _Optional[int] = ..., barrier: _Optional[int] = ...) -> None: ...
