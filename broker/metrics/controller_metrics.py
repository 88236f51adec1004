"""A controller's part of `/metrics`: the quorum, and the cluster in its metadata."""

from lograft.broker.metrics import families
from lograft.metadata.controller_node import ControllerNode
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.raft.driver.raft_node import RaftNode
from lograft.runtime.observability.prometheus_text import Exposition

_NOBODY = -1


def add_controller(page: Exposition, node: ControllerNode) -> None:
    page.add(families.CONTROLLER_ACTIVE, int(node.active.is_active))
    if node.raft is not None:
        _add_raft(page, node.raft)
    _add_cluster(page, node.machine.image)


def _add_raft(page: Exposition, raft: RaftNode) -> None:
    status = raft.status()
    page.add(families.RAFT_TERM, status.term)
    page.add(families.RAFT_LEADER, status.leader.node_id if status.leader is not None else _NOBODY)
    page.add(families.RAFT_COMMIT, status.commit_index)
    page.add(families.RAFT_APPLIED, status.applied_index)
    page.add(families.RAFT_LAST, status.last_index)
    for member, match_index in status.match_indexes.items():
        if member != status.member:
            page.add(families.RAFT_PEER_LAG, status.last_index - match_index, str(member.node_id))
    for member, silent_ms in status.silences_ms.items():
        page.add(families.RAFT_PEER_SILENT, silent_ms / 1000, str(member.node_id))
    page.add_histogram(families.RAFT_COMMIT_SECONDS, raft.commit_seconds)
    page.add_histogram(families.RAFT_APPEND_SECONDS, raft.append_seconds)


def _add_cluster(page: Exposition, image: ClusterImage) -> None:
    for state in BrokerState:
        count = sum(broker.state is state for broker in image.brokers.values())
        page.add(families.BROKERS, count, state.name.lower())
    page.add(families.TOPICS, len(image.topics))
    page.add(families.CLUSTER_PARTITIONS, image.partition_count)
    page.add(families.OFFLINE, sum(1 for _ in image.leaderless()))
    page.add(families.REASSIGNING, sum(1 for _ in image.reassigning()))
