"""Encodes and decodes the messages of `lograft.internal.v1.Replication`. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from google.protobuf.message import DecodeError

from lograft.broker.replication.follower_core import Acknowledge, Subscribe
from lograft.broker.replication.interfaces import Followed, ResetTo
from lograft.broker.replication.leader_core import Subscriber
from lograft.broker.replication.log_matching import TruncateTo
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, PartitionKey, TopicId
from lograft.proto import replication_pb2 as pb
from lograft.proto.wire_format import WireError, cut_out
from lograft.storage.log.replica_frame import ReplicaFrame
from lograft.storage.state.epoch_cache import EpochEntry
from lograft.storage.state.producer_state import ProducerState

REPLICATE = "/lograft.internal.v1.Replication/Replicate"

_UUID_BYTES = 16
_NO_EPOCH = -1

# From this size, splitting a message by hand costs less than the copies that the generated code makes.
_SPLIT_BYTES = 96 * 1024
_FRAMES = pb.ReplicateResponse.FRAMES_FIELD_NUMBER
_BATCHES = pb.ReplicaFrame.BATCHES_FIELD_NUMBER


class ReplicationCodecError(ValueError):
    """Raised for bytes that are not a valid message."""


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A follower's request to follow a partition."""

    topic_id: TopicId
    partition: int
    subscriber: Subscriber
    request: Subscribe


# -- messages of followers


def read_request(data: bytes) -> pb.ReplicateRequest:
    try:
        return pb.ReplicateRequest.FromString(data)
    except DecodeError as error:
        raise ReplicationCodecError(f"not a ReplicateRequest: {error}") from None


def subscribe_message(followed: Followed, request: Subscribe) -> pb.Subscribe:
    return pb.Subscribe(
        handle=request.number,
        topic_id=followed.topic_id.bytes,
        partition=followed.number,
        leader_epoch=request.leader_epoch,
        end_offset=request.end_offset,
        last_epoch=_NO_EPOCH if request.last_epoch is None else request.last_epoch,
        directory_id=followed.directory_id.bytes,
        partition_epoch=request.partition_epoch,
        tombstones_removed_below=request.tombstones_removed_below,
        answers_barriers=request.answers_barriers,
    )


def read_subscribe(message: pb.Subscribe, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> SubscriptionRequest:
    if message.end_offset < 0 or message.last_epoch < _NO_EPOCH:
        raise ReplicationCodecError(f"a log that ends at {message.end_offset} in epoch {message.last_epoch}")
    return SubscriptionRequest(
        TopicId(_read_id(message.topic_id, "topic_id")),
        message.partition,
        Subscriber(broker_id, broker_epoch, _read_id(message.directory_id, "directory_id"), message.handle),
        Subscribe(
            message.handle,
            LeaderEpoch(message.leader_epoch),
            PartitionEpoch(message.partition_epoch),
            message.end_offset,
            None if message.last_epoch == _NO_EPOCH else message.last_epoch,
            message.tombstones_removed_below,
            message.answers_barriers,
        ),
    )


def acknowledgement_message(acknowledgement: Acknowledge) -> pb.ReplicaAcknowledgement:
    return pb.ReplicaAcknowledgement(
        handle=acknowledgement.number,
        leader_epoch=acknowledgement.leader_epoch,
        end_offset=acknowledgement.end_offset,
        partition_epoch=acknowledgement.partition_epoch,
    )


def read_acknowledgement(message: pb.ReplicaAcknowledgement) -> Acknowledge:
    return Acknowledge(
        message.handle,
        LeaderEpoch(message.leader_epoch),
        PartitionEpoch(message.partition_epoch),
        message.end_offset,
    )


def without_room_message(followed: Followed) -> pb.ReplicaWithoutRoom:
    return pb.ReplicaWithoutRoom(
        topic_id=followed.topic_id.bytes, partition=followed.number, leader_epoch=followed.leader_epoch
    )


def read_without_room(message: pb.ReplicaWithoutRoom) -> PartitionKey:
    return TopicId(_read_id(message.topic_id, "topic_id")), message.partition


# -- messages of leaders (`outbox` encodes frames)


class ReceivedFrame(NamedTuple):
    """`fields`: the message without its batches."""

    fields: pb.ReplicaFrame
    batches: bytes | memoryview


def read_response(data: bytes, split_bytes: int = _SPLIT_BYTES) -> tuple[pb.ReplicateResponse, list[ReceivedFrame]]:
    """Return the message without its frames, and the frames. Do not copy a frame that makes up most of a large
    message."""
    try:
        if len(data) < split_bytes:
            response = pb.ReplicateResponse.FromString(data)
            return response, [ReceivedFrame(frame, frame.batches) for frame in response.frames]
        head, contents = cut_out(memoryview(data), _FRAMES)
        return pb.ReplicateResponse.FromString(head), [_split_frame(content, len(data)) for content in contents]
    except (DecodeError, WireError) as error:
        raise ReplicationCodecError(f"not a ReplicateResponse: {error}") from None


def _split_frame(content: memoryview, message_bytes: int) -> ReceivedFrame:
    fields, found = cut_out(content, _BATCHES)
    batches = found[-1] if found else memoryview(b"")  # of a repeated occurrence of a field, the last counts
    # A view keeps the whole message in memory, so copy small parts.
    kept = batches if 2 * len(batches) >= message_bytes else bytes(batches)
    return ReceivedFrame(pb.ReplicaFrame.FromString(fields), kept)


def reset_message(handle: int, order: ResetTo) -> pb.ReplicaReset:
    return pb.ReplicaReset(
        handle=handle, log_start=order.start_offset, epochs=epoch_messages(order.epochs), producers=order.producers
    )


def read_reset(message: pb.ReplicaReset) -> ResetTo:
    """Return the order. Check every field: a log that starts over has nothing to compare them with."""
    start, epochs, producers = message.log_start, tuple(_read_epochs(message.epochs)), message.producers
    is_rising = all(
        one.epoch < next_.epoch and one.start_offset <= next_.start_offset for one, next_ in pairwise(epochs)
    )
    if start < 0 or not is_rising or any(entry.start_offset > start for entry in epochs):
        raise ReplicationCodecError(f"a log that starts at {start} with the epochs {epochs}")
    try:
        ProducerState.decode(producers, now_ms=0)
    except ValueError as error:
        raise ReplicationCodecError(f"a log that starts with invalid producers: {error}") from None
    return ResetTo(start, epochs, producers)


def read_truncate(message: pb.ReplicaTruncate) -> TruncateTo:
    if message.end_offset < 0:
        raise ReplicationCodecError(f"a log whose epoch {message.epoch} ends at {message.end_offset}")
    return TruncateTo(message.epoch, message.end_offset)


def read_frame(received: ReceivedFrame) -> ReplicaFrame:
    fields = received.fields
    return ReplicaFrame(fields.start, fields.end, received.batches, _read_epochs(fields.epochs))


def epoch_messages(epochs: Sequence[EpochEntry]) -> list[pb.ReplicaEpoch]:
    return [pb.ReplicaEpoch(epoch=entry.epoch, start_offset=entry.start_offset) for entry in epochs]


def _read_epochs(messages: Iterable[pb.ReplicaEpoch]) -> list[EpochEntry]:
    return [EpochEntry(message.epoch, message.start_offset) for message in messages]


def _read_id(content: bytes, name: str) -> UUID:
    if len(content) != _UUID_BYTES:
        raise ReplicationCodecError(f"{name} must be a UUID of {_UUID_BYTES} bytes, not {len(content)}")
    return UUID(bytes=content)
