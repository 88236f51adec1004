"""ISR, ELR, leader and epochs after a change: the rules of `settle`, each as a case."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.metadata_images import ACTIVE, FENCED, SHUTTING_DOWN, broker, directory, ids, partition, replica

from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.partition import BrokerId, Partition
from lograft.metadata.image.partition_transition import Conditions, elect_unclean, settle


def conditions(min_isr: int = 2, *others: Broker, **states: BrokerState) -> Conditions:
    """Brokers 1 to 5, active unless told otherwise (`b1=FENCED`)."""
    known = {BrokerId(number): broker(number, state=states.get(f"b{number}", ACTIVE)) for number in range(1, 6)}
    known.update({other.broker_id: other for other in others})
    return Conditions(known, min_isr)


def with_isr(before: Partition, *isr: int) -> Partition:
    return replace(before, isr=ids(*isr))


def eligible_ids(after: Partition) -> tuple[int, ...]:
    return tuple(one.broker_id for one in after.elr)


def three(**others: Any) -> Partition:
    return partition(1, 2, 3, leader_epoch=4, partition_epoch=9, **others)


ISR_CASES: Sequence[tuple[str, Partition, tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]] = [
    # what happens, before, wanted ISR, min ISR, ISR then, ELR then
    ("leaves, enough stay", three(isr=(1, 2, 3)), (1, 2), 2, (1, 2), ()),
    ("leaves, too few stay", three(isr=(1, 2)), (1,), 2, (1,), (2,)),
    ("two leave at once, too few stay", three(isr=(1, 2, 3)), (1,), 2, (1,), (2, 3)),
    ("all are to leave, but one lives with its data", three(isr=(1, 2, 3)), (), 2, (1,), (2, 3)),
    ("leaves, one is eligible already", three(isr=(1, 2), elr=(3,)), (1,), 3, (1,), (2, 3)),
    ("joins, still too few", three(isr=(1,), elr=(3,)), (1, 2), 3, (1, 2), (3,)),
    ("an eligible one joins, enough", three(isr=(1,), elr=(2,)), (1, 2), 2, (1, 2), ()),
    ("an eligible one joins, still too few", three(isr=(1,), elr=(2, 3)), (1, 2), 3, (1, 2), (3,)),
    ("another joins, enough: the eligible one is not any more", three(isr=(1,), elr=(2,)), (1, 3), 2, (1, 3), ()),
    ("the minimum falls to what there is", three(isr=(1,), elr=(2,)), (1,), 1, (1,), ()),
    ("the minimum falls, not far enough", three(isr=(1,), elr=(2, 3)), (1,), 2, (1,), (2, 3)),
    ("the minimum rises over what there is", three(isr=(1, 2)), (1, 2), 3, (1, 2), ()),
    ("given in another order", three(isr=(1, 2, 3)), (3, 1), 2, (1, 3), ()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "wanted", "min_isr", "isr", "elr"), [case[1:] for case in ISR_CASES], ids=[case[0] for case in ISR_CASES]
)
def test_who_leaves_an_isr_that_is_too_small_stays_eligible(
    before: Partition, wanted: tuple[int, ...], min_isr: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    after = settle(before, with_isr(before, *wanted), conditions(min_isr))
    assert (after.isr, eligible_ids(after)) == (isr, elr)


ELECTION_CASES: Sequence[tuple[str, Partition, tuple[int, ...], dict[str, BrokerState], int | None]] = [
    # what happens, before, wanted ISR, states, leader then
    ("the leader stays if it is in sync", three(leader=2), (1, 2), {}, 2),
    ("else the first replica in sync", three(leader=3), (1, 2), {}, 1),
    ("not one that is going, if another can", three(leader=3), (1, 2), {"b1": SHUTTING_DOWN}, 2),
    ("but one that is going rather than none", three(leader=3), (1,), {"b1": SHUTTING_DOWN}, 1),
    ("one that is going leads on if nobody asks", three(leader=1), (1, 2), {"b1": SHUTTING_DOWN}, 1),
    ("nobody in sync: an eligible one that lives", three(isr=(1,), elr=(2, 3)), (), {"b1": FENCED, "b2": FENCED}, 3),
    ("of these the first that stays", three(isr=(1,), elr=(2, 3)), (), {"b1": FENCED, "b2": SHUTTING_DOWN}, 3),
    ("or one that is going", three(isr=(1,), elr=(2, 3)), (), {"b1": FENCED, "b2": SHUTTING_DOWN, "b3": FENCED}, 2),
    ("nobody at all", three(isr=(1,), elr=(2,)), (), {"b1": FENCED, "b2": FENCED}, None),
    ("a live replica that lacks something is not elected", three(isr=(1,)), (), {"b1": FENCED}, None),
    ("who was without a leader gets one", three(isr=(), elr=(1, 2)), (), {"b1": FENCED}, 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "wanted", "states", "leader"), [case[1:] for case in ELECTION_CASES], ids=[c[0] for c in ELECTION_CASES]
)
def test_a_clean_leader_comes_from_the_isr_else_from_the_eligible(
    before: Partition, wanted: tuple[int, ...], states: dict[str, BrokerState], leader: int | None
) -> None:
    after = settle(before, with_isr(before, *wanted), conditions(2, **states))
    assert after.leader == leader
    assert after.isr == (wanted or (() if leader is None else (leader,)))
    assert after.leader_epoch == 4 + (leader != before.leader)


def test_an_elected_eligible_replica_is_all_of_the_isr_and_the_others_stay_eligible() -> None:
    start = partition(1, 2, 3, isr=(), elr=(1, 2, 3))
    after = settle(start, start, conditions(2, b1=FENCED))
    assert (after.leader, after.isr, eligible_ids(after)) == (2, (2,), (1, 3))


def test_during_a_reassignment_a_replica_that_stays_is_elected_first() -> None:
    start = partition(1, 2, 3, 4, target=(4, 2), adding=(4,), leader=1)
    after = settle(start, with_isr(start, 2, 3, 4), conditions())
    assert after.leader == 4
    assert settle(after, with_isr(after, 2, 3), conditions()).leader == 2


def test_who_is_to_be_avoided_leads_only_if_nobody_else_can() -> None:
    start = partition(1, 2, 3, leader=1)
    going = conditions(2, b1=SHUTTING_DOWN)
    assert settle(start, start, going, avoid_leader=BrokerId(1)).leader == 2
    alone = partition(1, 2, 3, isr=(1,))
    assert settle(alone, alone, going, avoid_leader=BrokerId(1)) is alone
    assert settle(start, start, conditions(), avoid_leader=BrokerId(1)).leader == 2
    both_going = conditions(2, b1=SHUTTING_DOWN, b2=SHUTTING_DOWN)
    pair = partition(1, 2, 3, isr=(1, 2))
    assert settle(pair, pair, both_going, avoid_leader=BrokerId(1)) is pair
    pair = partition(1, 2, 3, isr=(1, 2), leader=2)
    assert settle(pair, pair, both_going, avoid_leader=BrokerId(2)) is pair


def test_a_wiped_broker_is_not_elected() -> None:
    start = partition(1, 2, 3, isr=(), elr=(2,))
    wiped = broker(2, directories=[directory(2, 7)])
    assert settle(start, start, conditions(2, wiped, b1=FENCED)) is start
    back = broker(2, directories=[directory(2, 7), directory(2)])
    assert settle(start, start, conditions(2, back, b1=FENCED)).leader == 2


def test_a_broker_that_is_not_registered_is_not_elected() -> None:
    start = partition(1, 9, isr=(), elr=(9,))
    assert settle(start, start, conditions(1)) is start


def test_an_eligible_replica_stays_tied_to_the_directory_that_has_the_data() -> None:
    start = partition(1, 2, 3, isr=(1, 2))
    below = settle(start, with_isr(start, 1), conditions(2, b2=FENCED))
    assert below.elr == (replica(2),)
    moved = replace(below, replicas=(replica(1), replica(2, 7), replica(3)), isr=ids(1, 2))
    joined = settle(below, moved, conditions(3, broker(2, directories=2)))
    assert joined.elr == ()
    left = settle(joined, with_isr(joined, 1), conditions(3, b2=FENCED))
    assert left.elr == (replica(2, 7),)


def test_a_replica_that_is_said_to_be_elsewhere_by_now_is_not_elected_for_what_its_old_directory_has() -> None:
    start = partition(1, replica(2, 7), isr=(), elr=(replica(2),))
    both = broker(2, directories=[directory(2), directory(2, 7)])
    assert settle(start, start, conditions(1, both)) is start


@pytest.mark.parametrize("dropped", [(1,), (2,), (1, 2)])
def test_who_is_dropped_is_neither_in_sync_nor_eligible(dropped: tuple[int, ...]) -> None:
    start = partition(1, 2, 3, isr=(1,), elr=(2, 3))
    after = settle(start, start, conditions(2), dropped=ids(*dropped))
    assert not {*after.isr, *eligible_ids(after)} & {*dropped}
    assert after.leader == next(number for number in (1, 2, 3) if number not in dropped)


def test_the_last_one_dropped_leaves_nobody() -> None:
    start = partition(1, 2, 3, isr=(1,))
    after = settle(start, start, conditions(1), dropped=ids(1))
    assert (after.leader, after.isr, after.elr) == (None, (), ())


def test_who_is_no_replica_any_more_is_neither_in_sync_nor_eligible() -> None:
    start = partition(1, 2, 3, isr=(1, 2), elr=(3,), leader=2)
    after = settle(start, replace(start, replicas=(replica(1),)), conditions(2))
    assert (after.leader, after.isr, after.elr) == (1, (1,), ())


def test_a_fenced_broker_in_the_isr_is_a_bug() -> None:
    start = partition(1, 2, 3)
    with pytest.raises(AssertionError, match="fenced"):
        settle(start, start, conditions(2, b3=FENCED))


def test_nothing_to_change_is_no_change() -> None:
    start = partition(1, 2, 3, leader_epoch=4, partition_epoch=9)
    assert settle(start, start, conditions()) is start


@pytest.mark.parametrize(
    ("wanted_isr", "leader_epoch"),
    [((2, 3), 5), ((1, 2), 4)],
    ids=["another leader", "the same leader"],
)
def test_each_change_is_a_partition_epoch_and_each_leader_a_leader_epoch(
    wanted_isr: Iterable[int], leader_epoch: int
) -> None:
    start = partition(1, 2, 3, leader_epoch=4, partition_epoch=9)
    after = settle(start, with_isr(start, *wanted_isr), conditions())
    assert (after.leader_epoch, after.partition_epoch) == (leader_epoch, 10)


def test_to_have_no_leader_is_an_epoch_too() -> None:
    start = partition(1, 2, isr=(1,), leader_epoch=4)
    away = settle(start, with_isr(start), conditions(1, b1=FENCED))
    assert (away.leader, away.leader_epoch) == (None, 5)
    back = settle(away, away, conditions(1))
    assert (back.leader, back.leader_epoch) == (1, 6)


def test_an_unclean_election_is_recorded_and_forgets_who_had_more() -> None:
    start = partition(1, 2, 3, isr=(), elr=(1,), leader_epoch=4, partition_epoch=9)
    after = elect_unclean(start, BrokerId(3))
    assert (after.leader, after.isr, after.elr) == (3, (3,), ())
    assert (after.leader_epoch, after.partition_epoch, after.unclean_epoch) == (5, 10, 5)


def test_that_an_election_was_unclean_stays_recorded() -> None:
    start = elect_unclean(partition(1, 2, 3, isr=(), leader_epoch=4), BrokerId(3))
    after = settle(start, replace(start, isr=ids(2, 3), leader=BrokerId(2)), conditions(2))
    assert (after.leader, after.leader_epoch, after.unclean_epoch) == (2, 6, 5)
