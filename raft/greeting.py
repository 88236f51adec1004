"""Who is at the other end: every stream between two nodes begins with a hello each way."""

from dataclasses import dataclass

from lograft.proto.raft_transport_pb2 import RaftHello
from lograft.raft.configuration import Member
from lograft.raft.ports import StoreIdentity
from lograft.raft.state_codec import CodecError, fill_member, parse, read_member
from lograft.runtime.network import Status, Stream, StreamError


@dataclass(frozen=True, slots=True)
class Hello:
    """`expected_node_id` is whom the caller takes the other end for; None in the answer."""

    cluster_id: str
    member: Member
    expected_node_id: int | None = None


def encode_hello(hello: Hello) -> bytes:
    message = RaftHello(cluster_id=hello.cluster_id, expected_node_id=hello.expected_node_id)
    fill_member(message.member, hello.member)
    return message.SerializeToString()


def decode_hello(data: bytes) -> Hello:
    """`CodecError` if it is none."""
    message = parse(RaftHello, data)
    expected_node_id = message.expected_node_id if message.HasField("expected_node_id") else None
    return Hello(message.cluster_id, read_member(message.member), expected_node_id)


async def introduce(stream: Stream, identity: StoreIdentity, node_id: int) -> Member:
    """Say hello to node `node_id`; who it is now. `StreamError` if that is not who is there, or it will not talk."""
    await stream.send(encode_hello(Hello(identity.cluster_id, identity.member, node_id)))
    hello = await _receive_hello(stream)
    if hello.cluster_id != identity.cluster_id or hello.member.node_id != node_id:
        raise StreamError(
            Status.FAILED_PRECONDITION,
            f"{stream.peer} is node {hello.member.node_id} of cluster {hello.cluster_id!r}, "
            f"not node {node_id} of {identity.cluster_id!r}: check the addresses",
        )
    return hello.member


async def admit(stream: Stream, identity: StoreIdentity) -> Member:
    """Hear who calls, and answer. `StreamError` refuses who is of another cluster, or looks for someone else."""
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
    await stream.send(encode_hello(Hello(identity.cluster_id, identity.member)))
    return hello.member


async def _receive_hello(stream: Stream) -> Hello:
    data = await stream.receive()
    if data is None:
        raise StreamError(Status.CANCELLED, "the stream ended before a hello")
    try:
        return decode_hello(data)
    except CodecError as error:
        raise StreamError(Status.INVALID_ARGUMENT, str(error)) from error
