"""What is put together and taken apart by hand is what the generated code makes and reads."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.served_replicas import FakeReplica

from lograft.broker.fetch.outbox import FetchOutbox
from lograft.broker.produce.produce_requests import UnreadableMessage, read_produce
from lograft.proto import log_pb2 as pb
from lograft.proto.wire_format import MAX_FIELDS, WireError, cut_out, field_head, message_field, varint
from lograft.storage.log.log_reader import Batches

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)

items = st.builds(
    pb.ProduceRequest.Item,
    number=st.integers(0, 2**64 - 1),
    topic_id=st.binary(max_size=20),
    partition=int32,
    leader_epoch=st.none() | int32,
    batch=st.binary(max_size=300),
)
requests = st.builds(
    pb.ProduceRequest,
    acks=st.sampled_from([pb.ACKS_ALL, pb.ACKS_LEADER, pb.ACKS_NONE]),
    timeout_ms=st.integers(0, 300_000),
    items=st.lists(items, max_size=5),
    client_id=st.text(max_size=10),
)
unknown_fields = st.sampled_from(
    # Field 100, of each wire type; and a number where items should be.
    [b"", b"\xa0\x06\x05", b"\xa2\x06\x03abc", b"\xa5\x06abcd", b"\xa1\x06abcdefgh", b"\x18\x05"]
)


def comparable(data: bytes, split_bytes: int) -> object:
    message = read_produce(data, split_bytes)
    found = [item._replace(batch=bytes(item.batch)) for item in message.items]
    return found, message.acks, message.timeout_ms, message.client_id, repr(message.refusal)


@given(requests, requests, unknown_fields, st.sampled_from([0, 50, 10_000]))
def test_a_request_reads_the_same_whichever_way_it_is_read(
    one: pb.ProduceRequest, other: pb.ProduceRequest, unknown: bytes, split_bytes: int
) -> None:
    # Bytes of two, one after the other, are one with the items of both, in which the later single fields count.
    data = one.SerializeToString() + unknown + other.SerializeToString()
    assert comparable(data, split_bytes) == comparable(data, 2**30)


@given(items, items)
def test_of_a_batch_that_is_there_twice_the_last_counts(
    one: pb.ProduceRequest.Item, other: pb.ProduceRequest.Item
) -> None:
    both = one.SerializeToString() + other.SerializeToString()
    data = field_head(pb.ProduceRequest.ITEMS_FIELD_NUMBER, len(both)) + both
    assert comparable(data, 0) == comparable(data, 2**30)


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda tail: b"\x1a" + tail), st.sampled_from([0, 2**30]))
def test_garbage_is_refused_or_read_and_nothing_else(data: bytes, split_bytes: int) -> None:
    with contextlib.suppress(UnreadableMessage):
        read_produce(data, split_bytes)


@given(requests, st.integers(0, 400))
def test_a_message_cut_short_is_never_read_differently(request: pb.ProduceRequest, cut: int) -> None:
    data = request.SerializeToString()[:cut]
    try:
        expected = comparable(data, 2**30)
    except UnreadableMessage:
        with pytest.raises(UnreadableMessage):
            read_produce(data, 0)
    else:
        assert comparable(data, 0) == expected


@given(st.integers(0, 2**64 - 1))
def test_numbers_are_written_as_protobuf_does(number: int) -> None:
    expected = pb.ProduceRequest.Item(number=number).SerializeToString() if number else b"\x08\x00"
    assert b"\x08" + varint(number) == expected


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.lists(st.binary(max_size=300), max_size=3), int64, int64)))
def test_what_a_fetch_sends_is_read_by_the_generated_code(data: list[tuple[int, list[bytes], int, int]]) -> None:
    outbox = FetchOutbox()
    for handle, buffers, offset, watermark in data:
        replica = FakeReplica.__new__(FakeReplica)  # without a loop
        replica.high_watermark, replica.watermark_is_known, replica.log_start = watermark, watermark % 2 == 0, 3
        outbox.add_data(handle, 4, replica, Batches(list(buffers), offset))
    received = [each for message in outbox.take() for each in pb.FetchResponse.FromString(message).data]
    assert received == [
        pb.FetchResponse.Data(
            handle=handle,
            seek=4,
            batches=b"".join(buffers),
            next_offset=offset,
            high_watermark=watermark if watermark % 2 == 0 else None,
            log_start=3,
        )
        for handle, buffers, offset, watermark in data
    ]


@given(st.binary(max_size=50), st.lists(st.binary(max_size=50), max_size=3))
def test_a_message_field_is_cut_out_again(small: bytes, content: list[bytes]) -> None:
    fields = field_head(1, len(small)) + small
    data = b"".join(message_field(7, fields, 2, content))
    rest, (inner,) = cut_out(memoryview(data), 7)
    assert rest == b""
    assert cut_out(inner, 2) == (fields, [b"".join(content)])


@pytest.mark.parametrize("data", [b"\x80" * 11, b"\x08", b"\x12\x05abc", b"\x0d123", b"\x00\x01", b"\x0b", b"\x0f\x01"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        cut_out(memoryview(data), 2)


def test_a_message_of_millions_of_fields_is_not_taken_apart() -> None:
    fields = b"\xa0\x06\x05" * (MAX_FIELDS - 1)
    assert cut_out(memoryview(fields + b"\x12\x01a"), 2) == (fields, [b"a"])
    with pytest.raises(WireError, match="more than"):
        cut_out(memoryview(fields + b"\x12\x01a\x12\x01b"), 2)
