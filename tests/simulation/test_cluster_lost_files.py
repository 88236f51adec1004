"""Files that are missing are never taken for deleted: with a rule about them broken on purpose, the simulator must
notice what is lost."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.cluster_chaos import LOST_FILES
from support.cluster_stories import STAGE, Scene

from lograft.chaos.cluster.faults.allowed_losses import LostFiles
from lograft.chaos.cluster.run import ClusterRun
from lograft.chaos.cluster.simulation import SimulatedCluster, simulate_cluster
from lograft.chaos.harness.failures import InvariantBroken
from lograft.runtime.files import parent_of
from lograft.storage.files.file_names import LOG_SUFFIX
from lograft.storage.log.recovery import _Recovery
from lograft.storage.state.watermarks_file import WATERMARKS_FILE

Break = Callable[[pytest.MonkeyPatch], None]
Choice = Callable[[list[str]], list[str]]

SMALL_SEGMENTS = replace(STAGE, segment_bytes=1_024, least_min_isr=2)
SEED = 1


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


def the_first(segments: list[str]) -> list[str]:
    return segments[:1]


def all_of_them(segments: list[str]) -> list[str]:
    return segments


def tell_of_the_leader_that_loses(lost: Choice, *, loses_folder: bool = False) -> ClusterRun:
    """It was the last in sync, and is back before the others are. `loses_folder`: all that the partition has there, and
    what the directory notes of it."""

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

    return simulate_cluster(SEED, SMALL_SEGMENTS, story=story)


@pytest.mark.parametrize(("lost", "break_rule", "rule"), [
    (the_first, take_the_first_segment_for_the_log_start, "nothing is deleted that is to be kept"),
    (all_of_them, take_a_log_without_segments_for_an_empty_one, "who may lead has what is committed"),
], ids=["the first segment", "all segments"])  # fmt: skip
def test_files_taken_for_deleted_are_noticed(
    monkeypatch: pytest.MonkeyPatch, lost: Choice, break_rule: Break, rule: str
) -> None:
    tell_of_the_leader_that_loses(lost)
    break_rule(monkeypatch)
    with pytest.raises(InvariantBroken) as broken:
        tell_of_the_leader_that_loses(lost)
    assert broken.value.rule == rule


def test_a_folder_that_is_lost_with_the_watermarks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    tell_of_the_leader_that_loses(all_of_them, loses_folder=True)
    take_a_directory_without_watermarks_for_a_sound_one(monkeypatch)
    with pytest.raises(InvariantBroken) as broken:
        tell_of_the_leader_that_loses(all_of_them, loses_folder=True)
    assert broken.value.rule == "who may lead has what is committed"


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_missing_is_made_good_from_the_others(seed: int) -> None:
    run = simulate_cluster(seed, LOST_FILES)
    assert run.faults["lose_files"] > 0
