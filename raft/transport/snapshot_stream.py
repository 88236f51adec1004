"""Sending a snapshot over a stream of its own, so that messages do not wait behind it."""

from lograft.proto.wire_format import CodecError
from lograft.raft.bootstrap.start_register import StartRegister
from lograft.raft.core.configuration import Member
from lograft.raft.core.messages import InstallSnapshot
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.interfaces import Snapshot, StoreIdentity
from lograft.raft.transport.envelope_codec import decode_chunk, encode_chunk
from lograft.raft.transport.hello import introduce
from lograft.raft.transport.snapshot_chunks import SnapshotAssembly, SnapshotRefused, cut
from lograft.runtime.network import Connection, Status, Stream, StreamError

SNAPSHOT_METHOD = "/lograft.internal.v1.Raft/Snapshot"
_RECEIVED = b""


async def send_snapshot(
    connection: Connection,
    identity: StoreIdentity,
    register: StartRegister,
    order: SnapshotToSend,
    snapshot: Snapshot,
    chunk_bytes: int,
) -> None:
    """Send a snapshot and wait until the recipient has all of it. Raise StreamError if it did not arrive."""
    stream = connection.open(SNAPSHOT_METHOD)
    try:
        member = await introduce(stream, identity, order.recipient.node_id, register)
        if member != order.recipient:
            raise StreamError(Status.FAILED_PRECONDITION, f"{member} is there, not {order.recipient}")
        for chunk in cut(identity.member, order, snapshot, chunk_bytes):
            await stream.send(encode_chunk(chunk))
        await stream.half_close()
        if await stream.receive() is None:
            raise StreamError(Status.ABORTED, "the recipient did not say that it has all")
    finally:
        stream.reset()


async def receive_snapshot(stream: Stream, sender: Member, recipient: Member, max_bytes: int) -> InstallSnapshot:
    """Receive all chunks and return the snapshot. Raise StreamError if they stop or do not make a snapshot."""
    assembly = SnapshotAssembly(sender, recipient, max_bytes)
    while (data := await stream.receive()) is not None:
        try:
            message = assembly.add(decode_chunk(data))
        except (CodecError, SnapshotRefused) as error:
            raise StreamError(Status.INVALID_ARGUMENT, f"snapshot refused: {error}") from error
        if message is not None:
            return message
    raise StreamError(Status.ABORTED, "the snapshot ended before its last chunk")


async def confirm(stream: Stream) -> None:
    """Confirm to the sender that the whole snapshot has arrived."""
    await stream.send(_RECEIVED)
