from lograft.proto import raft_pb2 as _raft_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RaftHello(_message.Message):
    __slots__ = ("cluster_id", "member", "expected_node_id", "starts", "refused_for_start")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FOR_START_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    member: _raft_pb2.Member
    expected_node_id: int
    starts: _raft_pb2.StoreStarts
    refused_for_start: int
    def __init__(self, cluster_id: _Optional[str] = ..., member: _Optional[_Union[_raft_pb2.Member, _Mapping]] = ..., expected_node_id: _Optional[int] = ..., starts: _Optional[_Union[_raft_pb2.StoreStarts, _Mapping]] = ..., refused_for_start: _Optional[int] = ...) -> None: ...
