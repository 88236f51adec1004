"""A group's coordinator in a few lines, in memory: what a member may rely on, and nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lograft.clients.errors import FencedInstanceId, FencedMemberEpoch, UnknownMember
from lograft.clients.group_member import JOIN_EPOCH, LEAVE_EPOCH, Beat, BeatAnswer, GroupPartition

INTERVAL_MS = 1000


@dataclass
class ModelMember:
    session_timeout_ms: int
    session_over_ms: float
    instance_id: str = ""
    epoch: int = 0
    previous_epoch: int = 0
    joined_epoch: int = 0
    topics: tuple[str, ...] = ()
    assigned: dict[GroupPartition, None] = field(default_factory=dict)
    giving_up: dict[GroupPartition, None] = field(default_factory=dict)


class ModelCoordinator:
    """One group. `topics`: the partitions that there are, by name."""

    def __init__(self, topics: dict[str, Sequence[GroupPartition]]) -> None:
        self.topics = topics
        self.members: dict[str, ModelMember] = {}
        self.epoch = 0

    def beat(
        self, member_id: str, beat: Beat, now_ms: float, session_timeout_ms: int = 10_000, instance_id: str = ""
    ) -> BeatAnswer:
        self.expire(now_ms)
        if beat.is_farewell:
            return self._farewell(member_id, beat)
        member = self._admit(member_id, beat, session_timeout_ms, instance_id)
        member.session_over_ms = now_ms + member.session_timeout_ms
        member.topics = beat.topics
        for partition in [each for each in member.giving_up if each not in beat.owned]:
            del member.giving_up[partition]
        self.assign()
        return self.answer(member_id)

    def _farewell(self, member_id: str, beat: Beat) -> BeatAnswer:
        if member_id not in self.members:
            raise UnknownMember("there is none")
        if beat.epoch == LEAVE_EPOCH:
            self.put_out(member_id)
        return BeatAnswer(beat.epoch, (), INTERVAL_MS)

    def _admit(self, member_id: str, beat: Beat, session_timeout_ms: int, instance_id: str) -> ModelMember:
        holder = next(
            (each for each, one in self.members.items() if instance_id and one.instance_id == instance_id), ""
        )
        if holder and holder != member_id and beat.epoch != JOIN_EPOCH:
            raise FencedInstanceId("another has it")
        if beat.epoch == JOIN_EPOCH:
            assert not beat.owned
            if holder and holder != member_id:
                self.members[member_id] = self.members.pop(holder)
            member = self.members.setdefault(member_id, ModelMember(session_timeout_ms, 0, instance_id))
            self.epoch += 1
            member.epoch = member.previous_epoch = member.joined_epoch = self.epoch
            return member
        self.check(member_id, instance_id)
        known = self.members[member_id]
        is_lost_answer = beat.epoch == known.previous_epoch and all(each in known.assigned for each in beat.owned)
        if beat.epoch != known.epoch and not is_lost_answer:
            raise FencedMemberEpoch(f"{beat.epoch} is not {known.epoch}")
        return known

    def _holder(self, instance_id: str) -> str:
        held = (name for name, member in self.members.items() if instance_id and member.instance_id == instance_id)
        return next(held, "")

    def check(self, member_id: str, instance_id: str) -> None:
        """Is it still a member?"""
        holder = self._holder(instance_id)
        if holder and holder != member_id:
            raise FencedInstanceId("another has it")
        if member_id not in self.members:
            raise UnknownMember("there is none")

    def answer(self, member_id: str) -> BeatAnswer:
        member = self.members[member_id]
        return BeatAnswer(member.epoch, tuple(member.assigned), INTERVAL_MS)

    def put_out(self, member_id: str) -> None:
        del self.members[member_id]
        self.assign()

    def expire(self, now_ms: float) -> None:
        for gone in [each for each, member in self.members.items() if member.session_over_ms <= now_ms]:
            self.put_out(gone)

    def restart(self, now_ms: float) -> None:
        """As after a failover: everybody has a whole session."""
        for member in self.members.values():
            member.session_over_ms = now_ms + member.session_timeout_ms

    def assign(self) -> None:
        """Take away what somebody else is to have, and hand out what nobody has any more."""
        target = {name: dict.fromkeys(self._target(name)) for name in sorted(self.members)}
        for name, member in self.members.items():
            gone = [each for each in member.assigned if each not in target[name]]
            member.giving_up |= dict.fromkeys(gone)
            had = {each: None for one in self.members.values() for each in (*one.assigned, *one.giving_up)}
            free = [each for each in target[name] if each not in had]
            if gone or free:
                kept = {each: None for each in member.assigned if each not in gone}
                member.assigned = {**kept, **dict.fromkeys(free)}
                member.previous_epoch = member.epoch
                self.epoch += 1
                member.epoch = self.epoch

    def _target(self, name: str) -> Iterable[GroupPartition]:
        for topic, partitions in self.topics.items():
            subscribed = sorted(each for each, member in self.members.items() if topic in member.topics)
            if name in subscribed:
                yield from partitions[subscribed.index(name) :: len(subscribed)]
