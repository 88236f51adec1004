from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeProofRequest(_message.Message):
    __slots__ = ("hello", "proof")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    hello: NodeHello
    proof: bytes
    def __init__(self, hello: _Optional[_Union[NodeHello, _Mapping]] = ..., proof: _Optional[bytes] = ...) -> None: ...

class NodeProofResponse(_message.Message):
    __slots__ = ("answer",)
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    answer: NodeAnswer
    def __init__(self, answer: _Optional[_Union[NodeAnswer, _Mapping]] = ...) -> None: ...

class NodeHello(_message.Message):
    __slots__ = ("version", "cluster_id", "node_id", "nonce")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    version: int
    cluster_id: str
    node_id: int
    nonce: bytes
    def __init__(self, version: _Optional[int] = ..., cluster_id: _Optional[str] = ..., node_id: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class NodeAnswer(_message.Message):
    __slots__ = ("node_id", "nonce", "proof")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    nonce: bytes
    proof: bytes
    def __init__(self, node_id: _Optional[int] = ..., nonce: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class NodeTicket(_message.Message):
    __slots__ = ("session", "number", "proof")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    number: int
    proof: bytes
    def __init__(self, session: _Optional[bytes] = ..., number: _Optional[int] = ..., proof: _Optional[bytes] = ...) -> None: ...
