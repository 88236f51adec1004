"""Brokers die, leaders move, tasks fail: every row comes once."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from support.gated_reads import GatedRead, failing_once, places
from support.server_processes import until
from support.spark_topics import SparkTopics

from lograft import TopicPartition
from lograft.clients.admin.model.types import ElectionKind
from lograft.spark.common.cluster_access import cluster_access
from lograft.spark.common.options import ClusterOptions
from lograft.spark.common.range_reader import OffsetRange
from lograft.testing import TestingCluster

LARGE = 8000  # records of 10 kB: Spark and gRPC read up to 3000 ahead
LARGE_0 = TopicPartition("large", 0)


@pytest.fixture(scope="module", autouse=True)
def large(topics: SparkTopics) -> None:
    """Much more than is ever read ahead."""
    topics.create("large", replicas=3)
    topics.store("large", ((None, bytes([n % 251]) * 10_000, n) for n in range(LARGE)), batch_bytes=500_000)


def leader(topics: SparkTopics) -> int | None:
    return topics.admin.describe_topic("large").partitions[0].leader


def read_so_far(topics: SparkTopics) -> int:
    """How many records of `large` were given out by any broker since it started."""
    load = topics.admin.describe_load(["large"])
    return sum(each.records_out for broker in load for each in broker.partitions)


def read_while(topics: SparkTopics, directory: Path, happens: Callable[[], None]) -> list[tuple[int, int]]:
    """What is read of `large` if that `happens` in the middle."""
    before = read_so_far(topics)
    with GatedRead(topics.load("large"), directory) as read:
        read.wait_until_begun()
        assert 0 < read_so_far(topics) - before < 0.8 * LARGE, "there is more to be read"
        happens()
        return read.finish()


def test_a_broker_that_is_killed_in_the_middle_costs_no_row(
    topics: SparkTopics, cluster: TestingCluster, tmp_path: Path
) -> None:
    first = leader(topics)
    assert first is not None

    def kill() -> None:
        cluster.kill(first)
        until(lambda: leader(topics) not in (None, first), "another one leads")

    try:
        assert read_while(topics, tmp_path, kill) == [(0, offset) for offset in range(LARGE)]
    finally:
        cluster.restart(first)
        topics.admin.wait_for_topic("large")


def test_a_leader_that_moves_in_the_middle_costs_no_row(topics: SparkTopics, tmp_path: Path) -> None:
    first = leader(topics)

    def move() -> None:
        replicas = [each for each in (1, 2, 3) if each != first]
        topics.admin.reassign({LARGE_0: [*replicas, first or 1]})
        until(lambda: not topics.admin.list_reassignments(), "the new order is known")
        topics.admin.elect_leaders(ElectionKind.PREFERRED, [LARGE_0])
        until(lambda: leader(topics) == replicas[0], "it leads")

    assert read_while(topics, tmp_path, move) == [(0, offset) for offset in range(LARGE)]


def test_a_task_that_fails_is_tried_again_and_gives_each_row_once(topics: SparkTopics, tmp_path: Path) -> None:
    topics.create("failing", partitions=2)
    for partition in range(2):
        topics.numbers("failing", 0, 500, partition=partition)
    frame = failing_once(topics.load("failing"), tmp_path, after_rows=100)
    assert places(frame) == [(partition, offset) for partition in range(2) for offset in range(500)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["failed-0", "failed-1"]


def test_any_replica_is_read_from_if_one_says_so(topics: SparkTopics) -> None:
    def given_out() -> dict[int, int]:
        load = topics.admin.describe_load(["large"])
        return {broker.id: sum(each.records_out for each in broker.partitions) for broker in load}

    before = given_out()
    frame = topics.load("large", readFrom="any", minPartitions=12).select("partition", "offset")
    assert places(frame) == [(0, offset) for offset in range(LARGE)]
    after = given_out()
    assert all(after[broker] > before.get(broker, 0) for broker in (1, 2, 3)), (before, after)


def test_a_worker_that_has_enough_lets_go_of_the_rest(topics: SparkTopics) -> None:
    access = cluster_access(topics.bootstrap)
    options = ClusterOptions(topics.bootstrap)
    wanted = OffsetRange("large", topics.admin.describe_topic("large").id.bytes, 0, 0, LARGE)

    def open_streams() -> int:
        return sum(broker.open_streams for broker in topics.admin.describe_load())

    assert sum(len(part.batches) for part in access.read(wanted, options, spreads=False)) > 10_000 * LARGE
    settled = min(open_streams() for _ in range(5))  # now and then a client looks at the metadata for a moment
    reads = [access.read(wanted, options, spreads=False) for _ in range(5)]
    for read in reads:
        assert next(read).start == 0
    until(lambda: open_streams() == settled + len(reads), "as many as are read")
    for read in reads:
        read.close()  # type: ignore[attr-defined]
    until(lambda: open_streams() == settled, "what was opened is closed")


def test_a_worker_keeps_its_own_connections_from_task_to_task(topics: SparkTopics) -> None:
    topics.create("kept")
    topics.numbers("kept", 0, 10)
    topic_id = topics.admin.describe_topic("kept").id.bytes
    bootstrap = topics.bootstrap

    def read(_: Iterable[int]) -> list[tuple[int, int, int]]:
        wanted = OffsetRange("kept", topic_id, 0, 0, 10)
        access = cluster_access(bootstrap)
        parts = list(access.read(wanted, ClusterOptions(bootstrap), spreads=False))
        return [(os.getpid(), id(access), parts[-1].next_offset)]

    seen = [
        one
        for _ in range(3)
        for one in topics.spark.sparkContext.parallelize(range(4), 4).mapPartitions(read).collect()
    ]
    assert {end for _, _, end in seen} == {10}
    by_process = {process: {access for each, access, _ in seen if each == process} for process, _, _ in seen}
    assert os.getpid() not in by_process
    assert len(by_process) < len(seen), "workers are used again"
    assert all(len(accesses) == 1 for accesses in by_process.values())
