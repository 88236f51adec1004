"""Eight bugs that a replicated log can have, each made on purpose in the production code, and what brings it to light:
weather and the seed that was quickest to, or a story where it shows only at a certain moment."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from support.cluster_chaos import POWER_CUTS, RESTLESS_LEADERS, SLOW_NETWORK, TORN_WRITES
from support.cluster_stories import CONTROLLER, STAGE, Scene
from support.resent_records import SILENT, another_leads, sent_again

from lograft.broker.replica import leader_role as replica_leading
from lograft.broker.replica.follower_role import FollowerRole
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.broker.replication.follower_core import Acknowledge, FollowerCore
from lograft.broker.replication.isr_state import PendingExpansion
from lograft.broker.replication.leader_core import LeaderCore, Subscription
from lograft.broker.replication.log_matching import Prefix
from lograft.chaos.cluster.simulation import SimulatedCluster
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.metadata.decisions.brokers import registration
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.partition import BrokerId
from lograft.storage.batch.header import HEADER_BYTES, parse_header
from lograft.storage.errors import InvalidBatch
from lograft.storage.files.batch_scan import scan_batches
from lograft.storage.log import recovery
from lograft.storage.state.producer_state import ProducerState

Break = Callable[[pytest.MonkeyPatch], None]
Story = Callable[[SimulatedCluster], Awaitable[None]]


# -- who was asked to be let in counts from then on


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


# -- whoever joins has all that may be committed


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


def forget_producers_at_failover(patch: pytest.MonkeyPatch) -> None:
    """Who begins to lead knows nobody of those who sent what it has."""
    original = LeaderRole.__init__

    def begin(leading: LeaderRole, *arguments: Any, **options: Any) -> None:
        original(leading, *arguments, **options)
        leading.log.producers = ProducerState()

    patch.setattr(LeaderRole, "__init__", begin)


def lead_on_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A process that is new leads in the epoch that was given to the one before."""
    patch.setattr(registration, "_departures", lambda image, broker, distrusted, stale: iter(()))


def keep_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    """What a crash left half written is taken for whole, if only it has a header; the rest is whatever comes to lie
    there."""
    original = recovery._Recovery._cut_after

    def cut_after(opening: Any, place: int, file: Any) -> None:
        segment = opening.segments[place]
        end_bytes = segment.index.summary.size_bytes
        try:
            header = parse_header(memoryview(file.read(end_bytes, HEADER_BYTES)), 0)
        except InvalidBatch:
            original(opening, place, file)
            return
        missing_bytes = end_bytes + header.total_bytes - segment.size_bytes
        file.write(segment.size_bytes, [b"\0" * max(0, missing_bytes)])
        segment.size_bytes = end_bytes + header.total_bytes
        segment.index.add(header, opening.wall_ms, opening.interval_bytes)
        original(opening, place, file)  # what comes behind it goes

    patch.setattr(recovery._Recovery, "_cut_after", cut_after)
    patch.setattr(recovery, "scan_batches", partial(scan_batches, verify=False))


@dataclass(frozen=True, slots=True)
class DeliberateBug:
    """`story`: what it takes to notice; without one, chance, of which `seed` is the quickest that is known."""

    name: str
    break_rule: Break
    weather: ClusterWeather
    story: Story | None = None
    seed: int = 0


EIGHT = (
    DeliberateBug("watermark without the pending ISR", count_only_who_is_known_to_be_in, STAGE,
                  a_member_is_let_in_and_falls_behind, 6),
    DeliberateBug("acknowledge before fsync", acknowledge_before_the_disk_has_it, POWER_CUTS),
    DeliberateBug("truncate by watermark", truncate_by_watermark, SLOW_NETWORK, seed=2),
    DeliberateBug("no epoch check", check_no_epochs, RESTLESS_LEADERS, seed=5),
    DeliberateBug("dedupe state lost at failover", forget_producers_at_failover, SILENT, sent_again(another_leads)),
    DeliberateBug("a returning incarnation leading in its old epoch", lead_on_after_a_restart, RESTLESS_LEADERS),
    DeliberateBug("ISR join too early", let_in_whoever_is_matched, STAGE, a_member_comes_back_far_behind, 6),
    DeliberateBug("torn tail kept", keep_a_torn_tail, TORN_WRITES, seed=1),
)  # fmt: skip
