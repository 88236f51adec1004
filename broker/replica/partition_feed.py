"""The leader's side of a matched follower's feed."""

from typing import TYPE_CHECKING

from lograft.broker.replica.checked_reads import read_log
from lograft.broker.replication.follower_core import Acknowledge
from lograft.broker.replication.interfaces import FeedListener, OutgoingFrame
from lograft.broker.replication.leader_core import Subscription
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.errors import CorruptLog, LogClosed, OffsetOutOfRange
from lograft.storage.files.batch_scan import batch_bounds

if TYPE_CHECKING:
    from lograft.broker.replica.leader_role import LeaderRole


class PartitionFeed:
    """Valid until the follower's stream closes it or the leader ends it."""

    def __init__(self, leading: "LeaderRole", subscription: Subscription, listener: FeedListener) -> None:
        self.subscription = subscription
        self.listener = listener
        self.tombstones_removed_below = leading.log.checkpointed.tombstones_removed_below
        self.cleaned_below = leading.log.checkpointed.cleaned_below
        self._leading = leading
        self._log = leading.log
        self._error: ReplicaError | None = None
        self._is_closed = False

    @property
    def log_end(self) -> int:
        return self._log.end_offset

    @property
    def log_start(self) -> int:
        return self._log.deleted_below

    @property
    def high_watermark(self) -> int:
        return self._leading.high_watermark

    @property
    def is_throttled(self) -> bool:
        core, follower = self._leading.core, self.subscription.subscriber.broker_id
        return follower in core.partition.adding and follower not in core.isr.maximal

    def is_in_memory(self, start: int) -> bool:
        return start >= self._log.end_offset or self._log.tail.find(start) is not None

    async def read(self, start: int, max_bytes: int) -> OutgoingFrame | None:
        self._check()
        log = self._log
        if start >= log.end_offset:
            return None
        # A follower that begins with the batch that contains the log start is below it until it has that batch.
        at = max(start, log.start_offset)
        try:
            # A follower checks the batches, too, but cannot tell that the damage is on this broker.
            found = await read_log(log, at, max_bytes, verify=not self._leading.core.has_the_last_copy)
        except OffsetOutOfRange:
            self._start_passed()
        except CorruptLog as error:
            self._leading.found_corrupt(error)
        except LogClosed:
            self._fail(errors_pb2.NOT_LEADER, "the replica was closed")
        self._check()  # if the role ended during the read, the log may have changed since
        if at > start and found.buffers and batch_bounds(found.buffers[0], 0).base_offset > start:
            self._start_passed()
            self._check()
        if self._is_compacted_after(start):
            # A follower that has a deleted record, but not yet its tombstone, would never receive the tombstone.
            self._fail(errors_pb2.UNAVAILABLE, "the next batches were compacted: subscribe again")
            self._check()
        if not found.buffers:
            return None
        epochs = log.epochs.between(start, found.next_offset)
        frame = OutgoingFrame(start, found.next_offset, found.buffers, epochs)
        self._leading.traffic.replicated_bytes_out += frame.size_bytes
        return frame

    def _start_passed(self) -> None:
        """End the feed. When the follower subscribes again, the leader tells it to start over."""
        self._fail(errors_pb2.UNAVAILABLE, f"the log now starts at {self._log.start_offset}: subscribe again")

    def _is_compacted_after(self, start: int) -> bool:
        """Return whether compaction has changed the log from `start` since it was matched."""
        now = self._log.checkpointed
        return (
            start < now.tombstones_removed_below != self.tombstones_removed_below
            or start < now.cleaned_below != self.cleaned_below
        )

    def acknowledged(self, acknowledgement: Acknowledge) -> None:
        if self._error is None and not self._is_closed:
            self._leading.acknowledged(
                self,
                acknowledgement.leader_epoch,
                acknowledgement.partition_epoch,
                acknowledgement.end_offset,
            )

    @property
    def barrier(self) -> int:
        return self._leading.barrier_for(self.subscription.subscriber.broker_id)

    def tell_barrier(self) -> int:
        return self._leading.core.tell_barrier()

    def barrier_answered(self, leader_epoch: int, number: int) -> None:
        if self._error is None and not self._is_closed:
            self._leading.barrier_answered(self, leader_epoch, number)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._leading.unsubscribed(self)

    def end(self, error: ReplicaError) -> None:
        """End the feed from the leader's side."""
        if self._error is None:
            self._error = error
            if not self._is_closed:
                self.listener.ended(error)

    def _fail(self, code: errors_pb2.ErrorCode, message: str) -> None:
        self._leading.unsubscribed(self)
        self.end(self._leading.refusal(code, message))

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_closed:
            raise self._leading.refusal(errors_pb2.UNAVAILABLE, "the follower has unsubscribed")
