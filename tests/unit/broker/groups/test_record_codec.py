"""Changes of groups, as records and back."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.broker.groups.record_codec import NotAGroupRecord, decode_change, encode_change
from lograft.broker.groups.state import (
    CommittedOffset,
    GroupChange,
    GroupGone,
    GroupPut,
    Member,
    MemberGone,
    MemberPut,
    OffsetGone,
    OffsetPut,
    SubscribedTopic,
)
from lograft.metadata.image.partition import TopicId
from lograft.proto import group_records_pb2 as pb

names = st.text(max_size=8)
counts = st.integers(0, 2**31 - 1)
times = st.integers(0, 2**53)
topic_ids = st.integers(0, 3).map(lambda number: TopicId(UUID(int=number)))
partitions = st.tuples(topic_ids, st.integers(0, 9))
held = st.dictionaries(partitions, counts, max_size=5)
members = st.builds(
    Member,
    member_id=names, instance_id=names, client_id=names, rack=names, topics=st.lists(names, max_size=3).map(tuple),
    assignor=names, session_timeout_ms=counts, rebalance_timeout_ms=counts, epoch=counts, previous_epoch=counts,
    assigned=held, giving_up=held, target=st.lists(partitions, unique=True, max_size=5).map(sorted).map(tuple),
    is_away=st.booleans(),
)  # fmt: skip
committed = st.builds(CommittedOffset, times, st.none() | counts, names, times)
changes = st.one_of(
    st.builds(
        GroupPut, names, counts, counts, st.none() | times,
        st.lists(st.builds(SubscribedTopic, names, topic_ids, counts), max_size=3).map(tuple),
    ),
    st.builds(GroupGone, names),
    st.builds(MemberPut, names, members),
    st.builds(MemberGone, names, names),
    st.builds(OffsetPut, names, partitions, committed),
    st.builds(OffsetGone, names, partitions),
)  # fmt: skip


@given(changes)
def test_what_is_written_is_read_again(change: GroupChange) -> None:
    assert decode_change(*encode_change(change)) == change


def test_what_is_said_of_one_thing_has_one_key() -> None:
    """So that compaction keeps the latest, and a deletion deletes."""
    one, other = TopicId(UUID(int=1)), TopicId(UUID(int=2))
    said = [
        [GroupPut("g", 1, 1, None, ()), GroupPut("g", 2, 1, 5, ()), GroupGone("g")],
        [GroupPut("h", 1, 1, None, ()), GroupGone("h")],
        [MemberPut("g", Member("m")), MemberPut("g", Member("m", epoch=3)), MemberGone("g", "m")],
        [MemberPut("g", Member("n")), MemberGone("g", "n")],
        [OffsetPut("g", (one, 0), CommittedOffset(5, 1, "", 9)), OffsetGone("g", (one, 0))],
        [OffsetPut("g", (one, 1), CommittedOffset(5, 1, "", 9)), OffsetGone("g", (one, 1))],
        [OffsetGone("g", (other, 0))],
        [OffsetGone("h", (one, 0))],
    ]
    keys = [{encode_change(change)[0] for change in changes} for changes in said]  # type: ignore[attr-defined]
    assert [len(each) for each in keys] == [1] * len(said)
    assert len(set().union(*keys)) == len(said)


@pytest.mark.parametrize(
    "key", [None, b"", b"\xff", pb.GroupRecordKey(group="g").SerializeToString()], ids=["none", "empty", "bad", "about"]
)
def test_anything_else_is_named(key: bytes | None) -> None:
    with pytest.raises(NotAGroupRecord, match="not the key of a group"):
        decode_change(key, b"")
