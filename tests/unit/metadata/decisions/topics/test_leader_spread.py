"""Who is to lead: as many partitions each, if the replicas allow it."""

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from support.metadata_images import ids

from lograft.metadata.decisions.topics.leader_spread import choose_leaders
from lograft.metadata.image.partition import BrokerId
from lograft.runtime.rng import Rng

untimed = settings(deadline=None)
none_led = dict.fromkeys(ids(1, 2, 3, 4), 0)


def test_leadership_is_handed_on_when_the_last_partition_has_only_burdened_replicas() -> None:
    # Whoever leads the first two, the third has to get its leader from {1, 2}: so 1 or 2 passes one on to 3.
    replicas = [ids(1, 3), ids(2, 3), ids(1, 2)]
    for seed in range(20):
        leaders = choose_leaders(replicas, dict.fromkeys(ids(1, 2, 3), 0), dict.fromkeys(ids(1, 2, 3), 0), Rng(seed))
        assert sorted(leaders) == [1, 2, 3]


def test_leadership_is_handed_on_along_a_chain() -> None:
    # 4 can lead the first alone, so each of the others has to pass on what it would rather have.
    replicas = [ids(3, 4), ids(2, 3), ids(1, 2), ids(1)]
    preference = {BrokerId(1): 0, BrokerId(2): 1, BrokerId(3): 2, BrokerId(4): 3}
    for seed in range(20):
        assert choose_leaders(replicas, none_led, preference, Rng(seed)) == [4, 3, 2, 1]


def test_of_equals_in_the_topic_who_leads_least_in_the_cluster_is_taken() -> None:
    in_cluster = {BrokerId(1): 7, BrokerId(2): 5, BrokerId(3): 6, BrokerId(4): 0}
    for seed in range(20):
        assert choose_leaders([ids(1, 2, 3)], none_led, in_cluster, Rng(seed)) == [2]


def test_the_topic_goes_before_the_cluster() -> None:
    in_topic = {BrokerId(1): 1, BrokerId(2): 0}
    in_cluster = {BrokerId(1): 1, BrokerId(2): 100}
    assert choose_leaders([ids(1, 2)], in_topic, in_cluster, Rng(1)) == [2]


def test_a_broker_with_too_few_replicas_for_its_share_does_not_unbalance_the_others() -> None:
    replicas = [ids(1, 2, 4)] + [ids(1, 2), ids(2, 3), ids(3, 1)] * 4
    leaders = Counter(choose_leaders(replicas, none_led, none_led, Rng(1)))
    assert leaders == {BrokerId(1): 4, BrokerId(2): 4, BrokerId(3): 4, BrokerId(4): 1}


def test_leadership_is_handed_on_to_who_leads_fewer_though_it_leads_its_share() -> None:
    in_topic = {BrokerId(1): 3, BrokerId(2): 4, BrokerId(3): 0}
    preference = {BrokerId(1): 0, BrokerId(2): 9, BrokerId(3): 0}
    assert choose_leaders([ids(1, 2), ids(1, 2), ids(1)], in_topic, preference, Rng(1)) == [1, 2, 1]


@untimed
@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_with_at_most_a_partition_for_each_broker_no_other_choice_is_more_even(
    replicas: list[list[int]], seed: int
) -> None:
    sets = [ids(*each) for each in replicas]
    leaders = choose_leaders(sets, none_led, none_led, Rng(seed))
    assert all(leader in each for leader, each in zip(leaders, sets, strict=True))
    best = min(max(Counter(choice).values()) for choice in product(*sets))
    assert best > 1 or max(Counter(leaders).values()) == 1
