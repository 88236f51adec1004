"""Long random lives of the partition log, with crashes all along. A failing seed replays exactly: LOGRAFT_SEED=n.

LOGRAFT_LIVES=n lives as many; the seeds that once failed are lived again every time.
"""

import pytest
from support.log_lives import live
from support.seeds import seeds

STEPS = 200
SEEDS = seeds(910_000, 60)

# Each fails if its bug is put back. A change to the menu of operations, or to what the log asks of its disk, makes of a
# seed another life: look for one that fails anew, or write the case down as a test of its own.
KEPT_SEEDS = {
    900028: "producers were forgotten when the log start had passed the recovery point",
    900012: "compaction kept a producer's last batch, which was cut, and not the one before",
}


@pytest.mark.parametrize("seed", KEPT_SEEDS)
def test_a_life_that_once_went_wrong(seed: int) -> None:
    live(seed, STEPS)


def test_lives() -> None:
    crashes = 0
    for seed in SEEDS:
        try:
            crashes += len(live(seed, STEPS).crashes)
        except BaseException as error:
            error.add_note(f"replay with LOGRAFT_SEED={seed}")
            raise
    assert crashes > 0 or len(SEEDS) < 10, "no life met a crash"


def test_a_seed_lives_the_same_life_twice() -> None:
    first, second = live(7, STEPS), live(7, STEPS)
    assert first.crashes == second.crashes
    assert first.files.calls == second.files.calls
    assert first.model.batches == second.model.batches
