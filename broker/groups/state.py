"""A coordinator's groups: members, their partitions, and committed offsets. Pure.

The coordinator writes every change to the log. Applying the same changes in the same order gives the same groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lograft.metadata.image.partition import PartitionKey, TopicId
from lograft.rpc.coded_error import ReplicaError

Held: TypeAlias = Mapping[PartitionKey, int]
"""Partitions, and the member epoch since which each is held."""


@dataclass(frozen=True, slots=True)
class SubscribedTopic:
    """A topic that a member subscribes to, as of the latest assignment."""

    name: str
    topic_id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    `assigned`: the partitions it may read. `giving_up`: those it must give up, and may still be reading. `target`: its
    partitions once the rebalance is complete, in order. `previous_epoch`: its epoch before it got its latest
    partitions. `is_away`: it has left temporarily."""

    member_id: str
    instance_id: str = ""
    client_id: str = ""
    rack: str = ""
    topics: tuple[str, ...] = ()
    assignor: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Held = field(default_factory=dict)
    giving_up: Held = field(default_factory=dict)
    target: tuple[PartitionKey, ...] = ()
    is_away: bool = False

    @property
    def is_settled(self) -> bool:
        """Return whether the member has its target."""
        if self.giving_up or len(self.assigned) != len(self.target):
            return False
        return all(partition in self.assigned for partition in self.target)

    def holds_since(self, partition: PartitionKey) -> int | None:
        """Return the epoch in which the member got the partition, or None if it does not hold it."""
        since = self.assigned.get(partition)
        return self.giving_up.get(partition) if since is None else since


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's position in a partition. `offset`: of the next record to read. `leader_epoch`: of the record before it,
    if known."""

    offset: int
    leader_epoch: int | None
    metadata: str
    committed_at_ms: int


# -- changes


@dataclass(frozen=True, slots=True)
class GroupPut:
    group: str
    epoch: int
    assignment_epoch: int
    empty_since_ms: int | None
    topics: tuple[SubscribedTopic, ...]


@dataclass(frozen=True, slots=True)
class GroupGone:
    """Deletes a group, after its members and offsets."""

    group: str


@dataclass(frozen=True, slots=True)
class MemberPut:
    group: str
    member: Member


@dataclass(frozen=True, slots=True)
class MemberGone:
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class OffsetPut:
    group: str
    partition: PartitionKey
    committed: CommittedOffset


@dataclass(frozen=True, slots=True)
class OffsetGone:
    group: str
    partition: PartitionKey


GroupChange: TypeAlias = GroupPut | GroupGone | MemberPut | MemberGone | OffsetPut | OffsetGone


# -- the groups


class Group:
    """A group. Only `GroupTable.apply` changes it.

    `epoch` grows with every change of members and assignments. `assignment_epoch`: the epoch of the latest targets.
    `holders`: the one member that holds each partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.assignment_epoch = 0
        self.empty_since_ms: int | None = None
        self.topics: tuple[SubscribedTopic, ...] = ()
        self.members: dict[str, Member] = {}
        self.holders: dict[PartitionKey, str] = {}
        self.instances: dict[str, str] = {}  # members by their instance ids
        self.offsets: dict[PartitionKey, CommittedOffset] = {}

    @property
    def is_settled(self) -> bool:
        return all(member.is_settled for member in self.members.values())

    def put(self, member: Member) -> None:
        self.remove(member.member_id)
        self.members[member.member_id] = member
        for partition in (*member.assigned, *member.giving_up):
            assert partition not in self.holders, f"{partition} has two holders in {self.name!r}"
            self.holders[partition] = member.member_id
        if member.instance_id:
            self.instances[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            for partition in (*member.assigned, *member.giving_up):
                del self.holders[partition]
            if self.instances.get(member.instance_id) == member_id:
                del self.instances[member.instance_id]


class GroupTable:
    """The groups of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}

    def get(self, name: str) -> Group | None:
        return self.groups.get(name)

    def apply(self, change: GroupChange) -> None:
        match change:
            case GroupPut():
                group = self._group(change.group)
                group.epoch, group.assignment_epoch = change.epoch, change.assignment_epoch
                group.empty_since_ms, group.topics = change.empty_since_ms, change.topics
            case GroupGone():
                self.groups.pop(change.group, None)
            case MemberPut():
                self._group(change.group).put(change.member)
            case MemberGone():
                if (left := self.get(change.group)) is not None:
                    left.remove(change.member_id)
            case OffsetPut():
                self._group(change.group).offsets[change.partition] = change.committed
            case OffsetGone():
                if (left := self.get(change.group)) is not None:
                    left.offsets.pop(change.partition, None)

    def _group(self, name: str) -> Group:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
        return group


class GroupError(ReplicaError):
    """Raised when a group request is refused, before it takes effect. `code` is one of `lograft.v1.ErrorCode`."""
