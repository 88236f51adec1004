"""Parses a ProduceRequest and leaves large batches in place: only the log copies them. Pure.

Both ways of parsing give the same result.
"""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.partition_lookup import epoch_given
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.wire_format import WireError, cut_out
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.rpc.request_limits import check_item_count, check_timeout
from lograft.runtime.files import Buffer
from lograft.runtime.tasks.deadline import DEFAULT_TIMEOUT_MS

# From this size, splitting a message by hand costs less than the copies that the generated code makes.
_SPLIT_BYTES = 96 * 1024

_ITEMS = pb.ProduceRequest.ITEMS_FIELD_NUMBER
_BATCH = pb.ProduceRequest.Item.BATCH_FIELD_NUMBER

_ACKS = {pb.ACKS_ALL: Acks.ALL, pb.ACKS_LEADER: Acks.LEADER, pb.ACKS_NONE: Acks.NONE}


class ProduceItem(NamedTuple):
    """One batch to store."""

    number: int
    topic_id: bytes
    partition: int
    leader_epoch: int | None
    batch: Buffer


class ProduceMessage(NamedTuple):
    """One request. `refusal`: the error for all of its items, if none can be stored."""

    items: list[ProduceItem]
    acks: Acks
    timeout_ms: int
    client_id: str
    refusal: Exception | None = None


class UnreadableMessage(Exception):
    """Raised for bytes that are not a request, or for a request with too many items. It ends the stream."""


def read_produce(data: bytes, split_bytes: int = _SPLIT_BYTES) -> ProduceMessage:
    """Return the parsed request. Raise `UnreadableMessage` if it cannot be parsed."""
    try:
        request, items = _read_whole(data) if len(data) < split_bytes else _read_split(data, split_bytes)
    except (DecodeError, WireError) as error:
        raise UnreadableMessage(f"not a ProduceRequest: {error}") from None
    except ControllerError as error:
        raise UnreadableMessage(error.message) from None
    try:
        acks, timeout_ms = read_acks(request.acks), check_timeout(request.timeout_ms)
    except (ReplicaError, ControllerError) as refusal:
        return ProduceMessage(items, Acks.ALL, DEFAULT_TIMEOUT_MS, request.client_id, refusal)
    return ProduceMessage(items, acks, timeout_ms, request.client_id)


def _read_whole(data: bytes) -> tuple[pb.ProduceRequest, list[ProduceItem]]:
    request = pb.ProduceRequest.FromString(data)
    check_item_count(len(request.items), "batches")
    return request, [_item(item, item.batch) for item in request.items]


def _read_split(data: bytes, split_bytes: int) -> tuple[pb.ProduceRequest, list[ProduceItem]]:
    head, contents = cut_out(memoryview(data), _ITEMS)
    check_item_count(len(contents), "batches")
    return pb.ProduceRequest.FromString(head), [_read_item(content, split_bytes) for content in contents]


def _read_item(content: memoryview, split_bytes: int) -> ProduceItem:
    if len(content) < split_bytes:
        whole = pb.ProduceRequest.Item.FromString(bytes(content))
        return _item(whole, whole.batch)
    fields, batches = cut_out(content, _BATCH)
    # Of a repeated occurrence of a field, the last counts.
    return _item(pb.ProduceRequest.Item.FromString(fields), batches[-1] if batches else b"")


def _item(item: pb.ProduceRequest.Item, batch: Buffer) -> ProduceItem:
    epoch = epoch_given(item.leader_epoch, item.HasField("leader_epoch"))
    return ProduceItem(item.number, item.topic_id, item.partition, epoch, batch)


def read_acks(acks: pb.Acks) -> Acks:
    """Return the acks. Raise `ReplicaError` for an unknown number."""
    known = _ACKS.get(acks)
    if known is None:
        raise ReplicaError(
            errors_pb2.INVALID_REQUEST, f"acks cannot be {acks}: expected ACKS_ALL, ACKS_LEADER or ACKS_NONE"
        )
    return known
