"""Random lives of Raft cores, with every rule checked after each step. A failing seed replays exactly: LOGRAFT_SEED=n.

LOGRAFT_LIVES=n lives as many.
"""

from collections import Counter

from support.raft_chaos import RaftChaos
from support.seeds import seeds

STEPS = 1_000
SEEDS = seeds(920_000, 40)


def test_lives() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            seen.update(RaftChaos(seed).live(STEPS))
        except BaseException as error:
            error.add_note(f"replay with LOGRAFT_SEED={seed}")
            raise
    # A test in which nothing happens proves nothing.
    if len(SEEDS) >= 40:
        rare = [name for name in ("change_members", "transfer", "crash", "answered", "propose") if seen[name] < 5]
        assert not rare, f"too seldom: {rare} in {seen}"
