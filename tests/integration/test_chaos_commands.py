"""`lograft chaos`, as a user runs it: real processes, a verdict and a page."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lograft.chaos.history.entries import Fault, FinalReplica, LeaderSeen, Send
from lograft.chaos.live.run import read_run
from lograft.chaos.live.stories.catalogue import SCENARIOS

DEADLINE_SECONDS = 400


def chaos(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end. One that takes too long is interrupted, so that it stops its nodes."""
    command = [sys.executable, "-m", "lograft", "chaos", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            output, errors = process.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate()
            pytest.fail(f"not done within {DEADLINE_SECONDS} s:\n{output}{errors}")
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@pytest.mark.parametrize("name", ["power-failure-of-all", "everything"])
def test_a_story_is_lived_through_and_judged(tmp_path: Path, name: str) -> None:
    place = tmp_path / "out"
    done = chaos("run", name, "--seed", "3", "--duration", "15s", "--report", str(place))
    assert done.returncode == 0, done.stdout + done.stderr
    *_, verdict, report = done.stdout.splitlines()
    assert verdict == "everything held"
    assert report == str(place / "report.html")
    assert f"lograft chaos run {name} --seed 3 --duration 15s" in (place / "report.html").read_text()
    history = read_run(place)
    assert len(history.of(Send)) > 100
    assert history.of(Fault)
    assert history.of(LeaderSeen)
    assert {replica.partition.topic for replica in history.of(FinalReplica)} == {"chaos", "chaos-compacted"}
    # A page of an earlier run is not written over.
    again = chaos("run", name, "--duration", "1s", "--report", str(place))
    assert again.returncode == 1
    assert "is not empty" in again.stderr


def test_stories_are_listed() -> None:
    done = chaos("list", "--names")
    assert done.stdout.splitlines() == list(SCENARIOS)
    told = chaos("list").stdout
    for scenario in SCENARIOS.values():
        assert scenario.tells in told
        assert f"must hold: {scenario.holds}" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["nope"], "there is no story 'nope'"), (["control", "--duration", "soon"], "'soon' is not a duration")],
)
def test_what_cannot_be_run_is_refused(arguments: list[str], told: str) -> None:
    done = chaos("run", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
