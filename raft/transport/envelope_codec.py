"""Codec for the wire: batches of envelopes, and the chunks of a snapshot. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lograft.proto import raft_pb2 as pb
from lograft.proto.wire_format import CodecError
from lograft.raft.core.configuration import Member
from lograft.raft.core.entries import Entry, SnapshotMetadata
from lograft.raft.core.messages import (
    AppendRefusal,
    AppendRequest,
    AppendResponse,
    Envelope,
    Heartbeat,
    HeartbeatResponse,
    InstallSnapshot,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from lograft.raft.store.state_codec import (
    fill_entry,
    fill_member,
    fill_metadata,
    parse,
    read_entry,
    read_member,
    read_metadata,
)

__all__ = ["SnapshotChunk", "decode_chunk", "decode_envelopes", "encode_chunk", "encode_envelopes"]

# Messages of numbers and flags only: their field in the envelope, and their own fields.
_PLAIN: dict[type, tuple[str, tuple[str, ...]]] = {
    PreVoteRequest: ("pre_vote_request", ("last_index", "last_term")),
    PreVoteResponse: ("pre_vote_response", ("is_granted",)),
    VoteRequest: ("vote_request", ("last_index", "last_term", "is_transfer")),
    VoteResponse: ("vote_response", ("is_granted",)),
    AppendResponse: ("append_response", ("match_index",)),
    AppendRefusal: ("append_refusal", ("previous_index", "hint_index", "hint_term")),
    Heartbeat: ("heartbeat", ("commit_index", "round")),
    HeartbeatResponse: ("heartbeat_response", ("round",)),
    TimeoutNow: ("timeout_now", ()),
    ReadIndexRequest: ("read_index_request", ("read_id",)),
}
_PLAIN_BY_NAME = {name: (kind, fields) for kind, (name, fields) in _PLAIN.items()}


# -- envelopes


def encode_envelopes(envelopes: Iterable[Envelope]) -> bytes:
    """Return one wire message. Snapshots are sent in chunks instead."""
    wire = pb.Envelopes()
    for envelope in envelopes:
        _fill_envelope(wire.envelopes.add(), envelope)
    return wire.SerializeToString()


def decode_envelopes(data: bytes) -> list[Envelope]:
    """Return the envelopes. Raise CodecError if the data is malformed."""
    return [_read_envelope(source) for source in parse(pb.Envelopes, data).envelopes]


def _fill_envelope(target: pb.Envelope, envelope: Envelope) -> None:
    message = envelope.message
    fill_member(target.recipient, envelope.recipient)
    fill_member(target.sender, message.sender)
    target.term = message.term
    match message:
        case AppendRequest():
            _fill_append(target.append_request, message)
        case ReadIndexResponse(read_id=read_id, index=index):
            target.read_index_response.read_id = read_id
            if index is not None:
                target.read_index_response.index = index
            target.read_index_response.SetInParent()
        case InstallSnapshot():
            raise AssertionError("a snapshot travels in chunks")
        case _:
            name, fields = _PLAIN[type(message)]
            body = getattr(target, name)
            body.SetInParent()  # marks a message of zeros as present
            for field in fields:
                setattr(body, field, getattr(message, field))


def _read_envelope(source: pb.Envelope) -> Envelope:
    return Envelope(read_member(source.recipient), _read_message(source, read_member(source.sender), source.term))


def _read_message(source: pb.Envelope, sender: Member, term: int) -> Message:
    name = source.WhichOneof("message")
    if name == "append_request":
        return _read_append(source.append_request, sender, term)
    if name == "read_index_response":
        response = source.read_index_response
        index = response.index if response.HasField("index") else None
        return ReadIndexResponse(sender, term, response.read_id, index)
    if name is None:
        raise CodecError("an envelope with no message, or one unknown to this version")
    kind, fields = _PLAIN_BY_NAME[name]
    body = getattr(source, name)
    message: Any = kind(sender, term, *[getattr(body, field) for field in fields])
    return message  # type: ignore[no-any-return]


def _fill_append(target: pb.AppendRequest, request: AppendRequest) -> None:
    target.previous_index = request.previous_index
    target.previous_term = request.previous_term
    target.commit_index = request.commit_index
    target.SetInParent()
    for entry in request.entries:
        fill_entry(target.entries.add(), entry)


def _read_append(source: pb.AppendRequest, sender: Member, term: int) -> AppendRequest:
    entries: list[Entry] = []
    for index, encoded in enumerate(source.entries, source.previous_index + 1):
        entry = read_entry(encoded)
        if entry.index != index:
            raise CodecError(f"entry {entry.index} where {index} should be")
        entries.append(entry)
    return AppendRequest(sender, term, source.previous_index, source.previous_term, tuple(entries), source.commit_index)


# -- snapshots


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """A piece of a snapshot's data from `offset` on. `crc32c` covers all `total_bytes` of the snapshot."""

    recipient: Member
    sender: Member
    term: int
    metadata: SnapshotMetadata
    offset: int
    data: bytes
    is_last: bool
    total_bytes: int
    crc32c: int


def encode_chunk(chunk: SnapshotChunk) -> bytes:
    wire = pb.SnapshotChunk(
        term=chunk.term,
        offset=chunk.offset,
        data=chunk.data,
        is_last=chunk.is_last,
        total_bytes=chunk.total_bytes,
        crc32c=chunk.crc32c,
    )
    fill_member(wire.recipient, chunk.recipient)
    fill_member(wire.sender, chunk.sender)
    fill_metadata(wire.metadata, chunk.metadata)
    return wire.SerializeToString()


def decode_chunk(data: bytes) -> SnapshotChunk:
    """Return the chunk. Raise CodecError if the data is malformed, or if the chunk exceeds its snapshot."""
    wire = parse(pb.SnapshotChunk, data)
    end = wire.offset + len(wire.data)
    if end > wire.total_bytes or wire.is_last != (end == wire.total_bytes):
        raise CodecError(f"a chunk [{wire.offset}, {end}) of a snapshot of {wire.total_bytes} bytes, {wire.is_last=}")
    return SnapshotChunk(
        recipient=read_member(wire.recipient),
        sender=read_member(wire.sender),
        term=wire.term,
        metadata=read_metadata(wire.metadata),
        offset=wire.offset,
        data=wire.data,
        is_last=wire.is_last,
        total_bytes=wire.total_bytes,
        crc32c=wire.crc32c,
    )
