"""A campaign goes on where it was, and says how it went."""

from pathlib import Path

import pytest
from support.live_stories import Story

from lograft.chaos.checkers.verdict import judge
from lograft.chaos.live import campaign as module
from lograft.chaos.live.campaign import CampaignRefused, LiveCampaign
from lograft.chaos.live.judged_run import JudgedRun
from lograft.chaos.live.stories.story import Scenario
from lograft.chaos.live.terminal_view import LiveView


def campaign(directory: Path, duration: str = "1s", rounds: int = 2) -> LiveCampaign:
    return LiveCampaign(directory, ("control", "kill-leader"), 7, rounds, duration, 1000)


class Runs:
    """In place of real ones: `bad` lose a record; the one at `ends_at` is interrupted."""

    def __init__(self, bad: tuple[str, ...] = (), ends_at: int | None = None) -> None:
        self.bad = bad
        self.ends_at = ends_at
        self.done: list[tuple[str, int]] = []

    def __call__(
        self, scenario: Scenario, seed: int, seconds: float, place: Path, replay: str, view: LiveView
    ) -> JudgedRun:
        (place / "node-1").mkdir(parents=True)
        if len(self.done) == self.ends_at:
            raise KeyboardInterrupt
        self.done.append((scenario.name, seed))
        story = Story()
        story.send("a", 0)
        story.replicas([] if scenario.name in self.bad else ["a"])
        return JudgedRun(judge(story.history), None, place / "report.html")


def test_what_was_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Runs(ends_at=3)
    monkeypatch.setattr(module, "judge_run", first)
    with pytest.raises(KeyboardInterrupt):
        list(campaign(tmp_path).run(LiveView))
    rest = Runs()
    monkeypatch.setattr(module, "judge_run", rest)
    again = campaign(tmp_path)
    assert not again.has_held
    assert list(again.summary())[-1] == "1 still to be run"
    assert list(again.run(LiveView)) == ["kill-leader, seed 8: held (0 to go)"]
    assert first.done + rest.done == [("control", 7), ("kill-leader", 7), ("control", 8), ("kill-leader", 8)]
    assert again.has_held
    assert "4 of 4 held" in list(again.summary())[-1]
    # The files of nodes are kept only where they tell something.
    assert not list(tmp_path.glob("*/node-*"))


def test_what_did_not_hold_is_told_and_its_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "judge_run", Runs(bad=("kill-leader",)))
    whole = campaign(tmp_path, rounds=1)
    assert list(whole.run(LiveView))[-1] == "kill-leader, seed 7: lost write: 1 (0 to go)"
    assert not whole.has_held
    assert [path.parent.name for path in tmp_path.glob("*/node-1")] == ["kill-leader-7"]
    _, control, kill_leader, total = whole.summary()
    assert control.endswith("held")
    assert kill_leader.endswith("lost write: 1")
    assert total.startswith("1 of 2 held")


def test_another_campaign_is_not_mixed_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "judge_run", Runs())
    list(campaign(tmp_path).run(LiveView))
    with pytest.raises(CampaignRefused, match="2s"):
        campaign(tmp_path, duration="2s")
