"""What a fetch stream has to send, as messages: batches are copied once, into the message. Pure."""

from collections.abc import Iterator, Sequence

from lograft.broker.replica.interfaces import ServedReplica
from lograft.broker.replica.partition_lookup import known_watermark
from lograft.proto import log_pb2 as pb
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.proto.wire_format import message_field
from lograft.runtime.files import Buffer
from lograft.storage.log.log_reader import Batches

# What is put together goes into one message up to this. One batch may be as large as it likes: it goes alone then.
_MESSAGE_BYTES = 4 * 1024 * 1024

_DATA = pb.FetchResponse.DATA_FIELD_NUMBER
_BATCHES = pb.FetchResponse.Data.BATCHES_FIELD_NUMBER


class FetchOutbox:
    """In the order they were added."""

    def __init__(self) -> None:
        self._messages: list[list[Buffer]] = []
        self._last_bytes = 0
        self.size_bytes = 0

    def add_data(self, handle: int, seek: int, replica: ServedReplica, batches: Batches) -> None:
        """What was read, and how things are with the partition now."""
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
        parts = message_field(_DATA, fields.SerializeToString(), _BATCHES, batches)
        size = sum(map(len, parts))
        if not self._messages or self._last_bytes + size > _MESSAGE_BYTES:
            self._messages.append([])
            self._last_bytes = 0
        self._messages[-1] += parts
        self._last_bytes += size
        self.size_bytes += size

    def take(self) -> Iterator[bytes]:
        """All there is, a message at a time."""
        messages, self._messages = self._messages, []
        self.size_bytes = self._last_bytes = 0
        for parts in messages:
            yield b"".join(parts)
