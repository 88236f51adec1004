"""Histories of groups that cannot be are written down: each check refuses its own."""

from uuid import UUID

import pytest

from lograft.chaos.cluster.checks.groups import GroupHistory
from lograft.chaos.cluster.checks.history import ClusterHistory, PartitionKey
from lograft.chaos.harness.failures import InvariantBroken

KEY: PartitionKey = (UUID(int=1), 0)


class Reader:
    def __init__(self, name: str, *partitions: PartitionKey) -> None:
        self.name = name
        self.partitions: dict[PartitionKey, object] = dict.fromkeys(partitions)


def test_two_readers_of_a_partition_are_noticed() -> None:
    group = GroupHistory(ClusterHistory())
    first, second = Reader("a", KEY), Reader("b")
    group.members += [first, second]
    group.took(first, KEY)
    with pytest.raises(InvariantBroken, match="one reader"):
        group.took(second, KEY)
    first.partitions = {}
    group.took(second, KEY)


def test_a_commit_that_goes_back_is_noticed() -> None:
    group = GroupHistory(ClusterHistory())
    group.committed(KEY, 5, 0)
    at_least = group.committed_at_least(KEY)
    group.committed(KEY, 7, 0)
    group.told(KEY, 5, at_least)  # it was asked before
    with pytest.raises(InvariantBroken, match="does not go back"):
        group.told(KEY, 6, group.committed_at_least(KEY))
    floor = group.committed_at_least(KEY)
    group.began(KEY, 9, floor)
    with pytest.raises(InvariantBroken, match="begins where the group is"):
        group.began(KEY, 6, floor)


def test_a_group_goes_back_with_its_log_after_an_unclean_election_and_then_no_more() -> None:
    """Seed 2082007999: the member committed 226, was told that the log was cut at 98, and committed 167."""
    history = ClusterHistory()
    group = GroupHistory(history)
    group.committed(KEY, 226, 0)
    before = group.committed_at_least(KEY)
    history.elected_uncleanly(KEY, 4)
    group.began(KEY, 98, before)
    group.told(KEY, 167, before)
    group.told(KEY, 150, group.committed_at_least(KEY))  # nobody knows what lies before those
    group.committed(KEY, 227, 0)  # behind a record of the former generation: its member had not heard of it
    group.told(KEY, 100, group.committed_at_least(KEY))
    group.committed(KEY, 193, 1)
    group.committed(KEY, 190, 1)  # it was asked for before
    with pytest.raises(InvariantBroken, match="does not go back"):
        group.told(KEY, 192, group.committed_at_least(KEY))
    with pytest.raises(InvariantBroken, match="begins where the group is"):
        group.began(KEY, 192, group.committed_at_least(KEY))
    group.told(KEY, 193, group.committed_at_least(KEY))
