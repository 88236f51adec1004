"""Reassigning partitions: how it begins, goes on, ends, is redirected and undone."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.metadata_images import (
    ACTIVE,
    FENCED,
    SHUTTING_DOWN,
    apply,
    broker,
    brokers,
    directory,
    epoch_of,
    ids,
    image_with,
    partition,
    replica,
    topic_id,
)

from lograft.metadata.decisions.alter_configs import alter_configs
from lograft.metadata.decisions.bulk_change import MAX_PARTS_IN_ONE_OPERATION
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.alter_isr import Alteration, IsrMember, alter_partitions
from lograft.metadata.decisions.partitions.elect_leaders import elect_possible
from lograft.metadata.decisions.partitions.reassignment import Reassignment, complete_due, list_reassignments, reassign
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, TopicId
from lograft.metadata.image.records import ConfigResource, ResourceKind
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

TOPIC = topic_id(1)


def cluster(*partitions: Partition, members: Sequence[Broker] | None = None, **config: str) -> ClusterImage:
    """Brokers 1 to 6, and these partitions of one topic."""
    keys = {key.replace("_", "."): value for key, value in config.items()}
    return image_with(
        *(members if members is not None else brokers(6)),
        topics={"orders": partitions},
        topic_configs={"orders": keys},
    )


def first(image: ClusterImage) -> Partition:
    return image.topics[TOPIC].partitions[0]


def ask(image: ClusterImage, *target: int, number: int = 0) -> ClusterImage:
    """The image after what was asked was done."""
    decision = reassign(image, [Reassignment(TOPIC, number, ids(*target))])
    assert_fine(decision)
    return apply(image, decision)


def cancel(image: ClusterImage) -> ClusterImage:
    decision = reassign(image, [Reassignment(TOPIC, 0, None)])
    assert_fine(decision)
    return apply(image, decision)


def assert_fine(decision: Decision[Any]) -> None:
    assert [result.error for result in decision.answer] == [None] * len(decision.answer)


def refusal(image: ClusterImage, *requests: Reassignment) -> ControllerError:
    decision = reassign(image, requests)
    assert decision.records == ()
    error = decision.answer[0].error
    assert error is not None
    return error


def refused(image: ClusterImage, *target: int) -> ControllerError:
    return refusal(image, Reassignment(TOPIC, 0, ids(*target)))


def with_isr(image: ClusterImage, *isr: int) -> ClusterImage:
    """The leader's word for who is in sync."""
    now = first(image)
    assert now.leader is not None
    members = [
        IsrMember(BrokerId(one), epoch_of(one), now.directory_of(BrokerId(one)) or directory(one)) for one in isr
    ]
    request = Alteration(TOPIC, 0, now.leader_epoch, now.partition_epoch, tuple(members))
    decision = alter_partitions(image, now.leader, epoch_of(now.leader), [request])
    assert isinstance(decision.answer[0].outcome, Partition), decision.answer[0].outcome
    return apply(image, decision)


def replicas_and_isr(image: ClusterImage) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return first(image).replica_ids, first(image).isr


# -- from the beginning to the end


def test_replicas_are_added_and_nobody_leaves_yet() -> None:
    after = first(ask(cluster(partition(1, 2, 3)), 5, 2, 4))
    assert after.replica_ids == (1, 2, 3, 5, 4)
    assert (after.isr, after.leader, after.leader_epoch) == ((1, 2, 3), 1, 0)
    assert (after.target, after.adding, after.removing) == ((5, 2, 4), (5, 4), (1, 3))
    assert after.original == (1, 2, 3)
    assert after.partition_epoch == 1


def test_it_waits_until_all_that_are_added_are_in_sync() -> None:
    image = with_isr(ask(cluster(partition(1, 2, 3)), 5, 2, 4), 1, 2, 3, 5)
    assert first(image).is_reassigning
    assert first(image).replica_ids == (1, 2, 3, 5, 4)


def test_it_ends_together_with_the_joining_of_the_last_exactly_as_asked() -> None:
    image = with_isr(ask(cluster(partition(1, 2, 3)), 5, 2, 4), 1, 2, 3, 5)
    before = first(image)
    after = first(with_isr(image, 1, 2, 3, 4, 5))
    assert after.replica_ids == (5, 2, 4)
    assert after.isr == (5, 2, 4)
    assert (after.target, after.adding, after.elr) == ((), (), ())
    assert after.leader == 5  # broker 1 led, and is no replica any more
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch == before.partition_epoch + 1


def test_a_leader_that_stays_leads_on() -> None:
    image = with_isr(ask(cluster(partition(1, 2, 3)), 4, 1, 2), 1, 2, 3, 4)
    assert (first(image).replica_ids, first(image).leader, first(image).leader_epoch) == ((4, 1, 2), 1, 0)


def test_replicas_that_stay_keep_their_directories() -> None:
    start = partition(replica(1, 1), replica(2, 1), replica(3))
    image = with_isr(ask(cluster(start, members=brokers(6, directories=2)), 4, 2), 1, 2, 3, 4)
    assert first(image).replicas == (replica(4), replica(2, 1))


def test_replicas_that_are_added_go_to_the_least_used_directories() -> None:
    used = [partition(replica(4, 0), replica(1)), partition(1, 2), partition(1, 2), partition(1, 2)]
    image = cluster(*used, members=brokers(6, directories=3))
    requests = [Reassignment(TOPIC, number, ids(1, 4)) for number in (1, 2, 3)]
    after = apply(image, reassign(image, requests))
    added = [after.topics[TOPIC].partitions[number].directory_of(BrokerId(4)) for number in (1, 2, 3)]
    assert added == [directory(4, 1), directory(4, 2), directory(4, 0)]


def test_removal_alone_is_done_at_once() -> None:
    image = ask(cluster(partition(1, 2, 3)), 3, 2)
    assert replicas_and_isr(image) == ((3, 2), (3, 2))
    assert (first(image).leader, first(image).leader_epoch, first(image).partition_epoch) == (3, 1, 1)
    assert not first(image).is_reassigning


def test_removal_waits_while_too_few_of_those_that_stay_are_in_sync() -> None:
    image = ask(cluster(partition(1, 2, 3, isr=(1, 3)), min_insync_replicas="2"), 1, 2)
    assert first(image).is_reassigning
    assert replicas_and_isr(image) == ((1, 2, 3), (1, 3))
    assert replicas_and_isr(with_isr(image, 1, 2, 3)) == ((1, 2), (1, 2))


def test_another_order_takes_effect_at_once_and_the_leader_leads_on() -> None:
    image = ask(cluster(partition(1, 2, 3, isr=(1, 3))), 3, 2, 1)
    assert replicas_and_isr(image) == ((3, 2, 1), (3, 1))
    assert (first(image).leader, first(image).leader_epoch) == (1, 0)
    assert not first(image).is_reassigning


def test_another_order_takes_effect_though_too_few_are_in_sync_or_none() -> None:
    assert first(ask(cluster(partition(1, 2, isr=(1,), elr=(2,))), 2, 1)).replica_ids == (2, 1)
    away = [broker(1, state=FENCED), broker(2, state=FENCED)]
    after = first(ask(cluster(partition(1, 2, isr=(), elr=(1, 2)), members=away), 2, 1))
    assert (after.replica_ids, after.elr, after.leader) == ((2, 1), (replica(2), replica(1)), None)


@pytest.mark.parametrize(
    "start", [partition(1, 2, 3), partition(1, 2, 3, 4, target=(1, 2, 4), adding=(4,), isr=(1, 2))]
)
def test_what_is_so_already_or_under_way_already_is_no_change(start: Partition) -> None:
    image = cluster(start)
    decision = reassign(image, [Reassignment(TOPIC, 0, start.final_replicas)])
    assert_fine(decision)
    assert decision.records == ()


def test_while_it_lasts_the_lower_minimum_counts() -> None:
    image = with_isr(ask(cluster(partition(1)), 1, 2, 3), 1, 2)
    assert first(with_isr(image, 1)).elr == ()  # broker 1 alone may go on acknowledging
    image = with_isr(image, 1, 2, 3)
    assert first(with_isr(image, 1)).elr == (replica(2), replica(3))


def test_a_target_with_a_lower_minimum_ends_eligibility_at_once() -> None:
    after = first(ask(cluster(partition(1, 2, 3, isr=(1,), elr=(2,))), 4))
    assert (after.isr, after.elr) == ((1,), ())  # broker 1 alone may acknowledge from now on


def test_a_lower_minimum_lets_it_end_at_the_next_look() -> None:
    image = ask(cluster(partition(1, 2, 3, isr=(1, 3)), min_insync_replicas="2"), 1, 2)
    assert complete_due(image).answer == 0
    topic = ConfigResource(ResourceKind.TOPIC, str(TOPIC))
    image = apply(image, alter_configs(image, topic, {"min.insync.replicas": "1"}))
    decision = complete_due(image)
    assert decision.answer == 1
    assert replicas_and_isr(apply(image, decision)) == ((1, 2), (1,))


def test_what_became_possible_is_finished_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lograft.metadata.decisions.bulk_change.PARTS_AT_A_TIME", 4)
    due = partition(1, 2, 3, target=(1, 2))
    image = cluster(due, due, due, due, due)
    done = []
    while (decision := complete_due(image)).records:
        done.append(decision.answer)
        image = apply(image, decision)
    assert done == [2, 2, 1]


# -- partitions without a leader


def test_a_partition_without_a_leader_waits_until_it_has_one() -> None:
    members = [broker(1, state=FENCED), broker(2, state=FENCED), broker(3)]
    image = ask(cluster(partition(1, 2, isr=(), elr=(2,)), members=members), 2, 3)
    assert replicas_and_isr(image) == ((1, 2, 3), ())
    assert first(image).target == (2, 3)
    assert first(image).elr == (replica(2),)


def test_a_removal_that_waited_for_a_leader_ends_with_its_election() -> None:
    members = [broker(1, state=FENCED), broker(2, state=FENCED)]
    image = ask(cluster(partition(1, 2, isr=(), elr=(2,), leader_epoch=4, partition_epoch=7), members=members), 2)
    assert first(image).is_reassigning
    image.brokers[BrokerId(2)] = broker(2)
    after = first(apply(image, elect_possible(image)))
    assert (after.replica_ids, after.isr, after.leader, after.elr) == ((2,), (2,), 2, ())
    assert (after.leader_epoch, after.partition_epoch) == (5, 9)


# -- redirecting


def test_a_new_target_keeps_the_true_original_and_drops_who_was_added_in_vain() -> None:
    image = with_isr(ask(cluster(partition(1, 2, 3)), 4, 5, 1), 1, 2, 3, 4)
    after = first(ask(image, 5, 6, 2))
    assert after.original == (1, 2, 3)
    assert after.replica_ids == (1, 2, 3, 5, 6)
    assert (after.target, after.adding, after.removing) == ((5, 6, 2), (5, 6), (1, 3))
    assert after.isr == (1, 2, 3)


def test_who_was_added_before_and_is_in_the_new_target_stays_where_it_is() -> None:
    start = partition(1, replica(4, 2), isr=(1,), target=(4,), adding=(4,))
    after = first(ask(cluster(start, members=brokers(6, directories=3)), 4, 5))
    assert after.replicas == (replica(1), replica(4, 2), replica(5))


def test_a_new_target_of_the_original_replicas_is_there_at_once() -> None:
    image = with_isr(ask(cluster(partition(1, 2, 3)), 4, 5, 1), 1, 2, 3, 4)
    image = ask(image, 3, 2, 1)
    assert replicas_and_isr(image) == ((3, 2, 1), (3, 2, 1))
    assert not first(image).is_reassigning


def test_a_new_target_that_is_reached_already_is_there_at_once() -> None:
    image = with_isr(ask(cluster(partition(1, 2)), 4, 5), 1, 2, 4)
    before = first(image)
    image = ask(image, 4, 1)
    assert replicas_and_isr(image) == ((4, 1), (4, 1))
    assert first(image).partition_epoch == before.partition_epoch + 1


def test_a_leader_that_was_added_in_vain_is_replaced() -> None:
    start = partition(1, 2, 4, isr=(2, 4), leader=4, target=(4, 5), adding=(4,), leader_epoch=3)
    after = first(ask(cluster(start), 1, 5))
    assert (after.leader, after.leader_epoch, after.isr) == (2, 4, (2,))


def test_the_only_replica_in_sync_cannot_be_dropped_by_a_new_target() -> None:
    start = partition(1, 2, 4, isr=(4,), target=(4, 5), adding=(4,))
    error = refused(cluster(start), 1, 5)
    assert error.code == errors_pb2.INVALID_REASSIGNMENT
    assert "only 4 is in sync" in error.message
    assert "wait until one of 1, 2, 5 is" in error.message


# -- cancelling


def test_a_cancelled_reassignment_leaves_what_was_before_in_its_order() -> None:
    start = cluster(partition(3, 1, 2))
    image = cancel(with_isr(ask(start, 4, 5, 1), 1, 2, 3, 4))
    after = first(image)
    assert after.replicas == first(start).replicas
    assert (after.isr, after.leader, after.target, after.adding) == ((3, 1, 2), 3, (), ())
    assert after.partition_epoch == 3


def test_a_leader_that_was_being_added_gives_way_when_it_is_cancelled() -> None:
    start = partition(1, 2, 4, isr=(2, 4), leader=4, target=(4,), adding=(4,), leader_epoch=3)
    after = first(cancel(cluster(start)))
    assert (after.replica_ids, after.leader, after.leader_epoch) == ((1, 2), 2, 4)


def test_what_is_cancelled_below_the_minimum_keeps_the_original_eligible_ones() -> None:
    start = partition(1, 2, 3, 4, isr=(1, 4), elr=(2,), target=(4, 5, 6), adding=(4,))
    image = cluster(start, min_insync_replicas="3")
    after = first(cancel(image))
    assert (after.isr, after.elr) == ((1,), (replica(2),))


def test_cancelling_is_refused_while_only_added_replicas_are_in_sync() -> None:
    start = partition(1, 2, 4, isr=(4,), target=(4, 5), adding=(4,))
    error = refusal(cluster(start), Reassignment(TOPIC, 0, None))
    assert error.code == errors_pb2.INVALID_REASSIGNMENT
    assert "only 4 is in sync of orders-0" in error.message


def test_the_last_complete_copy_is_not_given_up_while_it_is_away() -> None:
    members = [broker(1), broker(2), broker(4, state=FENCED), broker(5)]
    start = partition(1, 2, 4, isr=(), elr=(4,), target=(4, 5), adding=(4,))
    for request in (Reassignment(TOPIC, 0, None), Reassignment(TOPIC, 0, ids(1, 5))):
        error = refusal(cluster(start, members=members), request)
        assert error.code == errors_pb2.INVALID_REASSIGNMENT
        assert "unclean election" in error.message


def test_a_partition_without_a_leader_and_without_a_complete_copy_can_be_cancelled() -> None:
    members = [broker(1), broker(2), broker(4, state=FENCED)]
    start = partition(1, 2, 4, isr=(), target=(4,), adding=(4,))
    after = first(cancel(cluster(start, members=members)))
    assert (after.replica_ids, after.leader, after.is_reassigning) == ((1, 2), None, False)


def test_there_must_be_something_to_cancel() -> None:
    error = refusal(cluster(partition(1, 2)), Reassignment(TOPIC, 0, None))
    assert error.code == errors_pb2.NO_REASSIGNMENT


# -- refusals


@pytest.mark.parametrize(
    ("target", "code", "cause"),
    [
        ((), errors_pb2.INVALID_REPLICAS, "without replicas"),
        ((1, 4, 4), errors_pb2.INVALID_REPLICAS, "two replicas on one broker"),
        ((1, 99), errors_pb2.UNKNOWN_BROKER, "broker 99"),
        ((1, 5), errors_pb2.INVALID_REASSIGNMENT, "broker 5 is not running"),
        ((1, 6), errors_pb2.INVALID_REASSIGNMENT, "broker 6 is shutting down"),
        ((1, 7), errors_pb2.INVALID_REASSIGNMENT, "broker 7 has no data directory left"),
    ],
)
def test_a_target_that_cannot_be_is_refused(target: tuple[int, ...], code: int, cause: str) -> None:
    members = [
        *brokers(4), broker(5, state=FENCED), broker(6, state=SHUTTING_DOWN), broker(7, state=ACTIVE, directories=()),
    ]  # fmt: skip
    error = refused(cluster(partition(1, 2, 3), members=members), *target)
    assert error.code == code
    assert cause in error.message


@pytest.mark.parametrize("state", [FENCED, SHUTTING_DOWN])
def test_a_replica_that_is_away_may_stay_one(state: Any) -> None:
    members = [broker(1), broker(2, state=state), broker(3), broker(4)]
    after = first(ask(cluster(partition(1, 2, 3, isr=(1, 3)), members=members), 4, 2))
    assert after.target == (4, 2)


def test_no_broker_gets_more_replicas_than_it_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lograft.metadata.decisions.partitions.reassignment.MAX_REPLICAS_PER_BROKER", 2)
    image = cluster(partition(4), partition(1), partition(1))
    decision = reassign(image, [Reassignment(TOPIC, number, ids(4)) for number in (1, 2)])
    errors = [result.error for result in decision.answer]
    assert errors[0] is None
    assert errors[1] is not None
    assert errors[1].code == errors_pb2.INVALID_REPLICAS
    assert "broker 4 would have more than 2 replicas" in errors[1].message
    assert len(decision.records) == 1


@pytest.mark.parametrize(
    ("topic", "number", "code"),
    [(topic_id(9), 0, errors_pb2.UNKNOWN_TOPIC_ID), (TOPIC, 5, errors_pb2.UNKNOWN_PARTITION)],
)
def test_what_does_not_exist_cannot_be_reassigned(topic: TopicId, number: int, code: int) -> None:
    assert refusal(cluster(partition(1, 2)), Reassignment(topic, number, ids(1))).code == code


def test_one_that_is_refused_does_not_hold_up_the_others() -> None:
    image = cluster(partition(1, 2), partition(1, 2), partition(1, 2))
    requests = [Reassignment(TOPIC, number, target) for number, target in enumerate([ids(3), ids(99), None])]
    decision = reassign(image, requests)
    assert [(result.number, result.error is None) for result in decision.answer] == [(0, True), (1, False), (2, False)]
    assert [record.number for record in decision.records] == [0]


def test_a_partition_that_is_named_twice_makes_the_request_void() -> None:
    image = cluster(partition(1, 2))
    with pytest.raises(ControllerError, match="twice") as refused:
        reassign(image, [Reassignment(TOPIC, 0, ids(3)), Reassignment(TOPIC, 0, ids(4))])
    assert refused.value.code == errors_pb2.INVALID_REQUEST


def test_more_than_fits_in_one_operation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_PARTS_IN_ONE_OPERATION * 61 < 8 * 1024 * 1024  # bytes, at most, each
    monkeypatch.setattr("lograft.metadata.decisions.bulk_change.MAX_PARTS_IN_ONE_OPERATION", 7)
    image = cluster(partition(1, 2), partition(1, 2))
    assert_fine(reassign(image, [Reassignment(TOPIC, number, ids(1, 3)) for number in (0,)]))
    with pytest.raises(ControllerError, match="name fewer") as refused:
        reassign(image, [Reassignment(TOPIC, number, ids(1, 3)) for number in (0, 1)])
    assert refused.value.code == errors_pb2.INVALID_REQUEST


# -- looking


def test_progress_says_who_comes_who_goes_and_who_has_arrived() -> None:
    image = with_isr(ask(cluster(partition(1, 2, 3), partition(1, 2)), 5, 2, 4), 1, 2, 3, 5)
    (progress,) = list_reassignments(image, None)
    assert (progress.topic_id, progress.number) == (TOPIC, 0)
    assert (progress.replicas, progress.target) == ((1, 2, 3, 5, 4), (5, 2, 4))
    assert (progress.adding, progress.removing, progress.added_in_sync) == ((5, 4), (1, 3), (5,))


def test_progress_of_some_topics() -> None:
    moving = partition(1, 2, isr=(1,), target=(2,), adding=(2,))
    image = image_with(*brokers(2), topics={"orders": [moving], "bills": [moving], "calm": [partition(1)]})
    assert [one.topic_id for one in list_reassignments(image, None)] == [topic_id(1), topic_id(2)]
    asked = [topic_id(2), topic_id(3), topic_id(99), topic_id(2)]
    assert [one.topic_id for one in list_reassignments(image, asked)] == [topic_id(2)]
