"""Elections that someone asks for, or that a timer finds possible."""

from collections.abc import Mapping, Sequence
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

from lograft.metadata.decisions.partitions.elect_leaders import (
    elect_allowed_unclean,
    elect_possible,
    elect_preferred,
    elect_unclean_leaders,
)
from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition
from lograft.metadata.image.records import PartitionChanged
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

TOPIC = topic_id(1)
KEY = (TOPIC, 0)


def cluster(*partitions: Partition, members: Sequence[Broker] | None = None, **config: str) -> ClusterImage:
    members = members if members is not None else brokers(3)
    keys = {key.replace("_", "."): value for key, value in config.items()}
    return image_with(*members, topics={"orders": partitions}, topic_configs={"orders": keys})


def members(*states: BrokerState) -> list[Broker]:
    """Brokers 1, 2, ... in these states."""
    return [broker(number, state=state) for number, state in enumerate(states, start=1)]


def first(image: ClusterImage) -> Partition:
    return image.topics[TOPIC].partitions[0]


def ends(**by_broker: tuple[int, int]) -> dict[tuple[Any, int], Mapping[BrokerId, LogEnd]]:
    """`b1=(last epoch, end offset)`, said by the brokers' present processes, of the first partition."""
    said = {BrokerId(int(name[1:])): end for name, end in by_broker.items()}
    return {KEY: {one: LogEnd(epoch_of(one), LeaderEpoch(end[0]), end[1]) for one, end in said.items()}}


def only_error(answer: Sequence[Any]) -> ControllerError:
    (result,) = answer
    assert isinstance(result.error, ControllerError)
    return result.error


# -- preferred leaders


def test_the_preferred_leader_is_elected_in_a_new_epoch() -> None:
    image = cluster(partition(1, 2, 3, leader=2, leader_epoch=4, partition_epoch=9))
    decision = elect_preferred(image, [KEY])
    after = first(apply(image, decision))
    assert [result.error for result in decision.answer] == [None]
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1, 2, 3), 5, 10)


def test_during_a_reassignment_the_first_of_the_target_is_preferred() -> None:
    image = cluster(partition(1, 2, 3, target=(3, 2), adding=(3,)))
    assert first(apply(image, elect_preferred(image, [KEY]))).leader == 3


def test_the_preferred_leader_may_lead_already() -> None:
    image = cluster(partition(1, 2, 3))
    decision = elect_preferred(image, [KEY])
    assert decision.records == ()
    assert only_error(decision.answer).code == errors_pb2.ELECTION_NOT_NEEDED


@pytest.mark.parametrize(
    ("state", "isr", "cause"),
    [
        (ACTIVE, (2, 3), "not in sync"),
        (FENCED, (2, 3), "not running"),
        (SHUTTING_DOWN, (1, 2, 3), "shutting down"),
    ],
)
def test_a_preferred_leader_that_cannot_lead_is_not_elected(
    state: BrokerState, isr: tuple[int, ...], cause: str
) -> None:
    image = cluster(partition(1, 2, 3, isr=isr, leader=2), members=members(state, ACTIVE, ACTIVE))
    decision = elect_preferred(image, [KEY])
    assert decision.records == ()
    error = only_error(decision.answer)
    assert error.code == errors_pb2.PREFERRED_LEADER_NOT_AVAILABLE
    assert error.retriable
    assert f"broker 1, the preferred leader of orders-0, is {cause}" in error.message


def test_of_all_partitions_only_those_are_answered_for_that_need_it() -> None:
    image = cluster(
        partition(1, 2, 3), partition(1, 2, 3, leader=3), partition(1, 2, 3, isr=(2, 3)), partition(3, 2, leader=2)
    )
    decision = elect_preferred(image, None)
    assert [(result.number, result.error is None) for result in decision.answer] == [(1, True), (2, False), (3, True)]
    after = apply(image, decision)
    assert [one.leader for one in after.topics[TOPIC].partitions.values()] == [1, 1, 2, 3]


@pytest.mark.parametrize("elect", [elect_preferred, lambda image, keys: elect_unclean_leaders(image, keys, {})])
def test_what_does_not_exist_has_no_election(elect: Any) -> None:
    decision = elect(cluster(partition(1)), [(topic_id(9), 0), (TOPIC, 7)])
    codes = [result.error.code for result in decision.answer]
    assert codes == [errors_pb2.UNKNOWN_TOPIC_ID, errors_pb2.UNKNOWN_PARTITION]


def test_a_partition_that_is_named_twice_is_elected_once() -> None:
    image = cluster(partition(1, 2, 3, leader=2))
    decision = elect_preferred(image, [KEY, KEY])
    assert len(decision.answer) == len(decision.records) == 1


# -- unclean elections

AWAY = partition(1, 2, 3, isr=(), elr=(1,), leader_epoch=4, partition_epoch=9)
WITHOUT_1 = members(FENCED, ACTIVE, ACTIVE)


@pytest.mark.parametrize(
    ("said", "elected"),
    [
        ({"b2": (3, 50), "b3": (3, 60)}, 3),
        ({"b2": (4, 10), "b3": (3, 60)}, 2),
        ({"b2": (3, 50), "b3": (3, 50)}, 2),
        ({"b2": (-1, 0), "b3": (0, 0)}, 3),
    ],
    ids=["the longer log", "the later epoch before the longer log", "of equals the first", "an empty log last"],
)
def test_who_has_most_is_elected_uncleanly(said: dict[str, tuple[int, int]], elected: int) -> None:
    image = cluster(AWAY, members=WITHOUT_1)
    decision = elect_unclean_leaders(image, [KEY], ends(**said))
    after = first(apply(image, decision))
    assert [result.error for result in decision.answer] == [None]
    assert (after.leader, after.isr, after.elr) == (elected, (elected,), ())
    assert (after.leader_epoch, after.partition_epoch, after.unclean_epoch) == (5, 10, 5)


def test_metadata_from_the_past_give_no_epoch_that_a_log_has_already() -> None:
    image = cluster(AWAY, members=WITHOUT_1)
    after = first(apply(image, elect_unclean_leaders(image, [KEY], ends(b2=(17, 50), b3=(16, 60)))))
    assert (after.leader, after.leader_epoch, after.unclean_epoch, after.partition_epoch) == (2, 18, 18, 10)


def test_of_equals_one_that_goes_on_running_and_keeps_the_partition_is_elected() -> None:
    said = ends(b2=(3, 50), b3=(3, 50))
    image = cluster(AWAY, members=members(FENCED, SHUTTING_DOWN, ACTIVE))
    assert first(apply(image, elect_unclean_leaders(image, [KEY], said))).leader == 3
    moving = partition(2, 1, 3, isr=(), elr=(1,), target=(1, 3), adding=(3,))
    image = cluster(moving, members=WITHOUT_1)
    assert first(apply(image, elect_unclean_leaders(image, [KEY], said))).leader == 3


def test_a_clean_election_comes_before_an_unclean_one() -> None:
    image = cluster(partition(1, 2, 3, isr=(), elr=(2,)))
    after = first(apply(image, elect_unclean_leaders(image, [KEY], ends(b1=(9, 900), b2=(3, 5), b3=(9, 900)))))
    assert (after.leader, after.unclean_epoch) == (2, None)


def test_a_live_replica_that_has_not_said_what_it_has_is_waited_for() -> None:
    image = cluster(AWAY, members=WITHOUT_1)
    decision = elect_unclean_leaders(image, [KEY], ends(b2=(3, 50)))
    assert decision.records == ()
    error = only_error(decision.answer)
    assert error.code == errors_pb2.ELIGIBLE_LEADER_NOT_AVAILABLE
    assert error.retriable
    assert "broker 3" in error.message


def test_what_an_earlier_process_said_does_not_count() -> None:
    image = cluster(AWAY, members=WITHOUT_1)
    said = ends(b2=(3, 50), b3=(3, 60))
    old = LogEnd(BrokerEpoch(epoch_of(3) - 1), LeaderEpoch(3), 60)
    decision = elect_unclean_leaders(image, [KEY], {KEY: {**said[KEY], BrokerId(3): old}})
    assert "broker 3 has not yet said" in only_error(decision.answer).message


def test_a_broker_without_the_replicas_directory_is_neither_elected_nor_waited_for() -> None:
    wiped = broker(3, directories=[directory(3, 7)])
    image = cluster(AWAY, members=[broker(1, state=FENCED), broker(2), wiped])
    assert first(apply(image, elect_unclean_leaders(image, [KEY], ends(b2=(0, 1), b3=(3, 60))))).leader == 2
    image = cluster(AWAY, members=[broker(1, state=FENCED), broker(2, state=FENCED), wiped])
    error = only_error(elect_unclean_leaders(image, [KEY], ends(b3=(3, 60))).answer)
    assert error.code == errors_pb2.ELIGIBLE_LEADER_NOT_AVAILABLE
    assert "start one of the brokers 1, 2, 3" in error.message


def test_a_partition_that_has_a_leader_is_not_elected_uncleanly() -> None:
    image = cluster(partition(1, 2, 3, isr=(1,), elr=(2,)))
    decision = elect_unclean_leaders(image, [KEY], ends(b1=(3, 5), b2=(3, 5), b3=(9, 99)))
    assert decision.records == ()
    assert only_error(decision.answer).code == errors_pb2.ELECTION_NOT_NEEDED


def test_of_all_partitions_those_without_a_leader_are_elected_uncleanly() -> None:
    image = cluster(partition(2, 3), AWAY, members=WITHOUT_1)
    said = {(TOPIC, 1): ends(b2=(3, 50), b3=(3, 60))[KEY]}
    decision = elect_unclean_leaders(image, None, said)
    assert [(result.number, result.error) for result in decision.answer] == [(1, None)]
    assert apply(image, decision).topics[TOPIC].partitions[1].leader == 3


def test_a_reassignment_that_the_elected_one_completes_ends_with_its_election() -> None:
    moving = partition(1, 2, isr=(), elr=(1,), target=(2,), leader_epoch=4, partition_epoch=9)
    image = cluster(moving, members=members(FENCED, ACTIVE))
    after = first(apply(image, elect_unclean_leaders(image, [KEY], ends(b2=(3, 50)))))
    assert (after.replica_ids, after.isr, after.leader, after.is_reassigning) == ((2,), (2,), 2, False)
    assert (after.leader_epoch, after.partition_epoch, after.unclean_epoch) == (5, 10, 5)


# -- timers


def test_a_topic_that_allows_it_gets_unclean_leaders_by_itself() -> None:
    said = {(topic_id(number), 0): ends(b2=(3, 50), b3=(3, 60))[KEY] for number in (1, 2, 3)}
    topics = {"careful": [AWAY], "careless": [AWAY], "inherits": [AWAY]}
    image = image_with(
        *WITHOUT_1,
        topics=topics,
        topic_configs={"careful": {"unclean.leader.election.enable": "false"}},
        cluster_config={"unclean.leader.election.enable": "true"},
    )
    decision = elect_allowed_unclean(image, said)
    assert decision.answer == 2
    assert [record.topic_id for record in decision.records if isinstance(record, PartitionChanged)] == [
        topic_id(2), topic_id(3),
    ]  # fmt: skip
    assert elect_allowed_unclean(apply(image, decision), said).records == ()


def test_by_itself_nothing_is_elected_uncleanly_by_default() -> None:
    image = cluster(AWAY, members=WITHOUT_1)
    assert elect_allowed_unclean(image, ends(b2=(3, 50), b3=(3, 60))).records == ()


def test_a_timer_waits_for_what_live_replicas_have_too() -> None:
    image = cluster(AWAY, members=WITHOUT_1, unclean_leader_election_enable="true")
    assert elect_allowed_unclean(image, ends(b2=(3, 50))).records == ()
    assert elect_allowed_unclean(image, ends(b2=(3, 50), b3=(3, 60))).answer == 1


def test_what_can_have_a_clean_leader_by_now_gets_it() -> None:
    image = cluster(
        AWAY,
        partition(1, 2, 3, isr=(), elr=(3, 1)),
        partition(1, 2, 3, isr=()),
        partition(1, replica(2, 7), 3, isr=(), elr=(replica(2, 7),)),
        partition(1, 2, 3, isr=(2,), elr=(3,)),
        members=WITHOUT_1,
    )
    decision = elect_possible(image)
    assert decision.answer == 1
    after = apply(image, decision).topics[TOPIC].partitions
    assert [one.leader for one in after.values()] == [None, 3, None, None, 2]
    assert (after[1].isr, after[1].elr) == ((3,), (replica(1),))


@pytest.mark.parametrize(
    "elect",
    [
        elect_possible,
        lambda image: elect_allowed_unclean(image, {}),
        lambda image: elect_unclean_leaders(image, None, {}),
    ],
)
def test_what_concerns_all_partitions_is_done_bit_by_bit(elect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lograft.metadata.decisions.bulk_change.PARTS_AT_A_TIME", 8)
    waiting = [partition(1, 2, 3, isr=(), elr=(1,))] * 5
    image = cluster(*waiting, unclean_leader_election_enable="true")
    done = []
    while (decision := elect(image)).records:
        done.append(len(decision.records))
        image = apply(image, decision)
    assert done == [2, 2, 1]
    assert image.leader_count(BrokerId(1)) == 5


def test_nothing_that_was_asked_of_is_touched() -> None:
    """Decisions change no image."""
    image = cluster(AWAY, partition(1, 2, 3, leader=2), members=WITHOUT_1)
    same = image.copy()
    elect_unclean_leaders(image, None, ends(b2=(3, 50), b3=(3, 60)))
    elect_preferred(image, None)
    elect_possible(image)
    assert image == same
    assert first(image).isr == ids()
