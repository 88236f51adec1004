"""The handshake: every stream between two nodes begins with a hello in each direction."""

from dataclasses import dataclass, replace

from lograft.proto.raft_transport_pb2 import RaftHello
from lograft.proto.wire_format import CodecError
from lograft.raft.bootstrap.start_register import OutdatedStore, StartRegister
from lograft.raft.core.configuration import Member
from lograft.raft.interfaces import StoreIdentity
from lograft.raft.store.state_codec import fill_member, fill_starts, parse, read_member, read_starts
from lograft.raft.store_starts import StoreStarts
from lograft.runtime.network import Status, Stream, StreamError


@dataclass(frozen=True, slots=True)
class Hello:
    """`expected_node_id`: the node the caller wants to reach; None in the answer. `starts`: the openings of the
    sender's store; None if its version does not count them. `refused_for_start`: in an answer, the opening that the
    caller's store never had, for which the caller is refused."""

    cluster_id: str
    member: Member
    expected_node_id: int | None = None
    starts: StoreStarts | None = None
    refused_for_start: int | None = None


def encode_hello(hello: Hello) -> bytes:
    message = RaftHello(
        cluster_id=hello.cluster_id,
        expected_node_id=hello.expected_node_id,
        refused_for_start=hello.refused_for_start,
    )
    fill_member(message.member, hello.member)
    if hello.starts is not None:
        fill_starts(message.starts, hello.starts)
    return message.SerializeToString()


def decode_hello(data: bytes) -> Hello:
    """Return the hello. Raise CodecError if the data is malformed."""
    message = parse(RaftHello, data)
    expected_node_id = message.expected_node_id if message.HasField("expected_node_id") else None
    starts = read_starts(message.starts) if message.HasField("starts") else None
    refused_for_start = message.refused_for_start if message.HasField("refused_for_start") else None
    return Hello(message.cluster_id, read_member(message.member), expected_node_id, starts, refused_for_start)


async def introduce(stream: Stream, identity: StoreIdentity, node_id: int, register: StartRegister) -> Member:
    """Send a hello to node `node_id` and return the member that answers. Raise StreamError if another node answers, the
    node refuses, or one of the two has an older copy of its store."""
    await stream.send(encode_hello(Hello(identity.cluster_id, identity.member, node_id, register.own_starts)))
    hello = await _receive_hello(stream)
    if hello.cluster_id != identity.cluster_id or hello.member.node_id != node_id:
        raise StreamError(
            Status.FAILED_PRECONDITION,
            f"{stream.peer} is node {hello.member.node_id} of cluster {hello.cluster_id!r}, "
            f"not node {node_id} of {identity.cluster_id!r}: check the addresses",
        )
    if hello.refused_for_start is not None:
        register.refused_by(node_id, hello.refused_for_start)
        raise StreamError(Status.FAILED_PRECONDITION, register.outdated_reason or "")
    try:
        await register.admit(hello.member, hello.starts)
    except OutdatedStore as error:
        raise StreamError(Status.FAILED_PRECONDITION, str(error)) from None
    return hello.member


async def admit(stream: Stream, identity: StoreIdentity, register: StartRegister) -> Member:
    """Receive a caller's hello and answer it. Note an admitted caller's opening durably. Raise StreamError to refuse a
    caller of another cluster, one that wants another node, and one with an older copy of its store."""
    hello = await _receive_hello(stream)
    if hello.cluster_id != identity.cluster_id:
        raise StreamError(
            Status.FAILED_PRECONDITION,
            f"node {hello.member.node_id} is of cluster {hello.cluster_id!r}, "
            f"but node {identity.node_id} is of {identity.cluster_id!r}: check cluster_id and the addresses",
        )
    if hello.expected_node_id != identity.node_id:
        raise StreamError(
            Status.FAILED_PRECONDITION,
            f"node {hello.member.node_id} looks for node {hello.expected_node_id}, "
            f"but this is node {identity.node_id}: check the addresses",
        )
    if hello.member.node_id == identity.node_id:
        raise StreamError(
            Status.FAILED_PRECONDITION,
            f"there are two nodes with id {identity.node_id}: this one and {stream.peer}",
        )
    own = Hello(identity.cluster_id, identity.member, starts=register.own_starts)
    try:
        await register.admit(hello.member, hello.starts)
    except OutdatedStore as error:
        await stream.send(encode_hello(replace(own, refused_for_start=error.seen.number)))
        raise StreamError(Status.FAILED_PRECONDITION, str(error)) from None
    await stream.send(encode_hello(own))
    return hello.member


async def _receive_hello(stream: Stream) -> Hello:
    data = await stream.receive()
    if data is None:
        raise StreamError(Status.CANCELLED, "the stream ended before a hello")
    try:
        return decode_hello(data)
    except CodecError as error:
        raise StreamError(Status.INVALID_ARGUMENT, str(error)) from error
