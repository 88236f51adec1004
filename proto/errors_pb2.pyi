from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NONE: _ClassVar[ErrorCode]
    INTERNAL: _ClassVar[ErrorCode]
    INVALID_REQUEST: _ClassVar[ErrorCode]
    TIMED_OUT: _ClassVar[ErrorCode]
    UNAVAILABLE: _ClassVar[ErrorCode]
    STORAGE_FAILED: _ClassVar[ErrorCode]
    LOADING: _ClassVar[ErrorCode]
    NOT_CONTROLLER: _ClassVar[ErrorCode]
    NOT_LEADER: _ClassVar[ErrorCode]
    LEADER_NOT_AVAILABLE: _ClassVar[ErrorCode]
    FENCED_LEADER_EPOCH: _ClassVar[ErrorCode]
    UNKNOWN_LEADER_EPOCH: _ClassVar[ErrorCode]
    STALE_BROKER_EPOCH: _ClassVar[ErrorCode]
    UNKNOWN_TOPIC: _ClassVar[ErrorCode]
    UNKNOWN_TOPIC_ID: _ClassVar[ErrorCode]
    UNKNOWN_PARTITION: _ClassVar[ErrorCode]
    TOPIC_ALREADY_EXISTS: _ClassVar[ErrorCode]
    INVALID_TOPIC: _ClassVar[ErrorCode]
    INVALID_CONFIG: _ClassVar[ErrorCode]
    OFFSET_OUT_OF_RANGE: _ClassVar[ErrorCode]
    OFFSET_NOT_AVAILABLE: _ClassVar[ErrorCode]
    NOT_ENOUGH_REPLICAS: _ClassVar[ErrorCode]
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: _ClassVar[ErrorCode]
    CORRUPT_BATCH: _ClassVar[ErrorCode]
    BATCH_TOO_LARGE: _ClassVar[ErrorCode]
    INVALID_RECORD: _ClassVar[ErrorCode]
    INVALID_TIMESTAMP: _ClassVar[ErrorCode]
    UNSUPPORTED_FORMAT: _ClassVar[ErrorCode]
    UNKNOWN_PRODUCER_ID: _ClassVar[ErrorCode]
    OUT_OF_ORDER_SEQUENCE: _ClassVar[ErrorCode]
    DUPLICATE_SEQUENCE: _ClassVar[ErrorCode]
    INVALID_PRODUCER_EPOCH: _ClassVar[ErrorCode]
NONE: ErrorCode
INTERNAL: ErrorCode
INVALID_REQUEST: ErrorCode
TIMED_OUT: ErrorCode
UNAVAILABLE: ErrorCode
STORAGE_FAILED: ErrorCode
LOADING: ErrorCode
NOT_CONTROLLER: ErrorCode
NOT_LEADER: ErrorCode
LEADER_NOT_AVAILABLE: ErrorCode
FENCED_LEADER_EPOCH: ErrorCode
UNKNOWN_LEADER_EPOCH: ErrorCode
STALE_BROKER_EPOCH: ErrorCode
UNKNOWN_TOPIC: ErrorCode
UNKNOWN_TOPIC_ID: ErrorCode
UNKNOWN_PARTITION: ErrorCode
TOPIC_ALREADY_EXISTS: ErrorCode
INVALID_TOPIC: ErrorCode
INVALID_CONFIG: ErrorCode
OFFSET_OUT_OF_RANGE: ErrorCode
OFFSET_NOT_AVAILABLE: ErrorCode
NOT_ENOUGH_REPLICAS: ErrorCode
NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode
CORRUPT_BATCH: ErrorCode
BATCH_TOO_LARGE: ErrorCode
INVALID_RECORD: ErrorCode
INVALID_TIMESTAMP: ErrorCode
UNSUPPORTED_FORMAT: ErrorCode
UNKNOWN_PRODUCER_ID: ErrorCode
OUT_OF_ORDER_SEQUENCE: ErrorCode
DUPLICATE_SEQUENCE: ErrorCode
INVALID_PRODUCER_EPOCH: ErrorCode

class ErrorDetail(_message.Message):
    __slots__ = ("code", "message", "retriable", "leader_id", "leader_address", "leader_epoch")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    code: ErrorCode
    message: str
    retriable: bool
    leader_id: int
    leader_address: str
    leader_epoch: int
    def __init__(self, code: _Optional[_Union[ErrorCode, str]] = ..., message: _Optional[str] = ..., retriable: _Optional[bool] = ..., leader_id: _Optional[int] = ..., leader_address: _Optional[str] = ..., leader_epoch: _Optional[int] = ...) -> None: ...
