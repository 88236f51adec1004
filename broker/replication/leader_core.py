"""The leader's state of one partition in one leader epoch: the followers, the ISR, the high watermark. Pure.

core = LeaderCore(broker_id, partition, min_isr, LeaderLogEnds(...), high_watermark, lag_time_max_ms=..., now_ms=...)
subscription = core.subscribed(subscriber, leader_epoch, partition_epoch, end_offset, now_ms)
if core.matched(subscription, now_ms): ...              # the high watermark has advanced
if core.acknowledged(subscription, leader_epoch, partition_epoch, end_offset): ...
proposal = core.propose(image.brokers, now_ms)          # after each of these, and periodically
number = core.ask_barrier()                             # to confirm leadership, send the followers this number
core.barrier_answered(subscription, leader_epoch, number)
if core.passed_barrier >= number: ...                   # this broker led when `ask_barrier` was called

The core relies on its owner and on followers for these rules:
- The owner records the leader epoch in the log before creating the core, and truncates nothing while the core exists.
- A follower acknowledges only durable records, and nothing of an older epoch once it has subscribed under a newer one.
- A follower's process numbers its subscriptions in increasing order across all streams: the greatest is the latest.
- A subscription or acknowledgement carries the partition epoch that the follower knew when sending it. A corrupt
  replica sends nothing more until it is reported, and the report changes the partition epoch. So its earlier messages
  cannot bring it into the ISR afterwards, when it may have discarded everything.
- A follower answers a barrier only if it was following under that subscription when it received the barrier.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from lograft.broker.replication.isr_state import IsrAlterations, IsrState, PendingExpansion, ProposeIsr
from lograft.broker.replication.lag_history import LagHistory
from lograft.metadata.decisions.partitions.alter_isr import IsrMember
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, PartitionEpoch
from lograft.proto import errors_pb2
from lograft.proto.errors_pb2 import ErrorCode
from lograft.rpc.coded_error import ReplicaError

_UNMATCHED = -1


@dataclass(frozen=True, slots=True)
class LeaderLogEnds:
    """The offsets of the leader's log. `epoch_start`: where the leader's epoch begins."""

    start_offset: int
    epoch_start: int
    end_offset: int
    durable_end: int


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A subscribing follower: its process, the directory of its replica, and the subscription's `number` in that
    process."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    directory_id: UUID
    number: int


@dataclass(slots=True, eq=False)
class Subscription:
    """A follower's subscription. It counts only while it is matched and not over."""

    subscriber: Subscriber
    subscribed_end: int
    partition_epoch: PartitionEpoch
    end_offset: int = _UNMATCHED  # the durable end of the follower's copy of this log
    is_over: bool = False
    answers_barriers: bool = True
    barrier: int = 0  # the latest that the follower answered under it

    @property
    def is_matched(self) -> bool:
        return self.end_offset != _UNMATCHED


@dataclass(slots=True, eq=False)
class _Follower:
    """A follower of the partition.

    `caught_up_ms`: the latest known time at which it had the whole log; unchanged while it is not matched. `has_room`:
    False if it reported a full disk, and has not subscribed since."""

    broker_id: BrokerId
    caught_up_ms: int
    subscription: Subscription | None = None
    has_room: bool = True

    def end_offset_in(self, directory_id: UUID | None) -> int:
        """Return the durable end of its replica in that directory."""
        subscription = self.subscription
        if subscription is None or subscription.subscriber.directory_id != directory_id:
            return _UNMATCHED
        return subscription.end_offset

    def barrier_in(self, directory_id: UUID | None) -> int:
        """Return the latest barrier answered by its replica in that directory."""
        subscription = self.subscription
        if subscription is None or subscription.subscriber.directory_id != directory_id:
            return 0
        return subscription.barrier


class LeaderCore:
    """Invariants: high_watermark <= end_offset; durable_end <= end_offset; all replicas that may be in the ISR have all
    records below the high watermark."""

    def __init__(
        self,
        broker_id: BrokerId,
        partition: Partition,
        min_isr: int,
        ends: LeaderLogEnds,
        high_watermark: int,
        *,
        lag_time_max_ms: int,
        now_ms: int,
    ) -> None:
        assert partition.leader == broker_id
        assert ends.durable_end <= ends.end_offset
        assert ends.epoch_start <= ends.end_offset
        self.broker_id = broker_id
        self.partition = partition
        self.min_isr = min_isr
        self.epoch_start = ends.epoch_start
        self.end_offset = ends.end_offset
        self.durable_end = ends.durable_end
        # Only committed records are deleted, so a watermark below the log start was noted before the deletion.
        self.high_watermark = max(min(high_watermark, ends.end_offset), ends.start_offset)
        self._history = LagHistory(lag_time_max_ms)
        self._alterations = IsrAlterations(partition.isr, partition.partition_epoch)
        self._followers: dict[BrokerId, _Follower] = {}
        self._counted: list[_Follower] = []  # the maximal ISR without the leader
        self._joining_from: dict[BrokerId, UUID] = {}  # the directories in the latest request for an expansion
        self.barrier = 0  # the latest one requested
        self._is_barrier_told = True  # whether any follower was sent it
        self._note_replicas(now_ms)
        self._advance()

    # -- state

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.partition.leader_epoch

    @property
    def isr(self) -> IsrState:
        return self._alterations.state

    @property
    def has_enough_in_sync(self) -> bool:
        """Return whether enough replicas are in sync to acknowledge with acks=all. Otherwise the high watermark does
        not advance."""
        return len(self.isr.committed) >= self.min_isr

    @property
    def watermark_is_known(self) -> bool:
        """Return whether the high watermark has reached this epoch. Until then it may be below the one that an earlier
        leader reported to clients."""
        return self.high_watermark >= self.epoch_start

    @property
    def has_the_last_copy(self) -> bool:
        """Return True if no other replica may lead, so damaged data cannot be refetched, and the rest must be kept."""
        return not self.partition.elr and self.partition.isr == (self.broker_id,)

    @property
    def lag_time_max_ms(self) -> int:
        return self._history.span_ms

    @lag_time_max_ms.setter
    def lag_time_max_ms(self, value: int) -> None:
        self._history.span_ms = value

    @property
    def max_lag(self) -> int:
        """The lag, in records, of the matched follower that is furthest behind."""
        ends = [one.subscription.end_offset for one in self._followers.values() if one.subscription is not None]
        return max((self.end_offset - end for end in ends if end != _UNMATCHED), default=0)

    @property
    def has_laggards(self) -> bool:
        """Return whether any follower in the maximal ISR is not known to have the whole log."""
        return any(
            follower.end_offset_in(self._directory_of(follower.broker_id)) < self.end_offset
            for follower in self._counted
        )

    # -- the leader's log

    def appended(self, end_offset: int, now_ms: int) -> None:
        assert end_offset >= self.end_offset
        self._history.moves_on(self.end_offset, now_ms)
        self.end_offset = end_offset

    def own_durable(self, durable_end: int) -> bool:
        """Note the durable end of the leader's log. Return whether the high watermark has advanced. The leader's own
        copy counts once it is durable, as a follower's does."""
        assert self.durable_end <= durable_end <= self.end_offset
        self.durable_end = durable_end
        return self._advance()

    # -- messages of followers

    def subscribed(
        self,
        subscriber: Subscriber,
        leader_epoch: int,
        partition_epoch: PartitionEpoch,
        end_offset: int,
        now_ms: int,
        *,
        answers_barriers: bool = True,
    ) -> Subscription:
        """Add the subscription of a follower whose log durably ends at `end_offset`, and is not matched yet. End its
        previous one. Raise `ReplicaError` if it may not follow, or not yet."""
        follower = self._find(subscriber, leader_epoch)
        if follower.subscription is not None:
            self._check_is_later(subscriber, follower.subscription.subscriber)
            self.unsubscribed(follower.subscription, now_ms)
        follower.subscription = Subscription(subscriber, end_offset, partition_epoch, answers_barriers=answers_barriers)
        follower.has_room = True
        return follower.subscription

    def matched(self, subscription: Subscription, now_ms: int) -> bool:
        """Note that the follower's log is a prefix of the leader's. Return whether the high watermark has advanced."""
        if subscription.is_over:
            return False
        assert not subscription.is_matched
        assert subscription.subscribed_end <= self.end_offset, "a longer log is not a prefix"
        subscription.end_offset = subscription.subscribed_end
        self._note_caught_up(self._followers[subscription.subscriber.broker_id], now_ms)
        return self._advance()

    def acknowledged(
        self, subscription: Subscription, leader_epoch: int, partition_epoch: PartitionEpoch, end_offset: int
    ) -> bool:
        """Note that a follower durably has all records below `end_offset`. Return whether the high watermark has
        advanced.

        Ignore messages of another epoch, or of a subscription that is over. Raise `ReplicaError` if the follower
        acknowledges records that it was not sent.
        """
        if subscription.is_over or leader_epoch != self.leader_epoch:
            return False
        if not subscription.is_matched or end_offset > self.end_offset:
            raise self._refusal(
                errors_pb2.INVALID_REQUEST,
                f"broker {subscription.subscriber.broker_id} acknowledged offset {end_offset}, which was "
                "not sent to it",
            )
        if partition_epoch > subscription.partition_epoch:
            subscription.partition_epoch = partition_epoch
        if end_offset <= subscription.end_offset:
            return False
        subscription.end_offset = end_offset
        return self._advance()

    def unsubscribed(self, subscription: Subscription, now_ms: int) -> None:
        """End the subscription. Its acknowledgements no longer count."""
        if subscription.is_over:
            return
        self._note_caught_up(self._followers[subscription.subscriber.broker_id], now_ms)
        subscription.is_over = True
        subscription.end_offset = _UNMATCHED

    def without_room(self, broker_id: BrokerId, leader_epoch: int) -> bool:
        """Note that a follower accepts no records until its disk has space. Return `holds_up_writes`. Ignore messages
        of another epoch, or while the follower is subscribed."""
        follower = self._followers.get(broker_id)
        if follower is None or leader_epoch != self.leader_epoch:
            return False
        if follower.subscription is None or follower.subscription.is_over:
            follower.has_room = False
        return self.holds_up_writes

    @property
    def holds_up_writes(self) -> bool:
        """Return whether writes wait for a member of the ISR with a full disk, and there are enough others without
        it."""
        return bool(self._without_room())

    # -- barriers

    def ask_barrier(self) -> int:
        """Return a barrier that proves, once it is passed, that no other broker led at the time of this call. Calls
        share a barrier until it is sent to a follower."""
        if self._is_barrier_told:
            self.barrier += 1
            self._is_barrier_told = False
        return self.barrier

    def tell_barrier(self) -> int:
        """Return the barrier to send to a follower now. Later calls of `ask_barrier` get another one."""
        self._is_barrier_told = True
        return self.barrier

    def barrier_answered(self, subscription: Subscription, leader_epoch: int, number: int) -> None:
        """Note a follower's answer to a barrier. Ignore messages of another epoch, or of a subscription that is over.
        Raise `ReplicaError` if the barrier was not sent."""
        if subscription.is_over or leader_epoch != self.leader_epoch:
            return
        if not subscription.is_matched or number > self.barrier:
            raise self._refusal(
                errors_pb2.INVALID_REQUEST,
                f"broker {subscription.subscriber.broker_id} answered barrier {number}, which was not sent to it",
            )
        subscription.barrier = max(subscription.barrier, number)

    @property
    def passed_barrier(self) -> int:
        """The latest barrier answered by all replicas that may lead next, which are those of the maximal ISR. 0 while
        too few are in sync: then a replica that has left the ISR may lead next, too."""
        if not self.has_enough_in_sync:
            return 0
        passed = self.barrier
        for follower in self._counted:
            passed = min(passed, follower.barrier_in(self._directory_of(follower.broker_id)))
        return passed

    @property
    def barriers_are_answered(self) -> bool:
        """Return False if a follower that must answer barriers runs a version that does not."""
        return all(one.subscription is None or one.subscription.answers_barriers for one in self._counted)

    # -- the image

    def image_changed(self, partition: Partition, min_isr: int, now_ms: int) -> bool:
        """Apply a new image with the same leader and epoch; the rest may differ. Return whether the high watermark has
        advanced.

        End the subscriptions of brokers that are no longer replicas.
        """
        assert (partition.leader, partition.leader_epoch) == (self.broker_id, self.leader_epoch)
        assert partition.partition_epoch >= self.partition.partition_epoch, "an older image"
        self.min_isr = min_isr
        before = self.high_watermark
        if partition.partition_epoch > self.partition.partition_epoch:
            joined = [one for one in partition.isr if one not in self.partition.isr]
            self.partition = partition
            self._alterations.committed(partition.isr, partition.partition_epoch)
            self._note_replicas(now_ms)
            for broker_id in joined:  # it had all committed records; give it time to get the rest
                self._followers[broker_id].caught_up_ms = now_ms
        self._advance()
        return self.high_watermark > before

    # -- the ISR

    def propose(self, brokers: Mapping[BrokerId, Broker], now_ms: int) -> ProposeIsr | None:
        """Return the ISR to request from the controller, or None if no change is due. `brokers`: those of the image.

        Propose the next only after `alteration_accepted`, `alteration_refused` or `alteration_unknown` for this one.
        Joining replicas come first: below the minimum ISR nothing is acknowledged, so no replica leaves before another
        can take its place.
        """
        alterations = self._alterations
        if not alterations.may_ask(now_ms):
            return None
        state, ready = alterations.state, self._ready_to_join(brokers)
        if alterations.is_in_doubt:
            return self._end_doubt(ready, brokers)
        if ready:
            proposal = self._proposal((*state.committed, *ready), brokers)
            self._ask_to_expand(proposal, ready)
            return proposal
        if lagging := self._lagging(now_ms):
            proposal = self._proposal(tuple(one for one in state.committed if one not in lagging), brokers)
            alterations.ask_to_shrink(proposal, lagging)
            return proposal
        return None

    def alteration_accepted(self, proposal: ProposeIsr, partition_epoch: PartitionEpoch, now_ms: int) -> bool:
        """Note that the partition is now in that epoch; the image decides once it arrives. Return whether the high
        watermark has advanced."""
        self._alterations.accepted(proposal, partition_epoch, now_ms)
        return self._recount()

    def alteration_refused(self, proposal: ProposeIsr, now_ms: int) -> bool:
        """Note that the request was not carried out, and never will be. Return whether the high watermark has
        advanced."""
        self._alterations.refused(proposal, now_ms)
        return self._recount()

    def alteration_unknown(self, proposal: ProposeIsr, now_ms: int) -> None:
        """Note that the request may have been carried out, or still may be."""
        self._alterations.unknown(proposal, now_ms)

    def _end_doubt(self, ready: tuple[BrokerId, ...], brokers: Mapping[BrokerId, Broker]) -> ProposeIsr:
        alterations, state = self._alterations, self._alterations.state
        assert isinstance(state, PendingExpansion)
        if not alterations.was_refused and all(self._still_joins(one, ready) for one in state.joining):
            proposal = self._proposal((*state.committed, *ready), brokers)
            self._ask_to_expand(proposal, ready)
        else:
            proposal = self._proposal(state.committed, brokers)
            alterations.ask_to_confirm(proposal)
        return proposal

    def _ask_to_expand(self, proposal: ProposeIsr, ready: tuple[BrokerId, ...]) -> None:
        self._alterations.ask_to_expand(proposal, ready)
        self._joining_from = {member.broker_id: member.directory_id for member in proposal.isr}
        self._recount()

    def _still_joins(self, broker_id: BrokerId, ready: tuple[BrokerId, ...]) -> bool:
        """Return whether the replica is still ready, from the same directory. Another directory holds another replica,
        and the leader could not know which of the two is in the ISR."""
        subscription = self._followers[broker_id].subscription
        return (
            broker_id in ready
            and subscription is not None
            and subscription.subscriber.directory_id == self._joining_from[broker_id]
        )

    def _ready_to_join(self, brokers: Mapping[BrokerId, Broker]) -> tuple[BrokerId, ...]:
        committed = self._alterations.state.committed
        if len(committed) == len(self.partition.replicas):
            return ()
        return tuple(
            follower.broker_id
            for follower in self._followers.values()
            if follower.broker_id not in committed and self._is_ready(follower.subscription, brokers)
        )

    def _is_ready(self, subscription: Subscription | None, brokers: Mapping[BrokerId, Broker]) -> bool:
        """Return whether the follower has all records that may have been acknowledged, and whether, by the image, the
        controller would accept it into the ISR."""
        if subscription is None or subscription.end_offset < max(self.high_watermark, self.epoch_start):
            return False
        broker = brokers.get(subscription.subscriber.broker_id)
        return (
            broker is not None
            and broker.state is BrokerState.ACTIVE
            and broker.epoch == subscription.subscriber.broker_epoch
            and subscription.subscriber.directory_id in broker.directories
            and subscription.partition_epoch >= self.partition.partition_epoch
        )

    def _lagging(self, now_ms: int) -> tuple[BrokerId, ...]:
        """Return the followers that have lagged for too long, and those that hold up writes because their disk is
        full."""
        lagging = [*self._without_room()]
        for follower in self._counted:
            self._note_caught_up(follower, now_ms)
            if follower.broker_id not in lagging and now_ms - follower.caught_up_ms > self.lag_time_max_ms:
                lagging.append(follower.broker_id)
        return tuple(lagging)

    def _without_room(self) -> tuple[BrokerId, ...]:
        """Return the members of the ISR whose disks are full, if writes wait for them and the other members suffice. If
        the others do not suffice, keep them, because they may get space in time."""
        full = tuple(one.broker_id for one in self._counted if not one.has_room)
        if not full or self.high_watermark >= self.end_offset:
            return ()
        committed = self._alterations.state.committed
        staying = [one for one in committed if one not in full]
        return full if len(staying) >= self.min_isr else ()

    def _proposal(self, isr: tuple[BrokerId, ...], brokers: Mapping[BrokerId, Broker]) -> ProposeIsr:
        members = tuple(self._member(broker_id, brokers) for broker_id in isr)
        return ProposeIsr(self.leader_epoch, self.partition.partition_epoch, members)

    def _member(self, broker_id: BrokerId, brokers: Mapping[BrokerId, Broker]) -> IsrMember:
        if broker_id in self._alterations.state.committed:
            directory_id = self.partition.directory_of(broker_id)
            assert directory_id is not None
            return IsrMember(broker_id, brokers[broker_id].epoch, directory_id)
        subscription = self._followers[broker_id].subscription
        assert subscription is not None
        return IsrMember(broker_id, subscription.subscriber.broker_epoch, subscription.subscriber.directory_id)

    # -- the rest

    def _advance(self) -> bool:
        """Advance the high watermark if possible, and return whether it advanced. It advances nowhere else."""
        if not self.has_enough_in_sync:
            return False
        reached = self.durable_end
        for follower in self._counted:
            reached = min(reached, follower.end_offset_in(self._directory_of(follower.broker_id)))
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    def _directory_of(self, broker_id: BrokerId) -> UUID | None:
        """Return the directory of the replica that is, or may be, in the ISR. Replicas in other directories of the same
        broker do not count."""
        if broker_id in self._alterations.state.committed:
            return self.partition.directory_of(broker_id)
        return self._joining_from.get(broker_id)

    def _recount(self) -> bool:
        maximal = self._alterations.state.maximal
        self._counted = [self._followers[broker_id] for broker_id in maximal if broker_id != self.broker_id]
        return self._advance()

    def _note_replicas(self, now_ms: int) -> None:
        """Update the followers from the image. A new one gets the full lag time before it counts as lagging."""
        replica_ids = self.partition.replica_ids
        for follower in self._followers.values():
            if follower.broker_id not in replica_ids and follower.subscription is not None:
                self.unsubscribed(follower.subscription, now_ms)
        self._followers = {
            broker_id: self._followers.get(broker_id) or _Follower(broker_id, now_ms)
            for broker_id in replica_ids
            if broker_id != self.broker_id
        }
        self._recount()

    def _note_caught_up(self, follower: _Follower, now_ms: int) -> None:
        subscription = follower.subscription
        if subscription is None or not subscription.is_matched:
            return
        if subscription.subscriber.directory_id != self._directory_of(follower.broker_id):
            return
        has_all = subscription.end_offset >= self.end_offset
        caught_up_ms = now_ms if has_all else self._history.when_at(subscription.end_offset)
        if caught_up_ms is not None and caught_up_ms > follower.caught_up_ms:
            follower.caught_up_ms = caught_up_ms

    def _find(self, subscriber: Subscriber, leader_epoch: int) -> _Follower:
        if leader_epoch < self.leader_epoch:
            raise self._refusal(
                errors_pb2.FENCED_LEADER_EPOCH, f"the leader is now in epoch {self.leader_epoch}, not {leader_epoch}"
            )
        if leader_epoch > self.leader_epoch:
            raise self._refusal(
                errors_pb2.UNKNOWN_LEADER_EPOCH,
                f"epoch {leader_epoch} is not known yet; the latest is {self.leader_epoch}: try again",
            )
        follower = self._followers.get(subscriber.broker_id)
        if follower is None:
            raise self._refusal(
                errors_pb2.UNAVAILABLE,
                f"broker {subscriber.broker_id} is not known yet as a follower of this partition: try again",
            )
        return follower

    def _check_is_later(self, subscriber: Subscriber, earlier: Subscriber) -> None:
        if subscriber.broker_epoch < earlier.broker_epoch:
            raise self._refusal(
                errors_pb2.STALE_BROKER_EPOCH,
                f"broker {subscriber.broker_id} has subscribed in broker epoch {earlier.broker_epoch}, "
                f"later than {subscriber.broker_epoch}",
            )
        if (subscriber.broker_epoch, subscriber.number) <= (earlier.broker_epoch, earlier.number):
            raise self._refusal(
                errors_pb2.INVALID_REQUEST,
                f"subscription {subscriber.number} of broker {subscriber.broker_id} was superseded by {earlier.number}",
            )

    def _refusal(self, code: ErrorCode, message: str) -> ReplicaError:
        return ReplicaError(code, message, leader_id=self.broker_id, leader_epoch=self.leader_epoch)
