"""What would go wrong only at a certain moment is told as a story: it goes well, and with the rule broken that the
story is about, the simulator notices."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from support.cluster_stories import CONTROLLER, STAGE, Scene
from support.deliberate_bugs import forget_producers_at_failover
from support.resent_records import SILENT, After, all_are_started_again, another_leads, nothing_more, sent_again

from lograft.broker.replication.leader_core import LeaderCore, _Follower
from lograft.broker.replication.leader_server import LeaderServer
from lograft.chaos.cluster.faults.allowed_losses import LostMemory
from lograft.chaos.cluster.faults.copies import Copies
from lograft.chaos.cluster.run import ClusterRun
from lograft.chaos.cluster.simulation import SimulatedCluster, simulate_cluster
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.chaos.harness.failures import InvariantBroken
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.reading.fetched_partition import FetchedPartition
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS
from lograft.metadata.image.partition import BrokerId, Partition
from lograft.storage.log.recovery import RecoveredLog, recover
from lograft.storage.state.producer_state import ProducerState

Story = Callable[[SimulatedCluster], Awaitable[None]]

SEED = 4  # the moments that these stories are about come in most seeds, not in all


def tell(story: Story, weather: ClusterWeather = STAGE) -> ClusterRun:
    return simulate_cluster(SEED, weather, story=story)


# -- what is acknowledged counts only from the directory that the metadata name


async def a_member_comes_back_with_another_disk(cluster: SimulatedCluster) -> None:
    """The leader, which hears nothing from the controller, takes it for the one that is in sync."""
    scene = Scene(cluster)
    leader, (_, wiped) = scene.leader, scene.followers
    await scene.until(lambda: scene.core(leader) is not None)  # it has heard that it leads
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
    patch.setattr(LeaderServer, "find_follower", lambda *_: _Everywhere())


# -- what was put back from a copy does not count


async def the_last_in_sync_comes_back_from_the_past(cluster: SimulatedCluster) -> None:
    """Its disk was copied before, and it is back before the others are."""
    scene, copies = Scene(cluster), Copies()
    await scene.until_whole()
    leader, followers = scene.leader, scene.followers
    await scene.until_more(leader, 20)
    scene.kill(leader)
    copies.take(leader)
    scene.start(leader)
    await scene.until_whole()
    await scene.until_more(scene.leader, 50)
    for host in followers:
        scene.kill(host)
    await scene.until(lambda: scene.partition.isr == (leader.number,))
    broker = cluster.image.brokers[BrokerId(leader.number)]
    scene.kill(leader)
    await scene.until(lambda: scene.partition.leader is None)
    [copy] = copies.of(leader)
    cluster.losses.add(LostMemory(broker.broker_id, broker.epoch))
    assert not copies.put_back(leader, copy, cluster.image), "it is known by its epoch"
    scene.start(leader)
    await scene.until(lambda: scene.core(leader) is not None or not scene.may_lead(leader))
    for host in followers:
        scene.start(host)
    await scene.until_whole()


def trust_copies_from_the_past(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lograft.metadata.decisions.brokers.registration.stale_directories", lambda image, request: ())


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


# -- a coordinator that was replaced tells nobody where to begin


NEAR, FAR = "near", "far"


async def a_coordinator_that_was_replaced_is_asked(cluster: SimulatedCluster) -> None:
    """It hears nothing from the controller and the other brokers, and a client reaches nobody but it."""
    scene = Scene(cluster)
    await scene.until_whole()
    [topic] = cluster.image.topics.values()
    name, key = TopicPartition(topic.name, 0), (topic.topic_id, 0)
    async with member(NEAR, cluster) as near:
        await near.assign([name])
        await near.commit({name: 5})
        old = scene.host(offsets_leader(cluster))
        assert await near.committed([name]) == {name: 5}
        others = [host.host for host in cluster.hosts if host is not old]
        for host in others:
            for one, other in ((host, old.host), (old.host, host), (host, NEAR), (NEAR, host)):
                scene.cut(one, other)
        for one, other in ((old.host, FAR), (FAR, old.host)):
            scene.cut(one, other)
        await scene.until(lambda: offsets_leader(cluster) not in (None, old.number))
        async with member(FAR, cluster) as far:
            await far.assign([name])
            await far.commit({name: 9})
        cluster.group.committed(key, 9, 0)
        at_least = cluster.group.committed_at_least(key)
        with suppress(LograftError):
            told = await near.committed([name])
            cluster.group.told(key, told[name] or 0, at_least)
        scene.heal()
        assert await near.committed([name]) == {name: 9}
    await scene.until(lambda: all(len(each.isr) == 3 for each in partitions(cluster)))


@asynccontextmanager
async def member(host: str, cluster: SimulatedCluster) -> AsyncIterator[Consumer]:
    runtime = cluster.client_runtime(host)
    async with Consumer(
        cluster.addresses, runtime=runtime, group="story", auto_commit=False, request_timeout_ms=15_000
    ) as consumer:
        yield consumer


def partitions(cluster: SimulatedCluster) -> list[Partition]:
    return [each for topic in cluster.image.topics.values() for each in topic.partitions.values()]


def offsets_leader(cluster: SimulatedCluster) -> int | None:
    topic = cluster.image.topic(CONSUMER_OFFSETS)
    assert topic is not None
    return topic.partitions[0].leader


def believe_to_lead_without_asking(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderCore, "passed_barrier", property(lambda core: core.barrier))


def test_a_coordinator_that_was_replaced_tells_no_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    tell(a_coordinator_that_was_replaced_is_asked)
    believe_to_lead_without_asking(monkeypatch)
    with pytest.raises(InvariantBroken) as broken:
        tell(a_coordinator_that_was_replaced_is_asked)
    assert broken.value.rule == "what is committed does not go back"


# -- what is sent again is stored once, whatever became of the leader that took it first


def know_no_duplicates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "check", lambda state, header: None)


def recover_without_producers(patch: pytest.MonkeyPatch) -> None:
    """What the disk says of them is not read."""

    def recover_none(*arguments: object) -> RecoveredLog:
        recovered = recover(*arguments)  # type: ignore[arg-type]
        recovered.producers = ProducerState()
        return recovered

    patch.setattr("lograft.storage.log.partition_log.recover", recover_none)


@pytest.mark.parametrize(("after", "break_rule"), [
    (nothing_more, know_no_duplicates),
    (another_leads, know_no_duplicates),
    (another_leads, forget_producers_at_failover),
    (all_are_started_again, know_no_duplicates),
    (all_are_started_again, recover_without_producers),
])  # fmt: skip
def test_what_is_sent_again_is_stored_once(
    monkeypatch: pytest.MonkeyPatch, after: After, break_rule: Callable[[pytest.MonkeyPatch], None]
) -> None:
    tell(sent_again(after), SILENT)
    break_rule(monkeypatch)
    with pytest.raises(InvariantBroken) as broken:
        tell(sent_again(after), SILENT)
    assert broken.value.rule == "stored once"


@pytest.mark.parametrize(("story", "break_rule"), [
    (a_member_comes_back_with_another_disk, count_whatever_directory_it_is_in),
    (the_last_in_sync_comes_back_from_the_past, trust_copies_from_the_past),
])  # fmt: skip
def test_a_story_goes_well_only_by_its_rule(
    monkeypatch: pytest.MonkeyPatch, story: Story, break_rule: Callable[[pytest.MonkeyPatch], None]
) -> None:
    tell(story)
    break_rule(monkeypatch)
    with pytest.raises(InvariantBroken) as broken:
        tell(story)
    assert broken.value.rule in ("who counts has what is committed", "who may lead has what is committed")
