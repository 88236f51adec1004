"""A leader in one epoch: who counts for the high watermark, who joins and leaves the ISR, and when."""

from collections.abc import Mapping

import pytest
from support.metadata_images import ACTIVE, FENCED, SHUTTING_DOWN, broker, directory, epoch_of, ids, partition

from lograft.broker.replication.isr_state import RETRY_MS, CommittedIsr, PendingExpansion, PendingShrink, ProposeIsr
from lograft.broker.replication.leader_core import LeaderCore, LeaderLogEnds, Subscriber, Subscription
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, PartitionEpoch
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError

LAG_MS = 10_000
START = 10  # where the leader's epoch began, and its log ended then
BROKERS: Mapping[BrokerId, Broker] = {BrokerId(number): broker(number) for number in (1, 2, 3)}


def of(*isr: int, partition_epoch: int = 7, replicas: tuple[int, ...] = (1, 2, 3)) -> Partition:
    return partition(*replicas, isr=isr, leader=1, leader_epoch=4, partition_epoch=partition_epoch)


def leader(*isr: int, min_isr: int = 2, high_watermark: int = 0, durable_end: int = START) -> LeaderCore:
    return LeaderCore(
        BrokerId(1), of(*isr), min_isr, LeaderLogEnds(0, START, START, durable_end), high_watermark,
        lag_time_max_ms=LAG_MS, now_ms=0,
    )  # fmt: skip


def subscriber(broker_id: int, number: int = 1, *, epoch: int | None = None) -> Subscriber:
    broker_epoch = BrokerEpoch(epoch) if epoch is not None else epoch_of(broker_id)
    return Subscriber(BrokerId(broker_id), broker_epoch, directory(broker_id), number)


def subscribe(
    core: LeaderCore, broker_id: int, end: int, *, number: int = 1, partition_epoch: int = 7, now_ms: int = 0
) -> Subscription:
    return core.subscribed(subscriber(broker_id, number), 4, PartitionEpoch(partition_epoch), end, now_ms)


def follow(
    core: LeaderCore, broker_id: int, end: int, *, number: int = 1, partition_epoch: int = 7, now_ms: int = 0
) -> Subscription:
    subscription = subscribe(core, broker_id, end, number=number, partition_epoch=partition_epoch, now_ms=now_ms)
    core.matched(subscription, now_ms)
    return subscription


def acknowledge(core: LeaderCore, subscription: Subscription, end: int, *, partition_epoch: int = 7) -> bool:
    return core.acknowledged(subscription, 4, PartitionEpoch(partition_epoch), end)


def write(core: LeaderCore, end: int, *, now_ms: int = 0) -> None:
    core.appended(end, now_ms)
    core.own_durable(end)


def members(proposal: ProposeIsr | None) -> tuple[int, ...] | None:
    return tuple(member.broker_id for member in proposal.isr) if proposal is not None else None


# -- the high watermark


def test_it_is_the_least_end_in_the_isr() -> None:
    core = leader(1, 2, 3)
    second, third = follow(core, 2, 10), follow(core, 3, 10)
    assert core.high_watermark == 10
    write(core, 20)
    assert not acknowledge(core, second, 15)
    assert acknowledge(core, third, 12)
    assert core.high_watermark == 12
    assert acknowledge(core, third, 20)
    assert core.high_watermark == 15


def test_who_is_not_in_the_isr_does_not_count() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 10)
    follow(core, 3, 3)
    write(core, 20)
    assert acknowledge(core, second, 20)
    assert core.high_watermark == 20


def test_the_leaders_own_end_counts_when_it_is_durable() -> None:
    core = leader(1, 2, durable_end=8)
    second = follow(core, 2, 10)
    assert core.high_watermark == 8
    core.appended(20, 0)
    assert not acknowledge(core, second, 20)
    assert core.own_durable(17)
    assert core.high_watermark == 17


def test_a_leader_alone_needs_nobody() -> None:
    core = leader(1, min_isr=1)
    assert core.high_watermark == 10
    core.appended(12, 0)
    assert core.own_durable(12)
    assert core.high_watermark == 12


def test_it_starts_where_the_log_was_known_to_be_committed() -> None:
    assert leader(1, 2, 3, high_watermark=6).high_watermark == 6
    assert leader(1, 2, 3, high_watermark=60).high_watermark == START
    beheaded = LeaderCore(BrokerId(1), of(1, 2), 2, LeaderLogEnds(8, 10, 10, 10), 6, lag_time_max_ms=LAG_MS, now_ms=0)
    assert beheaded.high_watermark == 8, "what was deleted was committed"


def test_it_is_not_known_before_it_reaches_the_start_of_the_epoch() -> None:
    core = leader(1, 2, high_watermark=6)
    second = follow(core, 2, 7)
    assert core.high_watermark == 7
    assert not core.watermark_is_known
    acknowledge(core, second, START)
    assert core.watermark_is_known


def test_a_subscription_counts_for_nothing_until_it_is_matched() -> None:
    core = leader(1, 2)
    subscription = subscribe(core, 2, 9)
    assert core.high_watermark == 0
    assert core.own_durable(START) is False
    assert core.matched(subscription, 0)
    assert core.high_watermark == 9


def test_when_a_follower_is_gone_the_watermark_stands() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 10)
    core.unsubscribed(second, 0)
    write(core, 20)
    assert not acknowledge(core, second, 20), "what still comes counts for nothing"
    assert core.high_watermark == 10
    again = subscribe(core, 2, 10, number=2)
    write(core, 21)
    assert core.high_watermark == 10, "nor does what it had before"
    core.matched(again, 0)
    assert acknowledge(core, again, 20)
    assert core.high_watermark == 20


def test_it_is_frozen_while_the_committed_isr_is_below_the_minimum() -> None:
    core = leader(1, high_watermark=6)
    assert not core.has_enough_in_sync
    assert not core.own_durable(START)
    follow(core, 3, 10)
    assert core.propose(BROKERS, 0) is not None
    assert not core.has_enough_in_sync, "one that was asked for is not committed"
    assert core.high_watermark == 6
    assert core.image_changed(of(1, 3, partition_epoch=8), 2, 0)
    assert core.high_watermark == 10


def test_it_follows_the_minimum() -> None:
    core = leader(1, high_watermark=6)
    assert core.image_changed(of(1), 1, 0)
    assert core.high_watermark == START
    core.image_changed(of(1), 2, 0)
    write(core, 12)
    assert core.high_watermark == START


def test_acknowledgements_of_another_epoch_count_for_nothing() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 8)
    assert not core.acknowledged(second, 3, PartitionEpoch(7), 10)
    assert not core.acknowledged(second, 5, PartitionEpoch(7), 10)
    assert core.high_watermark == 8


def test_what_comes_late_does_not_take_anything_back() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 9)
    acknowledge(core, second, 8)
    assert acknowledge(core, second, 10)
    assert second.end_offset == 10


@pytest.mark.parametrize("is_matched", [True, False])
def test_nobody_has_what_it_was_not_sent(is_matched: bool) -> None:
    core = leader(1, 2)
    second = follow(core, 2, 9) if is_matched else subscribe(core, 2, 9)
    with pytest.raises(ReplicaError) as refused:
        acknowledge(core, second, 11 if is_matched else 9)
    assert refused.value.code == errors_pb2.INVALID_REQUEST
    assert core.high_watermark == (9 if is_matched else 0)


# -- subscribing


@pytest.mark.parametrize(
    ("who", "epoch", "code"),
    [
        (subscriber(2), 3, errors_pb2.FENCED_LEADER_EPOCH),
        (subscriber(2), 5, errors_pb2.UNKNOWN_LEADER_EPOCH),
        (subscriber(4), 4, errors_pb2.UNAVAILABLE),
        (subscriber(1), 4, errors_pb2.UNAVAILABLE),
    ],
)
def test_who_does_not_follow_in_this_epoch_is_refused(who: Subscriber, epoch: int, code: int) -> None:
    core = leader(1, 2)
    with pytest.raises(ReplicaError) as refused:
        core.subscribed(who, epoch, PartitionEpoch(7), 5, 0)
    assert refused.value.code == code
    assert (refused.value.leader_id, refused.value.leader_epoch) == (1, 4)


def test_a_later_subscription_takes_the_place_of_an_earlier_one() -> None:
    core = leader(1, 2)
    first = follow(core, 2, 10)
    second = follow(core, 2, 8, number=2)
    assert first.is_over
    assert not core.matched(first, 0)
    write(core, 20)
    assert not acknowledge(core, first, 20)
    core.unsubscribed(first, 0)
    assert not second.is_over
    assert acknowledge(core, second, 11)


@pytest.mark.parametrize(
    ("late", "code"),
    [
        (subscriber(2, 5), errors_pb2.INVALID_REQUEST),
        (subscriber(2, 4), errors_pb2.INVALID_REQUEST),
        (subscriber(2, 9, epoch=epoch_of(2) - 1), errors_pb2.STALE_BROKER_EPOCH),
    ],
)
@pytest.mark.parametrize("is_gone", [True, False])
def test_an_earlier_subscription_that_comes_late_is_refused(late: Subscriber, code: int, is_gone: bool) -> None:
    """What it says may not be so any more: since then the log may have been given up."""
    core = leader(1)
    current = follow(core, 2, 3, number=5)
    if is_gone:
        core.unsubscribed(current, 0)
    with pytest.raises(ReplicaError) as refused:
        core.subscribed(late, 4, PartitionEpoch(7), 10, 0)
    assert refused.value.code == code
    assert current.is_over == is_gone


def test_a_new_process_counts_its_subscriptions_from_the_beginning() -> None:
    core = leader(1, 2)
    old = follow(core, 2, 3, number=5)
    new = core.subscribed(subscriber(2, 1, epoch=epoch_of(2) + 1), 4, PartitionEpoch(7), 3, 0)
    assert old.is_over
    assert not new.is_over


# -- joining


def test_who_has_all_that_counts_joins() -> None:
    core = leader(1, 2)
    follow(core, 2, 10)
    follow(core, 3, 10)
    write(core, 20)
    proposal = core.propose(BROKERS, 0)
    assert proposal is not None
    assert (proposal.leader_epoch, proposal.partition_epoch) == (LeaderEpoch(4), PartitionEpoch(7))
    assert [(one.broker_id, one.broker_epoch, one.directory_id) for one in proposal.isr] == [
        (number, epoch_of(number), directory(number)) for number in (1, 2, 3)
    ]
    assert core.isr == PendingExpansion(ids(1, 2), ids(3))


def test_from_the_moment_it_is_asked_for_it_counts() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 10)
    third = follow(core, 3, 10)
    core.propose(BROKERS, 0)
    write(core, 20)
    assert not acknowledge(core, second, 20)
    assert acknowledge(core, third, 14)
    assert core.high_watermark == 14


@pytest.mark.parametrize(("end", "joins"), [(9, False), (11, False), (12, True), (15, True)])
def test_below_the_watermark_nobody_joins(end: int, joins: bool) -> None:
    core = leader(1, min_isr=1)
    write(core, 12)
    core.appended(15, 0)
    follow(core, 3, end)
    assert (core.propose(BROKERS, 0) is not None) == joins


@pytest.mark.parametrize(("end", "joins"), [(9, False), (10, True)])
def test_before_the_start_of_the_epoch_nobody_joins(end: int, joins: bool) -> None:
    core = leader(1, high_watermark=2)
    follow(core, 3, end)
    assert (core.propose(BROKERS, 0) is not None) == joins


def test_who_is_not_matched_does_not_join() -> None:
    core = leader(1)
    subscribe(core, 3, 10)
    assert core.propose(BROKERS, 0) is None


@pytest.mark.parametrize(
    ("third", "joins"),
    [
        (broker(3, state=ACTIVE), True),
        (broker(3, state=FENCED), False),
        (broker(3, state=SHUTTING_DOWN), False),
        (broker(3, epoch=epoch_of(3) + 1), False),
        (broker(3, directories=[directory(3, 1)]), False),
        (None, False),
    ],
)
def test_who_may_not_be_in_the_isr_is_not_asked_for(third: Broker | None, joins: bool) -> None:
    core = leader(1)
    follow(core, 3, 10)
    brokers = {number: one for number, one in BROKERS.items() if number != 3}
    if third is not None:
        brokers[third.broker_id] = third
    assert (core.propose(brokers, 0) is not None) == joins


def test_what_a_follower_said_before_the_partition_changed_does_not_let_it_join() -> None:
    """It may have been found corrupt since, and have discarded everything."""
    core = leader(1)
    third = follow(core, 3, 10)
    core.image_changed(of(1, partition_epoch=8), 2, 0)
    assert core.propose(BROKERS, 0) is None
    acknowledge(core, third, 10, partition_epoch=7)
    assert core.propose(BROKERS, 0) is None
    acknowledge(core, third, 10, partition_epoch=8)
    assert members(core.propose(BROKERS, 0)) == (1, 3)


def test_all_that_are_ready_join_at_once() -> None:
    core = leader(1)
    follow(core, 2, 10)
    follow(core, 3, 10)
    assert members(core.propose(BROKERS, 0)) == (1, 2, 3)


# -- leaving


def test_who_is_not_heard_of_leaves_after_a_while() -> None:
    core = leader(1, 2, 3)
    follow(core, 2, 10)
    assert core.propose(BROKERS, LAG_MS) is None
    assert members(core.propose(BROKERS, LAG_MS + 1)) == (1, 2)
    assert core.isr == PendingShrink(ids(1, 2, 3), ids(3))


def test_who_has_everything_stays_however_long_nothing_is_written() -> None:
    core = leader(1, 2, 3)
    follow(core, 2, 10)
    follow(core, 3, 10)
    assert core.propose(BROKERS, 100 * LAG_MS) is None


def test_who_falls_behind_leaves() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 10)
    write(core, 20, now_ms=50_000)  # until then it had everything
    acknowledge(core, second, 19)
    assert core.propose(BROKERS, 60_000) is None
    assert members(core.propose(BROKERS, 60_001)) == (1,)


def test_who_is_always_a_little_behind_stays() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 10)
    for second_now in range(1, 100):
        write(core, 10 + second_now, now_ms=second_now * 1000)
        acknowledge(core, second, 10 + second_now - 2)  # it is two seconds behind
        assert core.propose(BROKERS, second_now * 1000) is None


def test_who_falls_further_and_further_behind_leaves() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 10)
    proposal = None
    for second_now in range(1, 40):
        write(core, 10 + second_now, now_ms=second_now * 1000)
        acknowledge(core, second, 10 + second_now // 2)
        proposal = core.propose(BROKERS, second_now * 1000)
        if proposal is not None:
            break
    assert members(proposal) == (1,)
    assert 18 <= second_now <= 25


def test_who_lost_its_stream_is_caught_up_as_of_then() -> None:
    core = leader(1, 2)
    second = follow(core, 2, 10)
    core.unsubscribed(second, 50_000)
    assert core.propose(BROKERS, 60_000) is None
    subscribe(core, 2, 10, number=2, now_ms=60_000)  # to subscribe is not to be matched
    assert members(core.propose(BROKERS, 60_001)) == (1,)


def test_while_a_shrink_is_under_way_who_leaves_counts() -> None:
    core = leader(1, 2, 3)
    second = follow(core, 2, 10)
    proposal = core.propose(BROKERS, LAG_MS + 1)
    assert proposal is not None
    write(core, 20)
    assert not acknowledge(core, second, 20)
    core.alteration_accepted(proposal, PartitionEpoch(8), LAG_MS + 2)
    assert core.high_watermark == 0, "the image does not have it yet"
    assert core.image_changed(of(1, 2, partition_epoch=8), 2, LAG_MS + 3)
    assert core.high_watermark == 20


def test_first_another_joins() -> None:
    core = leader(1, 2)
    core.appended(START + 1, 0)
    follow(core, 3, START)
    proposal = core.propose(BROKERS, LAG_MS + 1)
    assert members(proposal) == (1, 2, 3)
    assert proposal is not None
    core.alteration_accepted(proposal, PartitionEpoch(8), LAG_MS + 1)
    core.image_changed(of(1, 2, 3, partition_epoch=8), 2, LAG_MS + 2)
    assert members(core.propose(BROKERS, LAG_MS + 2)) == (1, 3)


def test_who_has_just_joined_has_a_while_to_get_the_rest() -> None:
    """Below the minimum the watermark stands, however much is written."""
    core = leader(1, high_watermark=START)
    for second_now in range(1, 100):
        write(core, START + second_now, now_ms=second_now * 1000)
    follow(core, 3, START, now_ms=100_000)
    assert members(core.propose(BROKERS, 100_000)) == (1, 3)
    core.image_changed(of(1, 3, partition_epoch=8), 2, 100_010)
    proposal = core._alterations.in_flight
    assert proposal is not None
    core.alteration_accepted(proposal, PartitionEpoch(8), 100_020)
    assert core.propose(BROKERS, 110_010) is None
    assert members(core.propose(BROKERS, 110_011)) == (1,)


# -- what becomes of a request


def joining() -> tuple[LeaderCore, Subscription, Subscription, ProposeIsr]:
    """3 is asked for, and has less than the others."""
    core = leader(1, 2)
    second, third = follow(core, 2, 10), follow(core, 3, 10)
    proposal = core.propose(BROKERS, 0)
    assert proposal is not None
    write(core, 20)
    acknowledge(core, second, 20)
    assert core.high_watermark == 10
    return core, second, third, proposal


def test_one_request_at_a_time() -> None:
    core, *_ = joining()
    assert core.propose(BROKERS, 10**6) is None


def test_once_it_is_refused_who_was_asked_for_does_not_count() -> None:
    core, _, _, proposal = joining()
    assert core.alteration_refused(proposal, 0)
    assert core.high_watermark == 20
    assert core.isr == CommittedIsr(ids(1, 2))


def test_what_is_unknown_is_asked_for_again() -> None:
    core, _, third, proposal = joining()
    core.alteration_unknown(proposal, 0)
    assert core.high_watermark == 10
    assert core.propose(BROKERS, RETRY_MS - 1) is None
    again = core.propose(BROKERS, RETRY_MS)
    assert again == proposal
    assert acknowledge(core, third, 15)
    assert core.high_watermark == 15


def test_what_may_have_come_about_is_not_undone_by_a_later_refusal() -> None:
    core, _, _, proposal = joining()
    core.alteration_unknown(proposal, 0)
    again = core.propose(BROKERS, RETRY_MS)
    assert again is not None
    assert not core.alteration_refused(again, RETRY_MS)
    assert core.high_watermark == 10
    assert members(core.propose(BROKERS, 2 * RETRY_MS)) == (1, 2), "in another epoch all that was asked for is void"
    assert core.isr.maximal == ids(1, 2, 3)
    assert core.image_changed(of(1, 2, partition_epoch=8), 2, 0)
    assert core.high_watermark == 20


def test_when_who_was_to_join_is_gone_the_doubt_is_ended_without_it() -> None:
    core, _, _, proposal = joining()
    core.alteration_unknown(proposal, 0)
    brokers = {**BROKERS, BrokerId(3): broker(3, state=FENCED)}
    assert members(core.propose(brokers, RETRY_MS)) == (1, 2)
    assert core.high_watermark == 10


def test_nobody_else_joins_before_a_doubt_is_ended() -> None:
    """Else the one that may be in the ISR would be forgotten."""
    core = LeaderCore(
        BrokerId(1), of(1, 2, replicas=(1, 2, 3, 4)), 2, LeaderLogEnds(0, START, START, START), 0,
        lag_time_max_ms=LAG_MS, now_ms=0,
    )  # fmt: skip
    for number in (2, 3):
        follow(core, number, 10)
    proposal = core.propose(BROKERS, 0)
    assert proposal is not None
    core.alteration_unknown(proposal, 0)
    follow(core, 4, 10)
    brokers = {**BROKERS, BrokerId(3): broker(3, state=FENCED), BrokerId(4): broker(4)}
    assert members(core.propose(brokers, RETRY_MS)) == (1, 2)
    assert core.isr.maximal == ids(1, 2, 3)


def test_what_came_about_is_taken_from_the_image() -> None:
    core, _, third, proposal = joining()
    core.alteration_unknown(proposal, 0)
    core.image_changed(of(1, 2, 3, partition_epoch=8), 2, 0)
    assert core.isr == CommittedIsr(ids(1, 2, 3))
    assert core.high_watermark == 10
    assert acknowledge(core, third, 20)


# -- the metadata


def test_whoever_is_no_replica_any_more_is_not_followed() -> None:
    core = leader(1, 2)
    third = follow(core, 3, 10)
    core.image_changed(of(1, 2, partition_epoch=8, replicas=(1, 2)), 2, 0)
    assert third.is_over
    with pytest.raises(ReplicaError):
        subscribe(core, 3, 10, number=2)


def test_a_new_replica_may_follow() -> None:
    core = leader(1, 2)
    core.image_changed(of(1, 2, partition_epoch=8, replicas=(1, 2, 3, 4)), 2, 0)
    follow(core, 4, 10, partition_epoch=8)
    brokers = {**BROKERS, BrokerId(4): broker(4)}
    assert members(core.propose(brokers, 0)) == (1, 2, 4)


def test_it_stays_with_its_epoch() -> None:
    core = leader(1, 2)
    with pytest.raises(AssertionError):
        core.image_changed(partition(1, 2, 3, leader=2, leader_epoch=5, partition_epoch=8), 2, 0)
    with pytest.raises(AssertionError, match="an older image"):
        core.image_changed(of(1, 2, partition_epoch=6), 2, 0)


def test_the_lag_that_is_tolerated_may_change() -> None:
    core = leader(1, 2)
    core.lag_time_max_ms = 500
    assert members(core.propose(BROKERS, 501)) == (1,)


# -- barriers


def answer(core: LeaderCore, subscription: Subscription, number: int, *, epoch: int = 4) -> None:
    core.barrier_answered(subscription, epoch, number)


def test_a_barrier_is_passed_when_all_who_may_lead_next_have_answered_it() -> None:
    core = leader(1, 2, 3)
    second, third = follow(core, 2, START), follow(core, 3, START)
    number = core.ask_barrier()
    assert core.passed_barrier < number
    answer(core, second, core.tell_barrier())
    assert core.passed_barrier < number
    answer(core, third, core.tell_barrier())
    assert core.passed_barrier == number


def test_an_answer_proves_nothing_to_who_asks_later() -> None:
    core = leader(1, 2)
    second = follow(core, 2, START)
    first = core.ask_barrier()
    assert core.ask_barrier() == first, "nobody was told yet: it is shared"
    answer(core, second, core.tell_barrier())
    later = core.ask_barrier()
    assert core.passed_barrier == first < later
    answer(core, second, first)
    assert core.passed_barrier == first


def test_who_is_out_of_sync_need_not_answer_and_its_answer_is_not_enough() -> None:
    core = leader(1, 2)
    second, third = follow(core, 2, START), follow(core, 3, 0)
    number = core.ask_barrier()
    answer(core, third, core.tell_barrier())
    assert core.passed_barrier < number
    answer(core, second, number)
    assert core.passed_barrier == number


def test_who_was_asked_to_be_let_in_has_to_answer() -> None:
    core = leader(1, 2)
    second, third = follow(core, 2, START), follow(core, 3, START)
    assert members(core.propose(BROKERS, 0)) == (1, 2, 3)
    number = core.ask_barrier()
    answer(core, second, core.tell_barrier())
    assert core.passed_barrier < number, "3 may be in sync, and lead, by now"
    answer(core, third, number)
    assert core.passed_barrier == number


def test_who_left_the_isr_is_not_waited_for_once_that_is_known() -> None:
    core = leader(1, 2, 3)
    second = follow(core, 2, START)
    number = core.ask_barrier()
    answer(core, second, core.tell_barrier())
    assert core.passed_barrier < number
    core.image_changed(of(1, 2, partition_epoch=8), 2, 0)
    assert core.passed_barrier == number


def test_a_leader_alone_passes_a_barrier_at_once_if_that_is_enough_in_sync() -> None:
    core = leader(1, min_isr=1)
    assert core.ask_barrier() == core.passed_barrier == 1
    below = leader(1, min_isr=2)
    assert below.passed_barrier < below.ask_barrier(), "one that left the ISR may lead: it is eligible"


def test_what_was_answered_on_a_subscription_that_is_over_does_not_count() -> None:
    core = leader(1, 2)
    second = follow(core, 2, START)
    number = core.ask_barrier()
    answer(core, second, core.tell_barrier())
    anew = follow(core, 2, START, number=2)
    assert core.passed_barrier < number
    answer(core, second, number)
    assert core.passed_barrier < number
    answer(core, anew, number, epoch=3)
    assert core.passed_barrier < number, "that is of another epoch"
    answer(core, anew, number)
    assert core.passed_barrier == number


def test_what_was_answered_from_another_directory_does_not_count() -> None:
    core = leader(1, 2)
    elsewhere = Subscriber(BrokerId(2), epoch_of(2), directory(2, 1), 1)
    second = core.subscribed(elsewhere, 4, PartitionEpoch(7), START, 0)
    core.matched(second, 0)
    number = core.ask_barrier()
    answer(core, second, core.tell_barrier())
    assert core.passed_barrier < number


def test_an_answer_to_what_was_not_asked_is_refused() -> None:
    core = leader(1, 2, 3)
    unmatched = subscribe(core, 2, START)
    number = core.ask_barrier()
    for subscription, answered in ((unmatched, number), (follow(core, 3, START), number + 1)):
        with pytest.raises(ReplicaError) as refused:
            answer(core, subscription, answered)
        assert refused.value.code == errors_pb2.INVALID_REQUEST


def test_it_is_known_who_will_not_answer() -> None:
    core = leader(1, 2)
    assert core.barriers_are_answered, "it may subscribe yet"
    old = core.subscribed(subscriber(2), 4, PartitionEpoch(7), START, 0, answers_barriers=False)
    core.matched(old, 0)
    assert not core.barriers_are_answered
    core.image_changed(of(1, 3, partition_epoch=8), 2, 0)
    assert core.barriers_are_answered, "it need not"
