"""Majorities of every size, and the leader's own disk. scripts/commitment.txt has the stories."""

import pytest
from support.raft_cluster import RaftCluster, member

from lograft.raft.core.messages import AppendRequest, AppendResponse


@pytest.mark.parametrize(
    ("voters", "acknowledging", "is_committed"),
    [
        (1, [], True),
        (2, [], False),
        (2, [2], True),
        (3, [], False),
        (3, [2], True),
        (4, [2], False),
        (4, [2, 3], True),
        (5, [2], False),
        (5, [4, 5], True),
    ],
)
def test_an_entry_is_committed_once_a_majority_has_it(
    voters: int, acknowledging: list[int], is_committed: bool
) -> None:
    cluster = RaftCluster(voters)
    cluster.elect(1)
    index = cluster.propose(1, b"x")
    for node_id in acknowledging:
        cluster.deliver(AppendRequest, to=node_id)
        cluster.deliver(AppendResponse, by=node_id)
    assert (cluster.core(1).log.commit_index == index) == is_committed


def test_the_leaders_own_acknowledgement_waits_for_its_disk() -> None:
    """Two of three: one follower and the leader, but the leader's disk is still busy."""
    cluster = RaftCluster(3)
    cluster.elect(1)
    core = cluster.core(1)
    index = core.propose(b"x")
    assert index is not None
    ready = core.ready()
    assert ready is not None
    assert core.log.commit_index < index
    assert ready.committed == ()
    cluster.nodes[1].disk.save(ready)
    core.advance(ready)
    core.step(AppendResponse(member(2), 1, index), cluster.now_ms)
    assert core.log.commit_index == index
