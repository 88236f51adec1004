"""Rules of compaction are broken on purpose, in the production code: the simulator must notice. What would go wrong
only at a certain moment is told as a story. And histories of compacted partitions that cannot be are written down: each
check must refuse its own."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.broken_rules import expect_noticed
from support.cluster_chaos import COMPACTED
from support.cluster_stories import CONTROLLER, STAGE, Scene

from lograft.broker.hosting import maintenance as upkeep
from lograft.broker.replica.interfaces import Acks
from lograft.broker.replication.follower_core import FollowerCore
from lograft.chaos.cluster.checks.history import (
    ClusterHistory,
    FinalPartition,
    PartitionKey,
    Read,
    ReplicaLog,
    SentRecord,
    Stored,
)
from lograft.chaos.cluster.checks.logs import LAST_READER, check_all, check_next
from lograft.chaos.cluster.simulation import SimulatedCluster, simulate_cluster
from lograft.chaos.cluster.world.record_marks import headers_of, mark_for, mark_of, record_key_of, value_of
from lograft.chaos.cluster.world.weather import QUICK_UPKEEP, ClusterWeather
from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.harness.outcome import Outcome
from lograft.storage.batch.header import BatchHeader
from lograft.storage.batch.record import Columns
from lograft.storage.cleaning.batch_cleaner import BatchCleaner
from lograft.storage.log.partition_log import PartitionLog

Break = Callable[[pytest.MonkeyPatch], None]
Story = Callable[[SimulatedCluster], Awaitable[None]]

# Many keys, of which each is written a few times: what goes wrong with one is not mended by the next record of it.
TABLE = replace(
    STAGE,
    upkeep=replace(QUICK_UPKEEP, compaction_ms=300),
    consumers=0,
    askers=0,
    policies=("compact",),
    segment_bytes=1_024,
    delete_retention_ms=0,
    record_keys=300,
    deletion_probability=0.4,
)

DELETED = (b"one", b"two")


def take_out_the_latest(patch: pytest.MonkeyPatch) -> None:
    """Now and then one record too many."""
    original = BatchCleaner._kept

    def kept(cleaner: BatchCleaner, header: BatchHeader, columns: Columns) -> list[int]:
        return original(cleaner, header, columns)[1:]

    patch.setattr(BatchCleaner, "_kept", kept)


def test_a_record_too_many_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    expect_noticed(monkeypatch, take_out_the_latest, lambda seed: simulate_cluster(seed, COMPACTED), seeds=30)


# -- what is not committed is not compacted


async def a_leader_is_cut_off(cluster: SimulatedCluster) -> None:
    """It takes in, and could clean, what nobody else will ever have."""
    scene = Scene(cluster)
    leader = scene.leader
    await scene.until_more(leader, 100)
    for other in (CONTROLLER, *(host.host for host in scene.followers)):
        scene.cut(leader.host, other)
        scene.cut(other, leader.host)
    await scene.until_more(leader, 100)
    await scene.until(lambda: scene.leader is not leader)
    scene.heal()
    await scene.until_whole()


def compact_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    original = upkeep.compact  # type: ignore[attr-defined]

    async def compact(log: PartitionLog, bound: int, *arguments: Any, **options: Any) -> Any:
        return await original(log, log.end_offset, *arguments, **options)

    patch.setattr(upkeep, "compact", compact)


# -- who has what a tombstone deleted, and not the tombstone, starts over


async def a_member_is_away_while_tombstones_go(cluster: SimulatedCluster) -> None:
    scene = Scene(cluster)
    leader, (_, late) = scene.leader, scene.followers
    await scene.write(*DELETED)
    scene.kill(late)
    await scene.delete(*DELETED)
    await scene.until_more(leader, 400)
    leader.forget_tails()
    scene.start(late)
    await scene.until_whole()


def forget_removed_tombstones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "note_tombstones_removed", lambda log, below: None)


# -- who lacks something because of what was given up starts over


async def somebody_is_elected_who_has_less(cluster: SimulatedCluster) -> None:
    """The others have cleaned what it has, because of what it has not."""
    scene = Scene(cluster)
    leader, (second, late) = scene.leader, scene.followers
    await scene.until_more(leader, 100)
    scene.kill(late)
    await scene.until(lambda: not scene.is_in_sync(late))
    await scene.until_more(leader, 150)
    await scene.pass_ms(1_000)
    scene.kill(second)
    await scene.until(lambda: not scene.is_in_sync(second))
    scene.kill(leader)
    scene.start(late)
    await scene.until(lambda: scene.partition.leader == late.number)
    scene.start(second)
    scene.start(leader)
    await scene.until_whole()


def go_on_with_what_superseded_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FollowerCore, "has_lost_what_superseded", lambda core, cleaned_below, cleaned_in_epoch: False)


@pytest.mark.parametrize(("story", "weather", "break_rule"), [
    (a_leader_is_cut_off, replace(TABLE, acks=(Acks.LEADER,)), compact_what_is_not_committed),
    (a_member_is_away_while_tombstones_go, TABLE, forget_removed_tombstones),
    (somebody_is_elected_who_has_less, replace(TABLE, min_isr=1, unclean_probability=1.0),
     go_on_with_what_superseded_gone),
])  # fmt: skip
def test_a_story_goes_well_only_by_its_rule(
    monkeypatch: pytest.MonkeyPatch, story: Story, weather: ClusterWeather, break_rule: Break
) -> None:
    run = simulate_cluster(1, weather, story=story)
    assert run.sights["compactions"]
    break_rule(monkeypatch)
    with pytest.raises(InvariantBroken) as broken:
        simulate_cluster(1, weather, story=story)
    assert broken.value.rule in ("replicas in sync agree on keys", "deleted stays deleted")


# -- histories that cannot be

KEY: PartitionKey = (UUID(int=1), 0)
Spoil = Callable[[ClusterHistory, FinalPartition], None]

A1, A2 = (mark_for("p", number, b"a", is_deletion=False) for number in (0, 1))
B1, C1 = (mark_for("p", number, key, is_deletion=False) for number, key in ((2, b"b"), (4, b"c")))
B2 = mark_for("p", 3, b"b", is_deletion=True)
STORED = [Stored(offset, 1, mark) for offset, mark in enumerate((A1, A2, B1, B2, C1))]


def good() -> tuple[ClusterHistory, FinalPartition]:
    """A key that was written again, one that was deleted, and another; cleaned on one replica, not on the other."""
    history = ClusterHistory()
    history.compacted_topics[KEY[0]] = None
    for stored in STORED:
        number = int(stored.value.split(b"/")[1])
        send = SentRecord(KEY, "p", number, stored.value, outcome=Outcome.OK, offset=stored.offset, leader_epoch=1)
        history.sends[stored.value] = send
    check_and_note(history, (1, A2), (4, C1))
    return history, FinalPartition(1, {1: log(1, 4), 2: log(0, 1, 2, 3, 4)})


def log(*offsets: int, start: int = 0) -> ReplicaLog:
    return ReplicaLog(start, 5, [STORED[offset] for offset in offsets])


def check_and_note(history: ClusterHistory, *found: tuple[int, bytes]) -> None:
    """What a consumer of all of it got."""
    history.reads.clear()
    history.gaps.clear()
    before = None
    for offset, mark in found:
        read = Read(KEY, LAST_READER, offset, mark, 1)
        check_next(history, before, read)
        history.reads.append(read)
        before = read


def _both(final: FinalPartition, *offsets: int) -> None:
    final.logs = {1: log(*offsets), 2: log(*offsets)}


def _latest_is_gone(history: ClusterHistory, final: FinalPartition) -> None:
    _both(final, 0, 4)


def _latest_is_gone_on_one(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs[1] = log(0, 4)


def _deleted_is_back(history: ClusterHistory, final: FinalPartition) -> None:
    _both(final, 1, 2, 4)


def _deleted_is_back_on_one(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs[1] = log(1, 2, 4)


def _only_one_of_its_key(history: ClusterHistory, final: FinalPartition) -> None:
    history.reads.clear()
    _both(final, 1)


def _something_else(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs[1] = ReplicaLog(0, 5, [Stored(1, 1, A1), STORED[4]])


def _shorter(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs[1] = ReplicaLog(0, 4, [STORED[1]])


def _falling(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs = {1: ReplicaLog(0, 5, [STORED[4], STORED[1]])}


def _not_read(history: ClusterHistory, final: FinalPartition) -> None:
    check_and_note(history, (0, A1), (4, C1))


def _not_read_to_the_end(history: ClusterHistory, final: FinalPartition) -> None:
    check_and_note(history, (1, A2))


@pytest.mark.parametrize(("spoil", "rule"), [
    (_latest_is_gone, "acknowledged is at its offset"),
    (_latest_is_gone_on_one, "replicas in sync agree on keys"),
    (_deleted_is_back, "deleted stays deleted"),
    (_deleted_is_back_on_one, "replicas in sync agree on keys"),
    (_only_one_of_its_key, "acknowledged is at its offset"),
    (_something_else, "replicas in sync agree"),
    (_shorter, "replicas in sync agree"),
    (_falling, "offsets rise"),
    (_not_read, "no gaps"),
    (_not_read_to_the_end, "readers learn the latest of each key"),
])  # fmt: skip
def test_a_history_that_cannot_be_is_refused(spoil: Spoil, rule: str) -> None:
    history, final = good()
    check_all(history, {KEY: final})
    spoil(history, final)
    with pytest.raises(InvariantBroken) as broken:
        check_all(history, {KEY: final})
    assert broken.value.rule == rule


def test_what_superseded_a_record_may_be_deleted_by_retention() -> None:
    history, final = good()
    history.limited_topics[KEY[0]] = None
    check_and_note(history, (1, A2), (4, C1))
    final.logs = {1: log(4, start=4), 2: log(4, start=4)}
    check_all(history, {KEY: final})


@pytest.mark.parametrize(("key", "value", "headers"), [
    (b"a", b"other", headers_of(A1)),
    (b"b", value_of(A1), headers_of(A1)),
    (b"a", None, headers_of(A1)),
    (b"b", b"x", headers_of(B2)),
    (b"a", value_of(A1), []),
])  # fmt: skip
def test_a_record_that_is_not_as_it_was_sent_is_refused(key: bytes, value: bytes | None, headers: Any) -> None:
    assert mark_of(record_key_of(A1), value_of(A1, padding_bytes=3), headers_of(A1)) == A1
    with pytest.raises(InvariantBroken, match="records are as they were sent"):
        mark_of(key, value, headers)
