"""Members of a group that poll or do not, come and go, whose calls are late or lost: no partition has two readers."""

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.model_coordinator import ModelCoordinator

from lograft.clients.consumer.group.member import (
    Beat,
    BeatAnswer,
    GroupMember,
    GroupPartition,
    MemberSettings,
    MemberState,
)
from lograft.clients.errors import ConnectionLost, LograftError

EXAMPLES = int(os.environ.get("LOGRAFT_EXAMPLES", "150"))

TOPICS = {
    "orders": [GroupPartition(b"o" * 16, number) for number in range(4)],
    "prices": [GroupPartition(b"p" * 16, number) for number in range(2)],
}
SESSION_MS = 10_000
POLL_MS = 30_000

names = st.sampled_from(["ann", "bob", "cid"])


class Reader:
    """A member with its application, and the one call that is under way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member = GroupMember(MemberSettings(SESSION_MS, POLL_MS), name)
        self.under_way: tuple[Beat, float, BeatAnswer | LograftError] | None = None
        self.giving_up: tuple[list[GroupPartition], int] | None = None
        self.told: dict[GroupPartition, None] = {}  # what the application was told it has

    @property
    def reads(self) -> list[GroupPartition]:
        return [each for each in self.member.taken if each in self.told]

    def send(self, coordinator: ModelCoordinator, now_ms: float) -> None:
        beat = self.member.next_beat(now_ms)
        if beat is None:
            return
        answer: BeatAnswer | LograftError
        try:
            answer = coordinator.beat(beat, now_ms, SESSION_MS)
        except LograftError as error:
            answer = error
        self.under_way = (beat, now_ms, answer)

    def receive(self) -> None:
        """What is of no use any more is not listened to."""
        if self.under_way is None:
            return
        (beat, sent_ms, answer), self.under_way = self.under_way, None
        if beat != self.member.beat:
            return
        if isinstance(answer, LograftError):
            self.member.refused(beat, answer)
        else:
            self.member.answered(beat, answer, sent_ms)

    def poll(self, now_ms: float) -> None:
        member = self.member
        member.poll_began(now_ms)
        for lost in member.told_lost():
            del self.told[lost]
        revoked = member.to_give_up
        if revoked and self.giving_up is None:
            member.giving_up(revoked)
            self.giving_up = (revoked, member.generation)
            for partition in revoked:
                del self.told[partition]
        taken = member.to_take
        member.took(taken)
        assert not any(partition in self.told for partition in taken)
        self.told |= dict.fromkeys(taken)
        member.poll_ended(now_ms)

    def committed(self) -> None:
        if self.giving_up is not None:
            self.member.gave_up(*self.giving_up)
            self.giving_up = None


class Group(RuleBasedStateMachine):
    readers = Bundle("readers")

    @initialize()
    def begin(self) -> None:
        self.now_ms = 0.0
        self.coordinator = ModelCoordinator(dict(TOPICS))
        self.all = {name: Reader(name) for name in ("ann", "bob", "cid")}
        self.thrown_out: dict[str, None] = {}  # and do not know it yet: nothing is promised of them

    # -- applications

    @rule(name=names, topics=st.sampled_from([("orders",), ("prices",), ("orders", "prices")]))
    def subscribe(self, name: str, topics: tuple[str, ...]) -> None:
        self.all[name].member.subscribe(topics, self.now_ms)

    @rule(name=names)
    def unsubscribe(self, name: str) -> None:
        reader = self.all[name]
        reader.member.unsubscribe()
        reader.told.clear()
        reader.giving_up = None

    @rule(name=names)
    def poll(self, name: str) -> None:
        self.all[name].poll(self.now_ms)

    @rule(name=names)
    def commit(self, name: str) -> None:
        self.all[name].committed()

    # -- calls

    @rule(name=names)
    def send(self, name: str) -> None:
        self.all[name].send(self.coordinator, self.now_ms)

    @rule(name=names)
    def receive(self, name: str) -> None:
        self._receive(self.all[name])

    @rule(name=names)
    def call(self, name: str) -> None:
        self.all[name].send(self.coordinator, self.now_ms)
        self._receive(self.all[name])

    def _receive(self, reader: Reader) -> None:
        before = reader.member.generation
        reader.receive()
        if reader.member.generation != before:
            self.thrown_out.pop(reader.name, None)

    @rule(name=names)
    def lose_the_answer(self, name: str) -> None:
        reader = self.all[name]
        if reader.under_way is not None and reader.under_way[0] == reader.member.beat:
            reader.member.refused(reader.under_way[0], ConnectionLost("it broke"))
        reader.under_way = None

    # -- the coordinator, and time

    @precondition(lambda self: self.coordinator.members)
    @rule(data=st.data())
    def throw_out(self, data: st.DataObject) -> None:
        member_id = data.draw(st.sampled_from(sorted(self.coordinator.members)))
        self.coordinator.put_out(member_id)
        name = member_id.split("-")[0]
        if self.all[name].member.member_id == member_id:
            self.thrown_out[name] = None

    @rule()
    def fail_over(self) -> None:
        self.coordinator.restart(self.now_ms)

    @rule(passed_ms=st.sampled_from([1, 500, 1000, 4000, 9999, 31_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.coordinator.expire(self.now_ms)
        for reader in self.all.values():
            before = reader.member.generation
            reader.member.tick(self.now_ms)
            if reader.member.generation != before:
                self.thrown_out.pop(reader.name, None)

    # -- what holds

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        had: dict[GroupPartition, str] = {}
        for name, reader in self.all.items():
            if name in self.thrown_out:
                continue
            for partition in reader.reads:
                assert partition not in had, f"{partition} is read by {had[partition]} and {name}"
                had[partition] = name

    @invariant()
    def what_is_read_or_may_be_is_owned(self) -> None:
        for reader in self.all.values():
            member = reader.member
            assert set(member.taken) | set(member.assigned) == set(member.owned)

    @invariant()
    def the_application_is_told_of_all_it_has_and_of_all_it_loses(self) -> None:
        for reader in self.all.values():
            member = reader.member
            told = set(reader.told)
            giving_up = set(reader.giving_up[0]) if reader.giving_up is not None else set()
            assert told == (set(member.taken) - giving_up) | set(member.lost)

    def teardown(self) -> None:
        """Once all is well, and everybody polls, every partition is read."""
        if not hasattr(self, "all"):
            return
        for _ in range(60):
            self.time_passes(1000)
            for reader in self.all.values():
                if reader.member.state is not MemberState.OUT:
                    reader.poll(self.now_ms)
                    reader.committed()
                reader.send(self.coordinator, self.now_ms)
                self._receive(reader)
                self.no_partition_has_two_readers()
        subscribed = {topic for reader in self.all.values() for topic in reader.member.topics}
        wanted = {partition for topic in subscribed for partition in TOPICS[topic]}
        assert {partition for reader in self.all.values() for partition in reader.reads} == wanted


TestGroup = Group.TestCase
TestGroup.settings = settings(max_examples=EXAMPLES, stateful_step_count=60, deadline=None)
