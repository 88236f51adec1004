"""`make soak`: what fails is written down, with a command that runs it again."""

import os
import random
import subprocess
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.tools import load_tool

FAILING = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_fails(number):
    assert number < 1000, f"met {number}"

@given(st.integers())
def test_holds(number):
    pass
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("soak")


def test_everything_random_takes_its_turn(tool: ModuleType) -> None:
    found = list(islice(tool.batches(random.Random(1), tool.hypothesis_files()), 14))
    kinds = {batch.name.split()[0] for batch in found}
    assert kinds == {"clusters", "raft", "metadata", "log-lives", "raft-lives", "examples"}
    assert len({batch.command for batch in found}) == len(found), "each has a seed of its own"
    assert "tests/property/test_log_model.py" in tool.hypothesis_files()
    only = islice(tool.batches(random.Random(1), tool.hypothesis_files(), "raft-lives"), 3)
    assert [batch.name for batch in only] == ["raft-lives"] * 3


def test_examples_that_fail_are_replayed_by_the_command_that_is_written_down(tool: ModuleType, tmp_path: Path) -> None:
    test = tmp_path / "test_failing.py"
    test.write_text(FAILING)
    failures = tmp_path / "failures.txt"
    soak = tool.Soak(failures, dict(os.environ))
    soak.run_one(tool._examples(str(test), 17))
    (command,) = failures.read_text().splitlines()
    assert command in soak.failed
    assert "--hypothesis-seed=17" in command
    assert command.rstrip("'").endswith("::test_fails")
    again = subprocess.run(["bash", "-c", command], cwd=tool.ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "met " in again.stdout


def test_a_batch_of_which_nobody_knows_what_failed_is_written_down_whole(tool: ModuleType, tmp_path: Path) -> None:
    failures = tmp_path / "failures.txt"
    soak = tool.Soak(failures, dict(os.environ))
    batch = tool.Batch("odd", "bash -c 'echo what; exit 3'", lambda output: [])
    soak.run_one(batch)
    assert failures.read_text() == batch.command + "\n"


@pytest.mark.parametrize(("kind", "output", "commands"), [
    ("_raft", "seed 7 (streams) FAILED: InvariantBroken: x\nseed 9 (cores) FAILED: y\n",
     ["make sim SEED=7 TIER=streams", "make sim SEED=9 TIER=cores"]),
    ("_metadata", "seed 7 FAILED: E: x\n    make sim-metadata SEED=7\n", ["make sim-metadata SEED=7"]),
    ("_clusters", "seed 7 FAILED: x\n  again: lograft chaos simulate --seed 7 --trace\n  smaller: ...\n"
     "    again: lograft chaos simulate --seed 7 --duration 9ms --trace\n",
     ["PYTHON -m lograft chaos simulate --seed 7", "PYTHON -m lograft chaos simulate --seed 7 --duration 9ms"]),
    ("_log_lives", "E   AssertionError\nE   replay with LOGRAFT_SEED=7\n",
     ["LOGRAFT_SEED=7 PYTHON -m pytest -q -p no:cacheprovider tests/property/test_log_lives.py::test_lives"]),
])  # fmt: skip
def test_failures_are_read_from_what_each_kind_writes(
    tool: ModuleType, kind: str, output: str, commands: list[str]
) -> None:
    batch: Any = getattr(tool, kind)(1)
    assert [command.replace(tool.PYTHON, "PYTHON") for command in batch.replays(output)] == commands


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("1.5h", 5400), ("2d", 172_800)])
def test_durations(tool: ModuleType, text: str, seconds: float) -> None:
    assert tool.seconds_of(text) == seconds
