"""Files that are missing: with a rule about them broken on purpose, the simulator must notice what is lost."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.broken_rules import expect_noticed
from support.cluster_chaos import LOST_FILES

from lograft.chaos.cluster_simulation import simulate_cluster
from lograft.storage.recovery import _Recovery

Break = Callable[[pytest.MonkeyPatch], None]


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


RULES: list[tuple[Break, int]] = [
    (take_the_first_segment_for_the_log_start, 3),
    (take_a_log_without_segments_for_an_empty_one, 32),
]


@pytest.mark.parametrize(("break_rule", "quickest"), RULES, ids=lambda value: getattr(value, "__name__", ""))
def test_files_taken_for_deleted_are_noticed(monkeypatch: pytest.MonkeyPatch, break_rule: Break, quickest: int) -> None:
    expect_noticed(
        monkeypatch, break_rule, lambda seed: simulate_cluster(seed, LOST_FILES), seeds=30, quickest=quickest
    )


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_missing_is_made_good_from_the_others(seed: int) -> None:
    run = simulate_cluster(seed, LOST_FILES)
    assert run.faults["lose_files"] > 0
