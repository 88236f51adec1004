"""Eight deliberate bugs (`support.deliberate_bugs.EIGHT` has the table), one at a time: the simulator catches each."""

import pytest
from support.broken_rules import CAUGHT, expect_noticed
from support.deliberate_bugs import EIGHT, DeliberateBug

from lograft.chaos.cluster.simulation import simulate_cluster


def test_there_are_eight_of_them() -> None:
    assert len({bug.name for bug in EIGHT}) == len({bug.break_rule for bug in EIGHT}) == 8


@pytest.mark.parametrize("bug", [bug for bug in EIGHT if bug.story is None], ids=lambda bug: bug.name.replace(" ", "-"))
def test_chance_brings_it_to_light(monkeypatch: pytest.MonkeyPatch, bug: DeliberateBug) -> None:
    expect_noticed(
        monkeypatch, bug.break_rule, lambda seed: simulate_cluster(seed, bug.weather), seeds=12, quickest=bug.seed
    )


@pytest.mark.parametrize(
    "bug", [bug for bug in EIGHT if bug.story is not None], ids=lambda bug: bug.name.replace(" ", "-")
)
def test_a_story_brings_it_to_light(monkeypatch: pytest.MonkeyPatch, bug: DeliberateBug) -> None:
    simulate_cluster(bug.seed, bug.weather, story=bug.story)
    bug.break_rule(monkeypatch)
    with pytest.raises(CAUGHT):
        simulate_cluster(bug.seed, bug.weather, story=bug.story)
