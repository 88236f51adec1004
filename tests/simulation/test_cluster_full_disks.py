"""While any other replica in sync has room, a full disk costs producers no record and next to no time."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from support.cluster_stories import CONTROLLER, STAGE, Scene

from lograft.broker.replica import leader_role as replica_leading
from lograft.chaos.cluster.run import ClusterRun
from lograft.chaos.cluster.simulation import SimulatedCluster, simulate_cluster
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import DiskFull
from lograft.metadata.controller import timers as controller_timers
from lograft.metadata.decisions.decision import Decision

SOON_MS = 1500  # a heartbeat and an election, or the first write that a full follower does not take
REBALANCE_MS = 40_000


def tell(story: Callable[[SimulatedCluster], Awaitable[None]], weather: ClusterWeather = STAGE) -> ClusterRun:
    return simulate_cluster(4, weather, story=story)


def is_full(scene: Scene, host: SimulatedHost) -> bool:
    replica = scene.replica(host)
    return replica is not None and replica.log.disk.space.is_full


async def until_at_work(scene: Scene) -> None:
    await scene.until_whole()
    for host in (scene.leader, *scene.followers):
        await scene.until_more(host, 20)


async def until_room(scene: Scene, host: SimulatedHost) -> None:
    host.make_room()
    await scene.until(lambda: not is_full(scene, host))


async def the_leaders_disk_is_full(cluster: SimulatedCluster) -> None:
    scene = Scene(cluster)
    await until_at_work(scene)
    leader, epoch = scene.leader, scene.partition.leader_epoch
    leader.fill_disk(0)
    await scene.until(lambda: is_full(scene, leader))
    await scene.until(lambda: scene.leader is not leader, SOON_MS)
    assert scene.partition.leader_epoch == epoch + 1, "one clean election"
    assert scene.partition.unclean_epoch is None
    await scene.until(lambda: not scene.is_in_sync(leader), SOON_MS)
    await scene.until_more(scene.leader, 100)
    assert scene.leader is not leader, "it is the preferred leader, and not in sync"
    await until_room(scene, leader)
    await scene.until_whole()
    await scene.until(lambda: scene.leader is leader, REBALANCE_MS)


async def topics_are_created_meanwhile(cluster: SimulatedCluster) -> None:
    """The second, when too few brokers have room for it."""
    scene = Scene(cluster)
    await until_at_work(scene)
    one, other = scene.followers
    async with Admin(cluster.addresses, runtime=cluster.client_runtime("story")) as admin:
        one.fill_disk(0)
        await scene.until(lambda: is_full(scene, one))
        await scene.pass_ms(SOON_MS)
        await admin.create_topic("roomy", partitions=4, replicas=2)
        topic = cluster.image.topic("roomy")
        assert topic is not None
        assert all(one.number not in each.replica_ids for each in topic.partitions.values())
        await admin.delete_topic("roomy")
        other.fill_disk(0)
        await scene.until(lambda: is_full(scene, other))
        await scene.pass_ms(SOON_MS)
        with pytest.raises(DiskFull, match="make room"):
            await admin.create_topic("cramped", partitions=4, replicas=2)
    for host in (one, other):
        await until_room(scene, host)
    await scene.until_whole()


async def the_controller_hears_of_it_late(cluster: SimulatedCluster) -> None:
    scene = Scene(cluster)
    await until_at_work(scene)
    leader = scene.leader
    scene.cut(leader.host, CONTROLLER)
    leader.fill_disk(0)
    await scene.until(lambda: is_full(scene, leader))
    await scene.pass_ms(1000)
    assert scene.leader is leader
    scene.heal()
    await scene.until(lambda: scene.leader is not leader, SOON_MS)
    await scene.until_more(scene.leader, 100)
    await until_room(scene, leader)
    await scene.until_whole()


async def a_followers_disk_is_full(cluster: SimulatedCluster) -> None:
    scene = Scene(cluster)
    await until_at_work(scene)
    leader, (full, _) = scene.leader, scene.followers
    full.fill_disk(0)
    await scene.until(lambda: is_full(scene, full))
    await scene.until(lambda: not scene.is_in_sync(full), SOON_MS)
    await scene.until_more(leader, 100)
    assert scene.leader is leader
    await until_room(scene, full)
    await scene.until_whole()


async def all_disks_are_full(cluster: SimulatedCluster) -> None:
    scene = Scene(cluster)
    await until_at_work(scene)
    leader, epoch = scene.leader, scene.partition.leader_epoch
    for host in cluster.hosts:
        if host.is_broker:
            host.fill_disk(0)
    await scene.until(lambda: all(is_full(scene, host) for host in (leader, *scene.followers)))
    # As far as leadership moved while there was somewhere to go; not after that.
    await scene.pass_ms(SOON_MS)
    moved = scene.partition.leader_epoch
    assert moved <= epoch + 2
    await scene.pass_ms(REBALANCE_MS)
    assert scene.partition.leader_epoch == moved
    for host in cluster.hosts:
        host.make_room()
    await scene.until_whole()
    await scene.until_more(scene.leader, 100)


@pytest.mark.parametrize("story", [the_leaders_disk_is_full, the_controller_hears_of_it_late, a_followers_disk_is_full])
def test_no_record_is_refused_while_others_have_room(story: Callable[[SimulatedCluster], Awaitable[None]]) -> None:
    run = tell(story)
    assert run.failed == 0
    assert run.sights["replicas without room left the isr"]


def test_the_hand_over_is_counted() -> None:
    assert tell(the_leaders_disk_is_full).sights["leaders left full disks"] == 1


def test_with_no_place_to_go_producers_are_refused_and_nothing_flaps() -> None:
    run = tell(all_disks_are_full, replace(STAGE, delivery_timeout_ms=60_000))
    assert run.failed > 0


def test_new_topics_go_where_there_is_room() -> None:
    tell(topics_are_created_meanwhile)


def test_without_a_retriable_answer_records_fail_before_the_hand_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_leading, "HAND_OVER_MS", 0)
    assert tell(the_controller_hears_of_it_late).failed > 0


def test_the_story_fails_if_leaders_do_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_timers, "leave_full_disks", lambda *_: Decision((), 0))
    with pytest.raises(AssertionError, match="did not come about"):
        tell(the_leaders_disk_is_full)
