"""Members join, stay, give up, leave: what each is told, and what becomes of the group."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from lograft.broker.groups.membership import (
    JOIN,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Heartbeat,
    MemberAnswer,
    decide_expel,
    decide_heartbeat,
    decide_topics,
)
from lograft.broker.groups.state import Group, GroupError, GroupTable, SubscribedTopic
from lograft.metadata.image.partition import PartitionKey, TopicId
from lograft.proto import errors_pb2

ORDERS = TopicId(UUID(int=1))
NOW_MS = 1000


def places(*numbers: int) -> tuple[PartitionKey, ...]:
    return tuple((ORDERS, number) for number in numbers)


class Room:
    """A group, and the topics there are."""

    def __init__(self, partitions: int = 4) -> None:
        self.table = GroupTable()
        self.topics = {"orders": SubscribedTopic("orders", ORDERS, partitions)}
        self.max_members = 100

    @property
    def group(self) -> Group:
        group = self.table.get("g")
        assert group is not None
        return group

    def say(self, heartbeat: Heartbeat) -> MemberAnswer:
        decision = decide_heartbeat(self.table.get("g"), heartbeat, self.topics.get, NOW_MS, self.max_members)
        for change in decision.changes:
            self.table.apply(change)
        return decision.told

    def join(self, member_id: str, **wishes: Any) -> "Reader":
        return Reader(self, member_id, **wishes)

    def refusal(self, heartbeat: Heartbeat) -> int:
        with pytest.raises(GroupError) as refused:
            self.say(heartbeat)
        return refused.value.code


class Reader:
    """A member that does as it should."""

    def __init__(self, room: Room, member_id: str, **wishes: Any) -> None:
        self.room = room
        self.owned: tuple[PartitionKey, ...] = ()
        self.request = Heartbeat("g", member_id, JOIN, **{"topics": ("orders",), **wishes})
        self.told = room.say(self.request)
        self.heed()

    @property
    def numbers(self) -> list[int]:
        return [number for _, number in self.owned]

    def heed(self) -> None:
        """Take what is assigned, and give up the rest."""
        self.owned = self.told.assigned

    def beat(self, **others: Any) -> MemberAnswer:
        self.request = replace(self.request, epoch=self.told.epoch, owned=self.owned, **others)
        self.told = self.room.say(self.request)
        return self.told

    def beat_and_heed(self) -> list[int]:
        self.beat()
        self.heed()
        return self.numbers


# -- joining


def test_the_first_member_gets_everything_at_once() -> None:
    room = Room()
    reader = room.join("a")
    assert reader.numbers == [0, 1, 2, 3]
    assert reader.told.epoch == room.group.epoch > 0
    assert room.group.is_settled


def test_a_newcomer_waits_until_the_others_have_given_up_what_is_to_be_its() -> None:
    room = Room()
    first = room.join("a")
    second = room.join("b")
    assert second.numbers == []
    told = first.beat()
    assert told.assigned == places(0, 1)
    assert told.must_give_up(first.owned)
    assert second.beat_and_heed() == []  # a has not said that it has
    first.heed()
    first.beat()
    assert second.beat_and_heed() == [2, 3]
    assert room.group.is_settled


def test_each_time_a_member_gets_partitions_its_epoch_is_a_new_one() -> None:
    room = Room()
    first = room.join("a")
    second = room.join("b")
    before = second.told.epoch
    first.beat_and_heed()
    first.beat()
    assert second.beat().epoch > before
    assert {room.group.members["b"].assigned[place] for place in places(2, 3)} == {second.told.epoch}


def test_a_join_that_is_repeated_or_comes_late_changes_nothing() -> None:
    room = Room()
    first = room.join("a")
    second = room.join("b")
    first.beat_and_heed()
    first.beat()
    second.beat_and_heed()
    epoch = room.group.epoch
    again = room.join("a", topics=("payments",))
    assert (again.told, room.group.epoch) == (first.told, epoch)
    assert room.group.members["a"].topics == ("orders",)


def test_a_group_has_only_so_many_members() -> None:
    room = Room()
    room.max_members = 1
    room.join("a")
    assert room.refusal(Heartbeat("g", "b", JOIN, topics=("orders",))) == errors_pb2.GROUP_FULL
    room.join("a")  # it is one already


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"group": ""}, errors_pb2.INVALID_GROUP),
        ({"group": "g" * 250}, errors_pb2.INVALID_GROUP),
        ({"member_id": ""}, errors_pb2.INVALID_GROUP),
        ({"epoch": -3}, errors_pb2.INVALID_GROUP),
        ({"owned": places(1)}, errors_pb2.INVALID_GROUP),
        ({"assignor": "best"}, errors_pb2.UNKNOWN_ASSIGNOR),
        ({"session_timeout_ms": 999}, errors_pb2.INVALID_GROUP),
        ({"rebalance_timeout_ms": 10**9}, errors_pb2.INVALID_GROUP),
        ({"client_id": "c" * 1001}, errors_pb2.INVALID_GROUP),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], code: int) -> None:
    room = Room()
    assert room.refusal(replace(Heartbeat("g", "a", JOIN, topics=("orders",)), **wrong)) == code
    assert room.table.groups == {}


# -- staying


def test_a_member_that_is_not_known_is_told_to_join() -> None:
    room = Room()
    assert room.refusal(Heartbeat("g", "a", 5)) == errors_pb2.UNKNOWN_MEMBER
    room.join("b")
    assert room.refusal(Heartbeat("g", "a", 5)) == errors_pb2.UNKNOWN_MEMBER


@pytest.mark.parametrize("distance", [-2, 1])
def test_an_epoch_that_is_neither_this_nor_the_last_is_fenced(distance: int) -> None:
    room = Room()
    reader = room.join("a")
    assert room.refusal(replace(reader.request, epoch=reader.told.epoch + distance, owned=reader.owned)) in (
        errors_pb2.FENCED_MEMBER_EPOCH,
        errors_pb2.INVALID_GROUP,
    )


def newcomer_with_a_lost_answer() -> tuple[Room, Reader, Reader]:
    """b was given two partitions, and has not heard of it."""
    room = Room()
    first, second = room.join("a"), room.join("b")
    first.beat_and_heed()
    first.beat()
    room.say(replace(second.request, epoch=second.told.epoch, owned=()))
    return room, first, second


def test_a_lost_answer_is_told_again() -> None:
    room, _, second = newcomer_with_a_lost_answer()
    epoch = room.group.members["b"].epoch
    assert second.told.epoch < epoch
    assert second.beat_and_heed() == [2, 3]
    assert second.told.epoch == epoch


def test_who_speaks_in_the_last_epoch_must_not_read_what_is_not_its() -> None:
    room, _, second = newcomer_with_a_lost_answer()
    request = replace(second.request, epoch=second.told.epoch, owned=places(0))
    assert room.refusal(request) == errors_pb2.FENCED_MEMBER_EPOCH


def test_who_speaks_in_the_last_epoch_cannot_say_that_it_does_not_read_what_it_may() -> None:
    """The request was sent before the answer came by which it does."""
    room, _, second = newcomer_with_a_lost_answer()
    late = replace(second.request, epoch=second.told.epoch, owned=())
    second.beat_and_heed()
    third = room.join("c")
    room.say(late)
    assert set(places(2, 3)) <= set(room.group.holders)
    assert room.group.holders[ORDERS, 2] == room.group.holders[ORDERS, 3] == "b"
    third.beat()
    assert not set(third.told.assigned) & set(second.owned)


def test_other_wishes_are_heard() -> None:
    room = Room()
    room.topics["payments"] = SubscribedTopic("payments", TopicId(UUID(int=2)), 1)
    reader = room.join("a")
    told = reader.beat(topics=("payments",))
    assert told.assigned == ()
    assert told.must_give_up(reader.owned)
    reader.heed()
    assert reader.beat().assigned == ((TopicId(UUID(int=2)), 0),)
    second = room.join("b", topics=("payments",), assignor="range")
    second.beat(assignor="roundrobin")
    assert room.group.members["b"].assignor == "roundrobin"


def test_a_heartbeat_with_nothing_new_changes_nothing() -> None:
    room = Room()
    reader = room.join("a")
    epoch, member = room.group.epoch, room.group.members["a"]
    assert not reader.beat().is_news_to(reader.request)
    assert (room.group.epoch, room.group.members["a"]) == (epoch, member)
    assert room.group.members["a"] is member


# -- leaving


def test_what_a_member_leaves_goes_to_the_others() -> None:
    room = Room()
    first, second = room.join("a"), room.join("b")
    first.beat_and_heed()
    first.beat()
    second.beat_and_heed()
    assert room.say(Heartbeat("g", "a", LEAVE)) == MemberAnswer(LEAVE)
    assert second.beat_and_heed() == [0, 1, 2, 3]
    assert room.say(Heartbeat("g", "a", LEAVE)) == MemberAnswer(LEAVE)  # it has left already


def test_an_empty_group_knows_since_when() -> None:
    room = Room()
    room.join("a")
    assert room.group.empty_since_ms is None
    room.say(Heartbeat("g", "a", LEAVE))
    assert room.group.empty_since_ms == NOW_MS
    room.join("a")
    assert room.group.empty_since_ms is None


def test_who_is_put_out_is_told_so() -> None:
    room = Room()
    first, second = room.join("a"), room.join("b")
    for change in decide_expel(room.group, ["a"], room.topics.get, NOW_MS):
        room.table.apply(change)
    assert second.beat_and_heed() == [0, 1, 2, 3]
    assert room.refusal(replace(first.request, epoch=first.told.epoch)) == errors_pb2.UNKNOWN_MEMBER


# -- static members


def test_who_takes_the_place_of_a_static_member_gets_what_that_had() -> None:
    room = Room()
    first = room.join("a", instance_id="one")
    second = room.join("b", instance_id="two")
    first.beat_and_heed()
    first.beat()
    second.beat_and_heed()
    again = room.join("c", instance_id="one")
    assert again.numbers == first.numbers
    assert second.beat_and_heed() == [2, 3]
    assert room.refusal(replace(first.request, epoch=first.told.epoch)) == errors_pb2.FENCED_INSTANCE_ID
    assert sorted(room.group.members) == ["b", "c"]


def test_nobody_gets_what_a_static_member_leaves_for_a_while() -> None:
    room = Room()
    first = room.join("a", instance_id="one")
    room.say(Heartbeat("g", "a", LEAVE_FOR_A_WHILE, instance_id="one"))
    assert room.group.members["a"].is_away
    second = room.join("b")
    assert second.numbers == second.beat_and_heed() == []
    again = room.join("c", instance_id="one")
    assert set(again.numbers) < set(first.numbers)
    assert second.beat_and_heed() == [2, 3]


def test_only_a_static_member_leaves_for_a_while() -> None:
    room = Room()
    room.join("a")
    assert room.refusal(Heartbeat("g", "a", LEAVE_FOR_A_WHILE)) == errors_pb2.INVALID_GROUP


# -- topics


def test_partitions_that_come_are_given_out_and_topics_that_go_are_given_up() -> None:
    room = Room()
    reader = room.join("a")
    assert decide_topics(room.group, room.topics.get, NOW_MS) == ()
    room.topics["orders"] = SubscribedTopic("orders", ORDERS, 6)
    for change in decide_topics(room.group, room.topics.get, NOW_MS):
        room.table.apply(change)
    assert reader.beat_and_heed() == [0, 1, 2, 3, 4, 5]
    del room.topics["orders"]
    for change in decide_topics(room.group, room.topics.get, NOW_MS):
        room.table.apply(change)
    assert reader.beat_and_heed() == []


def test_a_topic_that_is_not_there_yet_is_assigned_once_it_is() -> None:
    room = Room()
    reader = room.join("a", topics=("payments",))
    assert reader.numbers == []
    room.topics["payments"] = SubscribedTopic("payments", TopicId(UUID(int=2)), 2)
    for change in decide_topics(room.group, room.topics.get, NOW_MS):
        room.table.apply(change)
    assert reader.beat_and_heed() == [0, 1]


def test_most_members_choose_the_assignor() -> None:
    room = Room(partitions=5)
    room.join("a", assignor="range")
    room.join("b", assignor="range")
    room.join("c")
    assert [len(member.target) for _, member in sorted(room.group.members.items())] == [2, 2, 1]
    assert room.group.members["b"].target == places(2, 3)
