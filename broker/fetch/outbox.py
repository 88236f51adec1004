"""Outgoing data of a fetch stream, as messages. Pure."""

from collections.abc import Sequence

from lograft.broker.replica.interfaces import ServedReplica
from lograft.broker.replica.partition_lookup import known_watermark
from lograft.broker.requests.message_outbox import MessageOutbox
from lograft.proto import log_pb2 as pb
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.proto.wire_format import message_field
from lograft.runtime.files import Buffer
from lograft.storage.log.log_reader import Batches

_DATA = pb.FetchResponse.DATA_FIELD_NUMBER
_BATCHES = pb.FetchResponse.Data.BATCHES_FIELD_NUMBER


class FetchOutbox(MessageOutbox):
    """Encodes batches and errors as messages of a fetch stream."""

    def add_data(self, handle: int, seek: int, replica: ServedReplica, batches: Batches) -> None:
        """Add batches, with the partition's current watermark and log start."""
        fields = pb.FetchResponse.Data(
            handle=handle,
            seek=seek,
            next_offset=batches.next_offset,
            high_watermark=known_watermark(replica),
            log_start=replica.log_start,
        )
        self._add(fields, batches.buffers)

    def add_error(self, handle: int, seek: int, error: ErrorDetail) -> None:
        self._add(pb.FetchResponse.Data(handle=handle, seek=seek, error=error), ())

    def _add(self, fields: pb.FetchResponse.Data, batches: Sequence[Buffer]) -> None:
        self.add(message_field(_DATA, fields.SerializeToString(), _BATCHES, batches))
