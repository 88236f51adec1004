"""Whatever happens to brokers, and whatever is asked: a clean leader has everything that was acknowledged.

See support/partition_lives.py for what brokers do here.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from support.partition_lives import BROKERS, PartitionLife

from lograft.metadata.image.partition import BrokerId
from lograft.runtime.rng import Rng

EXAMPLES = int(os.environ.get("LOGRAFT_EXAMPLES", "150"))  # each a life of up to 120 operations, twice

Life = PartitionLife


def a_broker(rng: Rng) -> BrokerId:
    return rng.choice(BROKERS)


def directories(rng: Rng) -> tuple[int, ...]:
    return rng.choice([(0, 1), (0, 1), (0,), (1,)])


def some_brokers(rng: Rng) -> tuple[BrokerId, ...]:
    return tuple(broker for broker in BROKERS if rng.random() < 0.7)


def a_target(rng: Rng) -> tuple[BrokerId, ...] | None:
    return tuple(rng.sample(BROKERS, rng.choice([1, 2, 3, 3, 4]))) if rng.random() < 0.75 else None


# Each operation with its weight, and a maker of its arguments. Mostly brokers work as they should, but hear late.
MENU: list[tuple[int, Callable[..., None], Callable[[Rng], tuple[Any, ...]]]] = [
    (28, Life.learn, lambda rng: (a_broker(rng), rng.choice([1, 2, 100, 100]))),
    (24, Life.write, lambda rng: (rng.randrange(3), 1)),
    (48, Life.replicate, lambda rng: (a_broker(rng), rng.choice([0, 1, 2, 100]))),
    (28, Life.advance_watermark, lambda rng: (rng.randrange(3),)),
    (24, Life.alter_isr, lambda rng: (rng.randrange(3), some_brokers(rng))),
    (20, Life.unfence, lambda rng: (a_broker(rng),)),
    (4, Life.run_well, lambda rng: ()),
    (6, Life.fence, lambda rng: (a_broker(rng),)),
    (6, Life.restart, lambda rng: (a_broker(rng), directories(rng), rng.random() < 0.5)),
    (6, Life.reassign, lambda rng: (a_target(rng),)),
    (4, Life.set_min_isr, lambda rng: (rng.choice([None, "1", "2", "3"]), rng.random() < 0.3)),
    (4, Life.tend, lambda rng: ()),
    (1, Life.kill, lambda rng: (a_broker(rng),)),
    (1, Life.shut_down, lambda rng: (a_broker(rng),)),
    (2, Life.lose_power, lambda rng: (a_broker(rng), rng.randrange(5), directories(rng))),
    (1, Life.find_corrupt, lambda rng: (a_broker(rng),)),
    (1, Life.lose_directory, lambda rng: (a_broker(rng), rng.randrange(2))),
    (1, Life.elect_preferred, lambda rng: ()),
    (1, Life.elect_uncleanly, lambda rng: ()),
]
WEIGHTED = [item for item in MENU for _ in range(item[0])]


@pytest.mark.parametrize("flush_mode", ["fsync", "os"])
@settings(max_examples=EXAMPLES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(seeds=st.lists(st.integers(0, 2**32), min_size=60, max_size=120))
def test_a_clean_leader_has_everything_acknowledged(flush_mode: str, seeds: list[int]) -> None:
    life = PartitionLife(flush_mode=flush_mode)
    for seed in filter(None, seeds):  # 0, the simplest, is to do nothing
        rng = Rng(seed)
        _, operation, arguments_from = rng.choice(WEIGHTED)
        arguments = arguments_from(rng)
        note(f"{operation.__name__}{arguments}")
        operation(life, *arguments)
        life.check()
