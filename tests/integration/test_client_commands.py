"""Commands and clients against a cluster of three real nodes: what a person types, and what a program does."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.free_ports import PORTS_OF_DEV, free_port
from support.programs import Program, lograft_program
from support.server_processes import until, variables
from support.terminals import terminal

from lograft import Admin, Consumer, Producer, TopicPartition, errors
from lograft.clients.admin.model.types import ConfigKind, ElectionKind, NewTopic

DEADLINE_SECONDS = 120


class Cluster:
    """Three nodes, and the command line."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.bootstrap = ",".join(f"127.0.0.1:{port + number}" for number in range(3))

    def run(self, *arguments: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [sys.executable, "-m", "lograft", *arguments],
            input=data,
            capture_output=True,
            check=False,
            timeout=DEADLINE_SECONDS,
            env=variables(LOGRAFT_BOOTSTRAP=self.bootstrap),
        )

    def start(self, *arguments: str, **options: Any) -> Program:
        return lograft_program(*arguments, env=variables(LOGRAFT_BOOTSTRAP=self.bootstrap), **options)

    def done(self, *arguments: str, data: bytes = b"") -> str:
        """What it wrote to standard output."""
        result = self.run(*arguments, data=data)
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout.decode()

    def refused(self, *arguments: str, data: bytes = b"") -> str:
        """What it wrote to standard error: a cause, and a remedy."""
        result = self.run(*arguments, data=data)
        message = result.stderr.decode()
        assert result.returncode == 1, message
        assert "Traceback" not in message
        assert "\nRemedy: " in "\n" + message
        return message

    def json(self, *arguments: str) -> Any:
        return json.loads(self.done(*arguments, "-o", "json"))

    def dev(self, *arguments: str) -> None:
        self.done("dev", *arguments, "--data-dir", str(self.directory))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The nodes are gone in the end, whatever became of the tests."""
    made = Cluster(tmp_path_factory.mktemp("cluster") / "nodes", free_port(PORTS_OF_DEV))
    try:
        made.dev("up", "--detach", "--port", str(made.port))
        yield made
    finally:
        made.run("dev", "down", "--data-dir", str(made.directory))


def test_a_topics_life_at_the_command_line(cluster: Cluster) -> None:
    assert cluster.done("create", "topic", "life", "--partitions", "2", "--config", "retention.ms=1000") == (
        "topic/life created\n"
    )
    assert "already" in cluster.refused("create", "topic", "life")
    assert "retention.mss" in cluster.refused("create", "topic", "other", "--config", "retention.mss=1")
    topic = cluster.json("get", "topic", "life")
    assert topic["spec"] == {"partitions": 2, "replicas": 3, "config": {"retention.ms": "1000"}}
    assert cluster.done("get", "t/life", "-o", "name") == "topic/life\n"
    described = cluster.done("describe", "topic", "life")
    assert "retention.ms" in described
    assert "Partitions:" in described
    assert cluster.done("delete", "topic", "life", "--yes") == "topic/life deleted\n"
    assert "life" in cluster.refused("get", "topic", "life")
    assert "life" in cluster.refused("delete", "topic", "life", "--yes")


def test_records_in_and_out_of_pipes(cluster: Cluster) -> None:
    cluster.done("create", "topic", "pipes", "--partitions", "1")
    values = [b'{"id": %d, "text": "\xc3\xa4 %d"}' % (number % 7, number) for number in range(1000)]
    result = cluster.run("produce", "pipes", "--key-field", "id", "--header", "a=b", data=b"\n".join(values) + b"\n")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"1000 records written to pipes\n")
    assert cluster.done("consume", "pipes", "--exit").encode() == b"\n".join(values) + b"\n"
    lines = cluster.done("consume", "pipes", "--offsets", "0:100-103", "-f", r"%p %o %k %h\n").splitlines()
    assert lines == [f"0 {offset} {offset % 7} a=b" for offset in (100, 101, 102)]
    (record,) = map(json.loads, cluster.done("consume", "pipes", "--offsets", "0:5", "-o", "json").splitlines())
    assert (record["offset"], record["key"], record["headers"]) == (5, "5", [{"key": "a", "value": "b"}])
    assert len(cluster.done("consume", "pipes", "-n", "10").splitlines()) == 10
    assert len(cluster.done("consume", "pipes", "--from", "-1h", "--to", "now", "-f", ".").strip()) == 1000
    assert cluster.done("consume", "pipes", "--from", "latest", "--exit") == ""
    assert "not a JSON object" in cluster.refused("produce", "pipes", "--key-field", "id", data=b"5\n")
    assert "nonsense" in cluster.refused("produce", "nonsense", data=b"x\n")
    assert "nonsense" in cluster.refused("consume", "nonsense", "--exit")
    assert "no partition 4" in cluster.refused("consume", "pipes", "--offsets", "4:0-1")
    assert "no partition 4" in cluster.refused("produce", "pipes", "--partition", "4", data=b"x\n")
    assert "out of range 0 to 1000" in cluster.refused("consume", "pipes", "--offsets", "0:2000")


def test_arguments_are_bytes_and_need_not_be_text(cluster: Cluster) -> None:
    cluster.done("create", "topic", "bytes")
    given = [os.fsdecode(each) for each in (b"k\xff", b"h=\xfe", b"%k|%h|%v\xfd")]
    cluster.done("produce", "bytes", "--key", given[0], "--header", given[1], data=b"\xfc\n")
    assert cluster.run("consume", "bytes", "--exit", "-f", given[2]).stdout == b"k\xff|h=\xfe|\xfc\xfd"


def test_interrupting_produce_stores_what_was_read(cluster: Cluster) -> None:
    cluster.done("create", "topic", "interrupted")
    with cluster.start("produce", "interrupted", "--linger", "60000", stderr=subprocess.PIPE) as process:
        # More than what is read ahead, so that some is sent while the rest is waited for.
        process.tell("0\n" * 100_000)
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("interrupted", 0)])
            assert consumer.poll(timeout=30)
        process.interrupt()
        message = process.communicate(timeout=DEADLINE_SECONDS)[1]
    assert process.returncode == 130, message
    stored = int(message.split()[0])
    assert message == f"{stored} records written to interrupted\n"
    assert cluster.json("get", "partitions", "interrupted")["items"][0]["status"]["highWatermark"] == stored


def test_a_disk_that_is_full_is_told_in_a_line(cluster: Cluster) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "lograft", "get", "brokers", "--bootstrap", cluster.bootstrap],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env=variables(),
            timeout=DEADLINE_SECONDS,
        )
    assert result.returncode == 1
    assert b"Error: No space left on device\nRemedy: " in result.stderr


def test_a_reader_that_leaves_early_leaves_no_traceback(cluster: Cluster) -> None:
    cluster.done("create", "topic", "head", "--partitions", "1")
    cluster.done("produce", "head", data=b"x\n" * 50_000)
    command = f"{sys.executable} -m lograft consume head --bootstrap {cluster.bootstrap} | head -1"
    result = subprocess.run(
        command, shell=True, capture_output=True, timeout=DEADLINE_SECONDS, check=False, env=variables()
    )
    assert (result.stdout, result.stderr) == (b"x\n", b"")


def test_what_the_cluster_consists_of(cluster: Cluster) -> None:
    cluster.done("create", "topic", "shape", "--partitions", "3")
    cluster.done("produce", "shape", "--partition", "1", data=b"a\nb\n")
    partitions = cluster.json("get", "partitions", "shape")
    assert (partitions["kind"], len(partitions["items"])) == ("List", 3)
    status = partitions["items"][1]["status"]
    assert (status["startOffset"], status["endOffset"], status["highWatermark"]) == (0, 2, 2)
    (segment,) = (cluster.directory / f"node-{status['leader']}/data").glob("shape-1.*/*.log")
    assert status["bytes"] == segment.stat().st_size > 0
    assert cluster.json("get", "partition", "shape-1") == partitions["items"][1]
    assert cluster.json("get", "p", "shape-2", "shape-0")["kind"] == "List"
    assert "no partition 7" in cluster.refused("get", "p/shape-7")
    (described,) = [json.loads(cluster.done("describe", "partition", "shape-1", "-o", "json"))]
    assert [(log["broker"], log["endOffset"], log["bytes"]) for log in described["status"]["logs"]] == [
        (number, 2, status["bytes"]) for number in (1, 2, 3)
    ]
    assert [log["role"] for log in described["status"]["logs"]].count("leader") == 1
    assert sorted(status["isr"]) == sorted(status["replicas"]) == [1, 2, 3]
    brokers = cluster.json("get", "brokers")["items"]
    assert [broker["status"]["state"] for broker in brokers] == ["active"] * 3
    assert [broker["spec"]["address"] for broker in brokers] == cluster.bootstrap.split(",")
    assert cluster.json("get", "b", "2")["metadata"]["id"] == 2
    assert "broker 9 does not exist" in cluster.refused("get", "broker", "9")
    quorum = cluster.json("get", "quorum")["status"]
    assert quorum["leader"] in (1, 2, 3)
    assert [voter["id"] for voter in quorum["voters"]] == [1, 2, 3]
    assert "min.insync.replicas" in cluster.done("describe", "topic", "shape")
    assert cluster.done("describe", "broker", "1").startswith("ID:")
    assert cluster.done("get", "topics", "--no-headers").splitlines()[0].split()[0] != "NAME"
    table = cluster.done("--bootstrap", cluster.bootstrap, "-o", "wide", "get", "p", "shape").splitlines()
    assert " ".join(table[0].split()) == "TOPIC PARTITION LEADER EPOCH REPLICAS ISR ELR START WATERMARK END BYTES"


def test_nobody_there_is_told_soon_with_what_to_do_about_it(cluster: Cluster) -> None:
    message = cluster.refused("get", "topics", "--bootstrap", "127.0.0.1:1", "--timeout", "500ms")
    assert "127.0.0.1:1" in message
    assert "lograft dev up" in message


def test_all_that_an_administrator_does(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        results = admin.create_topics([NewTopic("admin", 2, 3), NewTopic("not a name")])
        assert isinstance(results[1], errors.InvalidTopic)
        assert admin.describe_topic("admin").replication_factor == 3
        assert "admin" in admin.list_topics()
        assert admin.create_topic("dry", validate_only=True).name == "dry"
        assert "dry" not in admin.list_topics()
        assert admin.create_partitions("admin", 3) == 3
        with pytest.raises(errors.InvalidPartitions):
            admin.create_partitions("admin", 2)
        admin.alter_config(ConfigKind.TOPIC, "admin", {"retention.ms": "5000", "segment.ms": "1000"})
        admin.alter_config(ConfigKind.TOPIC, "admin", {"segment.ms": None})
        entries = {entry.key: entry for entry in admin.describe_config(ConfigKind.TOPIC, "admin")}
        assert (entries["retention.ms"].value, entries["retention.ms"].source) == ("5000", "topic")
        assert entries["segment.ms"].source == "default"
        with pytest.raises(errors.InvalidConfig, match=r"flush\.mode"):
            admin.alter_config(ConfigKind.TOPIC, "admin", {"flush.mode": "never"})
        with pytest.raises(errors.UnknownTopic):
            admin.describe_topic("nonsense")
        (election,) = admin.elect_leaders(ElectionKind.PREFERRED, [("admin", 0)])
        assert election.error is None or isinstance(election.error, errors.ElectionNotNeeded)
        preferred = admin.describe_topic("admin").partitions[0].replicas
        moved = admin.reassign({("admin", 0): list(reversed(preferred))})
        assert moved == {("admin", 0): None}
        assert isinstance(admin.reassign({("admin", 1): [1, 1]})[("admin", 1)], errors.InvalidReplicas)
        assert admin.list_reassignments() == []
        quorum = admin.describe_quorum()
        assert len(quorum.voters) == 3
        everywhere = [(("admin", number), broker) for number in range(3) for broker in (1, 2, 3)]

        def replicas() -> list[tuple[object, int]]:
            return [(each.partition, each.broker) for each in admin.describe_replicas(["admin"])]

        # A broker that has just heard of a partition may not have its log open yet.
        until(lambda: replicas() == everywhere, "all brokers tell of their replicas")
        with pytest.raises(errors.UnknownTopic):
            admin.describe_replicas(["nonsense"])
        with pytest.raises(errors.UnknownTopic):
            admin.describe_load(["nonsense"])
        with pytest.raises(errors.BrokerInUse):
            admin.unregister_broker(1)
        assert admin.delete_topics(["admin", "nonsense"])[0] == "admin"


def test_what_brokers_had_to_do_shows_in_their_load(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic("loaded", partitions=1, replicas=3)
        admin.wait_for_topic("loaded")
        before = admin.describe_load(["loaded"])
        producer.send_many("loaded", [b"x" * 100] * 1000)
        producer.flush()
        with Consumer(cluster.bootstrap) as consumer:
            consumer.assign([TopicPartition("loaded", 0)])
            consumer.seek_to_beginning()
            taken = 0
            while taken < 1000:
                taken += len(consumer.poll(timeout=10))
        after = admin.describe_load(["loaded"])
        totals = admin.describe_load(include_partitions=False)
    assert [each.id for each in before] == [each.id for each in after] == [1, 2, 3]
    assert all(not each.partitions for each in (*before, *totals))
    for earlier, later in zip(before, after, strict=True):
        assert later.at_ms - earlier.at_ms == later.uptime_ms - earlier.uptime_ms > 0
        assert later.requests > earlier.requests
        assert later.event_loop_lag_ms is not None
        (loaded,) = later.partitions
        assert (loaded.partition, loaded.broker) == (("loaded", 0), later.id)
        if loaded.is_leader:
            assert (loaded.records_in, loaded.records_out) == (1000, 1000)
            assert loaded.bytes_out == loaded.bytes_in == later.bytes_in - earlier.bytes_in > 0
            assert loaded.replicated_bytes_out == 2 * loaded.bytes_in
        else:
            assert (loaded.bytes_in, loaded.bytes_out) == (0, 0)
    (leader,) = [each.partitions[0] for each in after if each.partitions[0].is_leader]
    followers = [each.partitions[0] for each in after if not each.partitions[0].is_leader]
    assert [each.replicated_bytes_in for each in followers] == [leader.bytes_in] * 2


def test_a_killed_leader_costs_no_record_and_health_tells_of_it(cluster: Cluster) -> None:
    cluster.done("create", "topic", "failover", "--partitions", "1", "--replicas", "3")
    assert cluster.done("health", "--exit-when-healthy").startswith("healthy: ")
    name = TopicPartition("failover", 0)
    with Producer(cluster.bootstrap, linger_ms=1) as producer:
        producer.send("failover", b"0").result(timeout=30)
        with Admin(cluster.bootstrap) as admin:
            leader = admin.describe_topic("failover").partitions[0].leader
        sent = 1
        killing = threading.Thread(target=cluster.dev, args=("kill", str(leader)))
        killing.start()
        while killing.is_alive():
            producer.send("failover", b"%d" % sent)
            sent += 1
            killing.join(0.001)
        deliveries = [producer.send("failover", b"%d" % number) for number in range(sent, sent + 500)]
        sent += 500
        producer.flush(timeout=60)
        assert all(delivery.exception() is None for delivery in deliveries)
    result = cluster.run("health")
    assert result.returncode == 1
    assert f"broker {leader} at ".encode() in result.stdout
    assert b"under-replicated, none offline" in result.stdout
    assert cluster.run("health", "-o", "json").returncode == 1
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([name])
        assert consumer.end_offsets([name]) == {name: sent}
        values: list[bytes | None] = []
        while len(values) < sent:
            values += [record.value for record in consumer.poll(timeout=30)]
    assert values == [b"%d" % number for number in range(sent)]
    cluster.dev("restart", str(leader))
    assert cluster.done("health", "--exit-when-healthy", "--timeout", "60s").startswith("healthy: ")


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_health_names_a_controller_that_was_killed_though_it_had_all(cluster: Cluster, leads: bool) -> None:
    cluster.done("quorum", "transfer", "3" if leads else "1")
    cluster.done("health", "--exit-when-healthy")
    cluster.dev("kill", "3")

    def problems() -> str:
        result = cluster.run("health", "-o", "json")
        return "; ".join(json.loads(result.stdout)["status"]["problems"]) if result.returncode == 1 else ""

    try:
        until(lambda: "voter 3 at " in problems(), "health names the voter")
        until(lambda: "voter 3" in problems() and "is unreachable: it has not answered" in problems(), "and why")
        (killed,) = [each for each in cluster.json("get", "quorum")["status"]["voters"] if each["id"] == 3]
        assert killed["reachable"] is False
        assert killed["silentMs"] > 0
        assert "unreachable for " in cluster.done("describe", "quorum")
        assert "caught up" in cluster.done("describe", "quorum")
        assert "voter 3 at" in cluster.run("wait", "quorum", "--for", "CaughtUp", "--timeout", "1s").stderr.decode()
    finally:
        cluster.dev("restart", "3")
    assert cluster.done("health", "--exit-when-healthy", "--timeout", "60s").startswith("healthy: ")
    assert all(each["reachable"] for each in cluster.json("get", "quorum")["status"]["voters"])


def test_topics_are_created_on_first_use_where_the_cluster_wants_that(cluster: Cluster) -> None:
    assert "there is no topic 'unheard-of'" in cluster.refused("produce", "unheard-of", data=b"x\n")
    cluster.done("config", "set", "cluster", "auto.create.topics.enable=true")
    try:
        cluster.done("produce", "unheard-of", data=b"x\n")
        assert cluster.done("consume", "unheard-of", "--from", "earliest", "--exit") == "x\n"
        assert "there is no topic 'looked-at'" in cluster.refused("get", "topic", "looked-at")
    finally:
        cluster.done("config", "unset", "cluster", "auto.create.topics.enable")


def test_groups_at_the_command_line(cluster: Cluster) -> None:
    cluster.done("create", "topic", "shared", "--partitions", "2")
    cluster.done("produce", "shared", data=b"".join(b"%d\n" % number for number in range(10)))
    first = cluster.done("consume", "shared", "--group", "clerks", "-n", "4")
    rest = cluster.done("consume", "shared", "--group", "clerks", "--exit")
    assert sorted(map(int, (first + rest).split())) == list(range(10))
    assert len(first.split()) == 4
    cluster.done("produce", "shared", data=b"10\n")
    (line,) = [line for line in cluster.done("get", "groups", "--no-headers").splitlines() if "clerks" in line]
    assert line.split()[:3] == ["clerks", "empty", "0"]
    group = cluster.json("describe", "group", "clerks")
    assert group["kind"] == "Group"
    assert group["status"]["state"] == "empty"
    assert group["status"]["members"] == []
    assert sum(each["committed"] for each in group["status"]["partitions"]) == 10
    assert sum(each["lag"] for each in group["status"]["partitions"]) == 1
    assert (group["status"].pop("verdict"), "no members" in group["status"].pop("reason")) == ("stalled", True)
    assert sorted(each.pop("verdict") for each in group["status"]["partitions"])[-1] == "stalled"
    assert cluster.json("get", "group", "clerks") == group
    assert "LAG" in cluster.done("describe", "g/clerks")
    with cluster.start("consume", "shared", "--group", "clerks") as member:
        assert member.line() == "10\n"
        assert "GROUP_NOT_EMPTY" not in (told := cluster.refused("delete", "group", "clerks", "--yes"))
        assert "has 1 member:" in told
        assert "`lograft describe group NAME`" in told
        member.terminate()
        assert member.wait(30) == 143
    assert cluster.json("describe", "group", "clerks")["status"]["members"] == []  # it has left at once
    usage = cluster.run("consume", "shared", "--group", "clerks", "--partition", "0")
    assert (usage.returncode, b"starts at the group's committed offsets" in usage.stderr) == (2, True)
    assert cluster.done("delete", "group", "clerks", "--yes") == "group/clerks deleted\n"
    assert "there is no group" in cluster.refused("describe", "group", "clerks")


def test_replicas_are_verified_by_command(cluster: Cluster) -> None:
    cluster.done("create", "topic", "verified", "--partitions", "2")
    cluster.done("produce", "verified", data=b"a\nb\nc\n")
    lines = cluster.done("verify", "replicas", "verified").splitlines()
    assert lines[0].split() == ["PARTITION", "COMPARED", "FROM", "TO", "RESULT"]
    assert [line.split()[0] for line in lines[1:]] == ["verified-0", "verified-1"]
    assert all(line.endswith("same") for line in lines[1:])
    found = cluster.json("verify", "replicas", "verified-1")["items"]
    assert [(each["kind"], each["metadata"]["partition"], each["status"]["same"]) for each in found] == [
        ("Verification", 1, True)
    ]
    assert "there is no topic 'nowhere'" in cluster.refused("verify", "replicas", "nowhere")


# -- files

DECLARED = """\
apiVersion: lograft/v1
kind: Topic
metadata: {name: declared}
spec:
  partitions: 2
  replicas: 1
  config: {retention.ms: 060000, cleanup.policy: [delete, compact]}
---
apiVersion: lograft/v1
kind: Config
metadata: {name: broker/1/log.level}
spec: {value: debug}
"""


def test_files_are_compared_applied_and_exported(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "declared.yaml"
    file.write_text(DECLARED)
    differing = cluster.run("diff", "-f", str(tmp_path))
    assert (differing.returncode, b"\n+  name: declared\n" in differing.stdout) == (1, True)
    assert cluster.done("apply", "-f", str(file), "--dry-run").splitlines() == [
        "topic/declared created (dry run): partitions 2, replicas 1, cleanup.policy delete,compact, "
        "retention.ms 060000",
        "config/broker/1/log.level configured (dry run): value not set -> debug",
    ]
    assert cluster.done("apply", "-f", str(file)) == "topic/declared created\nconfig/broker/1/log.level configured\n"
    cluster.done("apply", "-f", "-", data=DECLARED.replace("value: debug", "value: null").encode())
    assert cluster.run("diff", "-f", "-", data=cluster.done("export", "topics").encode()).returncode == 0

    told = cluster.done("get", "topics", "--internal", "-o", "yaml")
    assert {line.split()[1] for line in cluster.done("apply", "-f", "-", data=told.encode()).splitlines()} == {
        "unchanged"
    }
    assert cluster.done("get", "configs") == cluster.done("get", "configs", "cluster")
    assert cluster.done("describe", "config") == cluster.done("describe", "config", "cluster")
    told = cluster.done("get", "configs", "cluster", "broker/1", "topic/declared", "-o", "json")
    assert {line.split()[1] for line in cluster.done("apply", "-f", "-", data=told.encode()).splitlines()} == {
        "unchanged"
    }

    cluster.done("consume", "declared", "--group", "mentioned", "--exit")
    for noun in ("partitions", "brokers", "groups", "quorum", "reassignments"):
        told = cluster.done("get", noun, "-o", "yaml")
        assert cluster.run("diff", "-f", "-", data=told.encode()).returncode == 0
        names = cluster.done("get", noun, "-o", "name").split()
        assert cluster.done("apply", "-f", "-", data=told.encode()).split() == [
            word for name in names for word in (name, "unchanged")
        ]
        if names:
            assert cluster.done("get", *names, "-o", "name").split() == names
            assert cluster.done("describe", noun, "-o", "name").split() == names
    names = cluster.done("get", "configs", "topic/declared", "-o", "name").split()
    assert cluster.done("get", *names, "-o", "name").split() == names
    assert cluster.json("get", names[0])["metadata"]["name"] == names[0].removeprefix("config/")

    exported = cluster.done("export", "topic/declared")
    more = exported.replace("partitions: 2", "partitions: 3").replace("replicas: 1", "replicas: 3")
    more = more.replace("retention.ms: 60000", "min.insync.replicas: 2")
    assert more.count("3") == 2
    assert cluster.done("apply", "-f", "-", data=more.encode()) == "topic/declared configured\n"
    assert cluster.done("apply", "-f", "-", data=more.encode()) == "topic/declared unchanged\n"
    assert cluster.json("get", "topic", "declared")["spec"] == {
        "partitions": 3,
        "replicas": 3,
        "config": {"cleanup.policy": "compact,delete", "min.insync.replicas": "2"},
    }
    unsafe_file = exported.replace("name: declared", "name: new") + "---\n" + exported
    unsafe = cluster.refused("apply", "-f", "-", data=unsafe_file.encode())
    assert "No changes were made." in unsafe
    assert "standard input, document 2, line 12: topic/declared has 3 partitions, and a reduction to" in unsafe
    assert "there is no topic 'new'" in cluster.refused("get", "topic", "new")
    assert "Accepts a whole number from -1 to" in cluster.done("explain", "topic.spec.config.retention.ms")


def test_a_topic_is_edited_until_it_can_be_applied(cluster: Cluster, tmp_path: Path) -> None:
    cluster.done("create", "topic", "edited", "--partitions", "3", "--replicas", "1")
    editor = tmp_path / "editor"
    env = variables(LOGRAFT_BOOTSTRAP=cluster.bootstrap, LOGRAFT_EDITOR=str(editor), TMPDIR=str(tmp_path))

    def edit(*changes: str) -> tuple[int, str]:
        """Each time the editor is opened, it makes the next of these changes; then none."""
        (tmp_path / "changes").write_text("".join(f"{change}\n" for change in changes))
        editor.write_text(
            f"""#!/bin/sh
change=$(head -n 1 {tmp_path}/changes)
sed -i 1d {tmp_path}/changes
sed -i "$change" "$1"
"""
        )
        editor.chmod(0o755)
        with terminal("edit", "topic", "edited", environment=env) as opened:
            return opened.finish(), opened.shown.decode().replace("\r\n", "\n")

    def kept() -> list[Path]:
        return list(tmp_path.glob("lograft-edit-*"))

    assert edit() == (0, "edit cancelled\n")
    assert edit("s/partitions: 3/partition: 4/", "s/partition: 4/partitions: 2/", "s/partitions: 2/partitions: 4/") == (
        0,
        "topic/edited edited\n",
    )
    assert kept() == []
    assert cluster.json("get", "topic", "edited")["spec"]["partitions"] == 4

    exit_code, shown = edit("s/partitions: 4/partitions: 1/")
    assert (exit_code, shown.splitlines()[0]) == (1, "edit cancelled")
    assert "has 4 partitions, and a reduction to" in shown
    (file,) = kept()
    assert f"your changes are saved in {file}" in shown
    assert "# NOT APPLIED: " in file.read_text()
    assert "not a terminal" in cluster.refused("edit", "topic", "edited")
