"""The follower's role: this broker follows one leader of the partition, in one epoch.

Implements `replication.interfaces.Followed`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

from lograft.broker.replica.checked_reads import reading
from lograft.broker.replica.context import Assignment, ReplicaContext, ReplicaIdentity
from lograft.broker.replica.exclusive_operations import ExclusiveOperations
from lograft.broker.replication.follower_core import Acknowledge, FollowerCore, GiveUp, Matched, Subscribe, Truncate
from lograft.broker.replication.interfaces import AcknowledgementListener, ResetTo
from lograft.broker.replication.log_matching import TruncateTo
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, TopicId
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.errors import CorruptLog
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.log.replica_frame import ReplicaFrame


class FollowerRole:
    """Valid until `end`. Calls `watermark_moved` after the high watermark advances, `out_of_sync` when the replica is
    not in sync, and `found_corrupt` when the log is corrupt."""

    def __init__(
        self,
        identity: ReplicaIdentity,
        log: PartitionLog,
        operations: ExclusiveOperations,
        assignment: Assignment,
        high_watermark: int,
        context: ReplicaContext,
        watermark_moved: Callable[[], None],
        out_of_sync: Callable[[], None],
        found_corrupt: Callable[[CorruptLog], None],
    ) -> None:
        self.error: ReplicaError | None = None  # the reason, once the role has ended
        self.stream: AcknowledgementListener | None = None  # set by the stream that replicates this partition
        self.core = FollowerCore(log, assignment.partition, high_watermark)
        self._identity = identity
        self._log = log
        self._operations = operations
        self._context = context
        self._tell_watermark_moved = watermark_moved
        self._tell_out_of_sync = out_of_sync
        self._found_corrupt = found_corrupt
        self._traffic = context.traffic.of(identity.key)

    # -- state

    @property
    def topic_id(self) -> TopicId:
        return self._identity.key[0]

    @property
    def number(self) -> int:
        return self._identity.key[1]

    @property
    def leader_id(self) -> BrokerId:
        return self.core.leader

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.core.leader_epoch

    @property
    def directory_id(self) -> UUID:
        return self._identity.directory_id

    @property
    def lacks_room(self) -> bool:
        return not self._log.disk.space.takes_records(is_internal=self._identity.is_internal)

    @property
    def high_watermark(self) -> int:
        return self.core.high_watermark

    @property
    def is_in_sync(self) -> bool:
        """Return True if the image has the replica in the ISR, and it learns of every commit from its leader."""
        own, partition = self._identity, self.core.partition
        return (
            isinstance(self.core.state, Matched)
            and own.broker_id in partition.isr
            and partition.directory_of(own.broker_id) == own.directory_id
        )

    # -- changes of the image and the log

    def take(self, assignment: Assignment) -> None:
        """Apply an assignment with the same leader and epoch; the rest may differ."""
        self.core.image_changed(assignment.partition)
        if not self.is_in_sync:
            self._tell_out_of_sync()
        if self.stream is not None:
            self.stream.has_acknowledgement(self)

    def became_durable(self) -> None:
        """Note that `log.stable_end` has advanced."""
        if self.stream is not None:
            self.stream.has_acknowledgement(self)

    def end(self, error: ReplicaError) -> None:
        """End the role: acknowledge nothing from now on."""
        self.error = error
        self.core.end()
        self._context.sink.unfollow(self)

    # -- subscribing

    async def settle(self) -> None:
        while True:
            await self._log.disk.space.until_room(is_internal=self._identity.is_internal)
            await self._operations.until_idle()
            # Wait for all earlier disk requests, including those of cancelled operations.
            await self._log.disk.writer.call(lambda: None)
            await self._log.wait_stable(self._log.end_offset)
            if self.error is not None:
                raise self.error
            if self.core.may_subscribe and not self._has_lost_what_superseded():
                return
            if self.core.may_subscribe:
                self.core.starts_over()
                await self._cut(lambda: self._log.reset(0))

    def _has_lost_what_superseded(self) -> bool:
        checkpointed = self._log.checkpointed
        return self.core.has_lost_what_superseded(checkpointed.cleaned_below, checkpointed.cleaned_in_epoch)

    def subscribe(self, number: int) -> Subscribe:
        removed_below = self._log.checkpointed.tombstones_removed_below
        return replace(self.core.subscribe(number), tombstones_removed_below=removed_below)

    def unsubscribed(self, number: int) -> None:
        if self.core.unsubscribed(number):
            self._tell_out_of_sync()

    def matched(
        self, number: int, high_watermark: int, log_start: int, tombstones_removed_below: int, cleaned_below: int
    ) -> None:
        before = self.core.high_watermark
        if self.core.matched(number, high_watermark):
            if tombstones_removed_below > self._log.end_offset:
                self._log.note_tombstones_removed(tombstones_removed_below)
            if cleaned_below > self._log.end_offset:
                self._log.note_cleaned(cleaned_below, self.leader_epoch)
            self._heard(log_start, has_moved=self.core.high_watermark > before)

    async def truncate(self, number: int, order: TruncateTo) -> None:
        match self.core.parted(number, order.epoch, order.end_offset):
            case Truncate(offset=offset):
                await self._cut(lambda: self._log.truncate(offset))
            case GiveUp():
                await self._cut(lambda: self._log.reset(0))

    async def reset(self, number: int, order: ResetTo) -> None:
        if self.core.told_to_reset(number, order.start_offset):
            await self._cut(lambda: self._log.reset(order.start_offset, order.epochs, order.producers))

    async def _cut(self, cut: Callable[[], Awaitable[object]]) -> None:
        """Cut the log. After a cancellation it may be cut or not; the log's state is right, and `settle` waits for the
        disk."""
        try:
            async with self._operations.exclusively(), reading(self._log):
                # Lower the noted watermark before other records can replace those below it.
                await self._context.watermark_goes_back(self._identity.key, self.core.high_watermark)
                if self.error is None:
                    await cut()
        except CorruptLog as error:
            self._found_corrupt(error)
        finally:
            self.core.log_was_cut()

    # -- following

    def append(self, number: int, frame: ReplicaFrame, high_watermark: int, log_start: int) -> None:
        if not self.core.is_matched(number):
            return
        # The leader sends it again after `settle` has waited for space.
        self._log.disk.space.check(is_internal=self._identity.is_internal)
        self._log.append_as_follower(replace(frame, epochs=self.core.new_epochs(frame.epochs)))
        self._traffic.replicated_bytes_in += len(frame.batches)
        self._heard(log_start, has_moved=self.core.appended(high_watermark))

    def heard(self, number: int, high_watermark: int, log_start: int) -> None:
        if self.core.is_matched(number):
            self._heard(log_start, has_moved=self.core.heard_watermark(number, high_watermark))

    def _heard(self, log_start: int, *, has_moved: bool) -> None:
        """Delete the records that the leader has deleted, up to our own watermark. Followers apply no retention."""
        log, start_offset = self._log, min(log_start, self.core.high_watermark)
        if start_offset > log.start_offset:
            if start_offset == log.end_offset > log.segments.active.base_offset:
                log.roll()  # otherwise, a log deleted up to its end would keep its last segment
            log.delete_prefix(start_offset)
        if has_moved:
            self._tell_watermark_moved()

    def answers_barriers(self, number: int) -> bool:
        return self.error is None and self.core.is_matched(number)

    def acknowledgement(self) -> Acknowledge | None:
        return self.core.acknowledgement()

    async def room(self) -> None:
        await self._log.disk.writer.room()
