"""What a replica has, as digests; on real logs, whose disks may rot."""

import struct
from typing import Any

import pytest
from support.log_services import ORDERS, Node, Talk, detail_in
from support.raft_nodes import virtual
from support.served_replicas import FakeReplica, batch

from lograft.broker.server.digest_service import DigestService
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DIGEST_REPLICA
from lograft.storage.batch.codec import encode_batch, parse_header
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import checksum
from lograft.storage.errors import CorruptLog


async def asking(node: Node, **request: Any) -> Talk[pb.DigestReplicaResponse]:
    stream = (await node.serve(DigestService(node.runtime, node.logs).handlers())).open(DIGEST_REPLICA)
    await stream.send(pb.DigestReplicaRequest(**{"topic_id": ORDERS, **request}).SerializeToString())
    await stream.half_close()
    return Talk(stream, pb.DigestReplicaResponse)


async def digests(node: Node, **request: Any) -> pb.DigestReplicaResponse:
    return await (await asking(node, **request)).hear()


def filled(node: Node) -> FakeReplica:
    orders = node.lead()
    orders.append(batch("a", "b"), batch("c"), batch("d", "e"), batch("f"))
    return orders


@virtual
async def test_batches_that_begin_in_the_range_are_told_with_all_that_tells_them_apart() -> None:
    node = Node()
    orders = filled(node)
    answer = await digests(node, start=2, end=4)
    assert [(each.base_offset, each.next_offset) for each in answer.batches] == [(2, 3), (3, 5)]
    header = parse_header(orders.stored[1][2])
    first = answer.batches[0]
    assert (first.leader_epoch, first.size_bytes, first.crc) == (5, header.total_bytes, header.crc)
    assert answer.next_offset >= 4
    assert not answer.offsets


@virtual
async def test_it_does_not_matter_who_leads() -> None:
    node = Node()
    orders = filled(node)
    orders.refusal = CorruptLog("nowhere", None, "anything")
    assert len((await digests(node, start=0, end=6)).batches) == 4


@virtual
async def test_what_is_not_there_is_left_out() -> None:
    node = Node()
    orders = filled(node)
    orders.log_start = 2
    answer = await digests(node, start=0, end=100)
    assert [each.base_offset for each in answer.batches] == [2, 3, 5]
    assert (answer.next_offset, answer.log_start) == (6, 2)
    answer = await digests(node, start=6, end=100)
    assert (answer.next_offset, len(answer.batches)) == (6, 0)
    answer = await digests(node, start=50, end=100)
    assert (answer.next_offset, len(answer.batches)) == (50, 0)


@virtual
async def test_how_far_it_was_ever_compacted_is_told() -> None:
    node = Node()
    orders = filled(node)
    assert (await digests(node, start=0, end=6)).cleaned_below == 0
    orders.cleaned_below = 3
    assert (await digests(node, start=4, end=6)).cleaned_below == 3


@virtual
async def test_records_are_the_same_however_they_are_packed() -> None:
    first, second = Node(), Node()
    values: list[bytes | None] = [b"1", None, b"3"]
    keys = [b"a", b"b", None]
    first.lead().append(encode_batch(values, keys=keys, timestamps=5))
    other = second.lead()
    other.append(*(encode_batch([value], keys=[key], timestamps=5) for value, key in zip(values, keys, strict=True)))
    one, two = [await digests(node, start=0, end=3, by_record=True) for node in (first, second)]
    assert list(one.offsets) == list(two.offsets) == [0, 1, 2]
    assert (list(one.keys), list(one.contents)) == (list(two.keys), list(two.contents))
    assert one.keys[2] == 0
    assert one.contents[1] == 0
    assert len({*one.keys, *one.contents}) == 5, "all others are different"


@pytest.mark.parametrize("changed", [{"timestamps": 6}, {"headers": [[("h", b"1")]]}, {"values": [b"2"]}])
@virtual
async def test_all_of_a_record_counts(changed: dict[str, Any]) -> None:
    first, second = Node(), Node()
    first.lead().append(encode_batch([b"1"], keys=[b"a"], timestamps=5))
    second.lead().append(encode_batch(**{"values": [b"1"], "keys": [b"a"], "timestamps": 5, **changed}))
    one, two = [await digests(node, start=0, end=1, by_record=True) for node in (first, second)]
    assert list(one.keys) == list(two.keys)
    assert list(one.contents) != list(two.contents)


def undecodable(*values: bytes) -> bytes:
    """A batch with the right checksum, whose records nobody can read."""
    content = bytearray(encode_batch([value * 500 for value in values], timestamps=5, compression=Compression.ZSTD))
    content[-6:] = b"\xff" * 6
    struct.pack_into(">I", content, 17, checksum(content, 21, len(content)))
    return bytes(content)


@virtual
async def test_a_batch_that_nobody_can_decode_is_told_as_a_batch_among_the_records() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), undecodable(b"b", b"c"), batch("d"))
    answer = await digests(node, start=0, end=4, by_record=True)
    assert list(answer.offsets) == [0, 3]
    assert [(each.base_offset, each.next_offset) for each in answer.batches] == [(1, 3)]
    assert answer.batches[0].crc == parse_header(orders.stored[1][2]).crc
    assert not (await digests(node, start=2, end=4, by_record=True)).batches, "it begins before that"


@virtual
async def test_damage_is_told() -> None:
    node = Node()
    orders = filled(node)

    async def read_stored(offset: int, max_bytes: int) -> Any:
        raise CorruptLog("segment", 7, "a CRC is wrong")

    orders.read_stored = read_stored  # type: ignore[method-assign]
    error = detail_in(await (await asking(node, start=0, end=6)).fails())
    assert error.code == errors_pb2.STORAGE_FAILED
    assert "a CRC is wrong" in error.message


@virtual
async def test_a_partition_that_is_not_here_is_told() -> None:
    node = Node()
    error = detail_in(await (await asking(node, start=0, end=6, partition=2)).fails())
    assert error.code != errors_pb2.STORAGE_FAILED
