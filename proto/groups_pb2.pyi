from lograft.proto import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EMPTY: _ClassVar[GroupState]
    STABLE: _ClassVar[GroupState]
    RECONCILING: _ClassVar[GroupState]
EMPTY: GroupState
STABLE: GroupState
RECONCILING: GroupState

class GroupTopic(_message.Message):
    __slots__ = ("topic_id", "partitions", "name")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    name: str
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ..., name: _Optional[str] = ...) -> None: ...

class FindCoordinatorRequest(_message.Message):
    __slots__ = ("group", "existing_only")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EXISTING_ONLY_FIELD_NUMBER: _ClassVar[int]
    group: str
    existing_only: bool
    def __init__(self, group: _Optional[str] = ..., existing_only: _Optional[bool] = ...) -> None: ...

class FindCoordinatorResponse(_message.Message):
    __slots__ = ("broker_id", "address", "partition", "leader_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    address: str
    partition: int
    leader_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., address: _Optional[str] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class GroupHeartbeatRequest(_message.Message):
    __slots__ = ("group", "member_id", "member_epoch", "instance_id", "topics", "owned", "assignor", "session_timeout_ms", "rebalance_timeout_ms", "max_wait_ms", "client_id", "rack")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    member_epoch: int
    instance_id: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    owned: _containers.RepeatedCompositeFieldContainer[GroupTopic]
    assignor: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    max_wait_ms: int
    client_id: str
    rack: str
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., instance_id: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., owned: _Optional[_Iterable[_Union[GroupTopic, _Mapping]]] = ..., assignor: _Optional[str] = ..., session_timeout_ms: _Optional[int] = ..., rebalance_timeout_ms: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., client_id: _Optional[str] = ..., rack: _Optional[str] = ...) -> None: ...

class GroupHeartbeatResponse(_message.Message):
    __slots__ = ("member_epoch", "assigned", "must_give_up", "heartbeat_interval_ms")
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    MUST_GIVE_UP_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    member_epoch: int
    assigned: _containers.RepeatedCompositeFieldContainer[GroupTopic]
    must_give_up: bool
    heartbeat_interval_ms: int
    def __init__(self, member_epoch: _Optional[int] = ..., assigned: _Optional[_Iterable[_Union[GroupTopic, _Mapping]]] = ..., must_give_up: _Optional[bool] = ..., heartbeat_interval_ms: _Optional[int] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("group", "member_id", "member_epoch", "items", "may_lower")
    class Item(_message.Message):
        __slots__ = ("topic_id", "partition", "offset", "leader_epoch", "metadata")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        METADATA_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        offset: int
        leader_epoch: int
        metadata: str
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    MAY_LOWER_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    member_epoch: int
    items: _containers.RepeatedCompositeFieldContainer[CommitOffsetsRequest.Item]
    may_lower: bool
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., items: _Optional[_Iterable[_Union[CommitOffsetsRequest.Item, _Mapping]]] = ..., may_lower: _Optional[bool] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("topic_id", "partition", "error")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CommitOffsetsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[CommitOffsetsResponse.Result, _Mapping]]] = ...) -> None: ...

class FetchOffsetsRequest(_message.Message):
    __slots__ = ("group", "member_id", "member_epoch", "topics", "all")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    member_epoch: int
    topics: _containers.RepeatedCompositeFieldContainer[GroupTopic]
    all: bool
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., topics: _Optional[_Iterable[_Union[GroupTopic, _Mapping]]] = ..., all: _Optional[bool] = ...) -> None: ...

class FetchOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    class Committed(_message.Message):
        __slots__ = ("topic_id", "partition", "offset", "leader_epoch", "metadata", "committed_at", "topic")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        METADATA_FIELD_NUMBER: _ClassVar[int]
        COMMITTED_AT_FIELD_NUMBER: _ClassVar[int]
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        offset: int
        leader_epoch: int
        metadata: str
        committed_at: int
        topic: str
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., metadata: _Optional[str] = ..., committed_at: _Optional[int] = ..., topic: _Optional[str] = ...) -> None: ...
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[FetchOffsetsResponse.Committed]
    def __init__(self, offsets: _Optional[_Iterable[_Union[FetchOffsetsResponse.Committed, _Mapping]]] = ...) -> None: ...

class DeleteOffsetsRequest(_message.Message):
    __slots__ = ("group", "topics")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topics: _containers.RepeatedCompositeFieldContainer[GroupTopic]
    def __init__(self, group: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[GroupTopic, _Mapping]]] = ...) -> None: ...

class DeleteOffsetsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("topic_id", "partition", "error")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DeleteOffsetsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[DeleteOffsetsResponse.Result, _Mapping]]] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups", "loading")
    class Group(_message.Message):
        __slots__ = ("group", "state", "members")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        MEMBERS_FIELD_NUMBER: _ClassVar[int]
        group: str
        state: GroupState
        members: int
        def __init__(self, group: _Optional[str] = ..., state: _Optional[_Union[GroupState, str]] = ..., members: _Optional[int] = ...) -> None: ...
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LOADING_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[ListGroupsResponse.Group]
    loading: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, groups: _Optional[_Iterable[_Union[ListGroupsResponse.Group, _Mapping]]] = ..., loading: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeGroupsRequest(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    class Member(_message.Message):
        __slots__ = ("member_id", "instance_id", "client_id", "rack", "member_epoch", "topics", "assigned", "target", "giving_up")
        MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
        INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
        CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
        RACK_FIELD_NUMBER: _ClassVar[int]
        MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        TOPICS_FIELD_NUMBER: _ClassVar[int]
        ASSIGNED_FIELD_NUMBER: _ClassVar[int]
        TARGET_FIELD_NUMBER: _ClassVar[int]
        GIVING_UP_FIELD_NUMBER: _ClassVar[int]
        member_id: str
        instance_id: str
        client_id: str
        rack: str
        member_epoch: int
        topics: _containers.RepeatedScalarFieldContainer[str]
        assigned: _containers.RepeatedCompositeFieldContainer[GroupTopic]
        target: _containers.RepeatedCompositeFieldContainer[GroupTopic]
        giving_up: _containers.RepeatedCompositeFieldContainer[GroupTopic]
        def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., client_id: _Optional[str] = ..., rack: _Optional[str] = ..., member_epoch: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., assigned: _Optional[_Iterable[_Union[GroupTopic, _Mapping]]] = ..., target: _Optional[_Iterable[_Union[GroupTopic, _Mapping]]] = ..., giving_up: _Optional[_Iterable[_Union[GroupTopic, _Mapping]]] = ...) -> None: ...
    class Group(_message.Message):
        __slots__ = ("group", "error", "state", "group_epoch", "assignment_epoch", "assignor", "members", "coordinator_id")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        GROUP_EPOCH_FIELD_NUMBER: _ClassVar[int]
        ASSIGNMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
        ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
        MEMBERS_FIELD_NUMBER: _ClassVar[int]
        COORDINATOR_ID_FIELD_NUMBER: _ClassVar[int]
        group: str
        error: _errors_pb2.ErrorDetail
        state: GroupState
        group_epoch: int
        assignment_epoch: int
        assignor: str
        members: _containers.RepeatedCompositeFieldContainer[DescribeGroupsResponse.Member]
        coordinator_id: int
        def __init__(self, group: _Optional[str] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., state: _Optional[_Union[GroupState, str]] = ..., group_epoch: _Optional[int] = ..., assignment_epoch: _Optional[int] = ..., assignor: _Optional[str] = ..., members: _Optional[_Iterable[_Union[DescribeGroupsResponse.Member, _Mapping]]] = ..., coordinator_id: _Optional[int] = ...) -> None: ...
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[DescribeGroupsResponse.Group]
    def __init__(self, groups: _Optional[_Iterable[_Union[DescribeGroupsResponse.Group, _Mapping]]] = ...) -> None: ...

class DeleteGroupsRequest(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteGroupsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("group", "error")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        group: str
        error: _errors_pb2.ErrorDetail
        def __init__(self, group: _Optional[str] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DeleteGroupsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[DeleteGroupsResponse.Result, _Mapping]]] = ...) -> None: ...
