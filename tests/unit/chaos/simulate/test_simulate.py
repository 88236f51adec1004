"""The pieces of `lograft chaos simulate`: what is tried to make a failing run smaller, what was met, what is kept."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from lograft.chaos.cluster.world.selection import EVERYTHING, Selection
from lograft.chaos.simulate import sweep as sweeping
from lograft.chaos.simulate.campaign import SeedCampaign
from lograft.chaos.simulate.case import Case, read_numbers
from lograft.chaos.simulate.commands import simulate
from lograft.chaos.simulate.coverage import CATALOGUE, Coverage
from lograft.chaos.simulate.progress import progress_line
from lograft.chaos.simulate.run_result import Failure, RunResult, from_json, to_json
from lograft.chaos.simulate.shrink import Shrinking, Shrunk
from lograft.cli.common.command_error import CommandError

CLIENTS = ("operator0", "producer0", "producer1", "consumer0", "asker0", "asker1")
FAULTS = tuple(range(20))


def outcome_of(case: Case, failure: Failure | None) -> RunResult:
    selection = case.selection
    duration_ms = selection.duration_ms or 10_000
    return RunResult(
        seed=case.seed,
        digest="d",
        virtual_ms=duration_ms,
        computing_ms=1,
        duration_ms=duration_ms,
        faults=tuple(one for one in FAULTS if selection.has_fault(one) and one * 500 < duration_ms),
        clients=tuple(one for one in CLIENTS if selection.has_client(one)),
        figures={"faults": {"kill": 2}, "crashes": {"storage.log.append: write *.log": 1}},
        failure=failure,
    )


LOST = Failure("lost write", "it is gone")
ELSE = Failure("duplicate", "it is there twice")


def shrunk(fails: Callable[[RunResult], Failure | None], runs_at_most: int = 1000) -> tuple[Shrunk, list[Case]]:
    tried: list[Case] = []

    def run(case: Case) -> RunResult:
        tried.append(case)
        outcome = outcome_of(case, None)
        return replace(outcome, failure=fails(outcome))

    first = Case(7)
    outcome = replace(outcome_of(first, None), failure=LOST)
    return Shrinking(first, outcome, run, lambda: len(tried) < runs_at_most).shrink(), tried


def needs_two_faults_and_a_producer(outcome: RunResult) -> Failure | None:
    return LOST if {3, 4} <= {*outcome.faults} and "producer1" in outcome.clients else None


def test_what_is_not_needed_is_left_out() -> None:
    found, tried = shrunk(needs_two_faults_and_a_producer)
    assert found.outcome.faults == (3, 4)
    assert found.outcome.clients == ("producer1",)
    assert 2_000 < found.outcome.duration_ms < 5_000
    assert found.is_smallest
    assert found.outcome.failure == LOST
    assert len(tried) == len({*tried}) < 60, "nothing is tried twice"


def test_a_run_that_fails_otherwise_is_not_taken() -> None:
    def fails(outcome: RunResult) -> Failure | None:
        return needs_two_faults_and_a_producer(outcome) or ELSE

    found, _ = shrunk(fails)
    assert (found.outcome.faults, found.outcome.failure) == ((3, 4), LOST)


def test_without_time_nothing_is_lost_of_what_was_found() -> None:
    found, tried = shrunk(needs_two_faults_and_a_producer, runs_at_most=5)
    assert len(tried) == 5
    assert not found.is_smallest
    assert {3, 4} <= {*found.outcome.faults}
    assert len(found.outcome.faults) < len(FAULTS)


def test_where_nothing_can_be_left_out_it_stays() -> None:
    found, _ = shrunk(lambda outcome: LOST if outcome.faults == FAULTS and outcome.clients == CLIENTS else None)
    assert (found.outcome.faults, found.outcome.clients) == (FAULTS, CLIENTS)
    assert found.is_smallest


@pytest.mark.parametrize(("selection", "command"), [
    (EVERYTHING, "lograft chaos simulate --seed 7"),
    (Selection(4200, (3, 7), (), ("asker0", "operator0")),
     "lograft chaos simulate --seed 7 --duration 4200ms --only-faults 3,7 --without-clients asker0,operator0"),
    (Selection(None, (), (), ()), "lograft chaos simulate --seed 7 --only-faults none"),
    (Selection(None, None, (2,), ()), "lograft chaos simulate --seed 7 --without-faults 2"),
])  # fmt: skip
def test_a_case_is_told_as_a_command(selection: Selection, command: str) -> None:
    assert Case(7, selection).command == command


def test_numbers_are_read_as_they_are_written() -> None:
    assert read_numbers("9,3,7") == (3, 7, 9)
    assert read_numbers("none") == ()
    for text in ("", "3,", "x", "-1"):
        with pytest.raises(ValueError, match=r"."):
            read_numbers(text)


def test_what_was_never_met_is_named() -> None:
    coverage = Coverage()
    for seed in (1, 2):
        coverage.add(outcome_of(Case(seed), None))
    lines = coverage.lines()
    assert lines[0].split() == ["FAULTS", "TIMES", "SEEDS"]
    assert lines[1].split() == ["kill", "4", "2"]
    assert lines[3].split()[-2:] == ["2", "2"]  # a crash, by place
    assert len({len(line) for line in lines[:4]}) == 1, "columns are aligned"
    missing = coverage.never_met()
    assert "kill" not in missing["faults"]
    assert "blackout" in missing["faults"]
    assert missing["judged"] == list(CATALOGUE["judged"])
    assert any(line.startswith("never met, of faults: blackout, ") for line in lines)


def test_an_outcome_is_the_same_when_it_was_written_and_read() -> None:
    outcome = outcome_of(Case(3), Failure("lost write", "gone", {"lost write": 2}, ("a", "b")))
    assert from_json(json.loads(json.dumps(to_json(outcome)))) == outcome
    with pytest.raises(ValueError, match="not the outcome"):
        from_json({"seed": 1})


def test_a_campaign_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "campaign.jsonl"
    campaign = SeedCampaign(path, first=100)
    assert list(campaign.left(4)) == [100, 101, 102, 103]
    for seed, failure in ((100, None), (102, LOST)):
        campaign.add(outcome_of(Case(seed), failure))
    with path.open("a") as file:
        file.write('{"seed": 103, "dig')  # it was ended in the middle of a line
    again = SeedCampaign(path, first=7)
    assert again.first == 100
    assert list(again.left(4)) == [101, 103]
    assert again.outcomes[102].failure == LOST
    again.add(outcome_of(Case(103), None))
    assert list(SeedCampaign(path, first=7).left(4)) == [101]


@pytest.mark.parametrize("content", ["", "hello\n", '{"seed": 1}\n', '{"campaign": 1}\n{"seed": 1}\n'])
def test_a_file_that_is_no_campaign_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes"
    path.write_text(content)
    with pytest.raises(CommandError, match="not the file of a campaign"):
        SeedCampaign(path, first=1)
    assert path.read_text() == content


def test_progress_says_how_much_is_left() -> None:
    assert (
        progress_line(25, 100, 1, 10.0, has_bar=True) == "[#####...............] 25 of 100 seeds, 1 failed, 30 s left"
    )
    assert progress_line(0, 100, 0, 0.0, has_bar=False) == "0 of 100 seeds, 0 failed"


# -- the command


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """Seed 12 fails."""
    ran: list[Case] = []

    def run(case: Case) -> RunResult:
        ran.append(case)
        return outcome_of(case, LOST if case.seed == 12 else None)

    monkeypatch.setattr(sweeping, "run_case", run)
    return ran


def test_one_that_fails_is_shrunk_and_told(faked: list[Case]) -> None:
    result = CliRunner().invoke(simulate, ["--seeds", "4", "--first", "10", "--jobs", "1"])
    assert result.exit_code == 1
    assert "4 seeds from 10 on: 1 FAILED" in result.output
    assert "seed 12 FAILED: lost write: it is gone" in result.output
    assert "0 of 20 faults, 0.2 of 10.0 s, 0 of 6 clients" in result.output
    assert (
        "again: lograft chaos simulate --seed 12 --duration 200ms --only-faults none --without-clients" in result.output
    )


def test_a_program_gets_a_document(faked: list[Case]) -> None:
    result = CliRunner().invoke(
        simulate, ["--seeds", "2", "--first", "12", "--jobs", "1", "--shrink-for", "0", "-o", "json"]
    )
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["seeds"] == 2
    assert document["failed"][0]["replay"] == "lograft chaos simulate --seed 12"
    assert "smaller" not in document["failed"][0]
    assert document["met"]["faults"] == {"kill": 4}
    assert "blackout" in document["neverMet"]["faults"]


def test_a_campaign_is_told_as_a_whole(faked: list[Case], tmp_path: Path) -> None:
    arguments = ["--campaign", str(tmp_path / "c"), "--first", "10", "--jobs", "1", "--shrink-for", "0"]
    assert CliRunner().invoke(simulate, [*arguments, "--seeds", "2"]).exit_code == 0
    result = CliRunner().invoke(simulate, [*arguments, "--seeds", "5"])
    assert [case.seed for case in faked] == [10, 11, 12, 13, 14]
    assert result.exit_code == 1
    assert "5 seeds from 10 on: 1 FAILED" in result.output


@pytest.mark.parametrize(("arguments", "expected"), [
    ("--trace", "--trace goes with --seed"),
    ("--only-faults 3", "--only-faults goes with --seed"),
    ("--seed 1 --seeds 3", "--seeds does not go with --seed"),
    ("--seed 1 --only-faults x", "give numbers of faults"),
    ("--seed 1 --without-clients nobody", "seed 1 has no client 'nobody': it has "),
    ("--seeds 0", "0 is not in the range"),
    ("--shrink-for never", "never"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(arguments: str, expected: str) -> None:
    result = CliRunner().invoke(simulate, arguments.split())
    assert result.exit_code == 2
    assert expected in result.output
