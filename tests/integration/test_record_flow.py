"""Records in and out of pipes, files and terminals, and what `lograft top` shows of them: against a real node."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.server_processes import variables
from support.terminals import terminal

from lograft import Admin, Consumer
from lograft.testing import TestingCluster, cluster


class Flow:
    """A cluster, and the command line."""

    def __init__(self, running: TestingCluster) -> None:
        self.bootstrap = running.bootstrap
        self.environment = variables(LOGRAFT_BOOTSTRAP=running.bootstrap, LOGRAFT_CONFIG="/nowhere")

    def run(self, *arguments: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [sys.executable, "-m", "lograft", *arguments], input=data, capture_output=True, check=False, timeout=120,
            env=self.environment,
        )  # fmt: skip

    def told(self, *arguments: str, data: bytes = b"", code: int = 0) -> str:
        """What it said on standard error."""
        done = self.run(*arguments, data=data)
        assert done.returncode == code, done.stderr.decode()
        return done.stderr.decode()

    def read(self, topic: str, form: str) -> list[str]:
        return self.run("consume", topic, "--exit", "-f", form + r"\n").stdout.decode().splitlines()


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    with cluster() as running:
        with Admin(running.bootstrap) as admin:
            for name, partitions in {
                "files": 1,
                "copied": 2,
                "copy": 2,
                "bad": 1,
                "much": 1,
                "left": 1,
                "typed": 1,
                "busy": 1,
            }.items():
                admin.create_topic(name, partitions=partitions)
        yield Flow(running)


def test_files_keys_and_what_is_wrong_with_a_line(flow: Flow, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"k1:v1\r\nk2:-\n")
    (tmp_path / "b").write_bytes(b"k3:v3\nnothing\nk4:v4\n")
    paths = ["-F", str(tmp_path / "a"), "-F", str(tmp_path / "b")]
    assert flow.told("produce", "files", *paths, "--key-separator", ":", "--null-value", "-", code=1) == (
        "3 records written to files\n"
        f"Error: line 2 of {tmp_path}/b has no ':' between a key and a value\n"
        "Remedy: correct it, or pass another --key-separator\n"
    )
    assert flow.read("files", "%k %{v:json}") == ['k1 "v1"', "k2 null", 'k3 "v3"']
    flow.told("produce", "files", *paths[:2], "--whole", "--key", "whole")
    flow.told("produce", "files", "--tombstone", data=b"k1\n")
    assert flow.read("files", "%k %{v:json}")[3:] == [r'whole "k1:v1\r\nk2:-\n"', "k1 null"]
    told = flow.told("produce", "bad", "--rate", "1000/s", data=b"short\n" + b"x" * 2_000_000 + b"\n", code=1)
    assert told.startswith("1 record written to bad\n1 not written, or not confirmed; the first is line 2\nError: ")


def test_what_is_read_as_json_can_be_stored_again(flow: Flow) -> None:
    lines = [
        {"key": "a", "value": "ä", "headers": {"h": "1"}, "timestamp": 1_767_225_600_000, "partition": 1},
        {"key": None, "value": {"base64": "//4="}, "partition": 0},
        {"key": "gone", "value": None},
    ]
    flow.told("produce", "copied", "--input", "json", data="\n".join(map(json.dumps, lines)).encode())
    copied = flow.run("consume", "copied", "--exit", "-o", "json").stdout
    flow.told("produce", "copy", "--input", "json", data=copied)
    copy = flow.run("consume", "copy", "--exit", "-o", "json").stdout
    assert sorted(copy.replace(b'"copy"', b'"copied"').splitlines()) == sorted(copied.splitlines())
    found = {record["key"]: record for record in map(json.loads, copied.splitlines())}
    assert (found["a"]["partition"], found["a"]["timestamp"]) == (1, 1_767_225_600_000)
    assert found[None]["value"] == {"base64": "//4="}
    several = flow.run("consume", "copied", "copy", "--tail", "1", "--exit", "-f", "%t-%p ").stdout.split()
    assert sorted(several) == [b"copied-0", b"copied-1", b"copy-0", b"copy-1"]


def test_a_reader_that_leaves_ends_it_though_nothing_more_comes(flow: Flow) -> None:
    flow.told("produce", "left", data=b"a\nb\n")
    command = f"{sys.executable} -m lograft consume left | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, timeout=60, check=False, env=flow.environment)
    assert (result.stdout, result.stderr) == (b"a\n", b"")


def test_how_far_it_is_shows_on_a_terminal_only(flow: Flow, tmp_path: Path) -> None:
    """All of what is known: paced, so that it takes long enough to be seen; then read back."""
    (tmp_path / "lines").write_bytes(b"".join(b"%d\n" % number for number in range(3000)))
    with terminal(
        "produce", "much", "-F", str(tmp_path / "lines"), "--rate", "2000/s", environment=flow.environment
    ) as shown:
        shown.until(r"\[#+\.*\] +\d+%  [\d,]+ records, [\d,]+ a second, \d+ s left\x1b\[K")
        assert shown.finish() == 0
        assert shown.shown.endswith(b"\r\x1b[K3000 records written to much\r\n")
    with (
        open(tmp_path / "out", "wb") as out,
        terminal("consume", "much", environment=flow.environment, stdout=out) as shown,
    ):
        shown.until(r"\r3,000 records, [\d,]+ a second\x1b\[K")
        shown.type("\x03")
        assert shown.finish() == 130, shown.shown
        assert shown.shown.endswith(b"\r\x1b[K")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "lines").read_bytes()


def test_lines_are_stored_as_they_are_typed_and_shown_harmlessly(flow: Flow) -> None:
    with terminal("produce", "typed", environment=flow.environment) as typed:
        typed.until("Ctrl\\+D to end")
        with Consumer(flow.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("typed", 0)])
            typed.type("typed\n")
            values = []
            while b"typed" not in values:
                values += [record.value for record in consumer.poll(timeout=30)]
        typed.type("\x04")
        typed.until("1 record written to typed")
        assert typed.finish() == 0
    flow.told("produce", "typed", data=b"\x1b[31mred\xff\n")
    with terminal("consume", "typed", "--tail", "1", "--exit", environment=flow.environment) as shown:
        shown.until(r"\\x1b\[31mred\\xff\r\n")
        assert shown.finish() == 0


# -- top


def test_top_is_live_on_a_terminal_and_leaves_it_as_it_was(flow: Flow) -> None:
    flow.told("produce", "busy", data=b"x\n")
    flow.told("consume", "busy", "--group", "clerks", "-n", "1")
    with terminal("top", "--interval", "200ms", environment=flow.environment) as shown:
        shown.until(r"\x1b\[\?1049h")
        shown.until(r"healthy  partitions by traffic")
        shown.until(r"BROKER +STATE")
        shown.until(r"clerks +empty +0 +\d+")
        assert not shown.is_as_it_was  # keys come at once
        flow.told("produce", "busy", data=b"x\n" * 5000)
        shown.until(r"busy-0 +1 +1 +[\d.]+ K?B +[\d,.]+ ")
        shown.type("s")
        shown.until(r"partitions by in\b")
        shown.resize(6, 60)
        frame = shown.until(r"\x1b\[H(?P<lines>(?:(?!\x1b\[H)[\s\S])*q quits[^\n]*\x1b\[J)")["lines"]
        while frame.count("\r\n") != 5:
            frame = shown.until(r"\x1b\[H(?P<lines>(?:(?!\x1b\[H)[\s\S])*q quits[^\n]*\x1b\[J)")["lines"]
        shown.type("q")
        assert shown.finish() == 0
        assert shown.shown.endswith(b"\x1b[?25h\x1b[?1049l")
        assert shown.is_as_it_was


@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_top_that_is_interrupted_leaves_the_terminal_as_it_was(flow: Flow, signal_number: int, code: int) -> None:
    with terminal("top", environment=flow.environment) as shown:
        shown.until("q quits")
        os.kill(shown.process.pid, signal_number)
        assert shown.finish() == code
        assert shown.shown.endswith(b"\x1b[?25h\x1b[?1049l")
        assert shown.is_as_it_was


def test_top_in_a_pipe_is_shown_once(flow: Flow) -> None:
    plain = flow.run("top", "--interval", "100ms").stdout.decode()
    assert plain.startswith("cluster ")
    assert "\x1b" not in plain
    view = json.loads(flow.run("top", "--interval", "100ms", "-o", "json").stdout)
    (broker,) = view["status"]["brokers"]
    assert (view["kind"], broker["id"], broker["answers"]) == ("Load", 1, True)
    assert broker["requestsPerSecond"] > 0
    assert view["status"]["problems"] == []
