"""`lograft bench` against a real node."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lograft import Admin, Producer
from lograft.testing import TestingCluster, cluster


@pytest.fixture(scope="module")
def running() -> Iterator[TestingCluster]:
    with cluster() as started:
        yield started


def bench(running: TestingCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lograft", "--bootstrap", running.bootstrap, "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "--how", "send", "--records", "3000"),
        ("produce", "--how", "send_many", "--records", "25000", "--partitions", "2", "--compression", "lz4"),
        ("produce", "--how", "arrow", "--records", "12345", "--acks", "1"),
        ("consume", "--how", "poll", "--records", "20000"),
        ("consume", "--how", "iterate", "--records", "3000"),
        ("consume", "--how", "arrow", "--records", "20000", "--partitions", "3"),
        ("latency", "--records", "20"),
    ],
    ids=lambda arguments: "-".join(arguments[:3]).replace("--", ""),
)
def test_what_is_measured_is_shown_and_nothing_is_left(running: TestingCluster, arguments: tuple[str, ...]) -> None:
    done = bench(running, *arguments, "--size", "50", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert (shown["kind"], shown["metadata"]["name"], shown["spec"]["size"]) == ("Benchmark", arguments[0], 50)
    status = shown["status"]
    assert status["records"] >= int(arguments[arguments.index("--records") + 1])
    assert status["recordsPerSecond"] > 0
    assert status["cpuSecondsPerMillionRecords"] > 0
    assert (status["latencyMs"] is None) == (arguments[0] == "consume")
    with Admin(running.bootstrap) as admin:
        assert admin.list_topics() == []


def test_a_topic_that_is_given_is_used_and_stays(running: TestingCluster) -> None:
    with Admin(running.bootstrap) as admin:
        admin.create_topic("mine")
        try:
            assert bench(running, "produce", "mine", "--records", "100").returncode == 0
            done = bench(running, "consume", "mine", "--records", "100")
            titles, figures = done.stdout.splitlines()
            assert titles.split()[:4] == ["BENCH", "HOW", "RECORDS", "SIZE"]
            assert figures.split()[:4] == ["consume", "poll", "100", "100"]
            with Producer(running.bootstrap) as producer:
                assert producer.partitions_for("mine") == 1
            done = bench(running, "consume", "mine", "--records", "101")
            assert (done.returncode, done.stdout) == (1, "")
            assert "has only 100 records" in done.stderr
            assert "--records 100" in done.stderr
        finally:
            admin.delete_topic("mine")


def test_a_topic_that_is_not_there_is_named(running: TestingCluster) -> None:
    for verb in ("produce", "consume", "latency"):
        done = bench(running, verb, "nonsense", "--timeout", "5s")
        assert (done.returncode, done.stdout) == (1, "")
        assert "'nonsense'" in done.stderr
        assert "Traceback" not in done.stderr
