"""The admin client's types for groups, and their decoding. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from lograft.clients.types import TopicPartition
from lograft.proto import groups_pb2 as pb


class GroupState(Enum):
    EMPTY = "empty"  # no members, but offsets
    STABLE = "stable"  # every member has its target assignment
    RECONCILING = "reconciling"  # partitions are moving between members
    UNKNOWN = "unknown"


_STATES = {
    pb.EMPTY: GroupState.EMPTY,
    pb.STABLE: GroupState.STABLE,
    pb.RECONCILING: GroupState.RECONCILING,
}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """`members`: their number. `coordinator`: the broker that coordinates the group."""

    name: str
    state: GroupState
    members: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A group member. `assigned`: the partitions it may read now; `target`: those it will have once the group is
    stable; `giving_up`: those it was asked to revoke and still holds."""

    member_id: str
    instance_id: str | None
    client_id: str
    rack: str | None
    epoch: int
    topics: tuple[str, ...]
    assigned: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]
    giving_up: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `epoch` rises whenever members, their subscriptions or their topics change; `assignment_epoch`: the
    group epoch for which the target assignment was computed. `coordinator`: the broker that answered."""

    name: str
    state: GroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A group's position in a partition: `committed` is the offset of the next record to read, `end` that of the next
    record to be stored. `end` and `lag` are None if the leader did not answer. `committed_at`: in milliseconds."""

    committed: int
    end: int | None
    metadata: str
    leader_epoch: int | None
    committed_at: int

    @property
    def lag(self) -> int | None:
        """The number of offsets left to read. The committed offset may be below the log start, or no longer exist."""
        return None if self.end is None else max(self.end - self.committed, 0)


def read_listing(group: pb.ListGroupsResponse.Group, coordinator: int) -> GroupListing:
    return GroupListing(group.group, _state(group.state), group.members, coordinator)


def read_group(group: pb.DescribeGroupsResponse.Group) -> GroupDescription:
    return GroupDescription(
        name=group.group,
        state=_state(group.state),
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=group.assignor,
        members=tuple(map(_member, group.members)),
        coordinator=group.coordinator_id,
    )


def _member(member: pb.DescribeGroupsResponse.Member) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id or None,
        client_id=member.client_id,
        rack=member.rack or None,
        epoch=member.member_epoch,
        topics=tuple(member.topics),
        assigned=_partitions(member.assigned),
        target=_partitions(member.target),
        giving_up=_partitions(member.giving_up),
    )


def _state(state: pb.GroupState) -> GroupState:
    return _STATES.get(state, GroupState.UNKNOWN)


def _partitions(topics: Iterable[pb.GroupTopic]) -> tuple[TopicPartition, ...]:
    """Return the partitions, without those of deleted topics, which no longer have a name."""
    return tuple(
        sorted(TopicPartition(topic.name, number) for topic in topics if topic.name for number in topic.partitions)
    )
