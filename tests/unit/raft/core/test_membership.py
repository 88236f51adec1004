"""Changes of a configuration, and majorities (dissertation §4). scripts/membership.txt changes running clusters."""

import pytest
from support.raft_cluster import member

from lograft.raft.core.configuration import (
    AddLearner,
    Configuration,
    ConfigurationChange,
    InvalidChange,
    PromoteLearner,
    RemoveMember,
    changed,
    configuration,
)

ONE, TWO, THREE, FOUR = map(member, (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("change", "voters", "learners"),
    [
        (AddLearner(FOUR), [1, 2], [3, 4]),
        (PromoteLearner(THREE), [1, 2, 3], []),
        (RemoveMember(TWO), [1], [3]),
        (RemoveMember(THREE), [1, 2], []),
    ],
)
def test_a_change_adds_or_removes_one(change: ConfigurationChange, voters: list[int], learners: list[int]) -> None:
    after = changed(configuration([ONE, TWO], [THREE]), change)
    assert [voter.node_id for voter in after.voters] == voters
    assert [learner.node_id for learner in after.learners] == learners


@pytest.mark.parametrize(
    ("before", "change", "reason"),
    [
        (configuration([ONE]), AddLearner(ONE), "member already"),
        (configuration([ONE], [TWO]), AddLearner(TWO), "member already"),
        (configuration([ONE]), PromoteLearner(TWO), "add it first"),
        (configuration([ONE]), RemoveMember(TWO), "not a member"),
        (configuration([ONE], [TWO]), RemoveMember(ONE), "last voter"),
        (configuration([ONE, TWO], [member(2, 1)]), PromoteLearner(member(2, 1)), "remove that one first"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(
    before: Configuration, change: ConfigurationChange, reason: str
) -> None:
    with pytest.raises(InvalidChange, match=reason):
        changed(before, change)


@pytest.mark.parametrize(("voters", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_a_majority_is_more_than_half(voters: int, majority: int) -> None:
    members = [member(node_id) for node_id in range(1, voters + 1)]
    some = configuration(members, [member(9)])
    assert not some.is_majority(lambda voter: voter in members[: majority - 1] or voter == member(9))
    assert some.is_majority(lambda voter: voter in members[:majority])
    assert some.reached_by_majority(lambda voter: voter.node_id) == voters - majority + 1


def test_nobody_is_not_a_majority() -> None:
    assert not Configuration().is_majority(lambda voter: True)
    assert Configuration().reached_by_majority(lambda voter: 9) == 0
