"""What replicas say to each other: there and back."""

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.broker.replication.codec import (
    ReplicationCodecError,
    acknowledgement_message,
    epoch_messages,
    read_acknowledgement,
    read_frame,
    read_request,
    read_reset,
    read_response,
    read_subscribe,
    read_truncate,
    subscribe_message,
)
from lograft.broker.replication.follower_core import Acknowledge, Subscribe
from lograft.broker.replication.interfaces import OutgoingFrame, ResetTo
from lograft.broker.replication.leader_core import Subscriber
from lograft.broker.replication.log_matching import TruncateTo
from lograft.broker.replication.outbox import ReplicationOutbox
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from lograft.proto import errors_pb2
from lograft.proto import replication_pb2 as pb
from lograft.storage.log.replica_frame import ReplicaFrame
from lograft.storage.state.epoch_cache import EpochEntry

MIB = 1024 * 1024
PRODUCER = struct.pack(">qhBiiqq", 7, 0, 1, 0, 4, 100, 104)
offsets = st.integers(0, 2**63 - 1)
epochs = st.integers(0, 2**31 - 1)
handles = st.integers(1, 2**63)
entries = st.lists(st.builds(EpochEntry, epochs, offsets), max_size=4)


class _Followed:
    def __init__(self, topic_id: UUID, number: int, directory_id: UUID) -> None:
        self.topic_id = TopicId(topic_id)
        self.number = number
        self.directory_id = directory_id


subscriptions = st.builds(
    Subscribe,
    handles,
    epochs.map(LeaderEpoch),
    epochs.map(PartitionEpoch),
    offsets,
    st.none() | epochs,
    offsets,
    st.booleans(),
)


@given(st.uuids(), st.integers(0, 9999), st.uuids(), subscriptions)
def test_a_subscription_arrives_as_it_was_sent(
    topic_id: UUID, number: int, directory_id: UUID, request: Subscribe
) -> None:
    followed = _Followed(topic_id, number, directory_id)
    message = pb.ReplicateRequest(subscribe=[subscribe_message(followed, request)])  # type: ignore[arg-type]
    (read,) = read_request(message.SerializeToString()).subscribe
    wish = read_subscribe(read, BrokerId(4), BrokerEpoch(5))
    assert (wish.topic_id, wish.partition, wish.request) == (topic_id, number, request)
    assert wish.subscriber == Subscriber(BrokerId(4), BrokerEpoch(5), directory_id, request.number)


@given(st.builds(Acknowledge, handles, epochs.map(LeaderEpoch), epochs.map(PartitionEpoch), offsets))
def test_an_acknowledgement_arrives_as_it_was_sent(acknowledgement: Acknowledge) -> None:
    message = pb.ReplicateRequest(acknowledgements=[acknowledgement_message(acknowledgement)])
    (read,) = read_request(message.SerializeToString()).acknowledgements
    assert read_acknowledgement(read) == acknowledgement


@given(handles, offsets, offsets, st.lists(st.binary(max_size=50), min_size=1, max_size=4), entries, offsets, offsets)
def test_a_frame_arrives_as_it_was_sent(
    handle: int, start: int, end: int, buffers: list[bytes], begun: list[EpochEntry], watermark: int, log_start: int
) -> None:
    outbox = ReplicationOutbox()
    outbox.frame(
        handle, OutgoingFrame(start, end, [memoryview(buffer) for buffer in buffers], begun), watermark, log_start
    )
    (message,) = outbox.take()
    for split_bytes in (0, 1 << 20):
        _, (frame,) = read_response(message, split_bytes)
        fields = frame.fields
        assert (fields.handle, fields.high_watermark, fields.log_start) == (handle, watermark, log_start)
        assert read_frame(frame) == ReplicaFrame(start, end, b"".join(buffers), begun)


@given(handles, offsets, st.none() | epochs, st.integers(0, 2), epochs)
def test_answers_arrive_as_they_were_sent(
    handle: int, offset: int, last_epoch: int | None, producer_count: int, epoch: int
) -> None:
    begun = [] if last_epoch is None else [EpochEntry(last_epoch, offset)]
    producers = PRODUCER * producer_count
    outbox = ReplicationOutbox()
    outbox.matched(handle, offset, 3, 2, 7)
    outbox.truncate(handle, TruncateTo(epoch, offset))
    outbox.reset(handle, ResetTo(offset, tuple(begun), producers))
    outbox.refused(handle, errors_pb2.ErrorDetail(code=errors_pb2.NOT_LEADER, message="why"))
    outbox.watermark(handle, offset, 4)
    (message,) = outbox.take()
    (read, _), (split, _) = read_response(message), read_response(message, 0)
    assert read == split
    matched = read.matched[0]
    assert (matched.handle, matched.high_watermark, matched.log_start) == (handle, offset, 3)
    assert (matched.tombstones_removed_below, matched.cleaned_below) == (2, 7)
    assert (read.truncate[0].handle, read_truncate(read.truncate[0])) == (handle, TruncateTo(epoch, offset))
    assert (read.reset[0].handle, read_reset(read.reset[0])) == (handle, ResetTo(offset, tuple(begun), producers))
    assert (read.refused[0].handle, read.refused[0].error.code) == (handle, errors_pb2.NOT_LEADER)
    news = read.watermarks[0]
    assert (news.handle, news.high_watermark, news.log_start) == (handle, offset, 4)


def test_a_message_is_not_larger_than_one_may_be() -> None:
    outbox = ReplicationOutbox()
    for handle, size in enumerate([MIB, MIB, 62 * MIB, MIB, 10]):
        outbox.frame(handle, OutgoingFrame(0, 1, [bytes(size)]), 0, 0)
    assert outbox.frame_count == 5
    assert outbox.size_bytes > 65 * MIB
    messages = [read_response(message)[1] for message in outbox.take()]
    assert [[frame.fields.handle for frame in frames] for frames in messages] == [[0, 1], [2], [3, 4]]
    kinds = [[type(frame.batches) for frame in frames] for frames in messages]
    assert kinds[1:] == [[memoryview], [memoryview, bytes]], "a small part does not keep the whole"
    assert (outbox.size_bytes, outbox.frame_count, list(outbox.take())) == (0, 0, [])


@pytest.mark.parametrize(
    "changes",
    [
        {"log_start": -1},
        {"epochs": [EpochEntry(3, 5), EpochEntry(3, 5)]},
        {"epochs": [EpochEntry(3, 5), EpochEntry(4, 4)]},
        {"epochs": [EpochEntry(3, 6)]},
        {"producers": PRODUCER[:-1]},
    ],
    ids=["start", "doubled", "falling", "later", "producers"],
)
def test_a_log_that_cannot_start_over_so_is_an_error(changes: dict[str, Any]) -> None:
    fields = {"log_start": 5, "epochs": [EpochEntry(3, 5)], "producers": PRODUCER} | changes
    message = pb.ReplicaReset(**{**fields, "epochs": epoch_messages(fields["epochs"])})  # type: ignore[arg-type]
    with pytest.raises(ReplicationCodecError):
        read_reset(message)


def test_a_log_is_not_cut_below_its_beginning() -> None:
    with pytest.raises(ReplicationCodecError):
        read_truncate(pb.ReplicaTruncate(handle=1, epoch=3, end_offset=-1))


@given(st.binary(max_size=60))
def test_garbage_is_an_error_or_a_message(data: bytes) -> None:
    for read in (read_request, read_response, lambda message: read_response(message, 0)):
        try:
            read(data)
        except ReplicationCodecError:
            continue


@pytest.mark.parametrize(
    "changes",
    [{"topic_id": b"x" * 15}, {"directory_id": b""}, {"end_offset": -1}, {"last_epoch": -2}],
    ids=["topic", "directory", "end", "epoch"],
)
def test_a_subscription_that_cannot_be_is_an_error(changes: dict[str, object]) -> None:
    fields = {"handle": 1, "topic_id": b"t" * 16, "directory_id": b"d" * 16, "end_offset": 3, "last_epoch": -1}
    with pytest.raises(ReplicationCodecError):
        read_subscribe(pb.Subscribe(**{**fields, **changes}), BrokerId(1), BrokerEpoch(1))  # type: ignore[arg-type]
