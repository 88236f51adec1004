"""The leader's role in one epoch of a partition: appends, acknowledgements, followers and the ISR."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import TypeVar

from lograft.broker.replica.append_waiters import AppendWaiter, AppendWaiters
from lograft.broker.replica.checked_reads import reading
from lograft.broker.replica.context import Assignment, ReplicaContext, ReplicaIdentity
from lograft.broker.replica.interfaces import Acks, Appended
from lograft.broker.replica.partition_feed import PartitionFeed
from lograft.broker.replica.producer_history import producers_at
from lograft.broker.replication.follower_core import Subscribe
from lograft.broker.replication.interfaces import FeedListener, ResetTo
from lograft.broker.replication.isr_requests import Accepted, IsrAnswer, IsrOutcomeUnknown, IsrRefused
from lograft.broker.replication.isr_state import RETRY_MS, ProposeIsr
from lograft.broker.replication.leader_core import LeaderCore, LeaderLogEnds, Subscriber
from lograft.broker.replication.log_matching import Prefix, Reset, TruncateTo, match
from lograft.metadata.image.partition import BrokerId, PartitionEpoch
from lograft.proto import errors_pb2
from lograft.proto.errors_pb2 import ErrorCode
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.errors import CorruptLog, DiskFull, LogClosed, ProducerError
from lograft.storage.log.admission import Admitted
from lograft.storage.log.partition_log import PartitionLog

T = TypeVar("T")

HAND_OVER_MS = 3000
"""How long a leader on a full disk asks producers to retry. The controller needs less to hand over leadership."""


class LeaderRole:
    """Valid until `end`. Calls `watermark_moved` after the high watermark advances, and `found_corrupt` when the log is
    corrupt."""

    def __init__(
        self,
        identity: ReplicaIdentity,
        log: PartitionLog,
        assignment: Assignment,
        high_watermark: int,
        context: ReplicaContext,
        watermark_moved: Callable[[], None],
        found_corrupt: Callable[[CorruptLog], None],
    ) -> None:
        self.log = log
        self.error: ReplicaError | None = None  # the reason, once the role has ended
        self.found_corrupt = found_corrupt
        self.traffic = context.traffic.of(identity.key)
        self._identity = identity
        self._context = context
        self._tell_watermark_moved = watermark_moved
        self._for_watermark = AppendWaiters()
        self._for_disk = AppendWaiters()
        self._alarm_ms: int | None = None  # the earliest deadline of a waiting batch
        self._lag_alarm_ms: int | None = None  # the next check of the followers
        self._feeds: dict[BrokerId, PartitionFeed] = {}
        self._full_since_ms: int | None = None  # when it first refused a batch for lack of space; None after a success
        self._for_barrier: list[tuple[int, asyncio.Future[bool | ReplicaError]]] = []  # in order of barrier number
        partition = assignment.partition
        # Record the epoch first, so that it precedes the epoch's batches in the disk's queue.
        log.assign_epoch(partition.leader_epoch)
        if log.end_offset < log.checkpointed.cleaned_below:
            # After an unclean election, this log may lack both superseded records and those that superseded them.
            # Followers that still have the superseded ones must start over.
            log.note_tombstones_removed(log.checkpointed.cleaned_below)
            log.note_cleaned(log.checkpointed.cleaned_below, partition.leader_epoch)
        latest = log.epochs.latest
        assert latest is not None
        assert latest.epoch == partition.leader_epoch
        self.core = LeaderCore(
            identity.broker_id,
            partition,
            assignment.min_isr,
            LeaderLogEnds(log.start_offset, latest.start_offset, log.end_offset, log.stable_end),
            high_watermark,
            lag_time_max_ms=assignment.lag_time_max_ms,
            now_ms=context.clock.monotonic_ms(),
        )
        self._watch_followers()

    @property
    def high_watermark(self) -> int:
        return self.core.high_watermark

    # -- appending

    def begin_append(
        self, batch: Admitted, acks: Acks, timeout_ms: int, when_stored: Callable[[], None] | None = None
    ) -> AppendWaiter:
        """Append without an await between the checks and the offset. Pass storage's errors through."""
        core, log = self.core, self.log
        if acks is Acks.ALL and not core.has_enough_in_sync:
            raise self._refusal(errors_pb2.NOT_ENOUGH_REPLICAS, "nothing was appended: try again")
        self._check_room(batch)
        stored = log.append_as_leader(batch, core.leader_epoch)
        now_ms = self._context.clock.monotonic_ms()
        if not stored.is_duplicate:
            core.appended(log.end_offset, now_ms)
            if core.holds_up_writes:
                self.propose()
            self.traffic.took_in(len(batch.batch), batch.header.record_count)
            if self._lag_alarm_ms is None:
                self._watch_followers()
            self._tell_feeds()
        appended = Appended(stored.base_offset, stored.append_time, log.start_offset)
        deadline_ms = now_ms + timeout_ms
        pending = AppendWaiter(appended, stored.next_offset, deadline_ms)
        if when_stored is not None:
            locally = AppendWaiter(appended, stored.next_offset, deadline_ms)
            locally.add_done_callback(when_stored)
            self._await_acknowledgement(locally, Acks.LEADER)
        self._await_acknowledgement(pending, acks)
        return pending

    def _await_acknowledgement(self, pending: AppendWaiter, acks: Acks) -> None:
        if self._is_acknowledged(acks, pending.next_offset):
            pending.acknowledge()
        else:
            (self._for_watermark if acks is Acks.ALL else self._for_disk).add(pending)
            self._set_alarm(pending.deadline_ms)

    def _check_room(self, batch: Admitted) -> None:
        """Raise if the disk is full: LEADER_NOT_AVAILABLE, which producers retry, while another replica with space may
        take over leadership, otherwise DISK_FULL. Allow a duplicate of a stored batch, which needs no space."""
        try:
            self.log.disk.space.check(is_internal=self._identity.is_internal)
        except DiskFull as error:
            if not self._is_stored(batch):
                code = errors_pb2.LEADER_NOT_AVAILABLE if self._may_be_handed_over() else errors_pb2.DISK_FULL
                broker = f"broker {self._identity.broker_id}, the leader of {self._identity.name}"
                raise self.refusal(code, f"{broker} stored nothing: {error}") from None
        else:
            self._full_since_ms = None

    def _may_be_handed_over(self) -> bool:
        """Return whether the controller may be moving leadership to another replica. This holds only for a while,
        because this broker does not know whether the others have space. Group coordinators handle a full disk
        themselves."""
        core, now_ms = self.core, self._context.clock.monotonic_ms()
        if self._full_since_ms is None:
            self._full_since_ms = now_ms
        others = len(core.isr.committed) - 1
        is_possible = others >= core.min_isr and not self._identity.is_internal
        return is_possible and now_ms - self._full_since_ms < HAND_OVER_MS

    def _is_stored(self, batch: Admitted) -> bool:
        try:
            return self.log.producers.check(batch.header) is not None
        except ProducerError:
            return False  # an earlier batch was refused, so this one is not stored

    def _is_acknowledged(self, acks: Acks, next_offset: int) -> bool:
        match acks:
            case Acks.ALL:
                return self.core.high_watermark >= next_offset
            case Acks.LEADER:
                return self.log.stable_end >= next_offset
            case Acks.NONE:
                return True

    def _set_alarm(self, deadline_ms: int) -> None:
        """Set one alarm for all waiting batches, unless an earlier one is set. It is renewed while any batch waits."""
        if self._alarm_ms is None or deadline_ms < self._alarm_ms:
            self._alarm_ms = deadline_ms
            self._context.alarms.ring_at(deadline_ms, self._expire)

    def _expire(self) -> None:
        now_ms = self._context.clock.monotonic_ms()
        if self._alarm_ms is None or now_ms < self._alarm_ms:
            return  # an earlier alarm has replaced it
        self._alarm_ms = None
        for waiters in (self._for_watermark, self._for_disk):
            waiters.expire(now_ms, self._time_is_over)
        deadlines_ms = chain(self._for_watermark.deadlines_ms(), self._for_disk.deadlines_ms())
        earliest_ms = min(deadlines_ms, default=None)
        if earliest_ms is not None:
            self._set_alarm(earliest_ms)

    def _time_is_over(self) -> ReplicaError:
        return self.refusal(
            errors_pb2.TIMED_OUT,
            f"{self._identity.name} has the batch, but not yet on enough replicas: send it again with the "
            "same sequence",
        )

    # -- the high watermark

    def became_durable(self) -> None:
        """Note that `log.stable_end` has advanced."""
        has_moved = self.core.own_durable(self.log.stable_end)
        self._for_disk.reached(self.log.stable_end)
        if has_moved:
            self._watermark_moved()
        self._propose_if_incomplete()

    def take(self, assignment: Assignment) -> None:
        """Apply an assignment of the same epoch; the rest may differ."""
        core = self.core
        if assignment.lag_time_max_ms != core.lag_time_max_ms:
            core.lag_time_max_ms = assignment.lag_time_max_ms
            self._lag_alarm_ms = None  # set by the previous value, it may be too late
        if core.image_changed(assignment.partition, assignment.min_isr, self._context.clock.monotonic_ms()):
            self._watermark_moved()
        if not core.has_enough_in_sync and len(self._for_watermark):
            self._for_watermark.fail(
                self._refusal(
                    errors_pb2.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "the batch may or may not be committed later"
                )
            )
        for feed in [feed for feed in self._feeds.values() if feed.subscription.is_over]:
            self._end_feed(feed, self.refusal(errors_pb2.UNAVAILABLE, "the broker no longer has a replica"))
        self._look_at_barriers()
        self.propose()
        self._watch_followers()

    def _watermark_moved(self) -> None:
        self._for_watermark.reached(self.core.high_watermark)
        self._tell_feeds()
        self._tell_watermark_moved()

    def start_moved(self) -> None:
        """Note that `log.start_offset` has advanced."""
        self._tell_feeds()

    def _tell_feeds(self) -> None:
        for feed in self._feeds.values():
            feed.listener.has_news()

    # -- followers

    async def subscribe(
        self, subscriber: Subscriber, request: Subscribe, listener: FeedListener
    ) -> "PartitionFeed | TruncateTo | ResetTo":
        first_base = await self._first_base()
        core, log, now_ms = self.core, self.log, self._context.clock.monotonic_ms()
        subscription = core.subscribed(
            subscriber,
            request.leader_epoch,
            request.partition_epoch,
            request.end_offset,
            now_ms,
            answers_barriers=request.answers_barriers,
        )
        self._look_at_barriers()
        self._watch_followers()
        earlier = self._feeds.get(subscriber.broker_id)
        if earlier is not None:
            self._end_feed(earlier, self.refusal(errors_pb2.UNAVAILABLE, "the follower has subscribed again"))
        removed_below = log.checkpointed.tombstones_removed_below
        if request.tombstones_removed_below >= removed_below:
            removed_below = 0  # the follower, too, has removed the records that these tombstones deleted
        answer = match(log, removed_below, request.last_epoch, request.end_offset, first_base)
        match answer:
            case Prefix():
                feed = self._feeds[subscriber.broker_id] = PartitionFeed(self, subscription, listener)
                if core.matched(subscription, now_ms):
                    self._watermark_moved()
                self._propose_if_incomplete()
                return feed
            case TruncateTo():
                return answer
            case Reset(start_offset=start_offset, epochs=epochs):
                return ResetTo(start_offset, epochs, await self._producers_at(start_offset))

    async def _first_base(self) -> int:
        """Return the base offset of the log's first batch, where a copy begins. Later frames carry the log start."""
        return await self._read(self.log.first_base(), self.log.start_offset)

    async def _producers_at(self, offset: int) -> bytes:
        return await self._read(producers_at(self.log, offset), b"")

    async def _read(self, found: Awaitable[T], nothing: T) -> T:
        """Await a read of the log, and return its result. Raise if the role ended meanwhile."""
        try:
            async with reading(self.log):
                nothing = await found
        except CorruptLog as error:
            self.found_corrupt(error)
        except LogClosed:
            assert self.error is not None, "a log is closed only after leadership ended"
        self.check()
        return nothing

    def acknowledged(
        self, feed: PartitionFeed, leader_epoch: int, partition_epoch: PartitionEpoch, end_offset: int
    ) -> None:
        if self.core.acknowledged(feed.subscription, leader_epoch, partition_epoch, end_offset):
            self._watermark_moved()
        self._propose_if_incomplete()

    def has_no_room(self, follower: BrokerId, leader_epoch: int) -> None:
        """Note that the follower's disk is full, and that it accepts no records until there is space."""
        if self.error is None and self.core.without_room(follower, leader_epoch):
            self.propose()

    # -- barriers

    def confirm(self) -> "asyncio.Future[bool | ReplicaError]":
        """Ask all replicas that may lead next to confirm that this broker leads.

        Return a future: True once all have answered, so no other broker led at the time of the call; False if one of
        them does not answer barriers; an error if the outcome is unknown."""
        core = self.core
        self.check()
        if not core.has_enough_in_sync:
            raise self._refusal(errors_pb2.NOT_ENOUGH_REPLICAS, "another broker may lead now: try again")
        confirmed: asyncio.Future[bool | ReplicaError] = asyncio.get_running_loop().create_future()
        self._for_barrier.append((core.ask_barrier(), confirmed))
        self._tell_feeds()
        self._look_at_barriers()
        return confirmed

    def barrier_for(self, follower: BrokerId) -> int:
        """Return the barrier that the follower must answer, or 0 if no call waits for it."""
        return self.core.barrier if self._for_barrier and follower in self.core.isr.maximal else 0

    def barrier_answered(self, feed: PartitionFeed, leader_epoch: int, number: int) -> None:
        self.core.barrier_answered(feed.subscription, leader_epoch, number)
        self._look_at_barriers()

    def _look_at_barriers(self) -> None:
        """Settle waiting calls if possible, after a follower's answer or a change of the required followers."""
        if not self._for_barrier:
            return
        core = self.core
        if not core.has_enough_in_sync:
            self._end_barriers(self._refusal(errors_pb2.NOT_ENOUGH_REPLICAS, "another broker may lead now: try again"))
        elif not core.barriers_are_answered:
            self._end_barriers(False)
        else:
            passed = core.passed_barrier
            while self._for_barrier and self._for_barrier[0][0] <= passed:
                _settle(self._for_barrier.pop(0)[1], True)

    def _end_barriers(self, outcome: bool | ReplicaError) -> None:
        waiting, self._for_barrier = self._for_barrier, []
        for _, confirmed in waiting:
            _settle(confirmed, outcome)

    # -- followers leave

    def unsubscribed(self, feed: PartitionFeed) -> None:
        if self.error is None:
            self.core.unsubscribed(feed.subscription, self._context.clock.monotonic_ms())
            self._forget(feed)
            self._watch_followers()

    def _end_feed(self, feed: PartitionFeed, error: ReplicaError) -> None:
        self._forget(feed)
        feed.end(error)

    def _forget(self, feed: PartitionFeed) -> None:
        broker_id = feed.subscription.subscriber.broker_id
        if self._feeds.get(broker_id) is feed:
            del self._feeds[broker_id]

    # -- the ISR

    def propose(self) -> None:
        """Propose another ISR if one is due. Call it also when the state of a broker has changed."""
        proposal = self.core.propose(self._context.brokers(), self._context.clock.monotonic_ms())
        if proposal is not None:
            self._context.ask_for_isr(self._identity.key, proposal, self)
            self._tell_feeds()  # a joining follower counts from now on, and is no longer throttled

    def _propose_if_incomplete(self) -> None:
        """Propose another ISR if a follower may have caught up. The timer detects followers that fall behind."""
        if len(self.core.isr.committed) < len(self.core.partition.replicas):
            self.propose()

    def _watch_followers(self) -> None:
        """Set an alarm to check for followers that are too far behind, while any is behind at all. Keep only one
        alarm."""
        if self.core.has_laggards:
            look_ms = self._context.clock.monotonic_ms() + self.core.lag_time_max_ms // 2
            if self._lag_alarm_ms is None or look_ms < self._lag_alarm_ms:
                self._lag_alarm_ms = look_ms
                self._context.alarms.ring_at(look_ms, self._look_at_followers)

    def _look_at_followers(self) -> None:
        if self.error is not None or self._lag_alarm_ms is None:
            return
        if self._context.clock.monotonic_ms() >= self._lag_alarm_ms:  # otherwise a later alarm is set
            self._lag_alarm_ms = None
            self.propose()
            self._watch_followers()

    def isr_answered(self, proposal: ProposeIsr, answer: IsrAnswer) -> None:
        if self.error is not None:
            return
        core, now_ms = self.core, self._context.clock.monotonic_ms()
        has_moved = False
        match answer:
            case Accepted(partition_epoch=partition_epoch):
                has_moved = core.alteration_accepted(proposal, partition_epoch, now_ms)
            case IsrRefused():
                has_moved = core.alteration_refused(proposal, now_ms)
            case IsrOutcomeUnknown():
                core.alteration_unknown(proposal, now_ms)
        if has_moved:
            self._watermark_moved()
        self._look_at_barriers()
        self._context.alarms.ring_at(now_ms + RETRY_MS, self._propose_again)

    def _propose_again(self) -> None:
        if self.error is None:
            self.propose()

    # -- the end

    def end(self, error: ReplicaError) -> None:
        """End the role: append and acknowledge nothing from now on. Fail waiting batches, whose outcome is unknown."""
        self.error = error
        for waiters in (self._for_watermark, self._for_disk):
            waiters.fail(error)
        self._end_barriers(error)
        feeds, self._feeds = self._feeds, {}
        for feed in feeds.values():
            feed.end(error)

    def check(self) -> None:
        """Raise if the role has ended."""
        if self.error is not None:
            raise self.error

    def refusal(self, code: ErrorCode, message: str) -> ReplicaError:
        broker_id, epoch = self._identity.broker_id, self.core.leader_epoch
        return ReplicaError(code, message, leader_id=broker_id, leader_epoch=epoch)

    def _refusal(self, code: ErrorCode, consequence: str) -> ReplicaError:
        in_sync = len(self.core.isr.committed)
        return self.refusal(
            code,
            f"{in_sync} replicas of {self._identity.name} are in sync, but {self.core.min_isr} are "
            f"required: {consequence}",
        )


def _settle(confirmed: "asyncio.Future[bool | ReplicaError]", outcome: bool | ReplicaError) -> None:
    if not confirmed.done():  # the call may have been cancelled
        confirmed.set_result(outcome)
