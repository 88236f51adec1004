"""Plans of reassignments: some of which the outcome is known, and those that are refused."""

from dataclasses import replace

import pytest
from support.described_clusters import described, described_partition, described_topic

from lograft.clients.admin.model.types import BrokerState, Reassignment
from lograft.clients.admin.planning.reassignment_plan import CannotPlan, Move, plan_balance, plan_drain, plan_replicas
from lograft.clients.types import TopicPartition

RING = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def test_a_broker_that_was_added_gets_its_share_and_one_to_lead() -> None:
    moves = plan_balance(described({"t": [*RING, [1, 3, 2]]}, [1, 2, 3, 4]))
    assert sum(len(move.adding) for move in moves) == 3
    assert all(move.adding in ((), (4,)) for move in moves)
    assert [move.after[0] for move in moves].count(4) == 1


def test_what_is_balanced_already_stays() -> None:
    assert plan_balance(described({"t": RING})) == []


def test_what_a_plan_makes_of_racks_needs_no_other_plan() -> None:
    """What evened out both topics made room in a rack for evening out one of them."""
    racks = {1: "b", 2: "c", 3: "a", 4: "b", 5: "b", 6: "a"}
    before = {"t0": [[3, 2], [5, 6], [4, 5]], "t1": [[4, 2, 3]]}
    moves = {move.partition: move.after for move in plan_balance(described(before, racks, racks=racks))}
    after = {
        topic: [moves.get(TopicPartition(topic, number), replicas) for number, replicas in enumerate(partitions)]
        for topic, partitions in before.items()
    }
    assert plan_balance(described(after, racks, racks=racks)) == []


def test_only_the_topics_that_are_named_move() -> None:
    cluster = described({"a": RING, "b": RING}, [1, 2, 3, 4])
    assert {move.partition.topic for move in plan_balance(cluster, topics=["b"])} == {"b"}


def test_brokers_that_are_named_have_all_and_others_nothing() -> None:
    moves = plan_balance(described({"t": RING}, [1, 2, 3, 4, 5]), brokers=[3, 4, 5])
    assert sorted(broker for move in moves for broker in move.after) == [3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert sorted(move.after[0] for move in moves) == [3, 4, 5]


def test_who_is_away_for_a_while_keeps_what_it_has() -> None:
    assert plan_balance(described({"t": RING}, fenced=[3])) == []


def test_who_is_cordoned_keeps_what_it_has_and_gets_nothing() -> None:
    cluster = described({"t": [*RING, [1, 3, 2]]}, [1, 2, 3, 4])
    brokers = tuple(replace(broker, is_cordoned=broker.id == 4) for broker in cluster.brokers)
    cluster = replace(cluster, brokers=brokers)
    assert all(not move.adding for move in plan_balance(cluster))
    with pytest.raises(CannotPlan, match="there are only 2 live brokers"):
        plan_drain(cluster, (), [3])


# -- full disks


def test_who_has_no_room_keeps_what_it_has_and_gets_nothing() -> None:
    cluster = described({"t": [*RING, [1, 3, 2]]}, [1, 2, 3, 4, 5])
    assert all(4 not in move.adding for move in plan_balance(cluster, full=[4]))
    moves = plan_drain(cluster, (), [3], full=[4])
    assert [move.adding for move in moves] == [(5,)] * 4
    assert all(move.after[0] != 4 for move in plan_balance(described({"t": [[1, 4]] * 4}, [1, 4]), full=[4]))
    assert [move.adding for move in plan_replicas(described({"t": [[1]]}), (), ["t"], 2, full=[2])] == [(3,)]


def test_a_plan_that_full_disks_stand_in_the_way_of_is_refused_and_says_so() -> None:
    cluster = described({"t": RING}, [1, 2, 3, 4])
    with pytest.raises(CannotPlan, match=r"only 2 live brokers for them \(1, 2; 4 without room on disk\)") as caught:
        plan_drain(cluster, (), [3], full=[4])
    assert caught.value.remedy.startswith("make room on the disks of 4, ")
    with pytest.raises(CannotPlan, match="without room on disk"):
        plan_replicas(cluster, (), ["t"], 4, full=[4])


def test_to_drain_a_broker_that_an_internal_topic_needs_it_is_cordoned_first() -> None:
    with pytest.raises(CannotPlan) as caught:
        plan_drain(described({"__consumer_offsets": RING}), (), [3])
    assert (
        "`lograft config set broker/3 placement.enable=false`, then `lograft scale topic __consumer_offsets "
        "--replicas 2`" in caught.value.remedy
    )


def test_leaders_alone_are_evened_out_without_moving_a_replica() -> None:
    moves = plan_balance(described({"t": [[1, 2, 3]] * 3}))
    assert [set(move.after) for move in moves] == [{1, 2, 3}] * 2
    assert sorted(move.after[0] for move in moves) == [2, 3]


def test_a_drain_spreads_what_the_broker_led() -> None:
    moves = plan_drain(described({"t": [[3, 1]] * 4}, [1, 2, 3, 4]), (), [3])
    leaders = [move.after[0] for move in moves]
    assert sorted(leaders.count(broker) for broker in (1, 2, 4)) == [1, 1, 2]


def test_a_drain_that_cannot_keep_the_replicas_is_refused_and_names_them() -> None:
    with pytest.raises(
        CannotPlan, match=r"'t' is to have 3 replicas.* without 2 there are only 2 live brokers"
    ) as caught:
        plan_drain(described({"s": [[1]], "t": RING}), (), [2])
    assert "lograft scale topic t --replicas 2" in caught.value.remedy


def test_a_broker_that_is_not_there_is_refused() -> None:
    with pytest.raises(CannotPlan, match="no broker 9"):
        plan_drain(described({"t": RING}), (), [9])
    with pytest.raises(CannotPlan, match="no broker 9"):
        plan_balance(described({"t": RING}), brokers=[1, 2, 9])


@pytest.mark.parametrize("state", [BrokerState.FENCED, BrokerState.SHUTTING_DOWN])
def test_a_broker_that_cannot_be_given_anything_is_refused(state: BrokerState) -> None:
    cluster = described({"t": [[1]]}, [1, 2])
    cluster = replace(cluster, brokers=(cluster.brokers[0], replace(cluster.brokers[1], state=state)))
    with pytest.raises(CannotPlan, match=f"broker 2 cannot be given anything: it is {state.value}"):
        plan_balance(cluster, brokers=[1, 2])


def test_a_broker_without_a_directory_is_refused() -> None:
    cluster = described({"t": [[1]]}, [1, 2])
    cluster = replace(cluster, brokers=(cluster.brokers[0], replace(cluster.brokers[1], directories=())))
    with pytest.raises(CannotPlan, match="broker 2 cannot be given anything: it has no data directory that works"):
        plan_balance(cluster, brokers=[1, 2])


def test_a_refusal_names_who_would_be_there_if_it_were_not_cordoned() -> None:
    cluster = described({"t": [[1, 2]]}, [1, 2, 3])
    cluster = replace(cluster, brokers=(*cluster.brokers[:2], replace(cluster.brokers[2], is_cordoned=True)))
    with pytest.raises(
        CannotPlan, match=r"only 2 live brokers for them \(1, 2; 3 may be given nothing new\)"
    ) as caught:
        plan_replicas(cluster, (), ["t"], 3)
    assert "`lograft config unset broker/3 placement.enable`" in caught.value.remedy


def test_fewer_replicas_keep_the_leader_and_who_is_in_sync() -> None:
    partition = replace(described_partition("t", 0, [1, 2, 3, 4]), leader=3, isr=(3, 4))
    cluster = replace(described({}, [1, 2, 3, 4]), topics=(replace(described_topic("t", []), partitions=(partition,)),))
    (move,) = plan_replicas(cluster, (), ["t"], 2)
    assert sorted(move.after) == [3, 4]
    (move,) = plan_replicas(cluster, (), ["t"], 1)
    assert move.after == (3,)


def test_more_replicas_go_where_there_are_the_fewest_and_to_another_rack() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    cluster = described({"s": [[3], [3]], "t": [[1], [1]]}, [1, 2, 3, 4], racks=racks)
    assert [move.after for move in plan_replicas(cluster, (), ["t"], 2)] == [(1, 4), (1, 3)]


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(CannotPlan, match="4 replicas of each partition, and there are only 3 live brokers"):
        plan_replicas(described({"t": RING}), (), ["t"], 4)


def test_what_is_on_its_way_counts_as_being_there() -> None:
    name = TopicPartition("t", 0)
    under_way = Reassignment(name, (1, 2, 3), (3, 2), adding=(2, 3), adding_in_sync=(), removing=(1,))
    partition = replace(described_partition("t", 0, [1, 2, 3]), adding=(2, 3), removing=(1,))
    cluster = replace(described({}, [1, 2, 3]), topics=(replace(described_topic("t", []), partitions=(partition,)),))
    assert plan_drain(cluster, [under_way], [1]) == []
    assert plan_drain(cluster, [under_way], [2]) == [Move(name, (3, 2), (3, 1))]
    # It began after it was asked what is under way; it ended before the partition was looked at.
    assert plan_drain(cluster, [], [2]) == [Move(name, (2, 3), (1, 3))]
    assert plan_drain(described({"t": [[2, 3]]}), [under_way], [1]) == []
