from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupRecordKey(_message.Message):
    __slots__ = ("group", "is_group", "member_id", "offset")
    class Offset(_message.Message):
        __slots__ = ("topic_id", "partition")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    IS_GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: str
    is_group: bool
    member_id: str
    offset: GroupRecordKey.Offset
    def __init__(self, group: _Optional[str] = ..., is_group: _Optional[bool] = ..., member_id: _Optional[str] = ..., offset: _Optional[_Union[GroupRecordKey.Offset, _Mapping]] = ...) -> None: ...

class GroupRecord(_message.Message):
    __slots__ = ("group_epoch", "assignment_epoch", "empty_since", "topics")
    GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    EMPTY_SINCE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group_epoch: int
    assignment_epoch: int
    empty_since: int
    topics: _containers.RepeatedCompositeFieldContainer[SubscribedTopic]
    def __init__(self, group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., empty_since: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[SubscribedTopic, _Mapping]]] = ...) -> None: ...

class SubscribedTopic(_message.Message):
    __slots__ = ("name", "topic_id", "partitions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    partitions: int
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[int] = ...) -> None: ...

class HeldTopic(_message.Message):
    __slots__ = ("topic_id", "partitions", "since_epochs")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SINCE_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    since_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ..., since_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class GroupMemberRecord(_message.Message):
    __slots__ = ("instance_id", "client_id", "rack", "topics", "assignor", "session_timeout_ms", "rebalance_timeout_ms", "member_epoch", "previous_epoch", "assigned", "giving_up", "target", "is_away")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    GIVING_UP_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    IS_AWAY_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    client_id: str
    rack: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    assignor: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_epoch: int
    previous_epoch: int
    assigned: _containers.RepeatedCompositeFieldContainer[HeldTopic]
    giving_up: _containers.RepeatedCompositeFieldContainer[HeldTopic]
    target: _containers.RepeatedCompositeFieldContainer[HeldTopic]
    is_away: bool
    def __init__(self, instance_id: _Optional[str] = ..., client_id: _Optional[str] = ..., rack: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., assignor: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ..., rebalance_timeout_ms: _Optional[int] = ..., member_epoch: _Optional[int] = ..., previous_epoch: _Optional[int] = ..., assigned: _Optional[_Iterable[_Union[HeldTopic, _Mapping]]] = ..., giving_up: _Optional[_Iterable[_Union[HeldTopic, _Mapping]]] = ..., target: _Optional[_Iterable[_Union[HeldTopic, _Mapping]]] = ..., is_away: _Optional[bool] = ...) -> None: ...

class CommittedOffsetRecord(_message.Message):
    __slots__ = ("offset", "leader_epoch", "metadata", "committed_at")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    leader_epoch: int
    metadata: str
    committed_at: int
    def __init__(self, offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., committed_at: _Optional[int] = ...) -> None: ...
