"""The follower's state of one partition, under one leader in one leader epoch. Pure.

Settling → Unmatched → Matched. Whenever the logs diverge, it passes through Cutting and back to Settling.

core = FollowerCore(log, partition, high_watermark)
if core.may_subscribe: send(core.subscribe(number))      # the whole log is durable
core.matched(number, leader_watermark)                   # from now on, frames may be appended and are acknowledged
core.appended(leader_watermark)                          # a frame was appended, with core.new_epochs(...) of its epochs
core.parted(number, epoch, end_offset)                   # returns the cut; call core.log_was_cut() once it is durable
core.told_to_reset(number)                               # likewise, to start over
core.acknowledgement()                                   # the message for the leader, if there is anything new
core.end()                                               # the leader or its epoch has changed

A number identifies each subscription. The core ignores answers to older ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition, PartitionEpoch
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry


class FollowersLog(Protocol):
    """The log as the core uses it. Implemented by `storage.log.PartitionLog`."""

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
    """Not subscribed. Earlier appends may not be durable yet."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Subscribed, and waiting for the leader's answer."""

    number: int
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True)
class Cutting:
    """The log is being truncated or reset."""


@dataclass(slots=True)
class Matched:
    """The log is a prefix of the leader's. `told_end`, `told_partition_epoch`: the latest values sent to the leader."""

    number: int
    told_end: int
    told_partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True)
class Ended:
    """The leader or its epoch has changed."""


FollowerState: TypeAlias = Settling | Unmatched | Cutting | Matched | Ended

# -- messages and orders


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A subscription request, with the durable end of the log.

    `last_epoch`: None for a log without epochs. `tombstones_removed_below`: below this offset, the log contains neither
    removed tombstones nor the records that they deleted."""

    number: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    end_offset: int
    last_epoch: int | None
    tombstones_removed_below: int = 0
    answers_barriers: bool = True


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """States that the log below `end_offset` is durable, and identical to this leader's."""

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
    """Reset the log to empty, at offset 0: an unclean election discarded the whole history that it contains."""


class FollowerCore:
    """Invariant: high_watermark <= the log's end. The watermark decreases only if an unclean election has discarded
    records below it, or if the log starts over."""

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
        """Return whether the log may be subscribed. A subscription acknowledges the whole log once it is matched, so
        the log must be durable."""
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
        """Note that the log is a prefix of the leader's, so that frames may be appended to it. Return False if the
        answer was not awaited."""
        if not self._is_awaited(number):
            return False
        assert isinstance(self.state, Unmatched)
        self.state = Matched(number, self._log.end_offset, self.state.partition_epoch)
        self._leader_watermark = leader_watermark
        self._advance()
        return True

    def parted(self, number: int, epoch: int, end_offset: int) -> Truncate | GiveUp | None:
        """Note that the logs diverge: the leader's `epoch`, its greatest one not above our last, ends at `end_offset`.

        Return the cut to make durable before `log_was_cut`, or None if the answer was not awaited. Unless an unclean
        election intervened, never cut below the high watermark, because every cleanly elected leader has the records
        below it, and so never below the log start.
        """
        if not self._is_awaited(number):
            return None
        log = self._log
        offset = self._parting(epoch, end_offset)
        assert offset >= self.high_watermark or self._may_cut_committed(), (
            f"{self.partition} would cut it at {offset}, below the high watermark {self.high_watermark}"
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
        # All our records are of later epochs, and are dropped. If an unclean election has discarded those epochs, drop
        # the log start, too: it advanced in them, so the leader's records below it were never deleted.
        return 0 if self._may_cut_committed() else min(end_offset, self._log.start_offset)

    def told_to_reset(self, number: int, start_offset: int) -> bool:
        """Note that the leader no longer has the records after our end, so the log must start over at `start_offset`.
        Return False if the answer was not awaited."""
        if not self._is_awaited(number):
            return False
        self.state = Cutting()
        self.high_watermark = min(self.high_watermark, start_offset)
        return True

    def has_lost_what_superseded(self, cleaned_below: int, cleaned_in_epoch: int) -> bool:
        """Return whether the log may lack both superseded records and those that superseded them.

        Compaction may have removed records because of later ones below `cleaned_below`, in the history of
        `cleaned_in_epoch`. If an unclean election discarded that history before the log had the later ones, it will
        never get them, although the leader may still have either."""
        unclean_epoch = self.partition.unclean_epoch
        return unclean_epoch is not None and cleaned_in_epoch < unclean_epoch and self._log.end_offset < cleaned_below

    def starts_over(self) -> None:
        """Note that the log is reset to offset 0 before it is subscribed. Call `log_was_cut` once that is durable."""
        assert self.may_subscribe
        self.state = Cutting()
        self.high_watermark = 0

    def log_was_cut(self) -> None:
        """Note that the truncation or reset is complete and durable."""
        assert isinstance(self.state, Cutting | Ended)
        self._bound_watermark()
        if isinstance(self.state, Cutting):
            self.state = Settling()

    def unsubscribed(self, number: int) -> bool:
        """End that subscription, because the stream broke or the leader refused it. Return False if it had already
        ended."""
        if not (self.is_matched(number) or self._is_awaited(number)):
            return False
        self.state = Settling()
        return True

    def end(self) -> None:
        """Stop acknowledging: the leader or its epoch has changed."""
        self.state = Ended()

    # -- following

    def is_matched(self, number: int) -> bool:
        """Return whether this subscription is matched, so that its frames continue the log."""
        return isinstance(self.state, Matched) and self.state.number == number

    def new_epochs(self, epochs: Iterable[EpochEntry]) -> tuple[EpochEntry, ...]:
        """Return the epochs of a frame that the log must note. The leader sends all epochs that start within the frame.
        Those without records that start at the log's end may already be known here, or superseded."""
        latest = self._log.epochs.latest
        return tuple(entry for entry in epochs if latest is None or entry.epoch > latest.epoch)

    def appended(self, leader_watermark: int) -> bool:
        """Note an appended frame, with the leader's watermark. Return whether the high watermark has advanced."""
        assert isinstance(self.state, Matched)
        self._leader_watermark = leader_watermark
        return self._advance()

    def heard_watermark(self, number: int, leader_watermark: int) -> bool:
        """Note the leader's watermark. Return whether the high watermark has advanced."""
        if not self.is_matched(number):
            return False
        self._leader_watermark = leader_watermark
        return self._advance()

    def acknowledgement(self) -> Acknowledge | None:
        """Return the acknowledgement to send, or None if nothing is new. Call it when more of the log is durable, and
        after `image_changed`."""
        state, end_offset, partition_epoch = self.state, self._log.stable_end, self.partition.partition_epoch
        if not isinstance(state, Matched) or (state.told_end, state.told_partition_epoch) == (
            end_offset,
            partition_epoch,
        ):
            return None
        state.told_end, state.told_partition_epoch = end_offset, partition_epoch
        return Acknowledge(state.number, self.leader_epoch, partition_epoch, end_offset)

    def image_changed(self, partition: Partition) -> None:
        """Note a new image with the same leader and epoch; the rest may differ."""
        assert (partition.leader, partition.leader_epoch) == (self.leader, self.leader_epoch)
        assert partition.partition_epoch >= self.partition.partition_epoch, "an older image"
        self.partition = partition

    # -- the rest

    def _is_awaited(self, number: int) -> bool:
        return isinstance(self.state, Unmatched) and self.state.number == number

    def _may_cut_committed(self) -> bool:
        """Return whether an unclean election was held after our last record was written."""
        latest, unclean_epoch = self._log.epochs.latest, self.partition.unclean_epoch
        return unclean_epoch is not None and (latest is None or latest.epoch < unclean_epoch)

    def _bound_watermark(self) -> None:
        """Keep the watermark within the log. Only committed records are deleted, so a watermark below the log start was
        noted before the deletion."""
        self.high_watermark = max(min(self.high_watermark, self._log.end_offset), self._log.start_offset)

    def _advance(self) -> bool:
        reached = min(self._leader_watermark, self._log.end_offset)
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True
