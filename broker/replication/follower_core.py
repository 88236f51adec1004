"""One partition as a follower of one leader, in one leader epoch, has it. Pure.

Settling → Unmatched → Matched, by way of Cutting and again Settling as often as the logs are found to part:

core = FollowerCore(log, partition, high_watermark)
if core.may_subscribe: send(core.subscribe(number))      # all that is in the log is durable
core.matched(number, leader_watermark)                   # now frames may be appended, and are acknowledged
core.appended(leader_watermark)                          # one was, with core.new_epochs(...) of its epochs
core.parted(number, epoch, end_offset)                   # what to cut; core.log_was_cut() when that is durable
core.told_to_reset(number)                               # likewise: the log is to be given up
core.acknowledgement()                                   # what to say to the leader, if there is anything new
core.end()                                               # another epoch: nothing is said of this one any more

A subscription is known by its number: what is answered to an older one is passed over.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition, PartitionEpoch
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry


class FollowersLog(Protocol):
    """What the core sees of its log; `storage.log.PartitionLog` has it."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def stable_end(self) -> int: ...
    @property
    def epochs(self) -> EpochCache: ...


# -- states


@dataclass(frozen=True, slots=True)
class Settling:
    """Not subscribed. What was appended before may not be durable yet."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Subscribed, not answered."""

    number: int
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True)
class Cutting:
    """The log is being truncated or given up."""


@dataclass(slots=True)
class Matched:
    """The log is a beginning of the leader's; and what of it the leader was told."""

    number: int
    told_end: int
    told_partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True)
class Ended:
    """The leader, or its epoch, is another."""


FollowerState: TypeAlias = Settling | Unmatched | Cutting | Matched | Ended

# -- what is to be said or done


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Say that the log ends so, durably. `last_epoch` None: it has none. `tombstones_removed_below`: what it has is
    without those, and without what they deleted."""

    number: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    end_offset: int
    last_epoch: int | None
    tombstones_removed_below: int = 0
    answers_barriers: bool = True


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Say that all below `end_offset` is durable, and as this leader sent it."""

    number: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    end_offset: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log at `offset`."""

    offset: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Reset the log to nothing, at offset 0: it is wholly of a history that an unclean election ended."""


class FollowerCore:
    """Invariant: high_watermark <= the log's end. The watermark goes back only where an unclean election has given up
    what was below it, or where the log starts over."""

    def __init__(self, log: FollowersLog, partition: Partition, high_watermark: int) -> None:
        assert partition.leader is not None
        self.leader: BrokerId = partition.leader
        self.partition = partition
        self.high_watermark = high_watermark
        self.state: FollowerState = Settling()
        self._log = log
        self._bound_watermark()
        self._leader_watermark = 0

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.partition.leader_epoch

    # -- subscribing

    @property
    def may_subscribe(self) -> bool:
        """What is said of the log counts as acknowledged once it is matched: so it waits for the disk."""
        return isinstance(self.state, Settling) and self._log.stable_end == self._log.end_offset

    def subscribe(self, number: int) -> Subscribe:
        assert self.may_subscribe
        latest = self._log.epochs.latest
        self.state = Unmatched(number, self.partition.partition_epoch)
        return Subscribe(
            number,
            self.leader_epoch,
            self.partition.partition_epoch,
            self._log.end_offset,
            latest.epoch if latest is not None else None,
        )

    def matched(self, number: int, leader_watermark: int) -> bool:
        """The log is a beginning of the leader's: frames that continue it may be appended. False: nobody asked."""
        if not self._is_awaited(number):
            return False
        assert isinstance(self.state, Unmatched)
        self.state = Matched(number, self._log.end_offset, self.state.partition_epoch)
        self._leader_watermark = leader_watermark
        self._advance()
        return True

    def parted(self, number: int, epoch: int, end_offset: int) -> Truncate | GiveUp | None:
        """The logs part: the leader's `epoch`, the greatest that is at most our last, ends at `end_offset`. What to do,
        durably, before `log_was_cut`; None: nobody asked.

        Never below the high watermark: all there is on every leader that was cleanly elected. Nor, hence, below the
        log's start.
        """
        if not self._is_awaited(number):
            return None
        log = self._log
        offset = self._parting(epoch, end_offset)
        assert offset >= self.high_watermark or self._may_cut_committed(), (
            f"to be cut at {offset}, below the high watermark {self.high_watermark}, by {self.partition}"
        )
        self.state = Cutting()
        if offset < log.start_offset:
            self.high_watermark = 0
            return GiveUp()
        self.high_watermark = min(self.high_watermark, offset)
        return Truncate(offset)

    def _parting(self, epoch: int, end_offset: int) -> int:
        own = self._log.epochs.end_offset_for(epoch, self._log.end_offset)
        if own is not None:
            return min(end_offset, own.start_offset)
        # All our records are of later epochs, and go. If an unclean election has ended those, so does the log's start,
        # which was moved in them: what the leader has below it was never deleted.
        return 0 if self._may_cut_committed() else min(end_offset, self._log.start_offset)

    def told_to_reset(self, number: int, start_offset: int) -> bool:
        """The leader has not got any more what follows our end: the log is to be given up, and to go on at
        `start_offset`. False: nobody asked."""
        if not self._is_awaited(number):
            return False
        self.state = Cutting()
        self.high_watermark = min(self.high_watermark, start_offset)
        return True

    def has_lost_what_superseded(self, cleaned_below: int, cleaned_in_epoch: int) -> bool:
        """Records may be missing from the log because of later ones, below `cleaned_below` in the history of an epoch.
        Has the log lost those, or never had them, and will it never get them: as an unclean election ended that
        history? Then it has neither, where the leader may have one of them."""
        unclean_epoch = self.partition.unclean_epoch
        return unclean_epoch is not None and cleaned_in_epoch < unclean_epoch and self._log.end_offset < cleaned_below

    def starts_over(self) -> None:
        """The log is to be given up, at offset 0, before it is subscribed; `log_was_cut` when that is durable."""
        assert self.may_subscribe
        self.state = Cutting()
        self.high_watermark = 0

    def log_was_cut(self) -> None:
        """What was to be done is done, and durable."""
        assert isinstance(self.state, Cutting | Ended)
        self._bound_watermark()
        if isinstance(self.state, Cutting):
            self.state = Settling()

    def unsubscribed(self, number: int) -> bool:
        """The stream broke, or the leader refuses: that subscription is over. False: it was already."""
        if not (self.is_matched(number) or self._is_awaited(number)):
            return False
        self.state = Settling()
        return True

    def end(self) -> None:
        """The leader, or its epoch, is another. Nothing is acknowledged any more."""
        self.state = Ended()

    # -- following

    def is_matched(self, number: int) -> bool:
        """Does what the leader sends under this subscription continue the log?"""
        return isinstance(self.state, Matched) and self.state.number == number

    def new_epochs(self, epochs: Iterable[EpochEntry]) -> tuple[EpochEntry, ...]:
        """Those of a frame's epochs that are to be noted with it. The leader tells all that start within it; those that
        start where the log ends, and had no records, may be known here already, or have been passed by."""
        latest = self._log.epochs.latest
        return tuple(entry for entry in epochs if latest is None or entry.epoch > latest.epoch)

    def appended(self, leader_watermark: int) -> bool:
        """A frame was, which said so. Whether the high watermark has moved."""
        assert isinstance(self.state, Matched)
        self._leader_watermark = leader_watermark
        return self._advance()

    def heard_watermark(self, number: int, leader_watermark: int) -> bool:
        """Whether ours has moved."""
        if not self.is_matched(number):
            return False
        self._leader_watermark = leader_watermark
        return self._advance()

    def acknowledgement(self) -> Acknowledge | None:
        """What the leader is to be told now, if there is anything new: call it when more is durable, and after
        `image_changed`."""
        state, end_offset, partition_epoch = self.state, self._log.stable_end, self.partition.partition_epoch
        if not isinstance(state, Matched) or (state.told_end, state.told_partition_epoch) == (
            end_offset,
            partition_epoch,
        ):
            return None
        state.told_end, state.told_partition_epoch = end_offset, partition_epoch
        return Acknowledge(state.number, self.leader_epoch, partition_epoch, end_offset)

    def image_changed(self, partition: Partition) -> None:
        """The same leader in the same epoch; the rest may be different."""
        assert (partition.leader, partition.leader_epoch) == (self.leader, self.leader_epoch)
        assert partition.partition_epoch >= self.partition.partition_epoch, "an older image"
        self.partition = partition

    # -- the rest

    def _is_awaited(self, number: int) -> bool:
        return isinstance(self.state, Unmatched) and self.state.number == number

    def _may_cut_committed(self) -> bool:
        """Was an unclean election held since our last record was written?"""
        latest, unclean_epoch = self._log.epochs.latest, self.partition.unclean_epoch
        return unclean_epoch is not None and (latest is None or latest.epoch < unclean_epoch)

    def _bound_watermark(self) -> None:
        """What was deleted was committed: a watermark below the log's start was noted before that."""
        self.high_watermark = max(min(self.high_watermark, self._log.end_offset), self._log.start_offset)

    def _advance(self) -> bool:
        reached = min(self._leader_watermark, self._log.end_offset)
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True
