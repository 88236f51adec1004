"""A follower in one leader epoch: what it says of its log and when, what it cuts, and how its watermark moves."""

from dataclasses import dataclass, field

import pytest
from support.metadata_images import partition

from lograft.broker.replication.follower_core import (
    Acknowledge,
    Cutting,
    Ended,
    FollowerCore,
    GiveUp,
    Matched,
    Settling,
    Subscribe,
    Truncate,
    Unmatched,
)
from lograft.metadata.image.partition import LeaderEpoch, Partition, PartitionEpoch
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry


@dataclass
class Log:
    start_offset: int = 0
    end_offset: int = 10
    stable_end: int = 10
    epochs: EpochCache = field(default_factory=lambda: epochs((1, 0), (3, 5)))


def epochs(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(EpochEntry(*entry) for entry in entries)


def led_by_1(*, partition_epoch: int = 7, unclean_epoch: int | None = None) -> Partition:
    return partition(1, 2, 3, leader_epoch=4, partition_epoch=partition_epoch, unclean_epoch=unclean_epoch)


def follower(log: Log, *, high_watermark: int = 5, unclean_epoch: int | None = None) -> FollowerCore:
    return FollowerCore(log, led_by_1(unclean_epoch=unclean_epoch), high_watermark)


def subscribed(log: Log, *, high_watermark: int = 5, unclean_epoch: int | None = None) -> FollowerCore:
    core = follower(log, high_watermark=high_watermark, unclean_epoch=unclean_epoch)
    core.subscribe(1)
    return core


def matched(log: Log, *, high_watermark: int = 5) -> FollowerCore:
    core = subscribed(log, high_watermark=high_watermark)
    assert core.matched(1, 0)
    return core


EPOCH, PARTITION_EPOCH = LeaderEpoch(4), PartitionEpoch(7)


# -- subscribing


def test_it_subscribes_with_what_is_durable() -> None:
    log = Log(stable_end=9)
    core = follower(log)
    assert not core.may_subscribe
    log.stable_end = 10
    assert core.may_subscribe
    assert core.subscribe(1) == Subscribe(1, EPOCH, PARTITION_EPOCH, 10, 3)


def test_an_empty_log_has_no_last_epoch() -> None:
    core = follower(Log(0, 0, 0, epochs()), high_watermark=0)
    assert core.subscribe(1) == Subscribe(1, EPOCH, PARTITION_EPOCH, 0, None)


def test_it_subscribes_once() -> None:
    core = subscribed(Log())
    assert not core.may_subscribe
    core.matched(1, 0)
    assert not core.may_subscribe


def test_nothing_is_acknowledged_before_it_is_matched() -> None:
    log = Log()
    core = subscribed(log)
    assert core.acknowledgement() is None
    assert core.matched(1, 0)
    assert core.acknowledgement() is None, "the subscription said it"
    log.end_offset, log.stable_end = 14, 12
    assert core.acknowledgement() == Acknowledge(1, EPOCH, PARTITION_EPOCH, 12)
    assert core.acknowledgement() is None
    log.stable_end = 14
    assert core.acknowledgement() == Acknowledge(1, EPOCH, PARTITION_EPOCH, 14)


def test_another_partition_epoch_is_told_though_nothing_is_new() -> None:
    core = matched(Log())
    core.image_changed(led_by_1(partition_epoch=8))
    assert core.acknowledgement() == Acknowledge(1, EPOCH, PartitionEpoch(8), 10)
    assert core.acknowledgement() is None


def test_a_partition_epoch_that_came_after_the_subscription_is_told_when_it_is_matched() -> None:
    core = subscribed(Log())
    core.image_changed(led_by_1(partition_epoch=8))
    core.matched(1, 0)
    assert core.acknowledgement() == Acknowledge(1, EPOCH, PartitionEpoch(8), 10)


def test_what_is_answered_to_an_older_subscription_is_passed_over() -> None:
    core = subscribed(Log())
    assert core.unsubscribed(1)
    core.subscribe(2)
    assert not core.matched(1, 100)
    assert core.parted(1, 1, 5) is None
    assert not core.told_to_reset(1, 0)
    assert not core.unsubscribed(1)
    assert core.state == Unmatched(2, PARTITION_EPOCH)
    assert core.matched(2, 0)
    assert not core.heard_watermark(1, 10)
    assert not core.is_matched(1)
    assert core.is_matched(2)


@pytest.mark.parametrize("begin", [subscribed, matched])
def test_when_the_stream_breaks_it_begins_anew(begin: object) -> None:
    core = begin(Log())  # type: ignore[operator]
    assert core.unsubscribed(1)
    assert core.state == Settling()
    assert core.acknowledgement() is None
    assert core.may_subscribe


def test_once_its_epoch_has_ended_it_says_nothing_and_hears_nothing() -> None:
    log = Log()
    core = matched(log)
    log.end_offset = log.stable_end = 12
    core.end()
    assert core.acknowledgement() is None
    assert not core.may_subscribe
    assert not core.is_matched(1)
    assert not core.matched(1, 12)
    assert core.parted(1, 1, 5) is None
    assert core.state == Ended()


# -- cutting


@pytest.mark.parametrize(
    ("epoch", "end_offset", "offset"),
    [
        (3, 8, 8),  # the leader's epoch ends before ours
        (3, 10, 10),
        (3, 12, 10),
        (2, 9, 5),  # ours of that epoch, or before it, end earlier
        (2, 4, 4),
        (1, 4, 4),
        (1, 9, 5),
        (0, 0, 0),  # all our records are of later epochs
    ],
)
def test_it_cuts_where_the_logs_part(epoch: int, end_offset: int, offset: int) -> None:
    core = subscribed(Log(), high_watermark=0)
    assert core.parted(1, epoch, end_offset) == Truncate(offset)
    assert core.state == Cutting()


def test_it_subscribes_again_when_the_cut_is_durable() -> None:
    log = Log()
    core = subscribed(log)
    core.parted(1, 1, 5)
    assert not core.may_subscribe
    assert not core.unsubscribed(1), "a stream that breaks changes nothing"
    log.end_offset = log.stable_end = 5
    log.epochs.truncate_from(5)
    core.log_was_cut()
    assert core.subscribe(2) == Subscribe(2, EPOCH, PARTITION_EPOCH, 5, 1)


def test_a_cut_that_ends_in_another_epoch_does_not_bring_this_one_back() -> None:
    core = subscribed(Log())
    core.parted(1, 1, 5)
    core.end()
    core.log_was_cut()
    assert core.state == Ended()


def test_to_cut_below_the_watermark_is_a_broken_invariant() -> None:
    core = subscribed(Log(), high_watermark=6)
    with pytest.raises(AssertionError, match="below the high watermark"):
        core.parted(1, 1, 5)


@pytest.mark.parametrize(("unclean_epoch", "may_cut"), [(None, False), (3, False), (2, False), (4, True)])
def test_only_an_unclean_election_since_its_last_record_lets_it_cut_below_its_watermark(
    unclean_epoch: int | None, may_cut: bool
) -> None:
    core = subscribed(Log(), high_watermark=8, unclean_epoch=unclean_epoch)
    if may_cut:
        assert core.parted(1, 1, 5) == Truncate(5)
        assert core.high_watermark == 5
    else:
        with pytest.raises(AssertionError):
            core.parted(1, 1, 5)


def test_what_cannot_be_cut_far_enough_is_given_up() -> None:
    log = Log(start_offset=4, epochs=epochs((1, 4), (3, 5)))
    core = subscribed(log, high_watermark=8, unclean_epoch=4)
    assert core.parted(1, 1, 2) == GiveUp()
    assert core.high_watermark == 0, "nothing that comes next is committed yet"


def test_a_log_that_has_nothing_in_common_with_an_uncleanly_elected_leaders_is_given_up_with_its_start() -> None:
    """Its start was moved in an epoch that is no more; the leader's own records below it are for the follower too."""
    log = Log(start_offset=4, epochs=epochs((2, 4), (3, 5)))
    core = subscribed(log, high_watermark=8, unclean_epoch=4)
    assert core.parted(1, 1, 7) == GiveUp()


def test_an_emptied_log_keeps_its_start() -> None:
    """All its epochs are newer than what the leader has; but its start, and so all below, was committed."""
    log = Log(start_offset=10, end_offset=10, stable_end=10, epochs=epochs((3, 10)))
    core = subscribed(log, high_watermark=10)
    assert core.parted(1, 1, 10) == Truncate(10)


def test_told_to_reset_it_waits_until_that_is_durable() -> None:
    log = Log()
    core = subscribed(log, high_watermark=8)
    assert core.told_to_reset(1, 20)
    assert core.state == Cutting()
    log.start_offset = log.end_offset = log.stable_end = 20
    log.epochs = epochs((4, 20))
    core.log_was_cut()
    assert core.high_watermark == 20, "what was deleted was committed"
    assert core.subscribe(2) == Subscribe(2, EPOCH, PARTITION_EPOCH, 20, 4)


def test_a_log_that_starts_over_further_back_takes_its_watermark_along() -> None:
    log = Log()
    core = subscribed(log, high_watermark=8)
    assert core.told_to_reset(1, 2)
    assert core.high_watermark == 2


# -- the watermark


@pytest.mark.parametrize(
    ("noted", "start", "end", "expected"), [(5, 0, 10, 5), (12, 0, 10, 10), (5, 7, 10, 7), (0, 0, 0, 0)]
)
def test_a_watermark_is_within_the_log(noted: int, start: int, end: int, expected: int) -> None:
    assert follower(Log(start, end, end), high_watermark=noted).high_watermark == expected


def test_it_holds_the_leaders_watermark_as_far_as_it_has_the_records() -> None:
    log = Log()
    core = matched(log)
    assert core.heard_watermark(1, 12)
    assert core.high_watermark == 10
    log.end_offset = 11
    assert core.appended(12)
    assert core.high_watermark == 11
    log.end_offset = 20
    assert core.appended(12)
    assert core.high_watermark == 12


def test_it_learns_the_watermark_when_it_is_matched() -> None:
    core = subscribed(Log())
    core.matched(1, 9)
    assert core.high_watermark == 9


def test_the_watermark_of_a_new_leader_may_be_behind() -> None:
    core = matched(Log(), high_watermark=8)
    assert not core.heard_watermark(1, 6)
    assert core.high_watermark == 8


def test_before_it_is_matched_the_leaders_watermark_means_nothing() -> None:
    core = subscribed(Log())
    assert not core.heard_watermark(1, 10)
    assert core.high_watermark == 5


# -- the rest


def test_epochs_that_it_knows_or_has_passed_are_not_noted_again() -> None:
    core = matched(Log())
    told = [EpochEntry(2, 10), EpochEntry(3, 10), EpochEntry(4, 10)]
    assert core.new_epochs(told) == (EpochEntry(4, 10),)
    assert matched(Log(0, 0, 0, epochs()), high_watermark=0).new_epochs(told) == tuple(told)


def test_it_stays_with_its_epoch() -> None:
    core = matched(Log())
    assert isinstance(core.state, Matched)
    with pytest.raises(AssertionError):
        core.image_changed(partition(1, 2, 3, leader=2, leader_epoch=5, partition_epoch=8))
    with pytest.raises(AssertionError, match="an older image"):
        core.image_changed(led_by_1(partition_epoch=6))
