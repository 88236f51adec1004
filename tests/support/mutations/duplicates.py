"""A record whose answer is lost is sent again: to the same leader, to another, or to one that was started again. It is
stored once all the same, unless a rule is broken."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from support.cluster_stories import STAGE, Scene
from support.mutations.mutation import Story

from lograft.broker.replica.leader_role import LeaderRole
from lograft.chaos.cluster.simulation import SimulatedCluster
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.storage.log.recovery import RecoveredLog, recover
from lograft.storage.state.producer_state import ProducerState

After: TypeAlias = Callable[[Scene, SimulatedHost], Awaitable[None]]


SILENT = replace(STAGE, producers=0)  # nobody writes but the story


SENDER = "sender"


def sent_again(after: After) -> Story:
    """All have the record, the producer's first, but nobody says so; then comes what is told here."""

    async def story(cluster: SimulatedCluster) -> None:
        scene = Scene(cluster)
        await scene.write(b"before")  # by another: all follow
        leader, followers = scene.leader, scene.followers
        async with scene.writing(SENDER) as send:
            end = scene.end_on(leader)
            for host in followers:
                scene.cut(host.host, leader.host)
            sent = await send(b"key")
            await scene.until(lambda: all(scene.stable_end_on(host) > end for host in (leader, *followers)))
            scene.cut(leader.host, SENDER)
            assert not sent.is_acknowledged
            await after(scene, leader)
            scene.heal()
        assert sent.is_acknowledged
        await scene.until_whole()

    return story


async def another_leads(scene: Scene, leader: SimulatedHost) -> None:
    """It knows what is a duplicate by what it has followed."""
    scene.kill(leader)
    await scene.until(lambda: scene.partition.leader not in (None, leader.number))
    scene.start(leader)


async def all_are_started_again(scene: Scene, leader: SimulatedHost) -> None:
    """Whoever leads knows it by what is on its disk."""
    for host in (leader, *scene.followers):
        scene.kill(host)
        scene.start(host)


async def nothing_more(scene: Scene, leader: SimulatedHost) -> None:
    """The same leader is asked again."""
    await scene.pass_ms(2_000)


# -- who forgets what was sent


def know_no_duplicates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "check", lambda state, header: None)


def forget_producers_at_failover(patch: pytest.MonkeyPatch) -> None:
    """Who begins to lead knows nobody of those who sent what it has."""
    original = LeaderRole.__init__

    def begin(leading: LeaderRole, *arguments: Any, **options: Any) -> None:
        original(leading, *arguments, **options)
        leading.log.producers = ProducerState()

    patch.setattr(LeaderRole, "__init__", begin)


def recover_without_producers(patch: pytest.MonkeyPatch) -> None:
    """What the disk says of them is not read."""

    def recover_none(*arguments: object) -> RecoveredLog:
        recovered = recover(*arguments)  # type: ignore[arg-type]
        recovered.producers = ProducerState()
        return recovered

    patch.setattr("lograft.storage.log.partition_log.recover", recover_none)
