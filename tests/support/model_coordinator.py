"""A group's coordinator without a log: the production decisions, in memory."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from lograft.broker.groups.membership import Heartbeat, MemberAnswer, decide_expel, decide_heartbeat, decide_topics
from lograft.broker.groups.state import Group, GroupChange, GroupError, GroupTable, Member, SubscribedTopic
from lograft.clients.consumer.group.member import Beat, BeatAnswer, GroupPartition
from lograft.clients.errors import LograftError, error_of
from lograft.metadata.image.partition import PartitionKey, TopicId
from lograft.proto.errors import error_detail

INTERVAL_MS = 1000
GROUP = "g"


class ModelCoordinator:
    """One group. `topics`: the partitions that there are, by name; their ids are those of topics, of 16 bytes."""

    def __init__(self, topics: Mapping[str, Sequence[GroupPartition]]) -> None:
        self.topics = topics
        self._table = GroupTable()
        self._session_over_ms: dict[str, float] = {}

    @property
    def group(self) -> Group | None:
        return self._table.get(GROUP)

    @property
    def members(self) -> dict[str, Member]:
        return self.group.members if self.group is not None else {}

    def beat(self, beat: Beat, now_ms: float, session_timeout_ms: int = 10_000, instance_id: str = "") -> BeatAnswer:
        self.expire(now_ms)
        if self.group is not None:
            self.carry_out(decide_topics(self.group, self._find, 0))
        heartbeat = Heartbeat(
            GROUP,
            beat.member_id,
            beat.epoch,
            topics=tuple(sorted(beat.topics)),
            owned=tuple(as_key(partition) for partition in beat.owned),
            instance_id=instance_id,
            session_timeout_ms=session_timeout_ms,
        )
        try:
            decision = decide_heartbeat(self.group, heartbeat, self._find, 0, 100)
        except GroupError as error:
            raise client_error(error) from None
        self.carry_out(decision.changes)
        if beat.member_id in self.members:
            self._session_over_ms[beat.member_id] = now_ms + session_timeout_ms
        return _answer(decision.told)

    def carry_out(self, changes: Sequence[GroupChange]) -> None:
        for change in changes:
            self._table.apply(change)

    def put_out(self, member_id: str) -> None:
        assert self.group is not None
        self.carry_out(decide_expel(self.group, [member_id], self._find, 0))

    def expire(self, now_ms: float) -> None:
        for member_id in [each for each in self.members if self._session_over_ms[each] <= now_ms]:
            self.put_out(member_id)

    def restart(self, now_ms: float) -> None:
        """As after a failover: everybody has a whole session."""
        for member in self.members.values():
            self._session_over_ms[member.member_id] = now_ms + member.session_timeout_ms

    def _find(self, name: str) -> SubscribedTopic | None:
        partitions = self.topics.get(name)
        if not partitions:
            return None
        return SubscribedTopic(name, as_key(partitions[0])[0], len(partitions))


def as_key(partition: GroupPartition) -> PartitionKey:
    return TopicId(UUID(bytes=partition.topic_id)), partition.partition


def client_error(error: GroupError) -> LograftError:
    """As a client is told."""
    return error_of(error_detail(error.code, error.message))


def _answer(told: MemberAnswer) -> BeatAnswer:
    assigned = tuple(GroupPartition(topic_id.bytes, number) for topic_id, number in told.assigned)
    return BeatAnswer(told.epoch, assigned, INTERVAL_MS)
