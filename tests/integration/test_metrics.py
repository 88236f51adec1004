"""What a node tells of itself, to machines and to people at its log: from a real cluster."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.live_cluster import LiveCluster, live_cluster
from support.metrics_page import series_on
from support.server_processes import ServerProcess, until

from lograft import Consumer, Producer, errors
from lograft.broker.metrics.families import FAMILIES
from lograft.clients.admin.model.types import ConfigKind
from lograft.runtime.process.http_probe import get_page

RECORDS, LATE = 1000, 7


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def metrics_of(node: ServerProcess) -> dict[str, float]:
    """By series, as they stand on the page."""
    page = get_page(node.http_address, "/metrics", 5)
    assert page is not None
    assert page.status == 200
    return {_as_written(name, labels): value for (name, labels), value in series_on(page.text).items()}


def _as_written(name: str, labels: tuple[tuple[str, str], ...]) -> str:
    told = ",".join(f'{label}="{value}"' for label, value in labels)
    return f"{name}{{{told}}}" if labels else name


def total(cluster: LiveCluster, series: str) -> float:
    return sum(metrics_of(node).get(series, 0) for node in cluster.nodes)


def events(node: ServerProcess, name: str) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, node.output.splitlines()) if event["event"] == name]


def test_all_that_is_promised_is_told_and_adds_up(cluster: LiveCluster) -> None:
    cluster.create("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    for node in cluster.nodes:
        cluster.admin.alter_config(ConfigKind.BROKER, str(node.node_id), {"slow.request.ms": "0"})
    with Producer(cluster.bootstrap) as producer:
        producer.send_many("orders", [b"x" * 100] * RECORDS)
    with Consumer(cluster.bootstrap, group="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        taken = 0
        while taken < RECORDS:
            taken += len(consumer.poll(timeout=10))
        consumer.commit()
    with Producer(cluster.bootstrap) as producer:
        producer.send_many("orders", [b"late"] * LATE)
    until(lambda: total(cluster, 'lograft_group_lag_records{group="billing"}') == LATE, "its coordinator knows")
    with pytest.raises(errors.UnknownTopic):
        cluster.admin.delete_topic("nonsense")
    with pytest.raises(errors.InvalidConfig):
        cluster.admin.alter_config(ConfigKind.BROKER, "1", {"log.level": "lograft.raftt=debug"})

    pages = [metrics_of(node) for node in cluster.nodes]
    names = {re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", series) for page in pages for series in page}
    assert names == {family.name for family in FAMILIES}
    for series, expected in {
        'lograft_topic_records_in_total{topic="orders"}': RECORDS + LATE,
        'lograft_topic_records_out_total{topic="orders"}': RECORDS,
        'lograft_group_lag_unknown_partitions{group="billing"}': 0,
        "lograft_groups": 1,
        "lograft_controller_active": 1,
        "lograft_node_ready": 3,
        "lograft_partitions_under_replicated": 0,
        "lograft_partitions_offline": 0,
    }.items():
        assert sum(page.get(series, 0) for page in pages) == expected, series
    assert len({page["lograft_raft_leader_id"] for page in pages}) == 1
    assert all(page['lograft_brokers{state="active"}'] == 3 for page in pages)
    slow = [event for node in cluster.nodes for event in events(node, "slow_request")]
    assert {"Log/Produce", "Groups/FindCoordinator"} <= {event["method"] for event in slow}
    assert {event["level"] for event in slow} == {"warning"}
    for node in cluster.nodes:
        cluster.admin.alter_config(ConfigKind.BROKER, str(node.node_id), {"slow.request.ms": None})


def test_a_part_of_a_node_logs_more_while_it_runs(cluster: LiveCluster) -> None:
    node = cluster.node(2)
    cluster.admin.alter_config(ConfigKind.BROKER, "2", {"log.level": "lograft.raft=debug"})
    until(lambda: bool(events(node, "log_level_changed")), "it has heard of it")
    assert events(node, "log_level_changed")[-1]["levels"] == "info,lograft.raft=debug"
    cluster.admin.alter_config(ConfigKind.BROKER, "2", {"log.level": None})
    until(lambda: events(node, "log_level_changed")[-1]["levels"] == "info", "it is as before")


def test_a_broker_that_is_lost_shows_and_shows_no_more_when_it_is_back(cluster: LiveCluster) -> None:
    cluster.create("lost", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    shrinks = total(cluster, "lograft_isr_shrinks_total")
    topics = cluster.admin.describe_cluster(include_internal=True).topics
    partitions = sum(len(topic.partitions) for topic in topics)
    cluster.node(3).kill()
    others = [cluster.node(1), cluster.node(2)]

    def under_replicated() -> float:
        return sum(metrics_of(node)["lograft_partitions_under_replicated"] for node in others)

    until(lambda: under_replicated() == partitions, "all partitions lack a replica")
    until(lambda: all(metrics_of(node)['lograft_brokers{state="fenced"}'] == 1 for node in others), "it is fenced")
    assert sum(metrics_of(node)["lograft_isr_shrinks_total"] for node in others) >= shrinks + partitions
    assert all(metrics_of(node)["lograft_partitions_offline"] == 0 for node in others)
    cluster.node(3).start()
    cluster.node(3).until_ready()
    until(lambda: total(cluster, "lograft_partitions_under_replicated") == 0, "no partition lacks a replica")
