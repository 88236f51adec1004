"""What is promised to consumers and their groups, broken on purpose, and stories in which that shows."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from support.cluster_stories import STAGE, Scene

from lograft.broker.groups import offsets as group_offsets
from lograft.broker.groups.draft import GroupDraft
from lograft.broker.groups.offsets_partition import OffsetsPartition
from lograft.broker.replication.leader_core import LeaderCore
from lograft.chaos.cluster.clients.member_recorder import GROUP
from lograft.chaos.cluster.clients.members import MemberRecorder
from lograft.chaos.cluster.simulation import SimulatedCluster
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.group.member import GroupMember
from lograft.clients.consumer.reading.fetched_partition import FetchedPartition
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS
from lograft.metadata.image.partition import Partition


def give_what_another_holds(patch: pytest.MonkeyPatch) -> None:
    """A partition is given away as soon as it is to be another's."""
    original = GroupDraft.reconcile

    def reconcile(draft: GroupDraft, member_id: str, owned: Iterable[Any] | None) -> None:
        for other in list(draft.members.values()):
            if other.member_id != member_id:
                target = set(other.target)
                kept = {partition: since for partition, since in other.assigned.items() if partition in target}
                draft.put(replace(other, assigned=kept, giving_up={}))
        original(draft, member_id, owned)

    patch.setattr(GroupDraft, "reconcile", reconcile)


def load_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetsPartition, "_replay", lambda partition, batches, replay: None)


def commit_what_is_not_read_yet(patch: pytest.MonkeyPatch) -> None:
    original = group_offsets.decide_commit

    def decide_commit(group: Any, speaker: Any, items: Iterable[Any], *others: Any) -> Any:
        further = [replace(item, offset=item.offset + 1) for item in items]
        return original(group, speaker, further, *others)

    patch.setattr("lograft.broker.groups.offsets_partition.decide_commit", decide_commit)


# -- a member that is cut off stops to read before another begins


ALL_TOPICS = re.compile(r"topic\d+")


async def a_member_is_cut_off(cluster: SimulatedCluster) -> None:
    """It polls on all the while; its partition is given to the other one."""
    scene = Scene(cluster)
    await scene.until_whole()
    async with polling(cluster, "far") as far:
        await scene.until(lambda: bool(far.partitions))
        async with polling(cluster, "near") as near:
            for host in cluster.hosts:
                scene.cut(host.host, "far")
                scene.cut("far", host.host)
            await scene.until(lambda: bool(near.partitions))
            scene.heal()


@asynccontextmanager
async def polling(cluster: SimulatedCluster, host: str) -> AsyncIterator[MemberRecorder]:
    """A member of the group, on a host of that name, which polls all the while."""
    runtime = cluster.client_runtime(host)
    async with Consumer(
        cluster.addresses, runtime=runtime, group=GROUP, session_timeout_ms=3_000, auto_commit=False
    ) as consumer:
        member = MemberRecorder(host, consumer, cluster)
        cluster.group.members.append(member)
        await consumer.subscribe(ALL_TOPICS, member)
        async with asyncio.TaskGroup() as group:
            polls = group.create_task(_poll(member))
            yield member
            polls.cancel()
        cluster.group.members.remove(member)
        member.is_gone()


async def _poll(member: MemberRecorder) -> None:
    while True:
        await member.poll(0.1)


def believe_in_a_session_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Of a member that does not hear of its coordinator any more."""
    original = GroupMember.tick

    def tick(member: GroupMember, now_ms: float) -> None:
        member._session_over_ms = float("inf")
        original(member, now_ms)

    patch.setattr(GroupMember, "tick", tick)


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
