"""Simulated metadata clusters: some seeds, and those that once failed. `make sim` and `make soak` run others."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.metadata_chaos import CALM, Story, tell
from support.seeds import seeds

from lograft.chaos.metadata.simulation import simulate_metadata

REPLAYED_SEED = 19  # short, with elections, kills and reassignments
SEEDS = 10

# Found by the simulator; with its cause put back, each fails.
REGRESSIONS: list[tuple[int, str]] = [
    (11, "a controller that knew of no leader asked for the latest index again and again, without a pause"),
    (476339181, "a simulated broker, elected uncleanly, went on in that epoch with what was left when its log rotted"),
]


def test_every_promise_is_kept() -> None:
    """A failing seed is named: it replays exactly."""
    for seed in seeds(1000, SEEDS):
        try:
            simulate_metadata(seed)
        except Exception as error:
            error.add_note(f"make sim-metadata SEED={seed}")
            raise


@pytest.mark.parametrize(("seed", "cause"), REGRESSIONS)
def test_seeds_that_once_failed_do_not_any_more(seed: int, cause: str) -> None:
    simulate_metadata(seed)


def test_the_simulator_meets_what_it_is_for() -> None:
    met: Counter[str] = Counter()
    for seed in range(8):
        run = simulate_metadata(seed)
        met.update(run.schedule.counts)
        met.update({wish.split()[0]: count for wish, count in run.wishes.items() if wish.endswith(" ok")})
    events = [
        "kill", "power", "wipe", "stop", "stopped", "start", "pause", "resume", "cut", "heal", "slow", "break", "rot",
        "transfer", "restored", "registered", "isr", "create", "delete", "add_partitions", "set_min_isr",
        "set_retention", "reassign", "cancel", "elect_preferred", "read",
    ]  # fmt: skip
    assert not [event for event in events if met[event] == 0], met


def test_a_seed_replays_exactly() -> None:
    """In one process, and in others whose strings hash differently."""
    digests = [simulate_metadata(REPLAYED_SEED).schedule.digest() for _ in range(2)]
    program = "from lograft.chaos.metadata.simulation import simulate_metadata; "
    program += f"print(simulate_metadata({REPLAYED_SEED}).schedule.digest())"
    for hash_seed in ("1", "2"):
        completed = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(completed.stdout.strip().splitlines()[-1])
    assert digests == [digests[0]] * 4


def test_one_seed_prints_what_happened() -> None:
    tool = Path(__file__).resolve().parents[2] / "tools" / "simulate_metadata.py"
    completed = subprocess.run(
        [sys.executable, str(tool), "--seed", str(REPLAYED_SEED)], capture_output=True, text=True, check=True
    )
    lines = completed.stdout.splitlines()
    assert f"seed {REPLAYED_SEED}: " in lines[-1]
    for event in ("weather", "registered", "metadata", "recovery"):
        assert any(f"  {event} " in line for line in lines), event


# -- with nothing else going wrong


async def _until_led_by_another(story: Story) -> int:
    """Milliseconds until the partition has another leader."""
    began_ms, leader = story.now_ms, story.leader.broker_id
    await story.until(lambda: story.partition.leader not in (None, leader))
    return story.now_ms - began_ms


def test_a_killed_leader_is_replaced_within_a_second() -> None:
    async def plot(story: Story) -> int:
        story.leader.kill()
        return await _until_led_by_another(story)

    assert tell(Story, plot) < 1_000


def test_a_paused_leader_is_replaced_when_its_session_ends_and_comes_back_in_sync() -> None:
    async def plot(story: Story) -> int:
        story.cluster.pause(story.leader, 6_000)
        waited_ms = await _until_led_by_another(story)
        await story.until(lambda: len(story.partition.isr) == 3)
        return waited_ms

    assert 2_000 < tell(Story, plot) < 4_500


def test_a_pause_shorter_than_the_session_changes_nothing() -> None:
    async def plot(story: Story) -> bool:
        before = story.partition.leader_epoch
        story.cluster.pause(story.leader, 1_200)
        await story.cluster.pass_ms(6_000)
        return story.partition.leader_epoch == before

    assert tell(Story, plot)


def test_a_leader_that_stops_in_an_orderly_way_hands_over_first() -> None:
    async def plot(story: Story) -> list[int | None]:
        leaders: list[int | None] = [story.partition.leader]
        story.leader.stop()
        while story.leader.is_up:
            await story.cluster.pass_ms(1)
            leaders.append(story.partition.leader)
        return leaders

    leaders = tell(Story, plot)
    assert None not in leaders
    assert leaders[-1] != leaders[0]


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_controller_is_replaced_and_brokers_stay(seed: int) -> None:
    async def plot(story: Story) -> tuple[int, bool]:
        epochs = {broker.broker_id: broker.epoch for broker in story.image.brokers.values() if broker.is_live}
        (active,) = (controller for controller in story.cluster.quorum if controller.is_active)
        began_ms = story.now_ms
        active.kill()
        await story.until(lambda: any(one.is_active for one in story.cluster.quorum))
        waited_ms = story.now_ms - began_ms
        await story.cluster.pass_ms(6_000)
        after = {broker.broker_id: broker.epoch for broker in story.image.brokers.values() if broker.is_live}
        return waited_ms, after == epochs

    waited_ms, are_same = tell(Story, plot, replace(CALM, controllers=3), seed)
    assert waited_ms < 1_000
    assert are_same
