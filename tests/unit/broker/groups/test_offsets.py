"""What groups commit: who may, what is refused, and what is forgotten."""

from dataclasses import replace
from uuid import UUID

import pytest

from lograft.broker.groups.offsets import (
    CommitDecision,
    OffsetCaller,
    ToCommit,
    check_may_fetch,
    committed_of,
    decide_commit,
    decide_delete_group,
    decide_delete_offsets,
    decide_expiry,
)
from lograft.broker.groups.state import (
    Group,
    GroupChange,
    GroupError,
    GroupGone,
    GroupPut,
    GroupTable,
    Member,
    MemberPut,
)
from lograft.metadata.image.partition import TopicId
from lograft.proto import errors_pb2

ORDERS, GONE = TopicId(UUID(int=1)), TopicId(UUID(int=2))
SIZES = {ORDERS: ("orders", 4)}
FIRST, SECOND = (ORDERS, 0), (ORDERS, 1)
NOBODY = OffsetCaller("g")
MEMBER = Member("m", topics=("orders",), epoch=7, previous_epoch=5, assigned={FIRST: 5}, giving_up={SECOND: 3})


class Room:
    def __init__(self, *members: Member) -> None:
        self.table = GroupTable()
        self.now_ms = 1000
        if members:
            self.apply(tuple(MemberPut("g", member) for member in members))

    @property
    def group(self) -> Group | None:
        return self.table.get("g")

    def apply(self, changes: tuple[GroupChange, ...]) -> None:
        for change in changes:
            self.table.apply(change)

    def commit(self, speaker: OffsetCaller, *items: ToCommit) -> CommitDecision:
        decision = decide_commit(self.group, speaker, items, SIZES.get, self.now_ms)
        self.apply(decision.changes)
        return decision

    def offsets(self) -> dict[int, int]:
        return {number: committed.offset for (_, number), committed in committed_of(self.group, None)}


def code_of(decision: CommitDecision) -> int | None:
    (error,) = decision.errors
    return error.code if error is not None else None


# -- committing


def test_a_group_begins_with_its_first_commit() -> None:
    room = Room()
    assert code_of(room.commit(NOBODY, ToCommit(FIRST, 5, 2, "note"))) is None
    assert room.group is not None
    assert room.group.empty_since_ms == 1000
    (found,) = committed_of(room.group, [FIRST, SECOND])
    assert (found[1].offset, found[1].leader_epoch, found[1].metadata, found[1].committed_at_ms) == (5, 2, "note", 1000)


def test_who_is_no_member_commits_only_where_there_are_none() -> None:
    room = Room(MEMBER)
    with pytest.raises(GroupError) as refused:
        room.commit(NOBODY, ToCommit(FIRST, 5))
    assert refused.value.code == errors_pb2.GROUP_NOT_EMPTY


def test_who_was_a_member_does_not_commit() -> None:
    room = Room(MEMBER)
    with pytest.raises(GroupError) as refused:
        room.commit(OffsetCaller("g", "n", 3), ToCommit(FIRST, 5))
    assert refused.value.code == errors_pb2.UNKNOWN_MEMBER


@pytest.mark.parametrize(
    ("epoch", "number", "code"),
    [
        (7, 0, None),
        (5, 0, None),  # the answer with the latest epoch may be on its way
        (4, 0, errors_pb2.PARTITION_NOT_OWNED),  # of an earlier time
        (8, 0, errors_pb2.PARTITION_NOT_OWNED),
        (7, 1, None),  # it is giving it up, and commits before
        (2, 1, errors_pb2.PARTITION_NOT_OWNED),
        (7, 2, errors_pb2.PARTITION_NOT_OWNED),
    ],
)
def test_a_member_commits_what_it_has_in_an_epoch_in_which_it_had_it(epoch: int, number: int, code: int | None) -> None:
    room = Room(MEMBER)
    assert code_of(room.commit(OffsetCaller("g", "m", epoch), ToCommit((ORDERS, number), 5))) == code
    assert room.offsets() == ({} if code is not None else {number: 5})


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (ToCommit((GONE, 0), 1), errors_pb2.UNKNOWN_TOPIC_ID),
        (ToCommit((ORDERS, 4), 1), errors_pb2.UNKNOWN_PARTITION),
        (ToCommit((ORDERS, -1), 1), errors_pb2.UNKNOWN_PARTITION),
        (ToCommit(FIRST, -1), errors_pb2.INVALID_REQUEST),
        (ToCommit(FIRST, 1, leader_epoch=-1), errors_pb2.INVALID_REQUEST),
        (ToCommit(FIRST, 1, metadata="x" * 4097), errors_pb2.INVALID_REQUEST),
    ],
)
def test_one_bad_item_does_not_stop_the_others(item: ToCommit, code: int) -> None:
    room = Room()
    decision = room.commit(NOBODY, item, ToCommit(SECOND, 3))
    assert [error.code if error is not None else None for error in decision.errors] == [code, None]
    assert room.offsets() == {1: 3}


def test_nothing_goes_back_unless_it_is_meant_to() -> None:
    room = Room()
    room.commit(NOBODY, ToCommit(FIRST, 5))
    assert code_of(room.commit(NOBODY, ToCommit(FIRST, 4))) == errors_pb2.INVALID_REQUEST
    assert code_of(room.commit(NOBODY, ToCommit(FIRST, 5))) is None
    assert room.offsets() == {0: 5}
    assert code_of(room.commit(replace(NOBODY, may_lower=True), ToCommit(FIRST, 4))) is None
    assert room.offsets() == {0: 4}


def test_a_member_is_told_offsets_only_where_its_epoch_is_known() -> None:
    room = Room(MEMBER)
    check_may_fetch(room.group, OffsetCaller("g", "m", 7))
    check_may_fetch(room.group, OffsetCaller("g", "m", 5))
    check_may_fetch(room.group, NOBODY)
    check_may_fetch(None, NOBODY)
    for speaker, code in (
        (OffsetCaller("g", "m", 8), errors_pb2.FENCED_MEMBER_EPOCH),
        (OffsetCaller("g", "n", 1), errors_pb2.UNKNOWN_MEMBER),
    ):
        with pytest.raises(GroupError) as refused:
            check_may_fetch(room.group, speaker)
        assert refused.value.code == code


# -- forgetting


def test_offsets_of_topics_that_members_read_are_kept() -> None:
    room = Room()
    room.commit(NOBODY, ToCommit(FIRST, 5), ToCommit(SECOND, 6))
    room.apply(decide_delete_offsets(room.group, "g", [FIRST, (ORDERS, 3)], SIZES.get).changes)
    assert room.offsets() == {1: 6}
    room.apply((MemberPut("g", MEMBER),))
    decision = decide_delete_offsets(room.group, "g", [SECOND], SIZES.get)
    assert (code_of(decision), decision.changes) == (errors_pb2.GROUP_SUBSCRIBED_TO_TOPIC, ())


def test_a_group_is_deleted_with_all_it_has_when_nobody_is_in_it() -> None:
    room = Room()
    room.commit(NOBODY, ToCommit(FIRST, 5))
    changes = decide_delete_group(room.group, "g")
    assert changes[-1] == GroupGone("g")
    room.apply(changes)
    assert room.table.groups == {}
    for members, code in (((MEMBER,), errors_pb2.GROUP_NOT_EMPTY), ((), errors_pb2.GROUP_NOT_FOUND)):
        with pytest.raises(GroupError) as refused:
            decide_delete_group(Room(*members).group, "g")
        assert refused.value.code == code


RETENTION_MS = 100


def expired(room: Room) -> dict[int, int] | None:
    assert room.group is not None
    room.apply(decide_expiry(room.group, SIZES.get, room.now_ms, RETENTION_MS))
    return room.offsets() if room.group is not None else None


def test_what_an_empty_group_committed_is_forgotten_after_a_while() -> None:
    room = Room()
    room.commit(NOBODY, ToCommit(FIRST, 5))
    room.now_ms = 1050
    room.commit(NOBODY, ToCommit(SECOND, 5))
    room.now_ms = 1099
    assert expired(room) == {0: 5, 1: 5}
    room.now_ms = 1100
    assert expired(room) == {1: 5}
    room.now_ms = 1150
    assert expired(room) is None


def test_what_a_group_with_members_committed_is_kept() -> None:
    room = Room(MEMBER)
    room.commit(OffsetCaller("g", "m", 7), ToCommit(FIRST, 5))
    room.now_ms = 10**9
    assert expired(room) == {0: 5}


def test_a_group_that_was_left_lately_is_kept() -> None:
    room = Room()
    room.commit(NOBODY, ToCommit(FIRST, 5))
    room.apply((GroupPut("g", 3, 3, 5000, ()),))
    room.now_ms = 5099
    assert expired(room) == {0: 5}


def test_what_was_committed_in_a_topic_that_is_gone_is_forgotten_at_once() -> None:
    room = Room(replace(MEMBER, assigned={(GONE, 0): 5, FIRST: 5}))
    sizes = {**SIZES, GONE: ("gone", 1)}
    room.apply(
        decide_commit(
            room.group, OffsetCaller("g", "m", 7), [ToCommit((GONE, 0), 1), ToCommit(FIRST, 1)], sizes.get, 1
        ).changes
    )
    assert expired(room) == {0: 1}
    assert len(committed_of(room.group, None)) == 1
