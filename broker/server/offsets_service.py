"""`lograft.v1.Log/ListOffsets`: the first and last offsets of partitions, and offsets by timestamp."""

import asyncio
from collections.abc import Iterator, Mapping

from lograft.broker.replica.interfaces import OffsetKind, OffsetSpec
from lograft.broker.replica.partition_lookup import PartitionLookup, epoch_given
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import LIST_OFFSETS
from lograft.rpc.coded_error import ReplicaError
from lograft.rpc.request_limits import check_item_count
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler

# Searches by timestamp read from disk: run a few at a time, so that other requests get their turn.
_SEARCHES_AT_ONCE = 8

_KINDS = {
    pb.ListOffsetsRequest.EARLIEST: OffsetKind.EARLIEST,
    pb.ListOffsetsRequest.LATEST: OffsetKind.LATEST,
    pb.ListOffsetsRequest.AT_TIME: OffsetKind.AT_TIME,
    pb.ListOffsetsRequest.GREATEST_TIME: OffsetKind.GREATEST_TIME,
}


class OffsetsService:
    def __init__(self, logs: PartitionLookup) -> None:
        self._logs = logs

    def handlers(self) -> Mapping[str, Handler]:
        return {LIST_OFFSETS: unary(self._list, pb.ListOffsetsRequest)}

    async def _list(self, request: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        check_item_count(len(request.items), "partitions")
        response = pb.ListOffsetsResponse(results=[pb.ListOffsetsResponse.Result() for _ in request.items])
        questions = iter(zip(request.items, response.results, strict=True))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_SEARCHES_AT_ONCE, len(request.items))):
                group.create_task(self._answer_all(questions), name="list-offsets")
        return response

    async def _answer_all(
        self, questions: Iterator[tuple[pb.ListOffsetsRequest.Item, pb.ListOffsetsResponse.Result]]
    ) -> None:
        """Answer the remaining questions one by one. Several tasks share the iterator."""
        for item, result in questions:
            try:
                await self._answer(item, result)
            except SERVICE_ERRORS as error:
                result.Clear()
                result.error.CopyFrom(self._logs.detail(error))
            await asyncio.sleep(0)  # a search takes time even without waiting, and there may be thousands

    async def _answer(self, item: pb.ListOffsetsRequest.Item, result: pb.ListOffsetsResponse.Result) -> None:
        kind = _KINDS.get(item.kind)
        if kind is None:
            raise ReplicaError(
                errors_pb2.INVALID_REQUEST,
                f"kind cannot be {item.kind}: expected EARLIEST, LATEST, AT_TIME or GREATEST_TIME",
            )
        replica = self._logs.find_named(item.topic, item.topic_id, item.partition)
        replica.check_leads(epoch_given(item.leader_epoch, item.HasField("leader_epoch")))
        result.leader_epoch = replica.leader_epoch
        found = await replica.offsets(OffsetSpec(kind, item.timestamp))
        if found.offset is not None:
            result.offset = found.offset
        if found.timestamp_ms is not None:
            result.timestamp = found.timestamp_ms
