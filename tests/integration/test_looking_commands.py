"""What is wrong, and since when it is well again: commands that look, against three real nodes; one is killed."""

import contextlib
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.free_ports import PORTS_OF_DEV, free_port
from support.programs import Program, lograft_program
from support.server_processes import DEADLINE_SECONDS, LOGRAFT, until, variables
from support.terminals import Terminal, terminal

from lograft import Consumer, Producer


class Cluster:
    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        addresses = ",".join(f"127.0.0.1:{port + number}" for number in range(3))
        self.environment = variables(LOGRAFT_BOOTSTRAP=addresses, TERM="xterm", COLUMNS="200", LINES="50")
        self._started = contextlib.ExitStack()

    def run(self, *arguments: str, data: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*LOGRAFT, *arguments], input=data, capture_output=True, text=True, check=False,
            timeout=DEADLINE_SECONDS, env=self.environment,
        )  # fmt: skip

    def start(self, *arguments: str) -> Program:
        return self._started.enter_context(lograft_program(*arguments, env=self.environment))

    def at_terminal(self, *arguments: str) -> Terminal:
        return self._started.enter_context(terminal(*arguments, environment=self.environment))

    def stop(self) -> None:
        """Whatever is left."""
        try:
            self._started.close()
        finally:
            self.run("dev", "down", "--data-dir", str(self.directory))

    def done(self, *arguments: str, data: str = "") -> str:
        result = self.run(*arguments, data=data)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def refused(self, *arguments: str, data: str = "") -> str:
        result = self.run(*arguments, data=data)
        assert result.returncode == 1, result.stderr
        assert "\nRemedy: " in "\n" + result.stderr
        return result.stderr

    def dev(self, *arguments: str) -> None:
        self.done("dev", *arguments, "--data-dir", str(self.directory))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster") / "nodes", free_port(PORTS_OF_DEV))
    try:
        made.dev("up", "--detach", "--port", str(made.port))
        yield made
    finally:
        made.stop()


TABBED = "{apiVersion: lograft/v1, kind: Topic, metadata: {name: tabbed}, spec: {partitions: 2}}"

# As each shell does it when the key is pressed; what it would offer is printed, a line each.
PRESS = {
    "bash": """{script}
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _lograft_completion lograft
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """compdef() {{ }}
    compadd() {{ print -l -- $completions }}
    _describe() {{ print -l -- $completions_with_descriptions }}
    {script}
    words=("$@") CURRENT=$#
    _lograft_completion
    """,
    "fish": """{script}
    complete --do-complete "$argv"
    """,
}


@pytest.mark.parametrize("shell", PRESS)
def test_the_tab_key_knows_what_there_is(shell: str, cluster: Cluster, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    cluster.done("apply", "-f", "-", data=TABBED)
    program = tmp_path / "lograft"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lograft "$@"\n')
    program.chmod(0o755)
    press = PRESS[shell].format(script=cluster.done("completion", shell))
    presses = {
        "lograft desc": ["describe"],
        "lograft get part": ["partitions"],
        "lograft get topics tab": ["tabbed"],
        "lograft describe partition tabbed-": ["tabbed-0", "tabbed-1"],
        "lograft wait broker/": ["broker/1", "broker/2", "broker/3"],
    }
    for typed, expected in presses.items():
        words = [typed] if shell == "fish" else [shell, *typed.split()]
        result = subprocess.run(
            [shell, *(["-f"] if shell == "zsh" else []), "-c", press, *words],
            capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS,
            env=cluster.environment | {"PATH": f"{tmp_path}:{cluster.environment['PATH']}", "HOME": str(tmp_path)},
        )  # fmt: skip
        # Without what fish and zsh tell of it.
        offered = [re.split(r"[:\t]", line)[0] for line in result.stdout.splitlines()]
        assert (offered, result.stderr) == (expected, "")


def test_a_group_is_reset_exported_and_imported(cluster: Cluster, tmp_path: Path) -> None:
    cluster.done("create", "topic", "read", "--partitions", "1")
    cluster.done("produce", "read", data="".join(f"{number}\n" for number in range(10)))
    cluster.done("consume", "read", "--group", "readers", "-n", "4")
    assert cluster.done("offsets", "read", "--at", "-1h").split()[-5:] == ["read", "0", "0", "10", "0"]
    assert cluster.done("get", "groups", "--lagging", "--no-headers").split()[-1] == "6"
    described = cluster.done("describe", "group", "readers")
    assert "Verdict:      stalled: it has no members; read-0: 6 records to read" in described
    assert "readers   empty         0            1     6\n" in cluster.done("describe", "topic", "read")

    reset = ("reset", "group", "readers", "--topic", "read", "--to")
    table = "GROUP     TOPIC   PARTITION   FROM   TO   LAG\nreaders   read            0      4    0    10\n"
    assert cluster.done(*reset, "earliest", "--dry-run") == f"{table}group/readers would be reset: 1 partition\n"
    assert cluster.done(*reset, "2", "--yes", "-o", "jsonpath={.status.partitions[*].committed}") == "2"
    assert "offset 11 of read-0 is out of range 0 to 10" in cluster.refused(*reset, "11", "--yes")
    assert "create it with --create" in cluster.refused(
        "reset", "g", "new", "--topic", "read", "--to", "latest", "--yes"
    )
    assert cluster.done("consume", "read", "--group", "readers", "-n", "1") == "2\n"
    assert cluster.done("reset", "g", "new", "--topic", "read:0", "--to", "now", "--create", "--yes").endswith(
        "group/new reset: 1 partition\n"
    )

    member = cluster.start("consume", "read", "--group", "readers")
    member.line()
    assert "has 1 member" in cluster.refused(*reset, "earliest", "--yes")
    assert cluster.done("wait", "group/readers", "--for", "CaughtUp") == "group/readers condition met\n"
    assert "Verdict:      keeping up: all partitions are" in cluster.done("describe", "group", "readers")
    member.interrupt()
    member.communicate(timeout=DEADLINE_SECONDS)
    cluster.done("wait", "group/readers", "--for", "Empty")

    exported = cluster.done("export", "group", "readers")
    file = tmp_path / "readers.yaml"
    file.write_text(exported)
    assert "FROM   TO" in cluster.done("import", "group", "copy", "-f", str(file), "--dry-run")
    assert "there is no group 'copy'" in cluster.refused("describe", "group", "copy")
    assert cluster.done("import", "group", "copy", "-f", str(file), "--yes").endswith(
        "group/copy imported: 1 partition\n"
    )
    assert cluster.done("export", "g/copy").replace("copy", "readers") == exported
    both = cluster.done("export", "groups", "copy", "readers", "-o", "json")
    assert cluster.done("import", "group", "-f", "-", "--yes", "-o", "name", data=both).count("\n") == 2
    assert "spec.offsets is None" in cluster.refused(
        "import", "g", "-f", "-", "--yes", data=exported.replace("offsets:", "x:")
    )
    file.write_text(exported.replace("offset: 10", "offset: 11"))
    assert "offset 11 of read-0" in cluster.refused("import", "group", "-f", str(file), "--yes")
    clamped = ("import", "group", "-f", str(file), "--yes", "--clamp")
    assert cluster.done(*clamped, "--dry-run", "-o", "jsonpath={.items[*].status.to}") == "10"
    assert cluster.done(*clamped, "-o", "jsonpath={.status.partitions[*].committed}") == "10"


def test_contexts_are_shown_again_when_their_file_has_changed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.environment["LOGRAFT_CONFIG"] = str(tmp_path / "config.yaml")
    try:
        cluster.done("context", "set", "dev", "--bootstrap", "a:1")
        watching = cluster.start("get", "contexts", "-w", "-o", "name")
        assert watching.line() == "context/dev\n"
        assert cluster.done("context", "set", "prod", "--bootstrap", "b:1", "-o", "name") == "context/prod\n"
        assert watching.line() == "context/prod\n"
        watching.interrupt()
        assert watching.wait(DEADLINE_SECONDS) == 130
    finally:
        del cluster.environment["LOGRAFT_CONFIG"]


def test_a_member_that_reads_less_than_comes_in_falls_behind(cluster: Cluster) -> None:
    cluster.done("create", "topic", "flooded")
    bootstrap = cluster.environment["LOGRAFT_BOOTSTRAP"]
    is_enough = threading.Event()

    def read_one_of_ten() -> None:
        with Producer(bootstrap) as producer, Consumer(bootstrap, group="slow", auto_offset_reset="earliest") as slow:
            slow.subscribe(["flooded"])
            while not is_enough.is_set():
                producer.send_many("flooded", [b"x"] * 10).result(DEADLINE_SECONDS)
                slow.poll(timeout=1, max_records=1)
                slow.commit()

    def verdict() -> str:
        return cluster.run("describe", "group", "slow", "-o", "jsonpath={.status.verdict}: {.status.reason}").stdout

    told: list[str] = []

    def falls_behind() -> bool:
        told.append(verdict())
        return told[-1].startswith("falling behind")

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read_one_of_ten)
        try:
            until(falls_behind, "it is seen to fall behind")
        finally:
            is_enough.set()
        reading.result(DEADLINE_SECONDS)
    assert re.search(r"flooded-0: \d+ records to read; about \d+/s arrive, and \d+/s are read", told[-1])
    assert not [each for each in told if each.startswith("stalled")]
    cluster.done("consume", "flooded", "--group", "slow", "--exit")
    assert verdict().startswith("keeping up")


def test_a_person_is_asked_before_something_is_lost(cluster: Cluster) -> None:
    cluster.done("create", "topic", "dear", "--partitions", "2")
    cluster.done("produce", "dear", data="x\n")
    shown = cluster.at_terminal("delete", "topic", "dear")
    shown.until(r"Delete topic dear \(2 partitions, \d+ B\), in the cluster at [\d.:,]+\? \[y/N\]: ")
    shown.type("\n")
    assert shown.finish() == 1
    assert cluster.done("get", "topic", "dear", "-o", "name") == "topic/dear\n"
    shown = cluster.at_terminal("delete", "topic", "dear")
    shown.until(r"\[y/N\]: ")
    shown.type("y\n")
    assert shown.finish() == 0
    assert b"topic/dear deleted" in shown.shown
    cluster.done("wait", "topic/dear", "--for", "Deleted")
    assert "there is no topic 'dear'" in cluster.refused("delete", "topic", "dear", "--yes")


def test_a_killed_broker_is_seen_and_so_is_its_return(cluster: Cluster) -> None:
    cluster.done("create", "topic", "watched", "--partitions", "3", "--config", "min.insync.replicas=3")
    cluster.done("wait", "topic/watched", "--for", "InSync")
    shown = cluster.at_terminal("get", "b", "-w")
    piped = cluster.start("-w", "get", "brokers", "--no-headers")
    assert [piped.line().split()[2] for _ in range(3)] == ["active"] * 3
    assert shown.until(r"3 +127\.0\.0\.1:\d+ +active").string.count("ADDRESS") == 1

    cluster.dev("kill", "3")
    assert cluster.done("wait", "broker/3", "--for", "Gone") == "broker/3 condition met\n"
    shown.until(r"\x1b\[4F\x1b\[J[^\x1b]*\x1b\[\?7l[^\x07]*\x1b\[31mfenced")
    while (line := piped.line().split())[:1] != ["3"] or line[2] != "fenced":
        assert line, "the watch has ended"
    assert cluster.done("get", "brokers", "--offline", "-o", "name") == "broker/3\n"
    assert cluster.done("get", "partitions", "--under-min-isr", "--no-headers").count("watched") == 3
    names = cluster.done(
        "get", "t", "--under-replicated", "-o", r'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'
    )
    assert "watched\n" in names
    assert cluster.done("get", "partitions", "watched", "--offline") == ""
    late = cluster.refused("wait", "topic/watched", "--for", "InSync", "--timeout", "1s")
    assert "timed out after 1s waiting for topic/watched to be InSync: broker 3 at " in late
    assert "is down: 3 partitions under-replicated, none offline" in late
    assert "Load:        unknown" in cluster.done("describe", "broker", "3")

    cluster.dev("restart", "3")
    cluster.done("wait", "broker/3", "--for", "InSync")
    cluster.done("wait", "topic/watched", "--for", "InSync")
    assert cluster.done("get", "partitions", "--under-replicated", "--internal") == ""
    for process in (piped, shown.process):
        process.interrupt()
    assert (piped.wait(DEADLINE_SECONDS), shown.finish()) == (130, 130)
    assert b"Traceback" not in shown.shown
    assert b"Aborted" not in shown.shown
