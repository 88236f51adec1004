"""What a coordinator makes of its log: of a compacted one, and of one that is damaged."""

from uuid import UUID

import pytest

from lograft.broker.groups.record_codec import encode_change
from lograft.broker.groups.replay import GroupReplay
from lograft.broker.groups.state import (
    CommittedOffset,
    Group,
    GroupChange,
    GroupGone,
    GroupPut,
    Member,
    MemberGone,
    MemberPut,
    OffsetGone,
    OffsetPut,
)
from lograft.metadata.image.partition import PartitionKey, TopicId

FIRST: PartitionKey = (TopicId(UUID(int=1)), 0)
SECOND: PartitionKey = (TopicId(UUID(int=1)), 1)


def holding(member_id: str, epoch: int, *partitions: PartitionKey, giving_up: bool = False) -> MemberPut:
    held = dict.fromkeys(partitions, epoch)
    if giving_up:
        return MemberPut("g", Member(member_id, epoch=epoch, giving_up=held))
    return MemberPut("g", Member(member_id, epoch=epoch, assigned=held))


def group_at(epoch: int) -> GroupPut:
    return GroupPut("g", epoch, epoch, None, ())


def replayed(*changes: GroupChange, is_damaged: bool = False) -> Group | None:
    replay = GroupReplay()
    replay.is_damaged = is_damaged
    for change in changes:
        replay.take(encode_change(change)[0], change)
    return replay.table().get("g")


def test_that_a_partition_was_given_up_may_be_compacted_away_before_that_it_was_held() -> None:
    """Of who had the first record, and copied the rest after a compaction: there, `a` without the partition went,
    because of that it left."""
    group = replayed(holding("a", 1, FIRST), holding("b", 3, FIRST), MemberGone("g", "a"), group_at(4))
    assert group is not None
    assert group.holders == {FIRST: "b"}
    assert list(group.members) == ["b"]


def test_a_group_that_was_deleted_stays_so_though_older_records_are_there() -> None:
    committed = OffsetPut("g", FIRST, CommittedOffset(7, None, "", 0))
    assert (
        replayed(holding("a", 1, FIRST), committed, MemberGone("g", "a"), OffsetGone("g", FIRST), GroupGone("g"))
        is None
    )
    assert replayed(MemberGone("g", "a"), OffsetGone("g", FIRST)) is None, "of one whose own deletion is forgotten"


def test_a_group_that_came_back_is_there() -> None:
    group = replayed(holding("a", 1, FIRST), MemberGone("g", "a"), GroupGone("g"), holding("b", 1, FIRST), group_at(1))
    assert group is not None
    assert group.holders == {FIRST: "b"}


def test_two_holders_in_a_log_of_which_nothing_is_lost_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="two holders"):
        replayed(holding("a", 1, FIRST), holding("b", 3, FIRST))


@pytest.mark.parametrize("giving_up", [False, True])
def test_where_something_was_lost_a_partition_is_with_who_got_it_last(giving_up: bool) -> None:
    group = replayed(
        holding("b", 3, FIRST), holding("a", 1, FIRST, SECOND, giving_up=giving_up), group_at(3), is_damaged=True
    )
    assert group is not None
    assert group.holders == {FIRST: "b", SECOND: "a"}
    assert group.members["a"].holds_since(SECOND) == 1
    assert group.members["a"].holds_since(FIRST) is None


def test_where_something_was_lost_no_epoch_that_a_member_knows_comes_again() -> None:
    group = replayed(group_at(2), holding("a", 5, FIRST), is_damaged=True)
    assert group is not None
    assert group.epoch == 5
