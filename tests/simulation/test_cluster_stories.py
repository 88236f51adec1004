"""What would go wrong only at a certain moment is told as a story: it goes well, and with the rule broken that the
story is about, the simulator notices."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from support.cluster_stories import CONTROLLER, STAGE, Scene

from lograft.broker.leading import _Follower
from lograft.broker.replication_source import ReplicationSource
from lograft.chaos.cluster_run import ClusterRun
from lograft.chaos.cluster_simulation import SimulatedCluster, simulate_cluster
from lograft.chaos.cluster_weather import ClusterWeather
from lograft.chaos.raft_invariants import InvariantBroken
from lograft.clients.fetched_partition import FetchedPartition

Story = Callable[[SimulatedCluster], Awaitable[None]]

SEED = 6  # the moments that these stories are about come in most seeds, not in all


def tell(story: Story, weather: ClusterWeather = STAGE) -> ClusterRun:
    return simulate_cluster(SEED, weather, story=story)


# -- what is acknowledged counts only from the directory that the metadata name


async def a_member_comes_back_with_another_disk(cluster: SimulatedCluster) -> None:
    """The leader, which hears nothing from the controller, takes it for the one that is in sync."""
    scene = Scene(cluster)
    leader, (_, wiped) = scene.leader, scene.followers
    core = scene.core(leader)
    assert core is not None
    scene.cut(CONTROLLER, leader.host)
    scene.kill(wiped)
    wiped.wipe("/data0")
    scene.start(wiped)
    await scene.until(lambda: not scene.is_in_sync(wiped))
    await scene.until(lambda: scene.end_on(wiped) > core.high_watermark)
    assert wiped.number in core.isr.committed, "the leader has not heard of it"
    await scene.pass_ms(200)
    scene.heal()
    await scene.until_whole()


class _Everywhere:
    """A broker that has every directory."""

    directories = type("All", (), {"__contains__": lambda *_: True})()


def count_whatever_directory_it_is_in(patch: pytest.MonkeyPatch) -> None:
    """Two rules stand against it: nobody follows with a registration that the leader does not know, and what counts is
    the directory that the metadata name."""

    def end_offset(follower: _Follower, directory_id: object) -> int:
        return follower.subscription.end_offset if follower.subscription is not None else -1

    patch.setattr(_Follower, "end_offset_in", end_offset)
    patch.setattr(ReplicationSource, "find_follower", lambda *_: _Everywhere())


# -- a consumer notices that what it read is gone


UNCLEAN = replace(STAGE, min_isr=1, unclean_probability=1.0)
CONSUMER = "consumer0"


async def a_leader_dies_that_alone_had_the_last_records(cluster: SimulatedCluster) -> None:
    """Another leads in its place, and has more records than the first had when the consumer gets to it."""
    scene = Scene(cluster)
    leader, (one, other) = scene.leader, scene.followers
    await scene.until_more(one, 20)
    scene.kill(one)
    scene.kill(other)
    await scene.until(lambda: not scene.is_in_sync(one) and not scene.is_in_sync(other))
    lost_from = scene.end_on(leader)
    await scene.until_more(leader, 20)
    await scene.until(lambda: any(read.offset >= lost_from + 10 for read in cluster.history.reads))
    lost_to = scene.end_on(leader)
    for broker in (one, other):
        scene.cut(broker.host, CONSUMER)
    scene.kill(leader)
    scene.start(one)
    scene.start(other)
    await scene.until(lambda: scene.partition.leader in (one.number, other.number))
    await scene.until(lambda: scene.end_on(scene.leader) > lost_to + 20)
    scene.heal()
    scene.start(leader)
    await scene.until_whole()


def say_nothing_of_what_was_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FetchedPartition, "fetch_epoch", None)


def test_what_an_unclean_election_lost_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    tell(a_leader_dies_that_alone_had_the_last_records, UNCLEAN)
    say_nothing_of_what_was_read(monkeypatch)
    with pytest.raises(InvariantBroken) as broken:
        tell(a_leader_dies_that_alone_had_the_last_records, UNCLEAN)
    assert broken.value.rule == "what is lost is not passed over"


@pytest.mark.parametrize(("story", "break_rule"), [
    (a_member_comes_back_with_another_disk, count_whatever_directory_it_is_in),
])  # fmt: skip
def test_a_story_goes_well_only_by_its_rule(
    monkeypatch: pytest.MonkeyPatch, story: Story, break_rule: Callable[[pytest.MonkeyPatch], None]
) -> None:
    tell(story)
    break_rule(monkeypatch)
    with pytest.raises(InvariantBroken) as broken:
        tell(story)
    assert broken.value.rule in ("who counts has what is committed", "who may lead has what is committed")
