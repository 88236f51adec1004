"""Each scenario of scripts/*.txt still goes as it is written there. `make raft-scripts` records them anew."""

import pytest
from support.raft_script import SCRIPTS, played, scenarios, title

CASES = {
    f"{path.stem}: {title(part)}": part
    for path in sorted(SCRIPTS.glob("*.txt"))
    for part in scenarios(path.read_text())[1:]
}


@pytest.mark.parametrize("name", CASES, ids=list(CASES))
def test_a_scenario_goes_as_it_is_written(name: str) -> None:
    assert played(CASES[name]).rstrip().splitlines() == CASES[name].rstrip().splitlines()


def test_a_scenario_that_went_otherwise_is_noticed() -> None:
    scenario = "## two nodes\n\n> cluster 2\n> propose 1 x\n    1 takes it as 2\n"
    assert "    1 refuses" in played(scenario).splitlines()


def test_no_two_scenarios_have_one_name() -> None:
    assert len(CASES) == sum(len(scenarios(path.read_text())) - 1 for path in SCRIPTS.glob("*.txt"))
