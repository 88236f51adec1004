"""Random lives of Raft cores, with every rule checked after each step. A failing seed replays exactly: LOGRAFT_SEED=n.

LOGRAFT_LIVES=n lives as many.
"""

import os
import random
from collections import Counter

from support.raft_chaos import RaftChaos

STEPS = 1_000
LIVES = int(os.environ.get("LOGRAFT_LIVES", "40"))
FIRST_SEED = int(os.environ.get("LOGRAFT_SEED", random.SystemRandom().randrange(2**32)))


def test_fresh_lives() -> None:
    seen: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + LIVES):
        print(f"LOGRAFT_SEED={seed}")
        seen.update(RaftChaos(seed).live(STEPS))
    # A test in which nothing happens proves nothing.
    if LIVES >= 40:
        rare = [name for name in ("change_members", "transfer", "crash", "answered", "propose") if seen[name] < 5]
        assert not rare, f"too seldom: {rare} in {seen}"
