"""Whatever is late, lost or broken: what a leader acknowledged is with whoever may lead after it.

See support/replica_lives.py for what brokers do here.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, currently_in_test_context, given, note, settings
from hypothesis import strategies as st
from support.replica_lives import ReplicaLife
from support.replica_views import BROKERS

from lograft.broker.replication.leader_core import LeaderCore
from lograft.metadata.image.partition import BrokerId
from lograft.runtime.rng import Rng

EXAMPLES = int(os.environ.get("LOGRAFT_EXAMPLES", "100"))

Life = ReplicaLife


def a_broker(rng: Rng) -> BrokerId:
    return rng.choice(BROKERS)


def some_part(rng: Rng) -> float:
    return rng.choice([0.0, 0.5, 1.0, 1.0])


Item = tuple[int, Callable[..., None], Callable[[Rng], tuple[Any, ...]]]

# Each operation with its weight, and a maker of its arguments.
MENU: list[Item] = [
    (20, Life.learn, lambda rng: (a_broker(rng), rng.choice([1, 2, 100, 100]))),
    (16, Life.write, lambda rng: (rng.randrange(3), rng.choice([1, 1, 2, 5]))),
    (20, Life.send, lambda rng: (rng.randrange(9),)),
    (24, Life.hear_follower, lambda rng: (rng.randrange(9),)),
    (30, Life.hear_leader, lambda rng: (a_broker(rng),)),
    (12, Life.subscribe, lambda rng: (a_broker(rng),)),
    (8, Life.finish_cut, lambda rng: (a_broker(rng),)),
    (20, Life.sync, lambda rng: (a_broker(rng), some_part(rng))),
    (16, Life.acknowledge, lambda rng: (a_broker(rng),)),
    (20, Life.keep_up, lambda rng: (a_broker(rng),)),
    (4, Life.break_stream, lambda rng: (a_broker(rng),)),
    (3, Life.lose_stream, lambda rng: (rng.randrange(9),)),
    (12, Life.propose, lambda rng: (rng.randrange(3),)),
    (12, Life.deliver_request, lambda rng: (rng.randrange(9),)),
    (10, Life.answer_request, lambda rng: (rng.randrange(9),)),
    (4, Life.lose_answer, lambda rng: (rng.randrange(9),)),
    (8, Life.pass_time, lambda rng: (rng.choice([10, 600, 4_000, 11_000]),)),
    (3, Life.note_watermark, lambda rng: (a_broker(rng),)),
    (3, Life.delete_prefix, lambda rng: (rng.randrange(3), some_part(rng))),
    (3, Life.compact, lambda rng: (a_broker(rng),)),
    (3, Life.crash, lambda rng: (a_broker(rng), rng.randrange(2**32))),
    (6, Life.start, lambda rng: (a_broker(rng), rng.random() < 0.1, rng.random() < 0.9)),
    (2, Life.lose_directory, lambda rng: (a_broker(rng),)),
    (4, Life.report_failure, lambda rng: (a_broker(rng),)),
    (2, Life.find_corrupt, lambda rng: (a_broker(rng), rng.randrange(2**32))),
    (4, Life.report_corrupt, lambda rng: (a_broker(rng),)),
    (4, Life.fence, lambda rng: (a_broker(rng),)),
    (12, Life.unfence, lambda rng: (a_broker(rng),)),
    (2, Life.set_min_isr, lambda rng: (rng.choice([None, "1", "2", "3"]),)),
    (2, Life.elect_preferred, lambda rng: ()),
    (1, Life.elect_uncleanly, lambda rng: ()),
    (3, Life.run_well, lambda rng: ()),
    (10, Life.ask_barrier, lambda rng: (rng.randrange(3),)),
]  # fmt: skip


def weighted(**other_weights: int) -> list[Item]:
    assert all(any(name == item[1].__name__ for item in MENU) for name in other_weights)
    return [item for item in MENU for _ in range(other_weights.get(item[1].__name__, item[0]))]


# What is tried: all alike; answers of the controller that are lost more often than not, and requests that come late;
# streams that are given up, and deliver yet; disks that fail.
CLIMATES = {
    "everything": weighted(),
    "lost answers": weighted(lose_answer=30, deliver_request=4, answer_request=3, keep_up=40, propose=24, write=24),
    "late streams": weighted(break_stream=20, keep_up=4, hear_follower=40, send=30, delete_prefix=8, compact=8),
    "bad disks": weighted(
        find_corrupt=8,
        report_corrupt=12,
        lose_directory=8,
        report_failure=12,
        keep_up=40,
        propose=24,
        elect_uncleanly=4,
    ),
}

LIVES = st.lists(st.integers(0, 2**32), min_size=60, max_size=200)


def live(seeds: list[int], climate: str) -> ReplicaLife:
    life = ReplicaLife()
    for seed in filter(None, seeds):  # 0, the simplest, is to do nothing
        rng = Rng(seed)
        _, operation, arguments_from = rng.choice(CLIMATES[climate])
        arguments = arguments_from(rng)
        if currently_in_test_context():
            note(f"{operation.__name__}{arguments}")
        operation(life, *arguments)
        life.check()
    return life


@settings(max_examples=EXAMPLES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(seeds=LIVES, climate=st.sampled_from(sorted(CLIMATES)))
def test_whoever_may_lead_has_everything_acknowledged(seeds: list[int], climate: str) -> None:
    live(seeds, climate)


@settings(max_examples=EXAMPLES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(seeds=LIVES, climate=st.sampled_from(sorted(CLIMATES)))
def test_when_all_is_well_again_all_are_in_sync_and_the_same(seeds: list[int], climate: str) -> None:
    life = live(seeds, climate)
    assume(life.get_well(BROKERS))
    life.write(0, 1)
    life.get_well(BROKERS)
    assert life.partition.isr == BROKERS
    check_agreement(life, BROKERS)


@settings(max_examples=EXAMPLES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(seeds=LIVES, climate=st.sampled_from(sorted(CLIMATES)), missing=st.sampled_from(BROKERS))
def test_one_that_never_comes_back_does_not_hold_up_the_others(
    seeds: list[int], climate: str, missing: BrokerId
) -> None:
    life = live(seeds, climate)
    life.crash(missing, 0)
    life.fence(missing)
    life.set_min_isr("2")
    there = tuple(broker_id for broker_id in BROKERS if broker_id != missing)
    assume(life.get_well(there))
    life.write(0, 1)
    life.get_well(there)
    assert life.partition.isr == there
    check_agreement(life, there)


def test_barriers_are_passed_and_one_that_nobody_answered_is_noticed() -> None:
    """What the lives above check of barriers is not void, and they find a leader that does not wait for answers."""
    assert live_all(60) > 100
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaderCore, "passed_barrier", property(lambda core: core.barrier))
        with pytest.raises(AssertionError, match="had begun, and"):
            live_all(60)


def live_all(count: int) -> int:
    """How many barriers were passed."""
    lives = [[rng.randrange(2**32) for _ in range(200)] for rng in map(Rng, range(count))]
    return sum(live(seeds, "everything").barriers_passed for seeds in lives)


def check_agreement(life: ReplicaLife, brokers: tuple[BrokerId, ...]) -> None:
    ((_, leader),) = life.leaders()
    assert leader.watermark_is_known
    assert leader.high_watermark == leader.end_offset
    start = max(life.disks[broker_id].used.log.start_offset for broker_id in brokers)
    logs = [life.disks[broker_id].used.log.entries(start, leader.end_offset) for broker_id in brokers]
    assert all(log == logs[0] for log in logs)
