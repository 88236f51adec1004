from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Member(_message.Message):
    __slots__ = ("node_id", "directory_id")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    directory_id: bytes
    def __init__(self, node_id: _Optional[int] = ..., directory_id: _Optional[bytes] = ...) -> None: ...

class Configuration(_message.Message):
    __slots__ = ("voters", "learners")
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    LEARNERS_FIELD_NUMBER: _ClassVar[int]
    voters: _containers.RepeatedCompositeFieldContainer[Member]
    learners: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, voters: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., learners: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class NoOperation(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Entry(_message.Message):
    __slots__ = ("index", "term", "no_operation", "command", "configuration")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    NO_OPERATION_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    no_operation: NoOperation
    command: bytes
    configuration: Configuration
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., no_operation: _Optional[_Union[NoOperation, _Mapping]] = ..., command: _Optional[bytes] = ..., configuration: _Optional[_Union[Configuration, _Mapping]] = ...) -> None: ...

class SnapshotMetadata(_message.Message):
    __slots__ = ("index", "term", "configuration")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    configuration: Configuration
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., configuration: _Optional[_Union[Configuration, _Mapping]] = ...) -> None: ...

class HardState(_message.Message):
    __slots__ = ("term", "vote", "commit_index")
    TERM_FIELD_NUMBER: _ClassVar[int]
    VOTE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    term: int
    vote: Member
    commit_index: int
    def __init__(self, term: _Optional[int] = ..., vote: _Optional[_Union[Member, _Mapping]] = ..., commit_index: _Optional[int] = ...) -> None: ...

class StoreIdentity(_message.Message):
    __slots__ = ("cluster_id", "member")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    member: Member
    def __init__(self, cluster_id: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class StoreStarts(_message.Message):
    __slots__ = ("count", "tokens")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    count: int
    tokens: bytes
    def __init__(self, count: _Optional[int] = ..., tokens: _Optional[bytes] = ...) -> None: ...

class SeenStart(_message.Message):
    __slots__ = ("number", "token")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    number: int
    token: int
    def __init__(self, number: _Optional[int] = ..., token: _Optional[int] = ...) -> None: ...

class StoredSnapshot(_message.Message):
    __slots__ = ("metadata", "size_bytes", "pieces")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    metadata: SnapshotMetadata
    size_bytes: int
    pieces: int
    def __init__(self, metadata: _Optional[_Union[SnapshotMetadata, _Mapping]] = ..., size_bytes: _Optional[int] = ..., pieces: _Optional[int] = ...) -> None: ...

class PreVoteRequest(_message.Message):
    __slots__ = ("last_index", "last_term")
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    last_index: int
    last_term: int
    def __init__(self, last_index: _Optional[int] = ..., last_term: _Optional[int] = ...) -> None: ...

class PreVoteResponse(_message.Message):
    __slots__ = ("is_granted",)
    IS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    is_granted: bool
    def __init__(self, is_granted: _Optional[bool] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("last_index", "last_term", "is_transfer")
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    IS_TRANSFER_FIELD_NUMBER: _ClassVar[int]
    last_index: int
    last_term: int
    is_transfer: bool
    def __init__(self, last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., is_transfer: _Optional[bool] = ...) -> None: ...

class VoteResponse(_message.Message):
    __slots__ = ("is_granted",)
    IS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    is_granted: bool
    def __init__(self, is_granted: _Optional[bool] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("previous_index", "previous_term", "entries", "commit_index")
    PREVIOUS_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TERM_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    previous_index: int
    previous_term: int
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    commit_index: int
    def __init__(self, previous_index: _Optional[int] = ..., previous_term: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., commit_index: _Optional[int] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("match_index",)
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    match_index: int
    def __init__(self, match_index: _Optional[int] = ...) -> None: ...

class AppendRefusal(_message.Message):
    __slots__ = ("previous_index", "hint_index", "hint_term")
    PREVIOUS_INDEX_FIELD_NUMBER: _ClassVar[int]
    HINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    HINT_TERM_FIELD_NUMBER: _ClassVar[int]
    previous_index: int
    hint_index: int
    hint_term: int
    def __init__(self, previous_index: _Optional[int] = ..., hint_index: _Optional[int] = ..., hint_term: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("commit_index", "round")
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    commit_index: int
    round: int
    def __init__(self, commit_index: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("round",)
    ROUND_FIELD_NUMBER: _ClassVar[int]
    round: int
    def __init__(self, round: _Optional[int] = ...) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadIndexRequest(_message.Message):
    __slots__ = ("read_id",)
    READ_ID_FIELD_NUMBER: _ClassVar[int]
    read_id: int
    def __init__(self, read_id: _Optional[int] = ...) -> None: ...

class ReadIndexResponse(_message.Message):
    __slots__ = ("read_id", "index")
    READ_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    read_id: int
    index: int
    def __init__(self, read_id: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("recipient", "sender", "term", "pre_vote_request", "pre_vote_response", "vote_request", "vote_response", "append_request", "append_response", "append_refusal", "heartbeat", "heartbeat_response", "timeout_now", "read_index_request", "read_index_response")
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    VOTE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    APPEND_REQUEST_FIELD_NUMBER: _ClassVar[int]
    APPEND_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    APPEND_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    READ_INDEX_REQUEST_FIELD_NUMBER: _ClassVar[int]
    READ_INDEX_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    recipient: Member
    sender: Member
    term: int
    pre_vote_request: PreVoteRequest
    pre_vote_response: PreVoteResponse
    vote_request: VoteRequest
    vote_response: VoteResponse
    append_request: AppendRequest
    append_response: AppendResponse
    append_refusal: AppendRefusal
    heartbeat: Heartbeat
    heartbeat_response: HeartbeatResponse
    timeout_now: TimeoutNow
    read_index_request: ReadIndexRequest
    read_index_response: ReadIndexResponse
    def __init__(self, recipient: _Optional[_Union[Member, _Mapping]] = ..., sender: _Optional[_Union[Member, _Mapping]] = ..., term: _Optional[int] = ..., pre_vote_request: _Optional[_Union[PreVoteRequest, _Mapping]] = ..., pre_vote_response: _Optional[_Union[PreVoteResponse, _Mapping]] = ..., vote_request: _Optional[_Union[VoteRequest, _Mapping]] = ..., vote_response: _Optional[_Union[VoteResponse, _Mapping]] = ..., append_request: _Optional[_Union[AppendRequest, _Mapping]] = ..., append_response: _Optional[_Union[AppendResponse, _Mapping]] = ..., append_refusal: _Optional[_Union[AppendRefusal, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., heartbeat_response: _Optional[_Union[HeartbeatResponse, _Mapping]] = ..., timeout_now: _Optional[_Union[TimeoutNow, _Mapping]] = ..., read_index_request: _Optional[_Union[ReadIndexRequest, _Mapping]] = ..., read_index_response: _Optional[_Union[ReadIndexResponse, _Mapping]] = ...) -> None: ...

class Envelopes(_message.Message):
    __slots__ = ("envelopes",)
    ENVELOPES_FIELD_NUMBER: _ClassVar[int]
    envelopes: _containers.RepeatedCompositeFieldContainer[Envelope]
    def __init__(self, envelopes: _Optional[_Iterable[_Union[Envelope, _Mapping]]] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("recipient", "sender", "term", "metadata", "offset", "data", "is_last", "total_bytes", "crc32c")
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    recipient: Member
    sender: Member
    term: int
    metadata: SnapshotMetadata
    offset: int
    data: bytes
    is_last: bool
    total_bytes: int
    crc32c: int
    def __init__(self, recipient: _Optional[_Union[Member, _Mapping]] = ..., sender: _Optional[_Union[Member, _Mapping]] = ..., term: _Optional[int] = ..., metadata: _Optional[_Union[SnapshotMetadata, _Mapping]] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., is_last: _Optional[bool] = ..., total_bytes: _Optional[int] = ..., crc32c: _Optional[int] = ...) -> None: ...
