"""Who counts for the high watermark: the ISR that is committed, and what its leader has asked to make of it. Pure.

The controller may have carried out a request long before the leader hears of it, and one whose answer was lost may be
carried out yet. So whoever was asked to be let in counts from the moment of asking; whoever was asked to be let go
counts until the metadata say that it is gone. The committed ISR comes from the broker's image alone.
"""

from dataclasses import dataclass
from typing import TypeAlias

from lograft.metadata.decisions.partitions.alter_isr import IsrMember
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, PartitionEpoch

RETRY_MS = 500


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """Nothing is asked for that would change who counts."""

    committed: tuple[BrokerId, ...]

    @property
    def maximal(self) -> tuple[BrokerId, ...]:
        return self.committed


@dataclass(frozen=True, slots=True)
class PendingExpansion:
    """`joining` may be in the ISR by now."""

    committed: tuple[BrokerId, ...]
    joining: tuple[BrokerId, ...]

    @property
    def maximal(self) -> tuple[BrokerId, ...]:
        return (*self.committed, *self.joining)


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """`leaving` may still be in the ISR."""

    committed: tuple[BrokerId, ...]
    leaving: tuple[BrokerId, ...]

    @property
    def maximal(self) -> tuple[BrokerId, ...]:
        return self.committed


IsrState: TypeAlias = CommittedIsr | PendingExpansion | PendingShrink


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """The ISR to ask the controller for, in AlterPartitions, and the state of the partition that it is to replace."""

    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrMember, ...]


class IsrAlterations:
    """What a leader asks for, one request at a time, and what it knows to have come of it.

    An expansion whose outcome is unknown stays *in doubt* until the partition is in another epoch: whatever is answered
    to later requests, the first may still be on its way. To end the doubt, the leader asks again; or, if those who were
    to join cannot any more, it asks for the ISR as it is.
    """

    def __init__(self, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch) -> None:
        self.state: IsrState = CommittedIsr(isr)
        self.partition_epoch = partition_epoch
        self.in_flight: ProposeIsr | None = None
        self.is_in_doubt = False
        self.was_refused = False  # the latest request, in this partition epoch
        self._awaited: PartitionEpoch | None = None  # what an accepted request made of the partition
        self._not_before_ms: int | None = None

    def may_ask(self, now_ms: int) -> bool:
        if self.in_flight is not None or self._awaited is not None:
            return False
        return self._not_before_ms is None or now_ms >= self._not_before_ms

    # -- asking

    def ask_to_expand(self, proposal: ProposeIsr, joining: tuple[BrokerId, ...]) -> None:
        """From now on those who join count."""
        if self.is_in_doubt:
            assert isinstance(self.state, PendingExpansion)
            assert all(member in joining for member in self.state.joining), "whoever may be in the ISR counts"
        self._ask(proposal)
        self.state = PendingExpansion(self.state.committed, joining)

    def ask_to_shrink(self, proposal: ProposeIsr, leaving: tuple[BrokerId, ...]) -> None:
        assert not self.is_in_doubt
        self._ask(proposal)
        self.state = PendingShrink(self.state.committed, leaving)

    def ask_to_confirm(self, proposal: ProposeIsr) -> None:
        """For the ISR as it is, in another partition epoch: what was asked for in this one is void then."""
        assert self.is_in_doubt
        self._ask(proposal)

    def _ask(self, proposal: ProposeIsr) -> None:
        assert self.in_flight is None, "one request at a time"
        assert proposal.partition_epoch == self.partition_epoch
        self.in_flight = proposal

    # -- what comes of it

    def accepted(self, proposal: ProposeIsr, partition_epoch: PartitionEpoch, now_ms: int) -> None:
        """The partition is in `partition_epoch` now; what that means is in the image when it gets there."""
        if not self._is_answered(proposal):
            return
        self.was_refused = False
        if partition_epoch > self.partition_epoch:
            self._awaited = partition_epoch
        else:
            self._not_before_ms = now_ms + RETRY_MS  # it changed nothing
            self._undo()

    def refused(self, proposal: ProposeIsr, now_ms: int) -> None:
        """It was not carried out, and never will be."""
        if self._is_answered(proposal):
            self.was_refused = True
            self._not_before_ms = now_ms + RETRY_MS
            self._undo()

    def unknown(self, proposal: ProposeIsr, now_ms: int) -> None:
        """It may have been carried out, or may be yet."""
        if not self._is_answered(proposal):
            return
        self._not_before_ms = now_ms + RETRY_MS
        if isinstance(self.state, PendingExpansion):
            self.is_in_doubt = True
        else:
            self._undo()  # who may have left, counts until it is known

    def committed(self, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch) -> None:
        """The image has the partition in another epoch: all that was asked for in an older one is settled."""
        assert partition_epoch > self.partition_epoch
        self.state = CommittedIsr(isr)
        self.partition_epoch = partition_epoch
        self.is_in_doubt = self.was_refused = False
        self._not_before_ms = None
        if self._awaited is not None and self._awaited <= partition_epoch:
            self._awaited = None

    def _is_answered(self, proposal: ProposeIsr) -> bool:
        """Was it waited for, and does it still matter?"""
        if proposal is not self.in_flight:
            return False
        self.in_flight = None
        return proposal.partition_epoch == self.partition_epoch

    def _undo(self) -> None:
        if not self.is_in_doubt:
            self.state = CommittedIsr(self.state.committed)
