"""Replicas are compared on their disks: what is damaged or different is found, told, and healed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_cluster import LiveCluster, live_cluster
from support.server_processes import start_all, until
from support.stored_logs import partition_directory

from lograft import Producer
from lograft.clients.admin.model.types import ConfigKind
from lograft.storage.batch.codec import encode_batch, iterate_batches, stamp

COUNT = 3000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with live_cluster(directory, errors_expected=["log_is_corrupt"]) as cluster:
        yield cluster


def fill(cluster: LiveCluster, topic: str, **config: str) -> None:
    cluster.create(topic, [[1, 2, 3]], **config)
    with Producer(cluster.bootstrap) as producer:
        for number in range(COUNT):
            producer.send(topic, b"value %d" % number, key=b"key %d" % (number % 100))
            if number % 100 == 0:
                producer.flush()  # so that there are many batches
    cluster.until_in_sync(topic)


def segment_of(cluster: LiveCluster, topic: str, node: int) -> Path:
    directory = partition_directory(cluster.node(node), topic, 0)
    assert directory is not None
    return min(directory.glob("*.log"))


def flip_bit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))


@pytest.mark.parametrize("node", [2, 1], ids=["follower", "leader"])
def test_a_damaged_copy_is_found_and_made_anew(cluster: LiveCluster, node: int) -> None:
    topic = f"damaged-{node}"
    fill(cluster, topic)
    assert cluster.admin.verify_partition(topic, 0).is_well
    flip_bit(segment_of(cluster, topic, node))
    found = cluster.admin.verify_partition(topic, 0)
    assert found.damaged == (node,)
    assert not found.is_well
    until(lambda: cluster.admin.verify_partition(topic, 0).is_well, "it is made anew")
    assert cluster.admin.verify_partition(topic, 0).end == COUNT
    cluster.check_replicas_agree(topic)


def test_a_copy_that_is_sound_but_different_is_told(cluster: LiveCluster) -> None:
    """As no fault we know of makes it: another batch of the same size, with a checksum that is right."""
    topic = "different"
    fill(cluster, topic)
    victim = cluster.node(3)
    victim.stop()
    path = segment_of(cluster, topic, 3)
    content = bytearray(path.read_bytes())
    position, header = list(iterate_batches(content))[-1]
    values = [b"x" * 8 for _ in range(header.record_count)]
    other = encode_batch(values, timestamps=header.base_timestamp)
    content[position:] = stamp(other, header.base_offset, header.leader_epoch)
    path.write_bytes(content)
    start_all([victim])
    cluster.until_in_sync(topic)
    found = cluster.admin.verify_partition(topic, 0)
    assert found.offset == header.base_offset
    assert found.problem is not None
    assert "broker 3 has" in found.problem
    cluster.admin.delete_topic(topic)


def test_copies_that_are_compacted_each_in_its_own_time_are_the_same(cluster: LiveCluster) -> None:
    settings = {"segment_bytes": "16384", "min_cleanable_dirty_ratio": "0.01"}
    fill(cluster, "compacted", cleanup_policy="compact", **settings)
    victim = cluster.node(3)
    victim.kill()
    before = size_of(cluster, 1)
    until(lambda: size_of(cluster, 1) < before / 2, "it is compacted while one is away")
    start_all([victim])
    cluster.until_in_sync("compacted")
    found = cluster.admin.verify_partition("compacted", 0)
    assert found.is_well, found
    assert found.end == COUNT
    cluster.admin.alter_config(ConfigKind.TOPIC, "compacted", {"cleanup.policy": "delete"})
    found = cluster.admin.verify_partition("compacted", 0)
    assert found.is_well, "it was compacted once, each copy in its own time"


def size_of(cluster: LiveCluster, node: int) -> int:
    replicas = cluster.admin.describe_replicas(["compacted"])
    return sum(replica.size_bytes for replica in replicas if replica.broker == node)
