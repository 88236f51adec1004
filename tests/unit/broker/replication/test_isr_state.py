"""Who counts for the high watermark while an ISR is being changed, whatever becomes of the request."""

from collections.abc import Callable

import pytest
from support.metadata_images import directory, epoch_of, ids

from lograft.broker.replication.isr_state import (
    RETRY_MS,
    CommittedIsr,
    IsrAlterations,
    PendingExpansion,
    PendingShrink,
    ProposeIsr,
)
from lograft.metadata.decisions.partitions.alter_isr import IsrMember
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, PartitionEpoch


def proposal(*members: int, partition_epoch: int = 7) -> ProposeIsr:
    isr = tuple(IsrMember(BrokerId(one), epoch_of(one), directory(one)) for one in members)
    return ProposeIsr(LeaderEpoch(3), PartitionEpoch(partition_epoch), isr)


def alterations(*isr: int) -> IsrAlterations:
    return IsrAlterations(ids(*isr), PartitionEpoch(7))


def expanding() -> tuple[IsrAlterations, ProposeIsr]:
    isr, asked = alterations(1, 2), proposal(1, 2, 3)
    isr.ask_to_expand(asked, ids(3))
    return isr, asked


def shrinking() -> tuple[IsrAlterations, ProposeIsr]:
    isr, asked = alterations(1, 2), proposal(1)
    isr.ask_to_shrink(asked, ids(2))
    return isr, asked


@pytest.mark.parametrize(
    ("state", "maximal"),
    [
        (CommittedIsr(ids(1, 2)), ids(1, 2)),
        (PendingExpansion(ids(1, 2), ids(3)), ids(1, 2, 3)),
        (PendingShrink(ids(1, 2), ids(2)), ids(1, 2)),
    ],
)
def test_who_joins_counts_at_once_and_who_leaves_counts_until_it_is_known(
    state: CommittedIsr | PendingExpansion | PendingShrink, maximal: tuple[BrokerId, ...]
) -> None:
    assert state.maximal == maximal
    assert state.committed == ids(1, 2)


Tell = Callable[[IsrAlterations, ProposeIsr], None]


def accept(isr: IsrAlterations, asked: ProposeIsr) -> None:
    isr.accepted(asked, PartitionEpoch(8), 0)


def refuse(isr: IsrAlterations, asked: ProposeIsr) -> None:
    isr.refused(asked, 0)


def lose(isr: IsrAlterations, asked: ProposeIsr) -> None:
    isr.unknown(asked, 0)


@pytest.mark.parametrize(
    ("begin", "tell", "expected"),
    [
        (expanding, accept, PendingExpansion(ids(1, 2), ids(3))),  # until the image has it
        (expanding, refuse, CommittedIsr(ids(1, 2))),
        (expanding, lose, PendingExpansion(ids(1, 2), ids(3))),
        (shrinking, accept, PendingShrink(ids(1, 2), ids(2))),
        (shrinking, refuse, CommittedIsr(ids(1, 2))),
        (shrinking, lose, CommittedIsr(ids(1, 2))),
    ],
)
def test_a_request_is_undone_only_if_it_cannot_come_about(
    begin: Callable[[], tuple[IsrAlterations, ProposeIsr]], tell: Tell, expected: object
) -> None:
    isr, asked = begin()
    tell(isr, asked)
    assert isr.state == expected


def test_one_request_at_a_time() -> None:
    isr, asked = expanding()
    assert not isr.may_ask(10**6)
    isr.refused(asked, 0)
    assert not isr.may_ask(RETRY_MS - 1)
    assert isr.may_ask(RETRY_MS)


def test_after_an_accepted_request_nothing_is_asked_before_the_image_has_it() -> None:
    isr, asked = expanding()
    isr.accepted(asked, PartitionEpoch(8), 0)
    assert not isr.may_ask(10**6)
    isr.committed(ids(1, 2, 3), PartitionEpoch(8))
    assert isr.state == CommittedIsr(ids(1, 2, 3))
    assert isr.may_ask(0)


def test_the_image_may_have_it_before_the_answer_comes() -> None:
    isr, asked = expanding()
    isr.committed(ids(1, 2, 3), PartitionEpoch(8))
    assert not isr.may_ask(10**6), "still under way"
    isr.accepted(asked, PartitionEpoch(8), 0)
    assert isr.may_ask(0)


@pytest.mark.parametrize("tell", [refuse, lose, accept])
def test_what_is_answered_to_a_request_of_an_older_epoch_means_nothing(tell: Tell) -> None:
    isr, asked = expanding()
    isr.committed(ids(1), PartitionEpoch(9))
    tell(isr, asked)
    assert isr.state == CommittedIsr(ids(1))
    assert not isr.is_in_doubt
    assert isr.may_ask(0)


def test_what_is_answered_to_another_request_means_nothing() -> None:
    isr, asked = expanding()
    isr.refused(proposal(1, 2, 3), 0)  # the same, but not the one that is waited for
    assert isr.in_flight is asked
    assert isr.state.maximal == ids(1, 2, 3)


@pytest.mark.parametrize("tell", [refuse, lose])
def test_a_later_refusal_does_not_end_a_doubt(tell: Tell) -> None:
    isr, asked = expanding()
    isr.unknown(asked, 0)
    again = proposal(1, 2, 3)
    isr.ask_to_expand(again, ids(3))
    tell(isr, again)
    assert isr.is_in_doubt
    assert isr.state.maximal == ids(1, 2, 3)


def test_another_partition_epoch_ends_a_doubt() -> None:
    isr, asked = expanding()
    isr.unknown(asked, 0)
    isr.ask_to_confirm(confirmation := proposal(1, 2))
    assert isr.state.maximal == ids(1, 2, 3), "until it is known"
    isr.accepted(confirmation, PartitionEpoch(8), 0)
    assert isr.state.maximal == ids(1, 2, 3), "until the image has it"
    isr.committed(ids(1, 2), PartitionEpoch(8))
    assert isr.state == CommittedIsr(ids(1, 2))
    assert not isr.is_in_doubt


def test_an_answer_that_changed_nothing_ends_no_doubt() -> None:
    isr, asked = expanding()
    isr.unknown(asked, 0)
    isr.ask_to_confirm(confirmation := proposal(1, 2))
    isr.accepted(confirmation, PartitionEpoch(7), 1000)
    assert isr.state.maximal == ids(1, 2, 3)
    assert not isr.may_ask(1000)
    assert isr.may_ask(1000 + RETRY_MS)


def test_who_may_be_in_the_isr_is_asked_for_again_or_not_at_all() -> None:
    isr, asked = expanding()
    isr.unknown(asked, 0)
    with pytest.raises(AssertionError, match="every potential ISR member counts"):
        isr.ask_to_expand(proposal(1, 2, 4), ids(4))
