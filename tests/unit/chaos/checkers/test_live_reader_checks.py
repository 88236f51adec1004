"""What consumers and groups are given: nothing twice, nothing passed over, one reader a partition."""

import pytest
from support.live_stories import ORDERS, Story, all_names, found_in

from lograft.chaos.checkers.anomalies import AnomalyName
from lograft.chaos.history.entries import StartSeen


def written(count: int) -> Story:
    """Records r0, r1, ... acknowledged at their offsets, and in the final logs."""
    story = Story()
    for offset in range(count):
        story.send(f"r{offset}", offset)
    story.replicas([f"r{offset}" for offset in range(count)])
    return story


def records(*offsets: int) -> dict[int, str]:
    return {offset: f"r{offset}" for offset in offsets}


# -- monotonic


def test_a_poll_that_goes_back() -> None:
    story = written(3)
    polled = story.poll(records(1, 0, 2))
    (found,) = found_in(story, AnomalyName.NON_MONOTONIC_POLL)
    assert found.evidence == (polled,)


def test_a_poll_that_begins_before_the_end_of_the_one_before() -> None:
    story = written(3)
    first = story.poll(records(0, 1), fresh=True)
    second = story.poll(records(1, 2))
    (found,) = found_in(story, AnomalyName.NON_MONOTONIC_POLL)
    assert found.evidence == (first, second)
    assert all_names(story) == [AnomalyName.NON_MONOTONIC_POLL]


def test_who_sought_or_was_assigned_anew_may_go_back() -> None:
    story = written(3)
    story.poll(records(0, 1), fresh=True)
    story.poll(records(1, 2), fresh=True)
    assert all_names(story) == []


def test_a_position_that_goes_back_is_found_though_nothing_was_given() -> None:
    story = written(3)
    story.poll(records(0, 1), before=0, after=2, fresh=True)
    story.poll({}, before=1, after=1)
    assert len(found_in(story, AnomalyName.NON_MONOTONIC_POLL)) == 1


def test_after_an_unclean_election_a_reader_may_find_itself_further_back() -> None:
    story = written(2)
    story.poll(records(0, 1), fresh=True)
    story.unclean(2)
    story.poll(records(0))
    assert found_in(story, AnomalyName.NON_MONOTONIC_POLL) == []


# -- skipping


def test_a_poll_that_passes_over_a_record() -> None:
    story = written(3)
    story.poll(records(0, 1, 2), consumer="eve")
    polled = story.poll(records(0, 2))
    (found,) = found_in(story, AnomalyName.SKIPPING_POLL)
    assert found.evidence == (story.entries[1], polled)
    assert found.summary == "bob passed over orders-0@1 to @1"
    assert all_names(story) == [AnomalyName.SKIPPING_POLL]


def test_a_record_that_is_passed_over_between_polls() -> None:
    story = written(3)
    first = story.poll(records(0))
    second = story.poll(records(2))
    (found,) = found_in(story, AnomalyName.SKIPPING_POLL)
    assert found.evidence == (story.entries[1], first, second)


def test_a_record_that_is_passed_over_before_the_first_or_after_the_last() -> None:
    story = written(4)
    story.poll(records(1, 2), before=0, after=4, fresh=True)
    assert [one.summary for one in found_in(story, AnomalyName.SKIPPING_POLL)] == [
        "bob passed over orders-0@0 to @0",
        "bob passed over orders-0@3 to @3",
    ]


def test_where_retention_moved_the_start_there_is_nothing_to_pass_over() -> None:
    story = Story()
    story.declare(limited=True)
    for offset in range(3):
        story.send(f"r{offset}", offset)
    story.replicas(["r2"], start=2)
    story.poll(records(2), before=0)
    assert all_names(story) == []


def test_an_unclean_election_of_a_damaged_last_copy_moves_the_start() -> None:
    """Seed 20261119068: the elected copy had lost its only segment."""
    story = Story()
    story.send("r0", 0)
    story.unclean(2)
    story.add(StartSeen(story.tick(), ORDERS, 2))
    story.poll({}, before=0, after=2)
    assert all_names(story) == []
    story.poll({}, before=0, after=3, consumer="eve")
    assert all_names(story) == [AnomalyName.SKIPPING_POLL]


def test_without_an_unclean_election_no_start_moves_unless_retention_may_move_it() -> None:
    story = Story()
    story.send("r0", 0)
    story.add(StartSeen(story.tick(), ORDERS, 2))
    story.poll({}, before=0, after=2)
    assert AnomalyName.SKIPPING_POLL in all_names(story)


def test_a_compacted_partition_has_holes_but_not_where_the_latest_of_a_key_is() -> None:
    story = Story()
    story.declare(compacted=True)
    for offset, key in enumerate("kkjj"):
        story.send(f"r{offset}", offset, key=key)
    story.replicas({1: "r1", 3: "r3"}, end=4)
    story.poll(records(1, 3), before=0, consumer="bob")
    assert all_names(story) == []
    story.poll(records(3), before=0, consumer="eve")
    assert all_names(story) == [AnomalyName.SKIPPING_POLL]


def test_the_latest_of_a_key_is_passed_over_by_nobody_though_it_was_not_acknowledged() -> None:
    story = Story()
    story.declare(compacted=True)
    story.send("r0", 0, key="k")
    latest = story.send("r1", key="k")
    story.send("r2", 2, key="j")
    story.replicas({1: "r1", 2: "r2"}, end=3)
    polled = story.poll(records(2), before=0)
    (found,) = found_in(story, AnomalyName.SKIPPING_POLL)
    assert found.evidence == (latest, polled)


@pytest.mark.parametrize(("log_start", "count"), [(None, 0), (0, 1), (1, 1), (2, 0)])
@pytest.mark.parametrize("compacted", [False, True])
def test_where_it_is_known_when_retention_moved_the_start_nothing_is_passed_over_before(
    log_start: int | None, count: int, compacted: bool
) -> None:
    story = Story()
    story.declare(limited=True, compacted=compacted)
    for offset in range(4):
        story.send(f"r{offset}", offset, key=str(offset))
    story.replicas(["r3"], start=3)
    story.poll(records(2, 3), before=0, log_start=log_start)
    assert len(found_in(story, AnomalyName.SKIPPING_POLL)) == count


@pytest.mark.parametrize(("next_offset", "count"), [(1, 0), (2, 1), (3, 1)])
def test_who_read_what_an_unclean_election_replaced_goes_back(next_offset: int, count: int) -> None:
    story = Story()
    for offset in range(2):
        story.send(f"r{offset}", offset, leader_epoch=1)
    before = story.poll(records(0, 1), leader_epoch=1)
    story.unclean(2)
    replacing = [story.send(f"s{offset}", offset, leader_epoch=2) for offset in (1, 2, 3)]
    story.poll({}, leader_epoch=2)
    after = story.poll({at: f"s{at}" for at in range(next_offset, 4)}, leader_epoch=2)
    found = found_in(story, AnomalyName.SKIPPING_POLL)
    replaced = [one.evidence for one in found if "went on after r1 at orders-0@1, where there is s1" in one.summary]
    assert replaced == [(before, replacing[0], after)] * count


def test_who_went_back_to_what_replaced_it_may_find_that_compacted() -> None:
    story = Story()
    story.declare(compacted=True)
    story.send("r0", 0, key="k", leader_epoch=1)
    story.poll(records(0), leader_epoch=1)
    story.unclean(2)
    for offset in (0, 1):
        story.send(f"s{offset}", offset, key="k", leader_epoch=2)
    story.poll({1: "s1"}, leader_epoch=2)
    assert found_in(story, AnomalyName.SKIPPING_POLL) == []


# -- unseen


def test_an_acknowledged_record_that_no_reader_was_given() -> None:
    story = written(3)
    polled = story.poll(records(0, 2))
    (found,) = found_in(story, AnomalyName.ACKNOWLEDGED_UNSEEN)
    assert found.evidence == (story.entries[1], polled)


def test_a_record_that_no_reader_came_to_is_not_unseen() -> None:
    story = written(3)
    story.poll(records(0, 1))
    assert all_names(story) == []


# -- owners


def test_two_members_that_have_one_partition_in_one_epoch() -> None:
    story = Story()
    first = story.assigned("m1", 3, gained=True)
    second = story.assigned("m2", 3, gained=True)
    (found,) = found_in(story, AnomalyName.TWO_OWNERS)
    assert found.evidence == (first, second)
    assert all_names(story) == [AnomalyName.TWO_OWNERS]


def test_who_gave_it_up_does_not_have_it() -> None:
    story = Story()
    story.assigned("m1", 3, gained=True)
    story.assigned("m1", 3, lost=True)
    story.assigned("m2", 3, gained=True)
    assert all_names(story) == []


def test_who_does_not_know_that_its_session_is_over_is_no_owner() -> None:
    story = Story()
    story.assigned("m1", 3, gained=True)
    story.assigned("m2", 4, gained=True)
    assert all_names(story) == []


def test_who_kept_it_into_the_next_epoch_owns_it_there() -> None:
    story = Story()
    story.assigned("m1", 3, gained=True)
    kept = story.assigned("m1", 4)
    second = story.assigned("m2", 4, gained=True)
    (found,) = found_in(story, AnomalyName.TWO_OWNERS)
    assert found.evidence == (kept, second)


# -- commits


def test_a_committed_offset_that_goes_back() -> None:
    story = Story()
    committed = story.commit(10)
    fetched = story.fetched(7)
    (found,) = found_in(story, AnomalyName.COMMIT_REGRESSION)
    assert found.evidence == (committed, fetched)
    assert found.summary == "billing had committed orders-0@10, and then @7"


def test_a_member_that_commits_less_than_was_told() -> None:
    story = Story()
    fetched = story.fetched(10)
    committed = story.commit(7)
    (found,) = found_in(story, AnomalyName.COMMIT_REGRESSION)
    assert found.evidence == (fetched, committed)


def test_a_reset_may_go_back_and_what_it_set_holds() -> None:
    story = Story()
    story.commit(10)
    story.commit(3, reset=True)
    story.fetched(3)
    story.commit(5)
    assert all_names(story) == []
    story.fetched(2)
    (found,) = found_in(story, AnomalyName.COMMIT_REGRESSION)
    assert found.evidence == (story.entries[3], story.entries[4])


def test_groups_do_not_share_offsets() -> None:
    story = Story()
    story.commit(10, group="billing")
    story.fetched(7, group="audit")
    assert all_names(story) == []


# -- delivery


def test_a_record_that_no_member_was_given_though_the_group_committed_beyond_it() -> None:
    story = written(3)
    story.poll(records(0, 1, 2), consumer="eve")
    story.poll(records(0), group="billing", fresh=True)
    committed = story.commit(2)
    (found,) = found_in(story, AnomalyName.NEVER_DELIVERED)
    assert found.evidence == (story.entries[1], committed)
    assert all_names(story) == [AnomalyName.NEVER_DELIVERED]


def test_a_record_may_be_given_to_any_member_at_any_time() -> None:
    story = written(3)
    story.poll(records(0), group="billing", consumer="m1", fresh=True)
    story.commit(3)
    story.poll(records(1, 2), group="billing", consumer="m2", fresh=True)
    assert all_names(story) == []


def test_a_group_that_is_said_to_have_read_everything_was_given_everything() -> None:
    story = written(2)
    story.poll(records(0), group="billing", fresh=True)
    assert all_names(story) == []
    drained = story.drained()
    (found,) = found_in(story, AnomalyName.NEVER_DELIVERED)
    assert found.evidence == (story.entries[1], drained)


def test_a_group_that_has_read_everything_began_at_the_beginning() -> None:
    story = written(2)
    polled = story.poll(records(1), group="billing", fresh=True, before=1)
    assert all_names(story) == []
    story.drained()
    (found,) = found_in(story, AnomalyName.NEVER_DELIVERED)
    assert found.evidence == (story.entries[0], polled)


def test_what_a_reset_passes_over_is_no_loss() -> None:
    story = written(3)
    story.commit(2, reset=True)
    story.poll(records(2), group="billing", fresh=True)
    story.drained()
    assert all_names(story) == []


def test_a_group_begins_where_its_members_did() -> None:
    story = written(3)
    story.poll(records(2), group="billing", fresh=True, before=2)
    story.commit(3)
    assert all_names(story) == []
