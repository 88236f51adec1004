"""Nodes are killed, paused and restarted while records are written and read: no record is lost, doubled or altered."""

from collections.abc import Iterator

import pytest
from support.live_cluster import LiveCluster, live_cluster
from support.server_processes import start_all, until
from support.steady_load import SteadyLoad

ENOUGH = 1000
"""Records before a fault, during it, and after it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


class Cast:
    """Who plays which part: the active controller, who leads every partition of the topic, and who does neither."""

    def __init__(self, cluster: LiveCluster, topic: str) -> None:
        self.controller = cluster.active_controller()
        self.leader, self.follower = [node.node_id for node in cluster.nodes if node.node_id != self.controller]
        followers = [self.follower, self.controller]
        cluster.create(topic, [[self.leader, *followers], [self.leader, *reversed(followers)]])


@pytest.mark.parametrize("part", ["leader", "follower", "controller"])
def test_a_node_is_killed(cluster: LiveCluster, part: str) -> None:
    topic = f"killed-{part}"
    cast = Cast(cluster, topic)
    victim = cluster.node(getattr(cast, part))
    with SteadyLoad(cluster.bootstrap, topic, partitions=2) as load:
        load.until_stored(ENOUGH)
        victim.kill()
        until(lambda: cluster.has_left(victim, topic), "it is missed")
        load.until_stored(ENOUGH)
        start_all([victim])
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree(topic)
    print(f"the {part} was killed: writes paused for {load.longest_pause_ms} ms")


def test_all_nodes_are_killed_at_once(cluster: LiveCluster) -> None:
    cluster.create("killed-all", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    with SteadyLoad(cluster.bootstrap, "killed-all", partitions=3) as load:
        load.until_stored(ENOUGH)
        for node in cluster.nodes:
            node.kill()
        start_all(cluster.nodes)
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree("killed-all")
    print(f"all nodes were killed: writes paused for {load.longest_pause_ms} ms")


@pytest.mark.parametrize("part", ["leader", "controller"])
def test_a_node_is_paused_past_its_session(cluster: LiveCluster, part: str) -> None:
    """It keeps its connections all the while, and does not know that it was deposed when it wakes up."""
    topic = f"paused-{part}"
    cast = Cast(cluster, topic)
    victim = cluster.node(getattr(cast, part))
    with SteadyLoad(cluster.bootstrap, topic, partitions=2) as load:
        load.until_stored(ENOUGH)
        victim.pause()
        until(lambda: cluster.has_left(victim, topic), "its session is over")
        load.until_stored(ENOUGH)
        victim.resume()
        cluster.until_in_sync(topic)
        victim.until_ready()
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree(topic)
    print(f"the {part} was paused: writes paused for {load.longest_pause_ms} ms")


def test_most_nodes_are_paused(cluster: LiveCluster) -> None:
    """Nothing is stored, nobody is deposed; then all of them find each other again, and their clients them."""
    cast = Cast(cluster, "most-paused")
    victims = [cluster.node(cast.leader), cluster.node(cast.follower)]
    witness = cluster.node(cast.controller)
    with SteadyLoad(cluster.bootstrap, "most-paused", partitions=2) as load:
        load.until_stored(ENOUGH)
        lost_before = witness.events.count("raft_peer_lost")
        for victim in victims:
            victim.pause()
        until(lambda: witness.events.count("raft_peer_lost") == lost_before + 2, "they are given up for lost")
        for victim in victims:
            victim.resume()
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree("most-paused")
    print(f"most nodes were paused: writes paused for {load.longest_pause_ms} ms")


def test_nodes_are_restarted_one_after_the_other(cluster: LiveCluster) -> None:
    """Leaders move before a node stops, so that not one error reaches whoever writes."""
    cluster.create("rolling", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    with SteadyLoad(cluster.bootstrap, "rolling", partitions=3) as load:
        for node in cluster.nodes:
            load.until_stored(ENOUGH)
            assert node.stop() == 0
            start_all([node])
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree("rolling")
    print(f"nodes were restarted in turn: writes paused for {load.longest_pause_ms} ms at most")


def test_leaders_are_balanced_again_after_a_node_was_away(cluster: LiveCluster) -> None:
    partitions = 50
    cluster.create("balanced", [[1 + (number + turn) % 3 for turn in range(3)] for number in range(partitions)])
    preferred = [one.replicas[0] for one in cluster.partitions("balanced")]
    victim = cluster.node(2)
    with SteadyLoad(cluster.bootstrap, "balanced", partitions) as load:
        load.until_stored(ENOUGH)
        victim.kill()
        until(lambda: cluster.has_left(victim, "balanced"), "it is missed")
        start_all([victim])
        until(lambda: cluster.leaders("balanced") == preferred, "the preferred replicas lead")
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree("balanced")
    print(f"one of 50 partitions' leaders was killed: writes paused for {load.longest_pause_ms} ms")
