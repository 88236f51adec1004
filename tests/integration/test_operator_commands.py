"""What an operator types while records are written and read: brokers come and go, partitions and voters move, and not
one error reaches who writes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.live_cluster import LiveCluster, live_cluster
from support.server_processes import lograft, start_all, until
from support.steady_load import SteadyLoad

ENOUGH = 500
"""Records between one command and the next."""


class Operator:
    """Someone at the command line of a cluster."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster

    def does(self, *arguments: str) -> str:
        """What it wrote to standard output."""
        result = lograft(*arguments, LOGRAFT_BOOTSTRAP=self.cluster.bootstrap)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def is_refused(self, *arguments: str) -> str:
        """What it wrote to standard error: a cause, and a remedy."""
        result = lograft(*arguments, LOGRAFT_BOOTSTRAP=self.cluster.bootstrap)
        assert result.returncode == 1, (result.stdout, result.stderr)
        assert re.fullmatch(r"(?s).*Error: .+\nRemedy: .+\n", result.stderr), result.stderr
        return result.stderr

    def sees(self, *arguments: str) -> Any:
        return json.loads(self.does(*arguments, "-o", "json"))

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        return [partition.replicas for partition in self.cluster.partitions(topic)]


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """Of three nodes, and a fourth that is not started yet: a broker only."""
    with live_cluster(tmp_path_factory.mktemp("cluster"), brokers=1) as cluster:
        yield Operator(cluster)


def test_a_clusters_life_under_load(operator: Operator, tmp_path: Path) -> None:
    cluster = operator.cluster
    cluster.create("life", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    with SteadyLoad(cluster.bootstrap, "life", partitions=3) as load:
        load.until_stored(ENOUGH)
        a_broker_is_added_and_gets_its_share(operator, tmp_path)
        load.until_stored(ENOUGH)
        a_broker_is_drained(operator)
        load.until_stored(ENOUGH)
        replicas_become_fewer_and_more(operator, load)
        assert operator.does("scale", "topic", "life", "--partitions", "5") == "topic/life scaled\n"
        load.grow(5)
        load.until_stored(ENOUGH)
        leaders_are_elected(operator, tmp_path)
        load.until_stored(ENOUGH)
        voters_come_and_go(operator)
        load.until_stored(ENOUGH)
        settings_change(operator)
        load.until_stored(ENOUGH)
        a_broker_is_taken_out_for_good(operator)
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree("life")
    print(f"a cluster's life: writes paused for {load.longest_pause_ms} ms at most")


def a_broker_is_added_and_gets_its_share(operator: Operator, directory: Path) -> None:
    start_all([operator.cluster.node(4)])
    plan = directory / "plan.yaml"
    plan.write_text(operator.does("reassign", "plan", "life", "-o", "yaml"))
    assert operator.does("reassign", "run", "-f", str(plan), "--dry-run").count("would be reassigned: ") == 2
    assert operator.does("reassign", "run", "-f", str(plan), "--wait").count(" reassigned\n") == 2
    counts = [sum(broker in each for each in operator.replicas("life")) for broker in (1, 2, 3, 4)]
    assert sorted(counts) == [2, 2, 2, 3]
    assert operator.does("reassign", "run", "-f", str(plan)).count("unchanged") == 2
    assert operator.does("reassign", "plan", "life") == ""


def a_broker_is_drained(operator: Operator) -> None:
    assert operator.does("drain", "broker", "2", "--dry-run").count("would be reassigned: ") == 2
    assert operator.does("drain", "broker", "2").endswith("broker/2 drained\n")
    assert {broker for each in operator.replicas("life") for broker in each} == {1, 3, 4}
    states = {each["metadata"]["id"]: each["status"]["cordoned"] for each in operator.sees("get", "brokers")["items"]}
    assert states == {1: False, 2: True, 3: False, 4: False}
    operator.does("create", "topic", "elsewhere", "--partitions", "9", "--replicas", "1")
    assert {broker for each in operator.replicas("elsewhere") for broker in each} == {1, 3, 4}
    operator.does("delete", "topic", "elsewhere", "--yes")
    assert operator.does("config", "unset", "broker/2", "placement.enable") == "broker/2 configured\n"
    message = operator.is_refused("drain", "broker", "3", "2")
    assert "'life' is to have 3 replicas" in message
    assert "lograft scale topic life --replicas 2" in message


def replicas_become_fewer_and_more(operator: Operator, load: SteadyLoad) -> None:
    assert operator.does("scale", "topic", "life", "--replicas", "2", "--wait").endswith("topic/life scaled\n")
    assert [len(each) for each in operator.replicas("life")] == [2, 2, 2]
    load.until_stored(ENOUGH)
    assert operator.does("scale", "topic", "life", "--replicas", "3", "--wait").endswith("topic/life scaled\n")
    assert [len(each) for each in operator.replicas("life")] == [3, 3, 3]
    assert operator.does("scale", "topic", "life", "--replicas", "3") == "topic/life unchanged\n"
    assert "5 replicas" in operator.is_refused("scale", "topic", "life", "--replicas", "5")


def leaders_are_elected(operator: Operator, directory: Path) -> None:
    """Each partition's last replica is to lead it, which is a plan by hand."""
    partitions = operator.sees("get", "partitions", "life")["items"]
    wishes = [
        {
            "apiVersion": "lograft/v1",
            "kind": "Reassignment",
            "metadata": {"topic": "life", "partition": each["metadata"]["partition"]},
            "spec": {"to": each["status"]["replicas"][::-1]},
        }
        for each in partitions
    ]
    plan = directory / "leaders.json"
    plan.write_text(json.dumps({"apiVersion": "lograft/v1", "kind": "List", "items": wishes}))
    assert operator.does("config", "set", "cluster", "leader.rebalance.enable=false") == "cluster configured\n"
    operator.does("reassign", "run", "-f", str(plan), "--wait")
    wanted = [each["status"]["replicas"][-1] for each in partitions]
    others = sum(
        leader != preferred for leader, preferred in zip(operator.cluster.leaders("life"), wanted, strict=True)
    )
    assert others > 0
    assert operator.does("elect", "leaders", "--preferred", "life", "--dry-run").count("would be led by") == others
    operator.does("elect", "leaders", "--preferred", "life")
    assert operator.cluster.leaders("life") == wanted
    assert operator.does("elect", "leaders", "--preferred", "life-0").startswith("partition/life-0 unchanged: led by")
    assert "pass --yes" in operator.is_refused("elect", "leaders", "--unclean", "life")
    operator.does("config", "unset", "cluster", "leader.rebalance.enable")


def voters_come_and_go(operator: Operator) -> None:
    leader = operator.cluster.active_controller()
    other, third = [number for number in (1, 2, 3) if number != leader]
    assert operator.does("quorum", "transfer", str(other)) == f"quorum led by {other}\n"
    assert operator.does("quorum", "remove", str(leader), "--yes").startswith(f"voter/{leader} removed: ")
    assert [voter["id"] for voter in operator.sees("get", "quorum")["status"]["voters"]] == sorted([other, third])
    assert operator.does("quorum", "add", str(leader)) == f"voter/{leader} added: the voters are 1, 2, 3\n"
    assert operator.does("quorum", "add", str(leader)) == f"voter/{leader} unchanged: the voters are 1, 2, 3\n"
    assert "not in `controllers`" in operator.is_refused("quorum", "add", "4")


def settings_change(operator: Operator) -> None:
    assert operator.does("config", "set", "topic/life", "segment.bytes=65536", "min.insync.replicas=2") == (
        "topic/life configured\n"
    )
    entries = {
        each["metadata"]["key"]: each["status"] for each in operator.sees("get", "configs", "topic/life")["items"]
    }
    assert (entries["segment.bytes"]["value"], entries["segment.bytes"]["source"]) == ("65536", "topic")
    assert operator.does("config", "unset", "topic/life", "min.insync.replicas") == "topic/life configured\n"
    assert "retention.mss" in operator.is_refused("config", "set", "topic/life", "retention.mss=1")
    assert "segment.bytes" in operator.does("describe", "config", "topic/life")
    assert operator.does("config", "set", "broker/1", "log.level=debug") == "broker/1 configured\n"
    until(lambda: "log_level_changed" in operator.cluster.node(1).events, "it logs more")
    operator.does("config", "unset", "broker/1", "log.level")


def a_broker_is_taken_out_for_good(operator: Operator) -> None:
    assert operator.does("drain", "broker", "4").endswith("broker/4 drained\n")
    assert "is running" in operator.is_refused("delete", "broker", "4", "--yes")
    assert operator.cluster.node(4).stop() == 0
    assert operator.does("delete", "broker", "4", "--yes") == "broker/4 deleted\n"
    assert {broker for each in operator.replicas("life") for broker in each} == {1, 2, 3}


def test_a_reassignment_is_looked_at_and_cancelled_half_way(operator: Operator, tmp_path: Path) -> None:
    """It cannot end as long as a broker is away without which too few would be in sync."""
    cluster, away = operator.cluster, operator.cluster.node(3)
    cluster.create("half", [[1, 3]])
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            {
                "apiVersion": "lograft/v1",
                "kind": "Reassignment",
                "metadata": {"topic": "half", "partition": 0},
                "spec": {"from": [1, 3], "to": [3, 2]},
            }
        )
    )
    with SteadyLoad(cluster.bootstrap, "half", partitions=1) as load:
        load.until_stored(ENOUGH)
        assert away.stop() == 0
        assert "timed out after 2s: 0 of 1 partitions moved" in operator.is_refused(
            "reassign", "run", "-f", str(plan), "--wait", "--timeout", "2s"
        )
        load.until_stored(ENOUGH)
        (each,) = operator.sees("reassign", "status", "half")["items"]
        assert (each["spec"], each["status"]["removing"]) == ({"from": [1, 3], "to": [3, 2]}, [1])
        assert [(added["broker"], added["inSync"]) for added in each["status"]["adding"]] == [(2, True)]
        shown = operator.does("get", "reassignments", "half-0", "--no-headers").split()
        assert shown[:4] == ["half-0", "1,3", "3,2", "1/1"]
        assert "only 2 live brokers" in operator.is_refused("scale", "topic", "half", "--replicas", "4")
        assert operator.does("reassign", "cancel", "half-0", "--dry-run").endswith("would be cancelled\n")
        assert operator.does("reassign", "cancel", "--all") == "partition/half-0 reassignment cancelled\n"
        assert operator.does("reassign", "status", "--watch") == ""
        assert "no reassignment of half" in operator.is_refused("reassign", "cancel", "half")
        assert operator.replicas("half") == [(1, 3)]
        start_all([away])
        load.until_stored(ENOUGH)
    load.check()
    cluster.check_replicas_agree("half")


def test_what_is_changed_is_shown_as_get_shows_it(operator: Operator, tmp_path: Path) -> None:
    """And the other ways to have it told."""
    operator.cluster.admin.delete_topics(
        operator.cluster.admin.list_topics()
    )  # they would need a broker that is drained
    created = operator.sees("create", "topic", "shown", "--replicas", "2")
    assert created == operator.sees("get", "topic", "shown")
    assert operator.sees("scale", "topic", "shown", "--partitions", "2")["spec"]["partitions"] == 2
    assert operator.sees("scale", "topic", "shown", "--partitions", "3", "--dry-run")["spec"]["partitions"] == 3
    assert operator.sees("config", "set", "topic/shown", "retention.ms=5")["status"]["source"] == "topic"
    both = operator.does("config", "unset", "topic/shown", "retention.ms", "segment.ms", "-o", "name")
    assert both == "config/topic/shown/retention.ms\nconfig/topic/shown/segment.ms\n"
    assert operator.does("wait", "topic/shown", "--for", "InSync", "-o", "name") == "topic/shown\n"
    assert operator.sees("elect", "leaders", "--preferred", "shown") == operator.sees("get", "partitions", "shown")
    assert operator.sees("quorum", "add", "1")["metadata"] == operator.sees("get", "quorum")["metadata"]
    assert operator.does("quorum", "add", "1", "-o", "name") == operator.does("get", "quorum", "-o", "name")

    plan = operator.does("reassign", "run", "shown", "--brokers", "1", "--replicas", "1", "--dry-run", "-o", "yaml")
    file = tmp_path / "plan.yaml"
    file.write_text(plan)
    moved = operator.sees("reassign", "run", "-f", str(file), "--wait")
    assert [each["metadata"]["name"] for each in moved["items"]] == ["shown-0", "shown-1"]
    assert [each["status"]["replicas"] for each in moved["items"]] == [[1], [1]]
    drained = operator.sees("drain", "broker", "3", "--dry-run")["status"]
    assert (drained["cordoned"], drained["replicas"]) == (True, 0)
    assert not operator.sees("get", "broker", "3")["status"]["cordoned"]

    group = operator.sees("reset", "group", "readers", "--topic", "shown", "--to", "earliest", "--create", "--yes")
    assert group == operator.sees("get", "group", "readers")
    again = ("reset", "group", "readers", "--topic", "shown", "--to", "latest", "--yes", "-o", "name")
    assert operator.does(*again) == "group/readers\n"

    declared = operator.does("create", "topic", "declared", "--config", "segment.ms=9", "--dry-run", "-o", "yaml")
    assert operator.cluster.admin.list_topics().count("declared") == 0
    file.write_text(declared)
    assert operator.sees("apply", "-f", str(file)) == operator.sees("get", "topic", "declared")
    assert operator.does("apply", "-f", str(file), "-o", "name") == "topic/declared\n"
    taken = lograft("create", "topic", "shown", "other", "-o", "json", LOGRAFT_BOOTSTRAP=operator.cluster.bootstrap)
    assert (taken.returncode, json.loads(taken.stdout)["metadata"]["name"]) == (1, "other")
    refused = lograft("delete", "topic", "shown", "--yes", "-o", "json", LOGRAFT_BOOTSTRAP=operator.cluster.bootstrap)
    assert (refused.returncode, "is not supported here: use name" in refused.stderr) == (2, True)
    assert operator.does("-o", "name", "delete", "t", "shown", "other", "--yes") == "topic/shown\ntopic/other\n"
