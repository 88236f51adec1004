"""What a leader has to say to a follower, as messages: batches are copied once, into the message. Pure."""

from collections.abc import Iterator, Sequence

from google.protobuf.message import Message

from lograft.broker.replication.codec import epoch_messages, reset_message
from lograft.broker.replication.interfaces import OutgoingFrame, ResetTo
from lograft.broker.replication.log_matching import TruncateTo
from lograft.proto import replication_pb2 as pb
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.proto.wire_format import field_head, message_field
from lograft.runtime.files import Buffer

# What is put together goes into one message up to this. One batch may be as large as it likes: it goes alone then.
_MESSAGE_BYTES = 4 * 1024 * 1024

_MATCHED = pb.ReplicateResponse.MATCHED_FIELD_NUMBER
_TRUNCATE = pb.ReplicateResponse.TRUNCATE_FIELD_NUMBER
_RESET = pb.ReplicateResponse.RESET_FIELD_NUMBER
_REFUSED = pb.ReplicateResponse.REFUSED_FIELD_NUMBER
_FRAMES = pb.ReplicateResponse.FRAMES_FIELD_NUMBER
_WATERMARKS = pb.ReplicateResponse.WATERMARKS_FIELD_NUMBER
_BATCHES = pb.ReplicaFrame.BATCHES_FIELD_NUMBER


class ReplicationOutbox:
    """In the order they were added. `size_bytes` and `frame_count`: of what is there now."""

    def __init__(self) -> None:
        self._messages: list[list[Buffer]] = []
        self._last_bytes = 0
        self.size_bytes = 0
        self.frame_count = 0

    def matched(
        self, handle: int, high_watermark: int, log_start: int, tombstones_removed_below: int, cleaned_below: int
    ) -> None:
        self._add_message(
            _MATCHED,
            pb.ReplicaMatched(
                handle=handle,
                high_watermark=high_watermark,
                log_start=log_start,
                tombstones_removed_below=tombstones_removed_below,
                cleaned_below=cleaned_below,
            ),
        )

    def truncate(self, handle: int, order: TruncateTo) -> None:
        self._add_message(_TRUNCATE, pb.ReplicaTruncate(handle=handle, epoch=order.epoch, end_offset=order.end_offset))

    def reset(self, handle: int, order: ResetTo) -> None:
        self._add_message(_RESET, reset_message(handle, order))

    def refused(self, handle: int, error: ErrorDetail) -> None:
        self._add_message(_REFUSED, pb.ReplicaRefused(handle=handle, error=error))

    def frame(self, handle: int, frame: OutgoingFrame, high_watermark: int, log_start: int) -> None:
        fields = pb.ReplicaFrame(
            handle=handle,
            start=frame.start,
            end=frame.end,
            epochs=epoch_messages(frame.epochs),
            high_watermark=high_watermark,
            log_start=log_start,
        )
        self._add(message_field(_FRAMES, fields.SerializeToString(), _BATCHES, frame.buffers))
        self.frame_count += 1

    def watermark(self, handle: int, high_watermark: int, log_start: int, barrier: int = 0) -> None:
        """`barrier`: one to be answered, or 0."""
        news = pb.ReplicaWatermark(handle=handle, high_watermark=high_watermark, log_start=log_start, barrier=barrier)
        self._add_message(_WATERMARKS, news)

    def take(self) -> Iterator[bytes]:
        """All there is, a message at a time."""
        messages, self._messages = self._messages, []
        self.size_bytes = self._last_bytes = self.frame_count = 0
        for parts in messages:
            yield b"".join(parts)

    def _add_message(self, number: int, message: Message) -> None:
        content = message.SerializeToString()
        self._add([field_head(number, len(content)) + content])

    def _add(self, parts: Sequence[Buffer]) -> None:
        size = sum(map(len, parts))
        if not self._messages or self._last_bytes + size > _MESSAGE_BYTES:
            self._messages.append([])
            self._last_bytes = 0
        self._messages[-1] += parts
        self._last_bytes += size
        self.size_bytes += size
