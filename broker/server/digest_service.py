"""`lograft.v1.Log/DigestReplica`: digests of the partition's contents on this broker's disk."""

from collections.abc import Mapping

from lograft.broker.replica.interfaces import ServedReplica
from lograft.broker.replica.partition_lookup import PartitionLookup
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import DIGEST_REPLICA
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler
from lograft.runtime.world import Runtime
from lograft.storage.errors import OffsetOutOfRange
from lograft.storage.inspect.digests import batches_within, records_within
from lograft.storage.log.log_reader import Batches

# One answer covers a limited part of the log, so that other requests get their turn.
_READ_BYTES = 1024 * 1024
_ANSWER_BYTES = 16 * 1024 * 1024


class DigestService:
    def __init__(self, runtime: Runtime, logs: PartitionLookup) -> None:
        self._runtime = runtime
        self._logs = logs

    def handlers(self) -> Mapping[str, Handler]:
        return {DIGEST_REPLICA: unary(self._digest, pb.DigestReplicaRequest)}

    async def _digest(self, request: pb.DigestReplicaRequest) -> pb.DigestReplicaResponse:
        try:
            replica = self._logs.find(request.topic_id, request.partition)
            return await self._read(replica, request)
        except SERVICE_ERRORS as error:
            raise self._logs.stream_error(error) from None

    async def _read(self, replica: ServedReplica, request: pb.DigestReplicaRequest) -> pb.DigestReplicaResponse:
        response = pb.DigestReplicaResponse(log_start=replica.log_start, cleaned_below=replica.cleaned_below)
        position, size_bytes = max(request.start, replica.log_start), 0
        while position < request.end and size_bytes < _ANSWER_BYTES:
            try:
                found = await replica.read_stored(position, _READ_BYTES)
            except OffsetOutOfRange:
                break  # past the log's end, or deleted meanwhile: the next answer omits deleted offsets
            if not found.buffers:
                break
            await self._runtime.blocking.run_blocking(_add, response, request, found)
            position, size_bytes = found.next_offset, size_bytes + found.size_bytes
        response.next_offset = max(position, request.start)
        return response


def _add(response: pb.DigestReplicaResponse, request: pb.DigestReplicaRequest, found: Batches) -> None:
    if request.by_record:
        records = records_within(found.buffers, request.start, request.end)
        response.offsets.extend(records.offsets)
        response.keys.extend(records.keys)
        response.contents.extend(records.contents)
        headers = records.undecodable
    else:
        headers = batches_within(found.buffers, request.start, request.end)
    for header in headers:
        response.batches.add(
            base_offset=header.base_offset,
            next_offset=header.next_offset,
            leader_epoch=header.leader_epoch,
            size_bytes=header.total_bytes,
            crc=header.crc,
        )
