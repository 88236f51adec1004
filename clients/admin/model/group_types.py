"""What the admin client says of groups, from what comes over the wire. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from lograft.clients.types import TopicPartition
from lograft.proto import groups_pb2 as pb


class GroupState(Enum):
    EMPTY = "empty"  # no members, but offsets
    STABLE = "stable"  # members have what they are to have
    RECONCILING = "reconciling"  # partitions are moving between members
    UNKNOWN = "unknown"


_STATES = {
    pb.EMPTY: GroupState.EMPTY,
    pb.STABLE: GroupState.STABLE,
    pb.RECONCILING: GroupState.RECONCILING,
}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """`members`: how many. `coordinator`: the broker that has it."""

    name: str
    state: GroupState
    members: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member. `assigned`: the partitions it may read now, `target`: those it gets in the end, `giving_up`: those it
    was asked to give up and still has."""

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
    """`epoch` grows whenever members, what they want, or their topics change; `assignment_epoch`: for which of these it
    was decided who gets what. `coordinator`: the broker that says so."""

    name: str
    state: GroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How far a group has come in a partition: `committed` is the offset of the next record to read, `end` that of the
    next one to be stored. `end` and `lag` are None if they could not be found out. `committed_at`: in milliseconds."""

    committed: int
    end: int | None
    metadata: str
    leader_epoch: int | None
    committed_at: int

    @property
    def lag(self) -> int | None:
        """How many offsets are left to read. The committed offset may be before the start, or no longer exist."""
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
    """Those of topics that are gone have no name any more, and are left out."""
    return tuple(
        sorted(TopicPartition(topic.name, number) for topic in topics if topic.name for number in topic.partitions)
    )
