"""One partition as its leader knows it, in one leader epoch: the followers, the ISR, the high watermark. Pure.

core = LeaderCore(broker_id, partition, min_isr, LeaderLogEnds(...), high_watermark, lag_time_max_ms=..., now_ms=...)
subscription = core.subscribed(subscriber, leader_epoch, partition_epoch, end_offset, now_ms)
if core.matched(subscription, now_ms): ...              # the high watermark has moved
if core.acknowledged(subscription, leader_epoch, partition_epoch, end_offset): ...
proposal = core.propose(image.brokers, now_ms)          # after each of these, and now and then
number = core.ask_barrier()                             # is this still the leader? Followers are sent the number
core.barrier_answered(subscription, leader_epoch, number)
if core.passed_barrier >= number: ...                   # it was when `ask_barrier` was called

What it rests on, and the owner sees to:
- the log's epoch is recorded before the core is made, and nothing is truncated while there is one;
- a follower says only what is durable, and says nothing of an older epoch once it has subscribed under a newer one;
- a follower's process numbers its subscriptions upwards, on whatever stream they go: the greatest number is the latest;
- a subscription, and an acknowledgement, carries the partition epoch that the follower knew when it was said. A replica
  that turns out to be corrupt says nothing more before it is reported, and the report brings another partition epoch:
  so what it said before cannot bring it into the ISR after, when it may have discarded everything.
- a follower answers a barrier only if it followed under that subscription when it received it.
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
    """Of the leader's log. `epoch_start`: where the leader's epoch began."""

    start_offset: int
    epoch_start: int
    end_offset: int
    durable_end: int


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Who subscribes: the process, where it has its replica, and its `number`th subscription of all."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    directory_id: UUID
    number: int


@dataclass(slots=True, eq=False)
class Subscription:
    """A follower's. It counts for nothing until it is matched, and nothing more once it is over."""

    subscriber: Subscriber
    subscribed_end: int
    partition_epoch: PartitionEpoch
    end_offset: int = _UNMATCHED  # what the follower has, durably, of this leader's log
    is_over: bool = False
    answers_barriers: bool = True
    barrier: int = 0  # the latest that was answered on it

    @property
    def is_matched(self) -> bool:
        return self.end_offset != _UNMATCHED


@dataclass(slots=True, eq=False)
class _Follower:
    """`caught_up_ms`: when it last had all there was, as far as is known; it stands still while it is not matched.
    `has_room` False: its disk is full, and it has not subscribed since."""

    broker_id: BrokerId
    caught_up_ms: int
    subscription: Subscription | None = None
    has_room: bool = True

    def end_offset_in(self, directory_id: UUID | None) -> int:
        """What it has in that directory."""
        subscription = self.subscription
        if subscription is None or subscription.subscriber.directory_id != directory_id:
            return _UNMATCHED
        return subscription.end_offset

    def barrier_in(self, directory_id: UUID | None) -> int:
        """The latest it has answered from there."""
        subscription = self.subscription
        if subscription is None or subscription.subscriber.directory_id != directory_id:
            return 0
        return subscription.barrier


class LeaderCore:
    """Invariants: high_watermark <= end_offset, durable_end <= end_offset; whoever may be in the ISR has all below the
    high watermark."""

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
        # What was deleted was committed: a watermark below the log's start was noted before that.
        self.high_watermark = max(min(high_watermark, ends.end_offset), ends.start_offset)
        self._history = LagHistory(lag_time_max_ms)
        self._alterations = IsrAlterations(partition.isr, partition.partition_epoch)
        self._followers: dict[BrokerId, _Follower] = {}
        self._counted: list[_Follower] = []  # those of the maximal ISR but the leader
        self._joining_from: dict[BrokerId, UUID] = {}  # the directories that the latest wish to expand named
        self.barrier = 0  # the latest that was asked for
        self._is_barrier_told = True  # to any follower
        self._note_replicas(now_ms)
        self._advance()

    # -- what is known

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.partition.leader_epoch

    @property
    def isr(self) -> IsrState:
        return self._alterations.state

    @property
    def has_enough_in_sync(self) -> bool:
        """May records be acknowledged to who wants them on all replicas in sync? While not, the watermark stands."""
        return len(self.isr.committed) >= self.min_isr

    @property
    def watermark_is_known(self) -> bool:
        """Until then it may be behind what clients were told by an earlier leader."""
        return self.high_watermark >= self.epoch_start

    @property
    def has_the_last_copy(self) -> bool:
        """May nobody else lead? Then what is damaged here is not to be had elsewhere, and the rest is better than
        nothing."""
        return not self.partition.elr and self.partition.isr == (self.broker_id,)

    @property
    def lag_time_max_ms(self) -> int:
        return self._history.span_ms

    @lag_time_max_ms.setter
    def lag_time_max_ms(self, value: int) -> None:
        self._history.span_ms = value

    @property
    def max_lag(self) -> int:
        """What the follower that is furthest behind does not have, of those that are matched."""
        ends = [one.subscription.end_offset for one in self._followers.values() if one.subscription is not None]
        return max((self.end_offset - end for end in ends if end != _UNMATCHED), default=0)

    @property
    def has_laggards(self) -> bool:
        """Is there anybody in the ISR who has not all there is, as far as is known?"""
        return any(
            follower.end_offset_in(self._directory_of(follower.broker_id)) < self.end_offset
            for follower in self._counted
        )

    # -- the own log

    def appended(self, end_offset: int, now_ms: int) -> None:
        assert end_offset >= self.end_offset
        self._history.moves_on(self.end_offset, now_ms)
        self.end_offset = end_offset

    def own_durable(self, durable_end: int) -> bool:
        """Whether the high watermark has moved. The leader's own copy counts as a follower's does: when it is safe."""
        assert self.durable_end <= durable_end <= self.end_offset
        self.durable_end = durable_end
        return self._advance()

    # -- what followers say

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
        """A follower's log ends at `end_offset`, durably. It is yet to be matched. `ReplicaError` if it may not follow,
        or not yet; the one it had before is over."""
        follower = self._find(subscriber, leader_epoch)
        if follower.subscription is not None:
            self._check_is_later(subscriber, follower.subscription.subscriber)
            self.unsubscribed(follower.subscription, now_ms)
        follower.subscription = Subscription(subscriber, end_offset, partition_epoch, answers_barriers=answers_barriers)
        follower.has_room = True
        return follower.subscription

    def matched(self, subscription: Subscription, now_ms: int) -> bool:
        """The log that was subscribed with is a beginning of the leader's. Whether the high watermark has moved."""
        if subscription.is_over:
            return False
        assert not subscription.is_matched
        assert subscription.subscribed_end <= self.end_offset, "a longer log is no beginning"
        subscription.end_offset = subscription.subscribed_end
        self._note_caught_up(self._followers[subscription.subscriber.broker_id], now_ms)
        return self._advance()

    def acknowledged(
        self, subscription: Subscription, leader_epoch: int, partition_epoch: PartitionEpoch, end_offset: int
    ) -> bool:
        """A follower has all below `end_offset`, durably. Whether the high watermark has moved.

        What is said of another epoch, or comes when the subscription is over, is passed over. `ReplicaError` if the
        follower cannot have what it says.
        """
        if subscription.is_over or leader_epoch != self.leader_epoch:
            return False
        if not subscription.is_matched or end_offset > self.end_offset:
            raise self._refusal(
                errors_pb2.INVALID_REQUEST,
                f"broker {subscription.subscriber.broker_id} acknowledged offset {end_offset}, which it was not sent",
            )
        if partition_epoch > subscription.partition_epoch:
            subscription.partition_epoch = partition_epoch
        if end_offset <= subscription.end_offset:
            return False
        subscription.end_offset = end_offset
        return self._advance()

    def unsubscribed(self, subscription: Subscription, now_ms: int) -> None:
        """Nothing more is to be heard of it; all that was said does not count any more."""
        if subscription.is_over:
            return
        self._note_caught_up(self._followers[subscription.subscriber.broker_id], now_ms)
        subscription.is_over = True
        subscription.end_offset = _UNMATCHED

    def without_room(self, broker_id: BrokerId, leader_epoch: int) -> bool:
        """Take note that a follower cannot take anything before its disk has room; return whether writes wait for it.
        What is said of another epoch, or while the follower is subscribed, is passed over."""
        follower = self._followers.get(broker_id)
        if follower is None or leader_epoch != self.leader_epoch:
            return False
        if follower.subscription is None or follower.subscription.is_over:
            follower.has_room = False
        return self.holds_up_writes

    @property
    def holds_up_writes(self) -> bool:
        """Return whether anything waits for a member of the ISR that has no room, and can be done without it."""
        return bool(self._without_room())

    # -- barriers

    def ask_barrier(self) -> int:
        """Which barrier proves, once it is passed, that nobody else led when this was called. It is shared by all who
        ask before a follower was told of it."""
        if self._is_barrier_told:
            self.barrier += 1
            self._is_barrier_told = False
        return self.barrier

    def tell_barrier(self) -> int:
        """What a follower is sent now: who asks from now on asks for another."""
        self._is_barrier_told = True
        return self.barrier

    def barrier_answered(self, subscription: Subscription, leader_epoch: int, number: int) -> None:
        """A follower has received that barrier. What is said of another epoch, or comes when the subscription is over,
        is passed over. `ReplicaError` if it was not sent."""
        if subscription.is_over or leader_epoch != self.leader_epoch:
            return
        if not subscription.is_matched or number > self.barrier:
            raise self._refusal(
                errors_pb2.INVALID_REQUEST,
                f"broker {subscription.subscriber.broker_id} answered barrier {number}, which it was not sent",
            )
        subscription.barrier = max(subscription.barrier, number)

    @property
    def passed_barrier(self) -> int:
        """The latest that whoever may lead next has answered: all of the maximal ISR. 0 while too few are in sync: then
        one that left the ISR may lead next, too."""
        if not self.has_enough_in_sync:
            return 0
        passed = self.barrier
        for follower in self._counted:
            passed = min(passed, follower.barrier_in(self._directory_of(follower.broker_id)))
        return passed

    @property
    def barriers_are_answered(self) -> bool:
        """False: one that would have to answer is of a version that does not."""
        return all(one.subscription is None or one.subscription.answers_barriers for one in self._counted)

    # -- what the metadata say

    def image_changed(self, partition: Partition, min_isr: int, now_ms: int) -> bool:
        """The same leader in the same epoch; the rest may be different. Whether the high watermark has moved.

        Subscriptions of brokers that are no replicas any more are over.
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
            for broker_id in joined:  # it had all that counts; it has a while to get the rest
                self._followers[broker_id].caught_up_ms = now_ms
        self._advance()
        return self.high_watermark > before

    # -- the ISR

    def propose(self, brokers: Mapping[BrokerId, Broker], now_ms: int) -> ProposeIsr | None:
        """What to ask the controller for, if there is anything; `brokers` as in the image. The next is not proposed
        before one of `alteration_accepted`, `alteration_refused` and `alteration_unknown` was told of it.

        First who joins: below the minimum nothing is acknowledged, so nobody leaves before another can take its place.
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
        """The partition is in that epoch now: what counts is the image, once it is there. Whether the high watermark
        has moved."""
        self._alterations.accepted(proposal, partition_epoch, now_ms)
        return self._recount()

    def alteration_refused(self, proposal: ProposeIsr, now_ms: int) -> bool:
        """It was not carried out and never will be. Whether the high watermark has moved."""
        self._alterations.refused(proposal, now_ms)
        return self._recount()

    def alteration_unknown(self, proposal: ProposeIsr, now_ms: int) -> None:
        """It may have been carried out, or may be yet."""
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
        """From another directory it would be another replica: which of them is in the ISR could not be known."""
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
        """Has it everything that may have been acknowledged, and may it be in the ISR, as far as is known here?"""
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
        """Those that are behind for too long; at once, those that cannot take what waits for them."""
        lagging = [*self._without_room()]
        for follower in self._counted:
            self._note_caught_up(follower, now_ms)
            if follower.broker_id not in lagging and now_ms - follower.caught_up_ms > self.lag_time_max_ms:
                lagging.append(follower.broker_id)
        return tuple(lagging)

    def _without_room(self) -> tuple[BrokerId, ...]:
        """Members of the ISR whose disk is full, if writes wait for them and the others are enough. If the others are
        too few, a member that gets room in time is better than none."""
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
        """The one place where the high watermark moves."""
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
        """Where the replica is that is in the ISR, or may be: what is elsewhere on its broker does not count."""
        if broker_id in self._alterations.state.committed:
            return self.partition.directory_of(broker_id)
        return self._joining_from.get(broker_id)

    def _recount(self) -> bool:
        maximal = self._alterations.state.maximal
        self._counted = [self._followers[broker_id] for broker_id in maximal if broker_id != self.broker_id]
        return self._advance()

    def _note_replicas(self, now_ms: int) -> None:
        """Whoever is in the ISR without having been heard of has a while to say something."""
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
                errors_pb2.FENCED_LEADER_EPOCH, f"the leader is in epoch {self.leader_epoch} by now, not {leader_epoch}"
            )
        if leader_epoch > self.leader_epoch:
            raise self._refusal(
                errors_pb2.UNKNOWN_LEADER_EPOCH,
                f"epoch {leader_epoch} is not known here yet, but only {self.leader_epoch}: try again",
            )
        follower = self._followers.get(subscriber.broker_id)
        if follower is None:
            raise self._refusal(
                errors_pb2.UNAVAILABLE,
                f"broker {subscriber.broker_id} is not known here as a follower of this partition yet: try again",
            )
        return follower

    def _check_is_later(self, subscriber: Subscriber, earlier: Subscriber) -> None:
        if subscriber.broker_epoch < earlier.broker_epoch:
            raise self._refusal(
                errors_pb2.STALE_BROKER_EPOCH,
                f"a process of broker {subscriber.broker_id} has subscribed in broker epoch {earlier.broker_epoch}, "
                f"after {subscriber.broker_epoch}",
            )
        if (subscriber.broker_epoch, subscriber.number) <= (earlier.broker_epoch, earlier.number):
            raise self._refusal(
                errors_pb2.INVALID_REQUEST,
                f"subscription {subscriber.number} of broker {subscriber.broker_id} was overtaken by {earlier.number}",
            )

    def _refusal(self, code: ErrorCode, message: str) -> ReplicaError:
        return ReplicaError(code, message, leader_id=self.broker_id, leader_epoch=self.leader_epoch)
