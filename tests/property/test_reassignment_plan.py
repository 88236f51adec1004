"""Plans of reassignments, of all sorts of clusters: what they promise holds, whatever there was before."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.described_clusters import described

from lograft.clients.admin.model.types import ClusterDescription
from lograft.clients.admin.planning.reassignment_plan import (
    CannotPlan,
    Move,
    plan_balance,
    plan_drain,
    plan_replicas,
    standing_replicas,
)
from lograft.clients.types import TopicPartition

EXAMPLES = int(os.environ.get("LOGRAFT_EXAMPLES", "200"))

Placed = dict[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True)
class Drawn:
    cluster: ClusterDescription
    live: list[int]
    racks: dict[int, str]


@st.composite
def clusters(draw: st.DrawFn, *, racks: bool | None = False, may_be_fenced: bool = True, topics: int = 4) -> Drawn:
    """`racks` None: perhaps."""
    brokers = list(range(1, draw(st.integers(2, 7)) + 1))
    fenced = draw(st.sets(st.sampled_from(brokers), max_size=len(brokers) - 2)) if may_be_fenced else set()
    has_racks = draw(st.booleans()) if racks is None else racks
    rack_of = {number: draw(st.sampled_from("abc")) for number in brokers} if has_racks else {}
    placed: dict[str, list[list[int]]] = {}
    for number in range(draw(st.integers(1, topics))):
        factor = draw(st.integers(1, min(4, len(brokers))))
        chosen = st.permutations(brokers).map(lambda order, factor=factor: list(order[:factor]))  # type: ignore[misc]
        placed[f"t{number}"] = draw(st.lists(chosen, min_size=1, max_size=9))
    live = [number for number in brokers if number not in fenced]
    return Drawn(described(placed, brokers, racks=rack_of, fenced=fenced), live, rack_of)


def after(cluster: ClusterDescription, moves: Sequence[Move]) -> Placed:
    before = standing_replicas(cluster, ())
    for move in moves:
        assert move.before == before[move.partition] != move.after
    return before | {move.partition: move.after for move in moves}


def check_sound(cluster: ClusterDescription, moves: Sequence[Move], live: Sequence[int]) -> Placed:
    """Each broker once, and whoever is added is live."""
    names = [move.partition for move in moves]
    assert names == sorted(set(names))
    for move in moves:
        assert len(set(move.after)) == len(move.after)
        assert set(move.adding) <= set(live)
    return after(cluster, moves)


def of_topic(placed: Placed, topic: str) -> list[tuple[int, ...]]:
    return [replicas for name, replicas in placed.items() if name.topic == topic]


def spread(counts: Counter[int], brokers: Sequence[int]) -> int:
    return max(counts[broker] for broker in brokers) - min(counts[broker] for broker in brokers)


def replica_counts(placed: Sequence[Sequence[int]]) -> Counter[int]:
    return Counter(broker for replicas in placed for broker in replicas)


def racks_of(replicas: Sequence[int], racks: dict[int, str]) -> int:
    return len({racks[broker] for broker in replicas})


def check_leaders(placed: Placed) -> None:
    """Nobody could hand a partition on to whom it would make more even, and leave its topic as even as it is."""
    led = Counter(replicas[0] for replicas in placed.values())
    for name, (leader, *others) in placed.items():
        in_topic = Counter(replicas[0] for replicas in of_topic(placed, name.topic))
        for other in others:
            assert led[leader] - led[other] <= 1 or in_topic[leader] <= in_topic[other]


@settings(max_examples=EXAMPLES, deadline=None)
@given(clusters(racks=None))
def test_a_balance_keeps_every_partition_whole_and_is_stable(drawn: Drawn) -> None:
    moves = plan_balance(drawn.cluster)
    placed = check_sound(drawn.cluster, moves, drawn.live)
    for name, replicas in standing_replicas(drawn.cluster, ()).items():
        assert len(placed[name]) == len(replicas)
        gone = [broker for broker in replicas if broker not in drawn.live]
        assert all(broker in placed[name] for broker in gone), "who is away is waited for"
    assert plan_balance(drawn.cluster) == moves
    topics = {topic.name: of_topic(placed, topic.name) for topic in drawn.cluster.topics}
    fenced = [broker.id for broker in drawn.cluster.brokers if broker.id not in drawn.live]
    again = described(topics, [broker.id for broker in drawn.cluster.brokers], racks=drawn.racks, fenced=fenced)
    assert [move for move in plan_balance(again) if move.adding] == [], "what is balanced stays"


@settings(max_examples=EXAMPLES, deadline=None)
@given(clusters(may_be_fenced=False))
def test_without_racks_a_balance_is_even_within_one(drawn: Drawn) -> None:
    placed = check_sound(drawn.cluster, plan_balance(drawn.cluster), drawn.live)
    for topic in drawn.cluster.topics:
        assert spread(replica_counts(of_topic(placed, topic.name)), drawn.live) <= 1
        assert spread(Counter(replicas[0] for replicas in of_topic(placed, topic.name)), drawn.live) <= 1
    assert spread(replica_counts(list(placed.values())), drawn.live) <= 1
    check_leaders(placed)


@settings(max_examples=EXAMPLES, deadline=None)
@given(clusters(may_be_fenced=False, topics=1))
def test_a_topic_is_balanced_by_the_fewest_moves_there_can_be(drawn: Drawn) -> None:
    moves = plan_balance(drawn.cluster)
    counts = replica_counts([partition.replicas for partition in drawn.cluster.topics[0].partitions])
    least, rest = divmod(sum(counts.values()), len(drawn.live))
    most = least + (rest > 0)
    too_many = sum(max(counts[broker] - most, 0) for broker in drawn.live)
    too_few = sum(max(least - counts[broker], 0) for broker in drawn.live)
    assert sum(len(move.adding) for move in moves) == max(too_many, too_few)


@settings(max_examples=EXAMPLES, deadline=None)
@given(clusters(racks=True))
def test_a_partition_is_on_as_many_racks_as_there_are(drawn: Drawn) -> None:
    placed = check_sound(drawn.cluster, plan_balance(drawn.cluster, brokers=drawn.live, replicas=2), drawn.live)
    for replicas in placed.values():
        assert set(replicas) <= set(drawn.live)
        assert racks_of(replicas, drawn.racks) == min(2, racks_of(drawn.live, drawn.racks))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(1, 3), st.integers(2, 3), st.integers(1, 8), st.data())
def test_with_racks_of_one_size_and_a_replica_in_each_it_is_even_too(
    size: int, rack_count: int, partitions: int, data: st.DataObject
) -> None:
    brokers = list(range(1, size * rack_count + 1))
    racks = {broker: "abc"[broker % rack_count] for broker in brokers}
    chosen = st.permutations(brokers).map(lambda order: order[:rack_count])
    cluster = described(
        {"t": data.draw(st.lists(chosen, min_size=partitions, max_size=partitions))}, brokers, racks=racks
    )
    placed = check_sound(cluster, plan_balance(cluster), brokers)
    assert all(racks_of(replicas, racks) == rack_count for replicas in placed.values())
    assert spread(replica_counts(list(placed.values())), brokers) <= 1


@settings(max_examples=EXAMPLES, deadline=None)
@given(clusters(racks=None), st.data())
def test_a_drain_moves_what_is_there_and_nothing_else(drawn: Drawn, data: st.DataObject) -> None:
    known = [broker.id for broker in drawn.cluster.brokers]
    drained = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True))
    before = standing_replicas(drawn.cluster, ())
    left = [broker for broker in drawn.live if broker not in drained]
    try:
        moves = plan_drain(drawn.cluster, (), drained)
    except CannotPlan:
        stays = [[broker for broker in replicas if broker not in drained] for replicas in before.values()]
        free = [len([broker for broker in left if broker not in kept]) for kept in stays]
        needed = [len(replicas) - len(kept) for replicas, kept in zip(before.values(), stays, strict=True)]
        assert any(count > room for count, room in zip(needed, free, strict=True)), "it could have been done"
        return
    placed = check_sound(drawn.cluster, moves, left)
    concerned = [name for name, replicas in before.items() if set(replicas) & set(drained)]
    assert [move.partition for move in moves] == sorted(concerned)
    for move in moves:
        assert set(move.removing) == set(move.before) & set(drained)
        assert len(move.after) == len(move.before)
        if move.before[0] not in drained:
            assert move.after[0] == move.before[0]
    assert not any(set(replicas) & set(drained) for replicas in placed.values())
    assert plan_drain(drawn.cluster, (), drained) == moves


@settings(max_examples=EXAMPLES, deadline=None)
@given(clusters(racks=None), st.integers(1, 7))
def test_a_replication_factor_only_adds_or_only_removes(drawn: Drawn, factor: int) -> None:
    partitions = {each.name: each for topic in drawn.cluster.topics for each in topic.partitions}
    if factor > len(drawn.live) and any(len(partition.replicas) < factor for partition in partitions.values()):
        fenced = [broker.id for broker in drawn.cluster.brokers if broker.id not in drawn.live]
        reachable = [len(drawn.live) + len(set(each.replicas) & set(fenced)) for each in partitions.values()]
        if any(count < factor for count in reachable):
            with pytest.raises(CannotPlan):
                plan_replicas(drawn.cluster, (), [topic.name for topic in drawn.cluster.topics], factor)
        return
    moves = plan_replicas(drawn.cluster, (), [topic.name for topic in drawn.cluster.topics], factor)
    placed = check_sound(drawn.cluster, moves, drawn.live)
    assert all(len(replicas) == factor for replicas in placed.values())
    for move in moves:
        partition = partitions[move.partition]
        assert not (move.adding and move.removing)
        if move.adding:
            assert move.after[: len(move.before)] == move.before
        kept_in_sync = [broker for broker in move.after if broker in partition.isr]
        assert move.adding or len(kept_in_sync) == min(factor, len(partition.isr))
        assert partition.leader is None or partition.leader in move.after
