"""Who of a group is to read which partitions."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lograft.broker.groups.assignors import ASSIGNORS, Candidate, Targets, range_of_each, round_robin, uniform
from lograft.broker.groups.state import SubscribedTopic
from lograft.metadata.image.partition import PartitionKey, TopicId


def topic(name: str, partitions: int) -> SubscribedTopic:
    return SubscribedTopic(name, TopicId(UUID(int=ord(name))), partitions)


def place(name: str, number: int) -> PartitionKey:
    return TopicId(UUID(int=ord(name))), number


def member(name: str, wants: str = "t", had: tuple[PartitionKey, ...] = ()) -> Candidate:
    return Candidate(name, name, frozenset(wants), had)


def numbers(targets: Targets) -> dict[str, list[int]]:
    return {member_id: [number for _, number in target] for member_id, target in targets.items()}


# -- what holds for all of them

NAMES = "xyz"
topics_of_a_group = st.lists(st.integers(0, 7), min_size=3, max_size=3).map(
    lambda sizes: [topic(name, size) for name, size in zip(NAMES, sizes, strict=True) if size]
)
members_of_a_group = st.lists(st.sets(st.sampled_from(NAMES)).map("".join), min_size=1, max_size=6)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(topics=topics_of_a_group, wants=members_of_a_group)
def test_every_wanted_partition_has_one_member_that_wants_it(
    name: str, topics: list[SubscribedTopic], wants: list[str]
) -> None:
    members = [member(f"m{index}", wish) for index, wish in enumerate(wants)]
    targets = ASSIGNORS[name](members, topics)
    assert sorted(targets) == sorted(each.member_id for each in members)
    given_out = [(partition, member_id) for member_id, target in targets.items() for partition in target]
    wanted = [
        place(each.name, number) for each in topics for number in range(each.partitions) if each.name in "".join(wants)
    ]
    assert sorted(partition for partition, _ in given_out) == sorted(wanted)
    wishes = {each.member_id: each.wants for each in members}
    assert all(chr(partition[0].int) in wishes[member_id] for partition, member_id in given_out)


# -- uniform


@given(partitions=st.integers(0, 40), lives=st.lists(st.sets(st.integers(0, 8), min_size=1), min_size=1, max_size=6))
def test_uniform_is_even_and_moves_no_more_than_it_must(partitions: int, lives: list[set[int]]) -> None:
    """Members come and go. What a member has and may keep, it keeps; only what is over its share moves."""
    had: dict[str, tuple[PartitionKey, ...]] = {}
    for alive in lives:
        members = [member(f"m{number}", had=had.get(f"m{number}", ())) for number in sorted(alive)]
        targets = uniform(members, [topic("t", partitions)])
        sizes = [len(target) for target in targets.values()]
        assert max(sizes) - min(sizes) <= 1
        for each in members:
            kept = [partition for partition in each.had if partition in targets[each.member_id]]
            assert len(kept) >= min(len(each.had), partitions // len(members))
        had = {member_id: tuple(target) for member_id, target in targets.items()}


@settings(max_examples=50)
@given(topics=topics_of_a_group, wants=members_of_a_group)
def test_uniform_moves_nothing_when_nothing_changed(topics: list[SubscribedTopic], wants: list[str]) -> None:
    members = [member(f"m{index}", wish) for index, wish in enumerate(wants)]
    first = uniform(members, topics)
    again = uniform(
        [member(one.member_id, "".join(sorted(one.wants)), tuple(first[one.member_id])) for one in members], topics
    )
    assert {key: sorted(target) for key, target in again.items()} == {
        key: sorted(target) for key, target in first.items()
    }


def test_uniform_evens_out_what_different_wishes_allow() -> None:
    """a wants both topics, b only y: so b gets all of y that it takes to be even."""
    targets = uniform([member("a", "xy"), member("b", "y")], [topic("x", 2), topic("y", 4)])
    assert sorted(len(target) for target in targets.values()) == [3, 3]
    assert all(partition[0] == place("y", 0)[0] for partition in targets["b"])


def test_uniform_gives_a_newcomer_what_others_have_too_much_of() -> None:
    had = tuple(place("t", number) for number in range(6))
    targets = numbers(uniform([member("a", had=had[:3]), member("b", had=had[3:]), member("c")], [topic("t", 6)]))
    assert [len(targets[one]) for one in "abc"] == [2, 2, 2]
    assert set(targets["a"]) < {0, 1, 2}
    assert set(targets["b"]) < {3, 4, 5}


# -- the others


def test_range_gives_runs_of_each_topic_and_the_first_ones_get_more() -> None:
    targets = range_of_each([member("b", "xy"), member("a", "xy"), member("c", "y")], [topic("x", 3), topic("y", 4)])
    assert targets["a"] == [place("x", 0), place("x", 1), place("y", 0), place("y", 1)]
    assert targets["b"] == [place("x", 2), place("y", 2)]
    assert targets["c"] == [place("y", 3)]


def test_round_robin_goes_around_and_passes_over_who_does_not_want() -> None:
    targets = round_robin([member("b", "xy"), member("a", "x"), member("c", "xy")], [topic("x", 4), topic("y", 2)])
    assert targets["a"] == [place("x", 0), place("x", 3)]
    assert targets["b"] == [place("x", 1), place("y", 0)]
    assert targets["c"] == [place("x", 2), place("y", 1)]
