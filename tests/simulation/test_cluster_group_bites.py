"""What is promised to consumer groups, broken on purpose: each rule that is left out is noticed."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.broken_rules import expect_noticed
from support.cluster_chaos import GROUPS
from support.cluster_stories import STAGE, Scene

from lograft.broker.groups import offsets as group_offsets
from lograft.broker.groups.draft import GroupDraft
from lograft.broker.groups.offsets_partition import OffsetsPartition
from lograft.chaos.cluster.checks.groups import GroupHistory
from lograft.chaos.cluster.checks.history import ClusterHistory, FinalPartition, PartitionKey, Read, ReplicaLog, Stored
from lograft.chaos.cluster.clients.member_recorder import GROUP
from lograft.chaos.cluster.clients.members import MemberRecorder
from lograft.chaos.cluster.simulation import SimulatedCluster, simulate_cluster
from lograft.chaos.harness.failures import InvariantBroken
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.group.member import GroupMember

Break = Callable[[pytest.MonkeyPatch], None]

ALL_TOPICS = re.compile(r"topic\d+")


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


def believe_in_a_session_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Of a member that does not hear of its coordinator any more."""
    original = GroupMember.tick

    def tick(member: GroupMember, now_ms: float) -> None:
        member._session_over_ms = float("inf")
        original(member, now_ms)

    patch.setattr(GroupMember, "tick", tick)


def commit_what_is_not_read_yet(patch: pytest.MonkeyPatch) -> None:
    original = group_offsets.decide_commit

    def decide_commit(group: Any, speaker: Any, items: Iterable[Any], *others: Any) -> Any:
        further = [replace(item, offset=item.offset + 1) for item in items]
        return original(group, speaker, further, *others)

    patch.setattr("lograft.broker.groups.offsets_partition.decide_commit", decide_commit)


@pytest.mark.parametrize("break_rule", [give_what_another_holds, load_nothing, commit_what_is_not_read_yet])
def test_a_rule_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch, break_rule: Break) -> None:
    expect_noticed(monkeypatch, break_rule, lambda seed: simulate_cluster(seed, GROUPS), seeds=30)


# -- a member that is cut off stops to read before another begins


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


def test_a_member_that_is_cut_off_stops_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_cluster(1, STAGE, story=a_member_is_cut_off)
    believe_in_a_session_for_ever(monkeypatch)
    with pytest.raises(InvariantBroken, match="a partition has one reader"):
        simulate_cluster(1, STAGE, story=a_member_is_cut_off)


# -- the checks themselves

KEY: PartitionKey = (UUID(int=1), 0)


class Reader:
    def __init__(self, name: str, *partitions: PartitionKey) -> None:
        self.name = name
        self.partitions: dict[PartitionKey, object] = dict.fromkeys(partitions)


def test_two_readers_of_a_partition_are_noticed() -> None:
    group = GroupHistory(ClusterHistory())
    first, second = Reader("a", KEY), Reader("b")
    group.members += [first, second]
    group.took(first, KEY)
    with pytest.raises(InvariantBroken, match="one reader"):
        group.took(second, KEY)
    first.partitions = {}
    group.took(second, KEY)


def test_a_commit_that_goes_back_is_noticed() -> None:
    group = GroupHistory(ClusterHistory())
    group.committed(KEY, 5, 0)
    at_least = group.committed_at_least(KEY)
    group.committed(KEY, 7, 0)
    group.told(KEY, 5, at_least)  # it was asked before
    with pytest.raises(InvariantBroken, match="does not go back"):
        group.told(KEY, 6, group.committed_at_least(KEY))
    floor = group.committed_at_least(KEY)
    group.began(KEY, 9, floor)
    with pytest.raises(InvariantBroken, match="begins where the group is"):
        group.began(KEY, 6, floor)


def test_a_group_goes_back_with_its_log_after_an_unclean_election_and_then_no_more() -> None:
    """Seed 2082007999: the member committed 226, was told that the log was cut at 98, and committed 167."""
    history = ClusterHistory()
    group = GroupHistory(history)
    group.committed(KEY, 226, 0)
    before = group.committed_at_least(KEY)
    history.elected_uncleanly(KEY, 4)
    group.began(KEY, 98, before)
    group.told(KEY, 167, before)
    group.told(KEY, 150, group.committed_at_least(KEY))  # nobody knows what lies before those
    group.committed(KEY, 227, 0)  # behind a record of the former generation: its member had not heard of it
    group.told(KEY, 100, group.committed_at_least(KEY))
    group.committed(KEY, 193, 1)
    group.committed(KEY, 190, 1)  # it was asked for before
    with pytest.raises(InvariantBroken, match="does not go back"):
        group.told(KEY, 192, group.committed_at_least(KEY))
    with pytest.raises(InvariantBroken, match="begins where the group is"):
        group.began(KEY, 192, group.committed_at_least(KEY))
    group.told(KEY, 193, group.committed_at_least(KEY))


def final(*values: bytes) -> dict[PartitionKey, FinalPartition]:
    stored = [Stored(offset, 1, value) for offset, value in enumerate(values)]
    return {KEY: FinalPartition(1, {1: ReplicaLog(0, len(values), stored)})}


def test_a_record_that_was_never_delivered_is_noticed() -> None:
    history = ClusterHistory()
    group = GroupHistory(history)
    group.delivered(Read(KEY, "a", 0, b"x", 1))
    group.check_delivered(final(b"x"), history)
    for values in ((b"x", b"y"), (b"y",)):
        with pytest.raises(InvariantBroken, match="every record is delivered"):
            group.check_delivered(final(*values), history)
    history.limited_topics[KEY[0]] = None
    group.check_delivered(final(b"x", b"y"), history)
