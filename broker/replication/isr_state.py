"""The replicas that count for the high watermark: the committed ISR, and the leader's pending request. Pure.

The controller may have carried out a request long before the leader learns of it, and may still carry out one whose
answer was lost. So a joining replica counts from the moment of the request, and a leaving one counts until the metadata
have removed it. The committed ISR comes only from the broker's image.
"""

from dataclasses import dataclass
from typing import TypeAlias

from lograft.metadata.decisions.partitions.alter_isr import IsrMember
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, PartitionEpoch

RETRY_MS = 500


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """No request is pending that would change which replicas count."""

    committed: tuple[BrokerId, ...]

    @property
    def maximal(self) -> tuple[BrokerId, ...]:
        return self.committed


@dataclass(frozen=True, slots=True)
class PendingExpansion:
    """`joining`: replicas that may already be in the ISR."""

    committed: tuple[BrokerId, ...]
    joining: tuple[BrokerId, ...]

    @property
    def maximal(self) -> tuple[BrokerId, ...]:
        return (*self.committed, *self.joining)


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """`leaving`: replicas that may still be in the ISR."""

    committed: tuple[BrokerId, ...]
    leaving: tuple[BrokerId, ...]

    @property
    def maximal(self) -> tuple[BrokerId, ...]:
        return self.committed


IsrState: TypeAlias = CommittedIsr | PendingExpansion | PendingShrink


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """An ISR to request from the controller with AlterPartitions, and the epochs of the state that it replaces."""

    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[IsrMember, ...]


class IsrAlterations:
    """A leader's requests, one at a time, and their known outcomes.

    An expansion whose outcome is unknown stays *in doubt* until the partition is in another epoch: regardless of the
    answers to later requests, the first may still be in transit. To end the doubt, the leader repeats the request, or,
    if a joining replica is no longer ready, requests the committed ISR.
    """

    def __init__(self, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch) -> None:
        self.state: IsrState = CommittedIsr(isr)
        self.partition_epoch = partition_epoch
        self.in_flight: ProposeIsr | None = None
        self.is_in_doubt = False
        self.was_refused = False  # the latest request, in this partition epoch
        self._awaited: PartitionEpoch | None = None  # epoch of an accepted request, until the image has it
        self._not_before_ms: int | None = None

    def may_ask(self, now_ms: int) -> bool:
        if self.in_flight is not None or self._awaited is not None:
            return False
        return self._not_before_ms is None or now_ms >= self._not_before_ms

    # -- asking

    def ask_to_expand(self, proposal: ProposeIsr, joining: tuple[BrokerId, ...]) -> None:
        """Note a request for an expansion. The joining replicas count from now on."""
        if self.is_in_doubt:
            assert isinstance(self.state, PendingExpansion)
            assert all(member in joining for member in self.state.joining), "every potential ISR member counts"
        self._ask(proposal)
        self.state = PendingExpansion(self.state.committed, joining)

    def ask_to_shrink(self, proposal: ProposeIsr, leaving: tuple[BrokerId, ...]) -> None:
        assert not self.is_in_doubt
        self._ask(proposal)
        self.state = PendingShrink(self.state.committed, leaving)

    def ask_to_confirm(self, proposal: ProposeIsr) -> None:
        """Note a request for the committed ISR. It moves the partition to another epoch, which voids the request in
        doubt."""
        assert self.is_in_doubt
        self._ask(proposal)

    def _ask(self, proposal: ProposeIsr) -> None:
        assert self.in_flight is None, "one request at a time"
        assert proposal.partition_epoch == self.partition_epoch
        self.in_flight = proposal

    # -- outcomes

    def accepted(self, proposal: ProposeIsr, partition_epoch: PartitionEpoch, now_ms: int) -> None:
        """Note that the partition is now in `partition_epoch`; the image will have its new state."""
        if not self._is_answered(proposal):
            return
        self.was_refused = False
        if partition_epoch > self.partition_epoch:
            self._awaited = partition_epoch
        else:
            self._not_before_ms = now_ms + RETRY_MS  # it changed nothing
            self._undo()

    def refused(self, proposal: ProposeIsr, now_ms: int) -> None:
        """Note that the request was not carried out, and never will be."""
        if self._is_answered(proposal):
            self.was_refused = True
            self._not_before_ms = now_ms + RETRY_MS
            self._undo()

    def unknown(self, proposal: ProposeIsr, now_ms: int) -> None:
        """Note that the request may have been carried out, or still may be."""
        if not self._is_answered(proposal):
            return
        self._not_before_ms = now_ms + RETRY_MS
        if isinstance(self.state, PendingExpansion):
            self.is_in_doubt = True
        else:
            self._undo()  # a replica that may have left counts until the image has removed it

    def committed(self, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch) -> None:
        """Apply the ISR of a later partition epoch in the image, which settles all requests of older ones."""
        assert partition_epoch > self.partition_epoch
        self.state = CommittedIsr(isr)
        self.partition_epoch = partition_epoch
        self.is_in_doubt = self.was_refused = False
        self._not_before_ms = None
        if self._awaited is not None and self._awaited <= partition_epoch:
            self._awaited = None

    def _is_answered(self, proposal: ProposeIsr) -> bool:
        """Return whether the request was in flight, and its answer still matters. It is no longer in flight."""
        if proposal is not self.in_flight:
            return False
        self.in_flight = None
        return proposal.partition_epoch == self.partition_epoch

    def _undo(self) -> None:
        if not self.is_in_doubt:
            self.state = CommittedIsr(self.state.committed)
