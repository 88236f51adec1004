"""Snapshots that no story shows. scripts/snapshots.txt has the stories."""

from support.raft_cluster import RaftCluster, member

from lograft.raft.core.configuration import RemoveMember, configuration

VOTERS = configuration([member(1), member(2), member(3)])


def test_a_report_on_a_snapshot_nobody_ordered_is_ignored() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    before = cluster.leading(1).progress[member(2)].state
    cluster.core(1).snapshot_reported(member(2), is_delivered=False)
    cluster.core(1).snapshot_reported(member(9), is_delivered=False)
    cluster.core(2).snapshot_reported(member(1), is_delivered=True)
    assert cluster.leading(1).progress[member(2)].state is before


# -- a follower and a snapshot


def test_a_snapshot_names_the_configuration_of_its_index_and_not_the_latest() -> None:
    cluster = RaftCluster(3)
    cluster.elect(1)
    cluster.change(1, RemoveMember(member(3)))
    assert len(cluster.core(1).configuration.voters) == 2
    metadata = cluster.core(1).snapshot_metadata()
    assert (metadata.index, metadata.configuration) == (1, VOTERS)
    cluster.settle()
    assert len(cluster.core(1).snapshot_metadata().configuration.voters) == 2
