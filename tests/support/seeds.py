"""Seeds of random tests: fixed, so that a commit passes or fails alike each time. `make soak` looks for new ones."""

import os

SEED = "LOGRAFT_SEED"  # the first one, instead of those that are fixed
LIVES = "LOGRAFT_LIVES"  # how many


def seeds(first: int, count: int) -> range:
    """Return `count` seeds from `first` on; or the one in LOGRAFT_SEED, and as many as LOGRAFT_LIVES says."""
    given = os.environ.get(SEED)
    if given is not None:
        first, count = int(given), 1
    return range(first, first + int(os.environ.get(LIVES, count)))
