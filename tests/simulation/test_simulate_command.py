"""`lograft chaos simulate`, with clusters: a rule that is broken on purpose is found, made smaller, and found again by
the command that is printed; histories are written; several processes share the work."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lograft.broker.replica.leader_role import LeaderRole
from lograft.chaos.checkers.verdict import judge
from lograft.chaos.history.history import read_history
from lograft.chaos.simulate.commands import simulate

SEED = 0


def invoke(arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(simulate, [*shlex.split(arguments), "-o", "json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_broken_rule_is_made_smaller_and_found_again_by_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader acknowledges before anybody else has it."""
    with monkeypatch.context() as broken:
        broken.setattr(LeaderRole, "_is_acknowledged", lambda leading, acks, next_offset: True)
        code, found = invoke(f"--seeds 1 --first {SEED} --jobs 1 --shrink-for 10m")
        assert code == 1
        [failed] = found["failed"]
        smaller = failed["smaller"]
        assert smaller["isSmallest"]
        assert smaller["clients"] == [], "whoever tries it in the end is enough"
        assert (smaller["faults"], smaller["durationMs"] < 1_000) == ([], True)
        command = smaller["replay"].removeprefix("lograft chaos simulate ")
        runs = [invoke(command) for _ in range(2)]
        for code, again in runs:
            assert code == 1
            assert again["failed"][0]["kind"] == failed["kind"] == "only what is committed is told"
        assert runs[0][1]["digest"] == runs[1][1]["digest"], "to the last event"
    assert invoke(command)[0] == 0, "the rule was it"


def test_one_seed_tells_its_story_and_leaves_its_history(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    result = CliRunner().invoke(simulate, ["--seed", str(SEED), "--trace", "--history", str(path)])
    assert result.exit_code == 0
    for event in ("weather", "metadata", "fault", "recovery", "whole"):
        assert f"  {event} " in result.stdout, event
    with path.open() as lines:
        history = read_history(lines)
    assert judge(history).is_sound
    assert history.counts["Send"]


def test_several_processes_come_to_the_same() -> None:
    alone, together = (invoke(f"--seeds 2 --first {SEED} --jobs {jobs}") for jobs in (1, 2))
    assert alone[0] == together[0] == 0
    assert alone[1]["met"] == together[1]["met"]
