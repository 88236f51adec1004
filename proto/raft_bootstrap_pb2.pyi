from lograft.proto import raft_pb2 as _raft_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BootstrapProbe(_message.Message):
    __slots__ = ("cluster_id", "member")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    member: _raft_pb2.Member
    def __init__(self, cluster_id: _Optional[str] = ..., member: _Optional[_Union[_raft_pb2.Member, _Mapping]] = ...) -> None: ...

class BootstrapAnswer(_message.Message):
    __slots__ = ("cluster_id", "member", "state", "controllers", "first_voters")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[BootstrapAnswer.State]
        EMPTY: _ClassVar[BootstrapAnswer.State]
        JOINING: _ClassVar[BootstrapAnswer.State]
        INITIALISED: _ClassVar[BootstrapAnswer.State]
    UNSPECIFIED: BootstrapAnswer.State
    EMPTY: BootstrapAnswer.State
    JOINING: BootstrapAnswer.State
    INITIALISED: BootstrapAnswer.State
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CONTROLLERS_FIELD_NUMBER: _ClassVar[int]
    FIRST_VOTERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    member: _raft_pb2.Member
    state: BootstrapAnswer.State
    controllers: _containers.RepeatedScalarFieldContainer[int]
    first_voters: _raft_pb2.Configuration
    def __init__(self, cluster_id: _Optional[str] = ..., member: _Optional[_Union[_raft_pb2.Member, _Mapping]] = ..., state: _Optional[_Union[BootstrapAnswer.State, str]] = ..., controllers: _Optional[_Iterable[int]] = ..., first_voters: _Optional[_Union[_raft_pb2.Configuration, _Mapping]] = ...) -> None: ...

class BootstrapOffer(_message.Message):
    __slots__ = ("cluster_id", "member", "first_voters")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_VOTERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    member: _raft_pb2.Member
    first_voters: _raft_pb2.Configuration
    def __init__(self, cluster_id: _Optional[str] = ..., member: _Optional[_Union[_raft_pb2.Member, _Mapping]] = ..., first_voters: _Optional[_Union[_raft_pb2.Configuration, _Mapping]] = ...) -> None: ...

class BootstrapOfferAnswer(_message.Message):
    __slots__ = ("refusal",)
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    refusal: str
    def __init__(self, refusal: _Optional[str] = ...) -> None: ...
