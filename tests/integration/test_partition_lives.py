"""What happens to partitions over months, in a minute: they are read where they are followed, deleted and made anew,
configured, cleaned; disks fill, files rot. All of it with real processes."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_cluster import LiveCluster, bootstrap_of
from support.server_processes import DEADLINE_SECONDS, servers, start_all, until
from support.steady_load import SteadyLoad
from support.stored_logs import partition_directory

from lograft import Admin, Consumer, Producer, TopicPartition, errors
from lograft.clients.admin.model.types import ConfigKind

RACKS = "abc"
DISK_MEGABYTES = 8
OLD = "old"  # the topic whose records go in the course of the other stories


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Each node in a rack of its own. The third has a second disk, a small one, if this machine lets us make one."""
    directory = tmp_path_factory.mktemp("cluster")
    with servers(directory, 3) as nodes, small_disk(nodes[2].directory / "small") as small, Admin(
        bootstrap_of(nodes)
    ) as admin:  # fmt: skip
        for node, rack in zip(nodes, RACKS, strict=True):
            node.config["rack"] = rack
        if small is not None:
            nodes[2].config["data_dirs"] = [str(nodes[2].data_directory), str(small)]
        start_all(nodes)
        cluster = LiveCluster(nodes, admin)
        begin_to_grow_old(cluster)
        yield cluster
        for node in nodes:
            node.kill()  # before its disk is taken away


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Path | None]:
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(path)], check=False, capture_output=True
    )
    try:
        yield path if mounted.returncode == 0 else None
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", str(path)], check=True)


def store(cluster: LiveCluster, topic: str, *values: bytes) -> None:
    with Producer(cluster.bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=0)


def read(cluster: LiveCluster, topic: str, count: int, **options: str) -> list[bytes | None]:
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **options) as consumer:  # type: ignore[arg-type]
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes | None] = []
        until(lambda: len(values) >= count or values.extend(one.value for one in consumer.poll(1)) or False, "all came")
        return values


# -- growing old: begun first, looked at last


def begin_to_grow_old(cluster: LiveCluster) -> None:
    cluster.create(OLD, [[1, 2, 3]], segment_bytes="16384", retention_bytes="32768")
    for _ in range(20):
        store(cluster, OLD, *[bytes(1000)] * 10)


# -- followers


def test_who_is_in_a_followers_rack_reads_there_while_the_leader_stands_still(cluster: LiveCluster) -> None:
    cluster.create("near", [[1, 2, 3]])
    values = [b"%d" % number for number in range(1000)]
    store(cluster, "near", *values)
    assert read(cluster, "near", 1000, rack="b") == values
    with Consumer(cluster.bootstrap, rack="b") as consumer:
        consumer.assign([TopicPartition("near", 0)])
        consumer.seek(TopicPartition("near", 0), 0)
        until(lambda: len(consumer.poll(1)) > 0, "it reads")
        cluster.node(1).pause()
        try:
            consumer.seek(TopicPartition("near", 0), 500)
            found: list[bytes | None] = []
            until(lambda: found.extend(one.value for one in consumer.poll(0.2)) or len(found) >= 500, "all are there")
            assert found == values[500:]
        finally:
            cluster.node(1).resume()
    cluster.until_in_sync("near")


def test_a_reader_goes_to_the_leader_when_the_follower_dies(cluster: LiveCluster) -> None:
    cluster.create("dying", [[1, 2, 3]])
    name = TopicPartition("dying", 0)
    with Consumer(cluster.bootstrap, rack="b", auto_offset_reset="earliest") as consumer:
        consumer.assign([name])
        store(cluster, "dying", b"before")
        until(lambda: [one.value for one in consumer.poll(1)] == [b"before"], "it reads")
        cluster.node(2).kill()
        store(cluster, "dying", b"after")
        until(lambda: [one.value for one in consumer.poll(1)] == [b"after"], "it reads on")
    start_all([cluster.node(2)])
    cluster.until_in_sync("dying")


# -- changes


def test_a_topic_is_deleted_while_it_is_used_and_made_anew_under_its_name(cluster: LiveCluster) -> None:
    cluster.create("again", [[1, 2, 3], [2, 3, 1]])
    first = cluster.admin.describe_topic("again").id
    with (
        Producer(cluster.bootstrap, delivery_timeout_ms=5000) as producer,
        Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition("again", 0)])
        producer.send("again", b"of the first", partition=0).result(30)
        until(lambda: len(consumer.poll(1)) == 1, "it is read")
        cluster.admin.delete_topic("again")
        with pytest.raises(errors.LograftError):
            producer.send("again", b"of nothing", partition=0).result(30)
        with pytest.raises(errors.UnknownTopicId, match="deleted"):
            until(lambda: len(consumer.poll(1)) > 0, "it is told")
    until(
        lambda: not any(partition_directory(node, "again", number) for node in cluster.nodes for number in (0, 1)),
        "its files are gone",
    )
    cluster.create("again", [[3, 2, 1]])
    assert cluster.admin.describe_topic("again").id != first
    store(cluster, "again", b"of the second")
    assert read(cluster, "again", 1) == [b"of the second"]


def test_configuration_counts_at_once(cluster: LiveCluster) -> None:
    cluster.create("limited", [[1, 2, 3]])
    with Producer(cluster.bootstrap, batch_bytes=1000) as producer:
        producer.send("limited", bytes(5000)).result(30)
        cluster.admin.alter_config(ConfigKind.TOPIC, "limited", {"max.message.bytes": "2000"})

        def is_refused() -> bool:
            error = producer.send("limited", bytes(5000)).exception(30)
            assert error is None or isinstance(error, errors.BatchTooLarge), error
            return error is not None

        until(is_refused, "it is in force")
        cluster.admin.alter_config(ConfigKind.TOPIC, "limited", {"max.message.bytes": None})
        until(lambda: not is_refused(), "and not any more")


# -- disks


def test_a_full_disk_takes_nothing_more_until_there_is_room_and_stops_nothing_else(cluster: LiveCluster) -> None:
    node = cluster.node(3)
    if len(node.config["data_dirs"]) < 2:
        pytest.skip("no disk can be mounted here")
    small = Path(node.config["data_dirs"][1])

    def are_there(topic: str) -> list[int]:
        return [number for number in range(4) if any(small.glob(f"{topic}-{number}.*"))]

    cluster.create("filling", [[1, 2, 3], [2, 1, 3], [1, 3, 2], [2, 3, 1]], segment_bytes="1048576")
    cluster.create("single", [[3]] * 4)
    for topic in ("filling", "single"):
        assert 0 < len(are_there(topic)) < 4, "both are used"
    followed, led = are_there("filling"), are_there("single")
    with Producer(cluster.bootstrap) as producer:

        def store_in(topic: str, partition: int) -> None:
            producer.send(topic, b"goes on", partition=partition).result(DEADLINE_SECONDS)

        try:
            for number in range(DISK_MEGABYTES * 12):
                producer.send("filling", bytes(100_000), partition=followed[number % len(followed)])
            producer.flush()
            until(lambda: "disk_full" in node.events, "the disk is full")
            # What others lead is stored without it; what it leads itself is refused; what is on its other disk goes on.
            for number in range(4):
                store_in("filling", number)
            until(lambda: out_of_sync(cluster, "filling") == followed, "its replicas there have left the ISR")
            for number in range(4):
                if number not in led:
                    store_in("single", number)
            with pytest.raises(errors.DiskFull, match="make room"):
                store_in("single", led[0])
        finally:
            subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
        until(lambda: "disk_has_room" in node.events, "it is noticed")
        cluster.until_in_sync("filling")
        assert are_there("filling") == followed, "nothing was made anew elsewhere"
        store_in("single", led[0])
    assert node.is_running
    assert "directory_failed" not in node.events
    assert all(found.is_well for found in cluster.admin.verify_replicas(["filling"]))
    for topic in ("filling", "single"):
        cluster.admin.delete_topic(topic)


def out_of_sync(cluster: LiveCluster, topic: str) -> list[int]:
    return [one.number for one in cluster.partitions(topic) if not one.is_in_sync]


@pytest.mark.parametrize("pattern", ["*.log", "*.index", "checkpoint", "leader-epochs", "*.timeindex", "*.producers"])
def test_bits_that_flip_while_a_node_is_down_do_no_harm(cluster: LiveCluster, pattern: str) -> None:
    topic = f"rotten-{pattern.strip('*.')}"
    cluster.create(topic, [[1, 2, 3]], segment_bytes="65536")
    with SteadyLoad(cluster.bootstrap, topic, partitions=1) as load:
        load.until_stored(3000)
        node = cluster.node(2)
        node.stop()
        directory = partition_directory(node, topic, 0)
        assert directory is not None
        flip_bit(min(directory.glob(pattern)))
        start_all([node])
        load.until_stored(500)
    load.check()
    if pattern == "*.log":
        assert cluster.admin.verify_partition(topic, 0).damaged == (2,), "nobody has read it before"
    until(lambda: cluster.admin.verify_partition(topic, 0).is_well, "it is healed")
    cluster.admin.delete_topic(topic)


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def test_what_the_metadata_know_nothing_of_is_put_aside(cluster: LiveCluster) -> None:
    cluster.create("known", [[1, 2, 3]])
    store(cluster, "known", b"value")
    node = cluster.node(1)
    node.stop()
    directory = partition_directory(node, "known", 0)
    assert directory is not None
    shutil.copytree(directory, directory.parent / f"stranger-0.{'5' * 32}")
    start_all([node])
    (stray,) = directory.parent.glob("stranger-*")
    assert "-stray." in stray.name
    assert any(stray.glob("*.log")), "nothing is thrown away"


# -- grown old


def test_old_records_went_and_who_wants_them_is_told_what_there_is(cluster: LiveCluster) -> None:
    name = TopicPartition(OLD, 0)
    with Consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([name])
        until(lambda: consumer.beginning_offsets([name])[name] > 0, "the oldest went", 90)
        consumer.seek(name, 0)
        with pytest.raises(errors.OffsetOutOfRange) as refused:
            until(lambda: len(consumer.poll(1)) > 0, "it is told")
    start = cluster.admin.describe_replicas([OLD])[0].start
    assert str(start) in str(refused.value)
    until(
        lambda: len({each.start for each in cluster.admin.describe_replicas([OLD])}) == 1, "it is the same everywhere"
    )
    assert all(found.is_well for found in cluster.admin.verify_replicas([OLD]))
