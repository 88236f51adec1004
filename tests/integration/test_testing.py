"""`lograft.testing`, as the tests of somebody else's program use it."""

import subprocess
import sys
from pathlib import Path

import pytest

from lograft import Consumer, Producer, TopicPartition, errors, testing
from lograft.clients.admin.sync_admin import Admin

TESTS = """
from lograft import Admin, Producer

def test_first(lograft_cluster):
    with Admin(lograft_cluster.bootstrap) as admin:
        admin.create_topic("first")
    with Producer(lograft_cluster.bootstrap) as producer:
        assert producer.send("first", b"value").result(30).offset == 0

def test_second(lograft_cluster):
    with Producer(lograft_cluster.bootstrap) as producer:
        assert producer.send("first", b"value").result(30).offset == 1
    print("FILES", lograft_cluster.directory)
"""


def test_a_cluster_is_there_for_a_block_and_gone_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_contexts = tmp_path / "config.yaml"
    monkeypatch.setenv("LOGRAFT_CONFIG", str(own_contexts))
    with testing.cluster(nodes=3) as cluster:
        assert not own_contexts.exists()
        assert len(cluster.bootstrap.split(",")) == cluster.nodes == 3
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("orders", replicas=3)
        with Producer(cluster.bootstrap) as producer:
            producer.send("orders", b"before").result(30)
            cluster.kill(1)
            producer.send("orders", b"after").result(30)
        cluster.restart(1)
        cluster.pause(2)
        cluster.resume(2)
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            values: list[bytes | None] = []
            while len(values) < 2:
                values += [record.value for record in consumer.poll(1)]
        assert values == [b"before", b"after"]
        with pytest.raises(errors.InvalidArgument, match="the number of a node is 4"):
            cluster.kill(4)
        cluster.kill(3)
        with pytest.raises(testing.ClusterFailed, match="node 3"):
            cluster.kill(3)
        directory = cluster.directory
        commands = processes_of(directory)
        assert commands
    assert not directory.exists()
    assert not processes_of(directory)


def processes_of(directory: Path) -> list[str]:
    """The command lines that name the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command:
            found.append(command)
    return found


def test_a_failure_in_the_block_ends_the_cluster_too() -> None:
    seen: list[Path] = []

    def fail() -> None:
        with testing.cluster() as cluster:
            seen.append(cluster.directory)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (directory,) = seen
    assert not directory.exists()
    assert not processes_of(directory)


def test_a_cluster_without_nodes_is_refused() -> None:
    with pytest.raises(errors.InvalidArgument, match="nodes is 0"), testing.cluster(nodes=0):
        pass


def test_pytest_has_a_fixture_for_it(tmp_path: Path) -> None:
    path = tmp_path / "test_program.py"
    path.write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(path)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    directory = Path(done.stdout.partition("FILES ")[2].split()[0])
    assert not directory.exists()
    assert not processes_of(directory)
