"""One member of a group, step by step."""

import pytest

from lograft.clients.consumer.group.member import (
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    Beat,
    BeatAnswer,
    GroupMember,
    GroupPartition,
    MemberSettings,
    MemberState,
)
from lograft.clients.errors import (
    ConnectionLost,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupFull,
    LograftError,
    NotCoordinator,
    UnknownMember,
)

P0, P1 = GroupPartition(b"orders", 0), GroupPartition(b"orders", 1)
SETTINGS = MemberSettings(session_timeout_ms=9000, max_poll_interval_ms=60_000)
STATIC = MemberSettings(session_timeout_ms=9000, max_poll_interval_ms=60_000, is_static=True)


def said(member: GroupMember, now_ms: float) -> tuple[int, tuple[str, ...], tuple[GroupPartition, ...], int] | None:
    """What it says next, but for its id."""
    beat = member.next_beat(now_ms)
    return (beat.epoch, beat.topics, beat.owned, beat.max_wait_ms) if beat is not None else None


def answer(member: GroupMember, epoch: int, *assigned: GroupPartition, at_ms: float = 0) -> None:
    beat = member.beat
    assert beat is not None
    member.answered(beat, BeatAnswer(epoch, assigned, 1000), at_ms)


def reading(*partitions: GroupPartition, settings: MemberSettings = SETTINGS) -> GroupMember:
    """A member that reads these, in epoch 5, since time 0."""
    member = GroupMember(settings)
    member.subscribe(["orders"], 0)
    answer(member, 5, *partitions)
    member.took(partitions)
    return member


def refuse(member: GroupMember, error: LograftError) -> None:
    beat = member.beat
    assert beat is not None
    member.refused(beat, error)


def test_a_member_joins_with_an_epoch_of_0_and_goes_on_with_what_it_is_given() -> None:
    member = GroupMember(SETTINGS)
    assert member.next_beat(0) is None
    member.subscribe(["orders", "prices", "orders"], 0)
    assert said(member, 0) == (0, ("orders", "prices"), (), 1800)
    answer(member, 1, P0)
    assert said(member, 0) == (1, ("orders", "prices"), (P0,), 1000)


def test_nothing_is_said_again_before_its_time_unless_it_is_something_else() -> None:
    member = reading(P0, P1)
    answer(member, 5, P0, P1)
    assert member.next_beat(999) is None
    assert member.due_ms == 1000
    assert said(member, 1000) == (5, ("orders",), (P0, P1), 1000)
    member.subscribe(["orders", "prices"], 999)
    assert said(member, 999) == (5, ("orders", "prices"), (P0, P1), 1000)


def test_what_must_be_given_up_is_owned_until_it_is() -> None:
    member = reading(P0, P1)
    answer(member, 5, P0)
    assert member.to_give_up == [P1]
    member.giving_up([P1])
    assert member.to_give_up == []
    assert member.may_commit(P1)
    assert member.owned == {P0: None, P1: None}
    member.gave_up([P1], member.generation)
    assert said(member, 0) == (5, ("orders",), (P0,), 1000)
    assert not member.may_commit(P1)


def test_what_was_never_read_is_given_up_at_once() -> None:
    member = GroupMember(SETTINGS)
    member.subscribe(["orders"], 0)
    answer(member, 1, P0)
    answer(member, 2)
    assert (member.owned, member.to_give_up, member.to_take) == ({}, [], [])


def test_what_is_assigned_anew_while_it_is_given_up_is_taken_anew() -> None:
    member = reading(P0)
    answer(member, 6)
    member.giving_up(member.to_give_up)
    answer(member, 7, P0)
    assert member.to_take == []
    member.gave_up([P0], member.generation)
    assert member.owned == {P0: None}
    assert member.to_take == [P0]


@pytest.mark.parametrize("error", [UnknownMember("out"), FencedMemberEpoch("old")])
def test_who_is_put_out_loses_its_partitions_and_joins_again(error: LograftError) -> None:
    member = reading(P0, P1)
    refuse(member, error)
    assert not member.may_commit(P0)
    assert member.told_lost() == [P0, P1]
    assert member.told_lost() == []
    assert member.state is MemberState.JOINING
    if isinstance(error, FencedMemberEpoch):
        assert said(member, 0) == (LEAVE_EPOCH, (), (), 0)
        answer(member, LEAVE_EPOCH)
    assert said(member, 0) == (0, ("orders",), (), 1000)


def test_each_time_it_joins_it_is_another_member() -> None:
    member = reading(P0)
    ids = [member.member_id]
    for _ in range(2):
        refuse(member, UnknownMember("out"))
        ids.append(member.member_id)
        answer(member, 6)
        assert member.member_id == ids[-1]
    assert len(set(ids)) == 3


def test_what_was_being_given_up_when_all_was_lost_is_not_told_twice_nor_given_up_later() -> None:
    member = reading(P0, P1)
    answer(member, 5, P0)
    before = member.generation
    member.giving_up([P1])
    refuse(member, UnknownMember("out"))
    assert member.told_lost() == [P0]
    answer(member, 8, P1)
    member.took([P1])
    member.gave_up([P1], before)
    assert member.taken == member.owned == {P1: None}


@pytest.mark.parametrize("error", [NotCoordinator("elsewhere"), ConnectionLost("broken")])
def test_partitions_are_kept_while_the_coordinator_is_looked_for_until_the_session_is_over(error: LograftError) -> None:
    member = reading(P0)
    refuse(member, error)
    member.tick(7874)
    assert member.taken == {P0: None}
    assert member.due_ms == 1000
    member.tick(7875)
    assert member.told_lost() == [P0]
    # The epoch is kept: if another has taken its place by now, it will be told so, instead of taking it back.
    assert said(member, 7875) == (5, ("orders",), (), 1000)
    before = member.member_id
    answer(member, 5, P0, at_ms=7875)
    # It is a member still; but it becomes another, whom nothing concerns that was said before.
    assert member.beat == Beat(LEAVE_EPOCH, member_id=before)
    answer(member, LEAVE_EPOCH)
    assert said(member, 7875) == (0, ("orders",), (), 1000)
    assert member.member_id != before


def test_a_session_counts_from_when_the_beat_was_sent_and_ends_before_the_coordinators() -> None:
    member = reading(P0)
    answer(member, 5, P0, at_ms=4000)
    member.tick(11_874)
    assert member.taken
    member.tick(11_875)
    assert not member.taken


def test_who_polls_late_has_lost_its_partitions_even_if_nobody_told_it() -> None:
    member = reading(P0)
    member.poll_began(20_000)
    assert member.told_lost() == [P0]


@pytest.mark.parametrize(("settings", "farewell"), [(SETTINGS, LEAVE_EPOCH), (STATIC, PAUSE_EPOCH)])
def test_who_does_not_poll_leaves_and_joins_again_when_it_does(settings: MemberSettings, farewell: int) -> None:
    member = reading(P0, settings=settings)
    member.poll_began(1000)
    member.poll_ended(2000)
    answer(member, 5, P0, at_ms=61_000)
    member.tick(61_999)
    assert member.taken
    member.tick(62_000)
    assert member.state is MemberState.IDLE
    assert said(member, 62_000) == (farewell, (), (), 0)
    answer(member, farewell)
    assert member.next_beat(62_000) is None
    member.poll_began(99_000)
    assert member.told_lost() == [P0]
    assert said(member, 99_000) == (0, ("orders",), (), 1000)


def test_a_poll_may_wait_as_long_as_it_likes() -> None:
    member = reading(P0)
    member.poll_began(0)
    answer(member, 5, P0, at_ms=200_000)
    member.tick(200_000)
    assert member.state is MemberState.JOINED


def test_a_coordinator_that_falls_silent_at_the_worst_moment_leaves_time_for_another_to_take_over() -> None:
    member = GroupMember(MemberSettings(session_timeout_ms=10_000))
    member.subscribe(["orders"], 0)
    beat = member.beat
    assert beat is not None
    member.answered(beat, BeatAnswer(5, (P0,), 10_000), 0)
    waited = member.beat
    assert waited is not None
    # The answer to the first beat came as late as it may; the second one's would come now, and never does.
    silent_from_ms = beat.max_wait_ms + waited.max_wait_ms
    assert member.over_ms - silent_from_ms >= 3000 + 10_000 / 8  # a broker's session, and one more attempt


def test_who_is_fenced_by_another_instance_fails_for_good_and_does_not_throw_that_one_out() -> None:
    member = reading(P0, settings=STATIC)
    error = FencedInstanceId("another has it")
    refuse(member, error)
    assert member.failure is error
    assert member.told_lost() == [P0]
    assert member.next_beat(0) is None
    member.poll_began(0)
    assert member.state is MemberState.FAILED


def test_a_member_that_failed_can_subscribe_again() -> None:
    member = GroupMember(SETTINGS)
    member.subscribe(["orders"], 0)
    refuse(member, GroupFull("no room"))
    assert member.failure is not None
    member.subscribe(["orders"], 0)
    assert member.failure is None
    answer(member, LEAVE_EPOCH)  # as the member that failed
    assert said(member, 0) == (0, ("orders",), (), 1800)


def test_leaving_is_said_once_it_is_heard() -> None:
    member = reading(P0)
    member.unsubscribe()
    assert said(member, 0) == (LEAVE_EPOCH, (), (), 0)
    refuse(member, ConnectionLost("broken"))
    assert said(member, 0) == (LEAVE_EPOCH, (), (), 0)
    refuse(member, UnknownMember("gone already"))
    assert member.next_beat(0) is None
    assert member.told_lost() == []
