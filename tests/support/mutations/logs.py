"""Rules of recovery and of compaction, each broken on purpose, and stories in which that shows."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from support.cluster_stories import CONTROLLER, STAGE, Scene
from support.mutations.mutation import Story

from lograft.broker.hosting import maintenance as upkeep
from lograft.broker.replication.follower_core import FollowerCore
from lograft.chaos.cluster.faults.allowed_losses import LostFiles
from lograft.chaos.cluster.simulation import SimulatedCluster
from lograft.chaos.cluster.world.weather import QUICK_UPKEEP
from lograft.runtime.files import parent_of
from lograft.storage.batch.header import HEADER_BYTES, BatchHeader, parse_header
from lograft.storage.batch.record import Columns
from lograft.storage.cleaning.batch_cleaner import BatchCleaner
from lograft.storage.errors import InvalidBatch
from lograft.storage.files.batch_scan import scan_batches
from lograft.storage.files.file_names import LOG_SUFFIX
from lograft.storage.log import recovery
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.log.recovery import _Recovery
from lograft.storage.state.watermarks_file import WATERMARKS_FILE


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


# -- files that are missing are not taken for deleted


Choice = Callable[[list[str]], list[str]]


SMALL_SEGMENTS = replace(STAGE, segment_bytes=1_024, least_min_isr=2)


def the_last_in_sync_loses(lost: Choice, *, loses_folder: bool = False) -> Story:
    """The leader was the last in sync, and is back before the others are. `loses_folder`: all that the partition has
    there, and what the directory notes of it."""

    async def story(cluster: SimulatedCluster) -> None:
        scene = Scene(cluster)
        await scene.until_whole()
        leader, followers = scene.leader, scene.followers
        await scene.until_more(leader, 100)
        replica = scene.replica(leader)
        assert replica is not None
        directory = replica.log.directory
        for host in followers:
            scene.kill(host)
        await scene.until(lambda: not any(scene.is_in_sync(host) for host in followers))
        scene.kill(leader)
        await scene.until(lambda: scene.partition.leader is None)
        names = sorted(path.rpartition("/")[2] for path, _ in leader.files.contents(f"{directory}/"))
        segments = [name for name in names if name.endswith(LOG_SUFFIX)]
        assert len(segments) > 2
        [topic_id] = cluster.image.topics
        cluster.losses.add(LostFiles(leader, (topic_id, 0)))
        leader.lose_files(directory, names if loses_folder else lost(segments))
        if loses_folder:
            leader.lose_files(parent_of(directory), [WATERMARKS_FILE])
        scene.start(leader)
        await scene.until(lambda: scene.core(leader) is not None or not scene.may_lead(leader))
        for host in followers:
            scene.start(host)
        await scene.until_whole()

    return story


def the_first(segments: list[str]) -> list[str]:
    return segments[:1]


def all_of_them(segments: list[str]) -> list[str]:
    return segments


def take_the_first_segment_for_the_log_start(patch: pytest.MonkeyPatch) -> None:
    """What was missing before it counts as deleted, here and on every follower."""

    check_all_are_there = _Recovery._check_all_are_there

    def raise_log_start(recovery: _Recovery) -> None:
        log_start = max(recovery.checkpoint.log_start, recovery.segments[0].base_offset)
        recovery.checkpoint = replace(recovery.checkpoint, log_start=log_start)
        check_all_are_there(recovery)

    patch.setattr(_Recovery, "_check_all_are_there", raise_log_start)


def take_a_log_without_segments_for_an_empty_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Recovery, "_check_nothing_was_there", lambda recovery: None)


def take_a_directory_without_watermarks_for_a_sound_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lograft.storage.state.used_epoch._watermarks_damage", lambda files, path, is_noted: None)


# -- compaction


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
