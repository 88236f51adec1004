"""Replicas that begin with nothing: what a node has lost, or never had, it gets from the leaders. Until it has all of
that, nobody takes it for one that has."""

import shutil
from collections.abc import Iterator
from uuid import UUID

import pytest
from support.live_cluster import LiveCluster, live_cluster
from support.server_processes import ServerProcess, lograft, start_all, until
from support.steady_load import SteadyLoad
from support.stored_logs import partition_directory

from lograft import Producer, errors
from lograft.clients.admin.model.types import ConfigKind, ElectionKind

ENOUGH = 1000
SEGMENT_BYTES = "16384"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """With a fourth node, a broker only, which the first story starts."""
    directory = tmp_path_factory.mktemp("cluster")
    with live_cluster(directory, brokers=1, errors_expected=["log_is_corrupt"]) as cluster:
        yield cluster


@pytest.fixture
def late(cluster: LiveCluster) -> ServerProcess:
    """The fourth node, ready."""
    node = cluster.node(4)
    if not node.is_running:
        start_all([node])
    return node


def wipe(node: ServerProcess) -> None:
    node.kill()
    shutil.rmtree(node.data_directory)


def test_a_broker_that_comes_late_is_given_a_partition(cluster: LiveCluster) -> None:
    cluster.create("moved", [[1, 2, 3], [2, 3, 1]], segment_bytes=SEGMENT_BYTES)
    late = cluster.node(4)
    with SteadyLoad(cluster.bootstrap, "moved", partitions=2) as load:
        load.until_stored(ENOUGH)
        start_all([late])
        assert cluster.admin.reassign({("moved", 0): [4, 2, 3]}) == {("moved", 0): None}
        until(lambda: cluster.admin.list_reassignments(["moved"]) == [], "it was moved")
        until(lambda: cluster.leaders("moved")[0] == 4, "the late one leads")
        load.until_stored(ENOUGH)
    load.check()
    assert cluster.partitions("moved")[0].replicas == (4, 2, 3)
    cluster.check_replicas_agree("moved")
    until(lambda: partition_directory(cluster.node(1), "moved", 0) is None, "the old one's files are gone")


def test_a_replica_is_added_no_faster_than_the_throttle_lets(cluster: LiveCluster, late: ServerProcess) -> None:
    """Until that is another; and it can be cancelled half-way."""
    cluster.create("throttled", [[1, 2]])
    with Producer(cluster.bootstrap, batch_bytes=20_000) as producer:
        for _ in range(2000):
            producer.send("throttled", bytes(1000))
    throttle(cluster, "100000")
    try:
        assert cluster.admin.reassign({("throttled", 0): [1, 4]}) == {("throttled", 0): None}
        until(lambda: end_on(cluster, late, "throttled") > 0, "it has begun")
        assert len(cluster.admin.list_reassignments(["throttled"])) == 1
        assert end_on(cluster, late, "throttled") < 1000
        assert cluster.admin.reassign({("throttled", 0): None}) == {("throttled", 0): None}
        until(lambda: partition_directory(late, "throttled", 0) is None, "it is undone")
        assert cluster.partitions("throttled")[0].replicas == (1, 2)
        assert cluster.admin.reassign({("throttled", 0): [1, 4]}) == {("throttled", 0): None}
        until(lambda: end_on(cluster, late, "throttled") > 0, "it has begun again")
    finally:
        throttle(cluster, None)
    until(lambda: cluster.admin.list_reassignments(["throttled"]) == [], "it is through")
    cluster.check_replicas_agree("throttled")


def throttle(cluster: LiveCluster, rate: str | None) -> None:
    cluster.admin.alter_config(ConfigKind.CLUSTER, "", {"leader.replication.throttled.rate": rate})


def end_on(cluster: LiveCluster, node: ServerProcess, topic: str) -> int:
    """How much of partition 0 a node has."""
    replicas = cluster.admin.describe_replicas([topic])
    return sum(each.end for each in replicas if each.broker == node.node_id)


def test_a_replica_whose_files_are_gone_is_made_anew(cluster: LiveCluster) -> None:
    cluster.create("gone", [[1, 2, 3], [2, 3, 1]], segment_bytes=SEGMENT_BYTES)
    victim = cluster.node(1)
    with SteadyLoad(cluster.bootstrap, "gone", partitions=2) as load:
        load.until_stored(ENOUGH)
        victim.kill()
        until(lambda: cluster.has_left(victim, "gone"), "it is missed")
        directory = partition_directory(victim, "gone", 0)
        assert directory is not None
        shutil.rmtree(directory)
        start_all([victim])
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree("gone")


def test_a_node_whose_disk_is_wiped_comes_back(cluster: LiveCluster) -> None:
    """Its broker heals by itself. Its controller does not vote before an operator says that it may."""
    cluster.create("wiped", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], segment_bytes=SEGMENT_BYTES)
    victim = cluster.node(cluster.active_controller())
    disks = voting_disks(cluster)
    with SteadyLoad(cluster.bootstrap, "wiped", partitions=3) as load:
        load.until_stored(ENOUGH)
        wipe(victim)
        until(lambda: cluster.has_left(victim, "wiped"), "it is missed")
        load.until_stored(ENOUGH)
        victim.start()
        cluster.until_in_sync("wiped")
        until(lambda: victim.readiness().startswith("not a voter of the quorum"), "it says what is missing")
        assert voting_disks(cluster) == disks
        told = typed(cluster, "quorum", "replace", str(victim.node_id))
        assert told == f"voter/{victim.node_id} replaced: the voters are 1, 2, 3\n"
        victim.until_ready()
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree("wiped")
    assert {node_id for node_id, disk in voting_disks(cluster).items() if disks[node_id] != disk} == {victim.node_id}
    print(f"a disk was wiped: writes paused for {load.longest_pause_ms} ms")


def voting_disks(cluster: LiveCluster) -> dict[int, UUID | None]:
    return {voter.node_id: voter.directory_id for voter in cluster.admin.describe_quorum().voters}


@pytest.mark.parametrize("loss", ["disk", "files"])
def test_who_lost_records_leads_nothing_of_which_another_has_more(
    cluster: LiveCluster, late: ServerProcess, loss: str
) -> None:
    """The one that led last comes back first, without its disk, or without the files of this one partition."""
    topic = f"lost-{loss}"
    cluster.create(topic, [[4, 3]])
    other = cluster.node(3)
    with SteadyLoad(cluster.bootstrap, topic, partitions=1) as load:
        load.until_stored(ENOUGH)
        until(lambda: has_noted(late, topic), "it is noted that there is such a log")
        other.kill()
        until(lambda: cluster.has_left(other, topic), "the other one is missed")
        late.kill()
        until(lambda: cluster.leaders(topic) == [None], "nobody is left")
        directory = late.data_directory if loss == "disk" else partition_directory(late, topic, 0)
        assert directory is not None
        shutil.rmtree(directory)
        start_all([late])
        until(lambda: cluster.leaders(topic) == [None], "it does not lead, or not for long")
        (election,) = cluster.admin.elect_leaders(ElectionKind.PREFERRED, [(topic, 0)])
        assert isinstance(election.error, errors.PreferredLeaderNotAvailable)
        start_all([other])
        until(lambda: cluster.leaders(topic) == [3], "whoever has the records leads")
        cluster.until_in_sync(topic)
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree(topic)


def has_noted(node: ServerProcess, topic: str) -> bool:
    """A broker notes every few seconds which logs it has."""
    path = node.data_directory / "high-watermarks"
    return path.exists() and f" {topic}-0.".encode() in path.read_bytes()


def test_the_last_copy_is_given_up_by_an_operator_only(cluster: LiveCluster, late: ServerProcess) -> None:
    cluster.create("single", [[4]])
    with Producer(cluster.bootstrap, delivery_timeout_ms=2000) as producer:
        producer.send("single", b"lost").result(30)
        wipe(late)
        start_all([late])
        with pytest.raises(errors.DeliveryTimedOut):
            producer.send("single", b"nobody takes this").result(30)
    assert cluster.leaders("single") == [None]
    (election,) = cluster.admin.elect_leaders(ElectionKind.UNCLEAN, [("single", 0)])
    assert "reassign the partition to others first" in str(election.error), (
        "to elect one without its disk is no election"
    )
    cluster.admin.reassign({("single", 0): [2]})
    # Refused until each live replica has said how much it has, which is waited for.
    assert typed(cluster, "elect", "leaders", "--unclean", "single-0", "--yes") == "partition/single-0 led by 2\n"
    with Producer(cluster.bootstrap) as producer:
        assert producer.send("single", b"anew").result(30).offset == 0
    (partition,) = cluster.partitions("single")
    assert (partition.replicas, partition.leader, partition.unclean_epoch) == ((2,), 2, partition.leader_epoch)


def typed(cluster: LiveCluster, *arguments: str) -> str:
    """What a command wrote to standard output."""
    result = lograft(*arguments, LOGRAFT_BOOTSTRAP=cluster.bootstrap)
    assert result.returncode == 0, result.stderr
    return result.stdout
