"""Rules of replication, each broken on purpose, and stories in which that shows."""

from collections.abc import Mapping
from typing import Any

import pytest
from support.cluster_stories import CONTROLLER, Scene

from lograft.broker.replica import leader_role as replica_leading
from lograft.broker.replica.follower_role import FollowerRole
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.broker.replication.follower_core import Acknowledge, FollowerCore
from lograft.broker.replication.isr_state import PendingExpansion
from lograft.broker.replication.leader_core import LeaderCore, Subscription, _Follower
from lograft.broker.replication.leader_server import LeaderServer
from lograft.broker.replication.log_matching import Prefix
from lograft.chaos.cluster.faults.allowed_losses import LostMemory
from lograft.chaos.cluster.faults.copies import Copies
from lograft.chaos.cluster.simulation import SimulatedCluster
from lograft.metadata.decisions.brokers import registration
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.partition import BrokerId
from lograft.runtime.network import Handler, Stream
from lograft.runtime.proof.node_proof import NotProven, read_ticket
from lograft.runtime.proof.proven_network import _Guard


async def a_member_is_let_in_and_falls_behind(cluster: SimulatedCluster) -> None:
    """The leader asks for it, and hears no answer; meanwhile the other has stopped to follow."""
    scene = Scene(cluster)
    leader, (_, late) = scene.leader, scene.followers
    scene.kill(late)
    await scene.until(lambda: not scene.is_in_sync(late))
    scene.start(late)
    core = scene.core(leader)
    assert core is not None
    await scene.until(lambda: isinstance(core.isr, PendingExpansion))
    scene.cut(leader.host, late.host)
    scene.cut(CONTROLLER, leader.host)
    await scene.until(lambda: scene.is_in_sync(late))
    await scene.pass_ms(300)
    scene.heal()
    await scene.until_whole()


def count_only_who_is_known_to_be_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingExpansion, "maximal", property(lambda state: state.committed))


async def a_member_comes_back_far_behind(cluster: SimulatedCluster) -> None:
    scene = Scene(cluster)
    leader, (_, late) = scene.leader, scene.followers
    scene.kill(late)
    await scene.until(lambda: not scene.is_in_sync(late))
    await scene.until_more(leader, 50)
    scene.slow(leader, late, 400)
    scene.start(late)
    await scene.until_more(leader, 100)
    scene.slow(leader, late, 1)
    await scene.until_whole()


def let_in_whoever_is_matched(patch: pytest.MonkeyPatch) -> None:
    def is_ready(core: LeaderCore, subscription: Subscription | None, brokers: Mapping[BrokerId, Broker]) -> bool:
        if subscription is None or not subscription.is_matched:
            return False
        broker = brokers.get(subscription.subscriber.broker_id)
        return (
            broker is not None
            and broker.state is BrokerState.ACTIVE
            and broker.epoch == subscription.subscriber.broker_epoch
            and subscription.partition_epoch >= core.partition.partition_epoch
        )

    patch.setattr(LeaderCore, "_is_ready", is_ready)


# -- what is acknowledged, served and kept


def acknowledge_before_the_disk_has_it(patch: pytest.MonkeyPatch) -> None:
    """Leader and followers alike."""

    def acknowledgement(core: FollowerCore) -> Acknowledge | None:
        state, end_offset, epoch = core.state, core._log.end_offset, core.partition.partition_epoch
        told = (getattr(state, "told_end", None), getattr(state, "told_partition_epoch", None))
        if not core.is_matched(getattr(state, "number", -1)) or told == (end_offset, epoch):
            return None
        state.told_end, state.told_partition_epoch = end_offset, epoch
        return Acknowledge(state.number, core.leader_epoch, epoch, end_offset)

    original_heard, original_tell = FollowerRole._heard, LeaderRole._tell_feeds

    def heard(following: FollowerRole, log_start: int, *, has_moved: bool) -> None:
        original_heard(following, log_start, has_moved=has_moved)
        following.became_durable()

    def tell_feeds(leading: LeaderRole) -> None:
        original_tell(leading)
        leading.core.durable_end = leading.core.end_offset

    patch.setattr(FollowerCore, "acknowledgement", acknowledgement)
    patch.setattr(FollowerRole, "_heard", heard)
    patch.setattr(LeaderRole, "_tell_feeds", tell_feeds)
    patch.setattr(LeaderCore, "own_durable", lambda core, durable_end: core._advance())


def acknowledge_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderRole, "_is_acknowledged", lambda leading, acks, next_offset: True)


def acknowledge_below_the_minimum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderCore, "has_enough_in_sync", True)


def serve_a_watermark_that_is_not_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderCore, "watermark_is_known", True)


def serve_uncommitted(patch: pytest.MonkeyPatch) -> None:
    """Readers get all that the leader has."""
    patch.setattr("lograft.broker.replica.replica.read_log", _read_to_the_end)


async def _read_to_the_end(log: Any, offset: int, max_bytes: int, bound: int, **_: Any) -> Any:
    from lograft.broker.replica.checked_reads import read_log

    return await read_log(log, offset, max_bytes, log.end_offset)


# -- epochs


def check_no_epochs(patch: pytest.MonkeyPatch) -> None:
    """A follower is taken for matched wherever its log is not longer than the leader's, and a request for one epoch is
    served in another."""
    original = replica_leading.match  # type: ignore[attr-defined]

    def match(
        log: Any, tombstones_removed_below: int, last_epoch: int | None, end_offset: int, *first_base: Any
    ) -> Any:
        if end_offset <= log.end_offset:
            return Prefix()
        return original(log, tombstones_removed_below, last_epoch, end_offset, *first_base)

    patch.setattr(replica_leading, "match", match)
    patch.setattr(Replica, "_check_epoch", lambda replica, leader_epoch: None)


def truncate_by_watermark(patch: pytest.MonkeyPatch) -> None:
    """As if all above a follower's own watermark were in doubt."""
    original = FollowerRole.settle
    done: dict[FollowerRole, None] = {}

    async def settle(following: FollowerRole) -> None:
        await original(following)
        if following not in done and following._log.end_offset > following.high_watermark:
            done[following] = None
            async with following._operations.exclusively():
                await following._log.truncate(following.high_watermark)
            await original(following)

    patch.setattr(FollowerRole, "settle", settle)


def lead_on_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A process that is new leads in the epoch that was given to the one before."""
    patch.setattr(registration, "_departures", lambda image, broker, distrusted, stale: iter(()))


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


# -- strangers


class _FromTheStart:
    """A stream of which the first message was read already."""

    def __init__(self, stream: Stream, first: bytes | None) -> None:
        self._stream = stream
        self._unread = [first]

    async def receive(self) -> bytes | None:
        return self._unread.pop() if self._unread else await self._stream.receive()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def hear_everybody(patch: pytest.MonkeyPatch) -> None:
    def guarding(_: object, method: str, handler: Handler) -> Handler:
        async def serve(stream: Stream) -> None:
            first = await stream.receive()
            try:
                read_ticket(first)
            except NotProven:
                await handler(_FromTheStart(stream, first))
            else:
                await handler(stream)

        return serve

    patch.setattr(_Guard, "guarding", guarding)
