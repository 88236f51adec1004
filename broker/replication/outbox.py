"""A leader's outgoing orders, frames and watermarks, as messages to a follower. Pure."""

from collections.abc import Iterator

from google.protobuf.message import Message

from lograft.broker.replication.codec import epoch_messages, reset_message
from lograft.broker.replication.interfaces import OutgoingFrame, ResetTo
from lograft.broker.replication.log_matching import TruncateTo
from lograft.broker.requests.message_outbox import MessageOutbox
from lograft.proto import replication_pb2 as pb
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.proto.wire_format import field_head, message_field

_MATCHED = pb.ReplicateResponse.MATCHED_FIELD_NUMBER
_TRUNCATE = pb.ReplicateResponse.TRUNCATE_FIELD_NUMBER
_RESET = pb.ReplicateResponse.RESET_FIELD_NUMBER
_REFUSED = pb.ReplicateResponse.REFUSED_FIELD_NUMBER
_FRAMES = pb.ReplicateResponse.FRAMES_FIELD_NUMBER
_WATERMARKS = pb.ReplicateResponse.WATERMARKS_FIELD_NUMBER
_BATCHES = pb.ReplicaFrame.BATCHES_FIELD_NUMBER


class ReplicationOutbox(MessageOutbox):
    """Encodes a leader's messages to a follower. `frame_count`: the number of frames not taken yet."""

    def __init__(self) -> None:
        super().__init__()
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
        self.add(message_field(_FRAMES, fields.SerializeToString(), _BATCHES, frame.buffers))
        self.frame_count += 1

    def watermark(self, handle: int, high_watermark: int, log_start: int, barrier: int = 0) -> None:
        """Add a watermark. `barrier`: the number of the barrier that the follower must answer, or 0."""
        news = pb.ReplicaWatermark(handle=handle, high_watermark=high_watermark, log_start=log_start, barrier=barrier)
        self._add_message(_WATERMARKS, news)

    def take(self) -> Iterator[bytes]:
        self.frame_count = 0
        return super().take()

    def _add_message(self, number: int, message: Message) -> None:
        content = message.SerializeToString()
        self.add([field_head(number, len(content)) + content])
