"""Members whose calls are late, lost and out of order: no partition has two readers, and no commit goes back."""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lograft.broker.groups.membership import (
    JOIN,
    LEAVE,
    Heartbeat,
    MemberAnswer,
    decide_expel,
    decide_heartbeat,
    decide_topics,
)
from lograft.broker.groups.offsets import OffsetCaller, ToCommit, check_may_fetch, decide_commit
from lograft.broker.groups.record_codec import decode_change, encode_change
from lograft.broker.groups.replay import GroupReplay
from lograft.broker.groups.state import Group, GroupChange, GroupError, GroupTable, SubscribedTopic
from lograft.metadata.image.partition import PartitionKey, TopicId

NAMES = ("x", "y")
members = st.sampled_from(["a", "b", "c", "d"])


@dataclass(eq=False)
class Call:
    """A heartbeat on its way, or its answer; of no use to a member that has made another since."""

    heartbeat: Heartbeat
    answer: MemberAnswer | GroupError | None = None


@dataclass(eq=False)
class Client:
    """`reads`: where it is in each partition that it may read. `is_out`: put out, and does not know it yet. It takes
    another id each time it joins."""

    name: str
    epoch: int = JOIN
    lives: int = 1
    reads: dict[PartitionKey, int] = field(default_factory=dict)
    topics: tuple[str, ...] = NAMES
    call: Call | None = None
    is_out: bool = False

    @property
    def member_id(self) -> str:
        return f"{self.name}{self.lives}"

    def begin_anew(self) -> None:
        self.lives += 1
        self.epoch, self.reads, self.is_out, self.call = JOIN, {}, False, None


class Coordination(RuleBasedStateMachine):
    @initialize(sizes=st.tuples(st.integers(0, 4), st.integers(0, 4)))
    def begin(self, sizes: tuple[int, int]) -> None:
        self.table = GroupTable()
        self.written: list[GroupChange] = []
        self.topics = {
            name: SubscribedTopic(name, TopicId(UUID(int=index)), size)
            for index, (name, size) in enumerate(zip(NAMES, sizes, strict=True))
        }
        self.clients = {name: Client(name) for name in "abcd"}
        self.calls: list[Call] = []
        self.commits: list[tuple[OffsetCaller, ToCommit]] = []
        self.highest: dict[PartitionKey, int] = {}

    @property
    def group(self) -> Group | None:
        return self.table.get("g")

    def carry_out(self, changes: tuple[GroupChange, ...]) -> None:
        for change in changes:
            self.table.apply(change)
        self.written += changes

    # -- members

    @rule(name=members)
    def call(self, name: str) -> None:
        """Say where one is; a call that was made before is given up, and may arrive all the same."""
        client = self.clients[name]
        heartbeat = Heartbeat("g", client.member_id, client.epoch, topics=client.topics, owned=tuple(client.reads))
        client.call = Call(heartbeat)
        self.calls.append(client.call)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.calls))
        self.calls.remove(call)
        try:
            decision = decide_heartbeat(self.group, call.heartbeat, self.topics.get, 0, 100)
        except GroupError as error:
            call.answer = error
            return
        self.carry_out(decision.changes)
        call.answer = decision.told

    @rule(name=members)
    def hear(self, name: str) -> None:
        client = self.clients[name]
        call = client.call
        if call is None or call.answer is None:
            return
        client.call = None
        if isinstance(call.answer, GroupError):
            client.begin_anew()
            return
        told = call.answer
        client.epoch = told.epoch
        reads = {partition: client.reads[partition] for partition in told.assigned if partition in client.reads}
        for partition in told.assigned:
            if partition not in reads:
                reads[partition] = -1  # where it is to begin is to be asked
        client.reads = reads

    @rule(name=members)
    def lose_patience(self, name: str) -> None:
        """The coordinator has not heard of it for too long."""
        client = self.clients[name]
        if self.group is not None and client.member_id in self.group.members:
            client.is_out = True
            self.carry_out(decide_expel(self.group, [client.member_id], self.topics.get, 0))

    @rule(name=members)
    def leave(self, name: str) -> None:
        client = self.clients[name]
        self.calls.append(Call(Heartbeat("g", client.member_id, LEAVE)))
        client.begin_anew()

    @rule(name=members, topics=st.sampled_from([("x",), ("y",), NAMES]))
    def want(self, name: str, topics: tuple[str, ...]) -> None:
        self.clients[name].topics = topics

    @rule(name=st.sampled_from(NAMES), more=st.integers(0, 2))
    def grow(self, name: str, more: int) -> None:
        self.topics[name] = replace(self.topics[name], partitions=self.topics[name].partitions + more)
        if self.group is not None:
            self.carry_out(decide_topics(self.group, self.topics.get, 0))

    # -- offsets

    @rule(name=members, count=st.integers(1, 3))
    def read_and_commit(self, name: str, count: int) -> None:
        """From where is committed, as told to the epoch in which one got it. The commit may arrive at any time."""
        client = self.clients[name]
        for partition, position in client.reads.items():
            if position < 0:
                try:
                    check_may_fetch(self.group, OffsetCaller("g", client.member_id, client.epoch))
                except GroupError:
                    continue
                committed = self.group.offsets.get(partition) if self.group is not None else None
                position = committed.offset if committed is not None else 0
            client.reads[partition] = position + count
            self.commits.append(
                (OffsetCaller("g", client.member_id, client.epoch), ToCommit(partition, position + count))
            )

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def commit_arrives(self, data: st.DataObject) -> None:
        speaker, item = self.commits.pop(data.draw(st.integers(0, len(self.commits) - 1)))
        sizes = {topic.topic_id: (topic.name, topic.partitions) for topic in self.topics.values()}
        try:
            decision = decide_commit(self.group, speaker, [item], sizes.get, 0)
        except GroupError:
            return
        self.carry_out(decision.changes)
        if decision.errors == (None,):
            assert item.offset >= self.highest.get(item.partition, 0)
            self.highest[item.partition] = item.offset

    # -- what must hold

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        readers: dict[PartitionKey, str] = {}
        for client in self.clients.values():
            if not client.is_out:
                for partition in client.reads:
                    assert readers.setdefault(partition, client.name) == client.name

    @invariant()
    def what_is_written_makes_the_same_group(self) -> None:
        table = GroupTable()
        for change in self.written:
            table.apply(decode_change(*encode_change(change)))
        here, there = self.group, table.get("g")
        assert (here is None) == (there is None)
        if here is not None and there is not None:
            assert (there.epoch, there.members, there.holders) == (here.epoch, here.members, here.holders)
            assert there.offsets == here.offsets

    @invariant()
    def who_copies_what_a_compaction_left_has_the_same_group(self) -> None:
        """Old records, and then of the later ones only the last of each key."""
        encoded = [encode_change(change) for change in self.written]
        for kept in {0, len(encoded) // 3, len(encoded) // 2, max(0, len(encoded) - 3)}:
            replay = GroupReplay()
            last = {key: position for position, (key, _) in enumerate(encoded)}
            for position, (key, value) in enumerate(encoded):
                if position < kept or last[key] == position:
                    replay.take(key, decode_change(key, value))
            here, there = self.group, replay.table().get("g")
            assert (here is None) == (there is None)
            if here is not None and there is not None:
                assert (there.epoch, there.members, there.holders) == (here.epoch, here.members, here.holders)
                assert there.offsets == here.offsets

    def teardown(self) -> None:
        """If all calls arrive from now on, everybody has its share in the end, and all is read."""
        if not hasattr(self, "table"):
            return
        self.calls.clear()
        for _ in range(12):
            self.put_out_who_is_silent()
            for name in self.clients:
                self.call(name)
                call = self.clients[name].call
                assert call is not None
                self.arrive(_First(call))
                self.hear(name)
        assert self.group is not None
        assert self.group.is_settled
        wanted = {name for client in self.clients.values() for name in client.topics}
        everything = {
            (topic.topic_id, number)
            for topic in self.topics.values()
            if topic.name in wanted
            for number in range(topic.partitions)
        }
        assert set(self.group.holders) == everything
        assert {partition for client in self.clients.values() for partition in client.reads} == everything

    def put_out_who_is_silent(self) -> None:
        """Members that nobody is any more: joined by a call that came late, or left without a word."""
        ghosts = [one for one in self.table.groups.get("g", Group("g")).members if not self.is_somebody(one)]
        if ghosts and self.group is not None:
            self.carry_out(decide_expel(self.group, ghosts, self.topics.get, 0))

    def is_somebody(self, member_id: str) -> bool:
        return any(client.member_id == member_id for client in self.clients.values())


@dataclass
class _First:
    call: Call

    def draw(self, _: Any) -> Call:
        return self.call


TestCoordination = Coordination.TestCase
TestCoordination.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
