"""Codec for entries, configurations and everything else a store keeps. Pure.

`fill_*` functions write into a part of a larger protobuf message, which avoids copying an entry's data.
"""

import struct
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from google.protobuf.message import DecodeError, Message

from lograft.proto import raft_pb2 as pb
from lograft.proto.wire_format import CodecError
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import (
    Command,
    Entry,
    HardState,
    NewConfiguration,
    NoOperation,
    Payload,
    SnapshotMetadata,
)
from lograft.raft.interfaces import StoreIdentity
from lograft.raft.store_starts import StoreStart, StoreStarts, check_tokens

P = TypeVar("P", bound=Message)

_UUID_BYTES = 16
_TOKEN_BYTES = 4


def parse(kind: type[P], data: bytes) -> P:
    """Return the protobuf message in `data`."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise CodecError(f"not a {kind.DESCRIPTOR.name}: {error}") from None


# -- members and configurations


def fill_member(target: pb.Member, member: Member) -> None:
    target.node_id = member.node_id
    target.directory_id = member.directory_id.bytes


def read_member(source: pb.Member) -> Member:
    return _member(source.node_id, source.directory_id)


@lru_cache(maxsize=256)  # every message repeats the same few members, and a UUID takes longer to create than the rest
def _member(node_id: int, directory_id: bytes) -> Member:
    if len(directory_id) != _UUID_BYTES:
        raise CodecError(f"a member's directory id has {len(directory_id)} bytes, not {_UUID_BYTES}")
    return Member(node_id, UUID(bytes=directory_id))


def fill_configuration(target: pb.Configuration, configuration: Configuration) -> None:
    # A configuration without voters and learners is still present.
    target.SetInParent()
    for member in configuration.voters:
        fill_member(target.voters.add(), member)
    for member in configuration.learners:
        fill_member(target.learners.add(), member)


def read_configuration(source: pb.Configuration) -> Configuration:
    voters = tuple(map(read_member, source.voters))
    learners = tuple(map(read_member, source.learners))
    if list(voters) != sorted(voters) or list(learners) != sorted(learners):
        raise CodecError("the members of a configuration are not in order")
    if len({*voters, *learners}) != len(voters) + len(learners):
        raise CodecError("a configuration names a member twice")
    return Configuration(voters, learners)


# -- entries


def fill_entry(target: pb.Entry, entry: Entry) -> None:
    target.index = entry.index
    target.term = entry.term
    match entry.payload:
        case Command(data=data):
            target.command = data
        case NoOperation():
            target.no_operation.SetInParent()
        case NewConfiguration(configuration=configuration):
            fill_configuration(target.configuration, configuration)


def read_entry(source: pb.Entry) -> Entry:
    return Entry(source.index, source.term, _read_payload(source))


def _read_payload(source: pb.Entry) -> Payload:
    match source.WhichOneof("payload"):
        case "command":
            return Command(source.command)
        case "no_operation":
            return NoOperation()
        case "configuration":
            return NewConfiguration(read_configuration(source.configuration))
        case _:
            raise CodecError(f"entry {source.index} has a payload that this version does not know, or none")


def encode_entry(entry: Entry) -> bytes:
    message = pb.Entry()
    fill_entry(message, entry)
    return message.SerializeToString()


def decode_entry(data: bytes) -> Entry:
    return read_entry(parse(pb.Entry, data))


# -- snapshots


def fill_metadata(target: pb.SnapshotMetadata, metadata: SnapshotMetadata) -> None:
    target.index = metadata.index
    target.term = metadata.term
    fill_configuration(target.configuration, metadata.configuration)


def read_metadata(source: pb.SnapshotMetadata) -> SnapshotMetadata:
    if not source.HasField("configuration"):
        raise CodecError("a snapshot without a configuration")
    return SnapshotMetadata(source.index, source.term, read_configuration(source.configuration))


# -- hard state and openings


def encode_hard_state(hard_state: HardState) -> bytes:
    message = pb.HardState(term=hard_state.term, commit_index=hard_state.commit_index)
    if hard_state.vote is not None:
        fill_member(message.vote, hard_state.vote)
    return message.SerializeToString()


def decode_hard_state(data: bytes) -> HardState:
    message = parse(pb.HardState, data)
    vote = read_member(message.vote) if message.HasField("vote") else None
    return HardState(message.term, vote, message.commit_index)


def fill_starts(target: pb.StoreStarts, starts: StoreStarts) -> None:
    target.count = starts.count
    target.tokens = struct.pack(f">{len(starts.tokens)}I", *starts.tokens)


def read_starts(source: pb.StoreStarts) -> StoreStarts:
    if len(source.tokens) % _TOKEN_BYTES:
        raise CodecError(f"{len(source.tokens)} bytes of tokens of {_TOKEN_BYTES}")
    tokens = struct.unpack(f">{len(source.tokens) // _TOKEN_BYTES}I", source.tokens)
    try:
        check_tokens(source.count, tokens)
    except ValueError as error:
        raise CodecError(str(error)) from None
    return StoreStarts(source.count, tokens)


def encode_starts(starts: StoreStarts) -> bytes:
    message = pb.StoreStarts()
    fill_starts(message, starts)
    return message.SerializeToString()


def decode_starts(data: bytes) -> StoreStarts:
    return read_starts(parse(pb.StoreStarts, data))


def encode_seen_start(start: StoreStart) -> bytes:
    return pb.SeenStart(number=start.number, token=start.token).SerializeToString()


def decode_seen_start(data: bytes) -> StoreStart:
    message = parse(pb.SeenStart, data)
    return StoreStart(message.number, message.token)


def encode_identity(identity: StoreIdentity) -> bytes:
    message = pb.StoreIdentity(cluster_id=identity.cluster_id)
    fill_member(message.member, identity.member)
    return message.SerializeToString()


def decode_identity(data: bytes) -> StoreIdentity:
    message = parse(pb.StoreIdentity, data)
    member = read_member(message.member)
    return StoreIdentity(message.cluster_id, member.node_id, member.directory_id)
