"""Decisions about members: which members a group has, and which partitions each may read. Pure.

One member reads a partition. The coordinator gives it to another member only once the first has reported, in its
current epoch, that it no longer reads it, or has been expelled from the group.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from lograft.broker.groups.assignors import ASSIGNORS
from lograft.broker.groups.draft import FindTopic, GroupDraft, subscribed_topics
from lograft.broker.groups.state import Group, GroupChange, GroupError, Member
from lograft.metadata.image.partition import PartitionKey
from lograft.proto import errors_pb2

JOIN = 0
LEAVE = -1
LEAVE_FOR_A_WHILE = -2


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A member's request."""

    group: str
    member_id: str
    epoch: int
    topics: tuple[str, ...] = ()
    owned: tuple[PartitionKey, ...] = ()
    instance_id: str = ""
    assignor: str = ""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 300_000
    client_id: str = ""
    rack: str = ""


@dataclass(frozen=True, slots=True)
class MemberAnswer:
    """The answer to a member: its epoch, and all partitions that it may read."""

    epoch: int
    assigned: tuple[PartitionKey, ...] = ()

    def must_give_up(self, owned: Collection[PartitionKey]) -> bool:
        assigned = frozenset(self.assigned)
        return any(partition not in assigned for partition in owned)

    def is_news_to(self, heartbeat: Heartbeat) -> bool:
        """Return whether the answer differs from the state that the member reported."""
        return self.epoch != heartbeat.epoch or frozenset(self.assigned) != frozenset(heartbeat.owned)


@dataclass(frozen=True, slots=True)
class MemberDecision:
    """`told` holds once `changes` are committed."""

    changes: tuple[GroupChange, ...]
    told: MemberAnswer


def decide_heartbeat(
    group: Group | None, heartbeat: Heartbeat, find: FindTopic, now_ms: int, max_members: int
) -> MemberDecision:
    """Decide a heartbeat. Raise `GroupError` if the member cannot continue."""
    check_heartbeat(heartbeat)
    match heartbeat.epoch:
        case 0:
            if group is not None and heartbeat.member_id in group.members:
                # Either the answer to its join was lost, or this request is late, and the member has moved on.
                return MemberDecision((), _told(group.members[heartbeat.member_id]))
            draft = _join(group, heartbeat, find, max_members)
        case -1 | -2:
            return _leave(group, heartbeat, find, now_ms)
        case _:
            member = _known_member(group, heartbeat)
            if member.is_settled and _with_wishes(member, heartbeat) == member:
                return MemberDecision((), _told(member))  # nearly always
            draft = _stay(group, member, heartbeat, find)
    return MemberDecision(draft.changes(now_ms), _told(draft.members[heartbeat.member_id]))


def _told(member: Member) -> MemberAnswer:
    return MemberAnswer(member.epoch, tuple(sorted(member.assigned)))


# -- joining


def _join(group: Group | None, heartbeat: Heartbeat, find: FindTopic, max_members: int) -> GroupDraft:
    """Add a member. It replaces a member with the same instance id, and starts from that member's target."""
    draft = GroupDraft(heartbeat.group, group)
    before = draft.members.get(draft.group.instances.get(heartbeat.instance_id, ""))
    if before is not None:
        draft.remove(before.member_id)
    if len(draft.members) >= max_members:
        raise GroupError(
            errors_pb2.GROUP_FULL,
            f"group {heartbeat.group!r} has {len(draft.members)} members, the most that group.max.size allows",
        )
    target = before.target if before is not None else ()
    draft.put(_with_wishes(Member(heartbeat.member_id, target=target), heartbeat))
    draft.assign(find)
    draft.put(replace(draft.members[heartbeat.member_id], epoch=draft.epoch))
    draft.reconcile(heartbeat.member_id, ())
    return draft


def _with_wishes(member: Member, heartbeat: Heartbeat) -> Member:
    return replace(
        member,
        instance_id=heartbeat.instance_id,
        client_id=heartbeat.client_id,
        rack=heartbeat.rack,
        topics=heartbeat.topics,
        assignor=heartbeat.assignor,
        session_timeout_ms=heartbeat.session_timeout_ms,
        rebalance_timeout_ms=heartbeat.rebalance_timeout_ms,
        is_away=False,
    )


def still_said(heartbeat: Heartbeat, member: Member) -> Heartbeat:
    """Return a waiting call's heartbeat with the subscription of the member's latest call."""
    return replace(
        heartbeat,
        instance_id=member.instance_id,
        client_id=member.client_id,
        rack=member.rack,
        topics=member.topics,
        assignor=member.assignor,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


# -- staying


def _stay(group: Group | None, member: Member, heartbeat: Heartbeat, find: FindTopic) -> GroupDraft:
    draft = GroupDraft(heartbeat.group, group)
    now = _with_wishes(member, heartbeat)
    if now != member:
        draft.put(now)
    if (now.topics, now.assignor) != (member.topics, member.assignor):
        draft.assign(find)
    # A member in an earlier epoch has not learned its current assignment, so it cannot report giving up a part of it.
    is_sure = heartbeat.epoch == member.epoch
    draft.reconcile(member.member_id, heartbeat.owned if is_sure else None)
    return draft


def _known_member(group: Group | None, heartbeat: Heartbeat) -> Member:
    member = find_member(group, heartbeat.group, heartbeat.member_id, heartbeat.instance_id)
    if heartbeat.epoch == member.epoch:
        return member
    # The answer with the latest epoch was lost. It assigned at least what the member owns.
    is_repeated = heartbeat.epoch == member.previous_epoch and all(
        member.holds_since(partition) is not None for partition in heartbeat.owned
    )
    if not is_repeated:
        raise GroupError(
            errors_pb2.FENCED_MEMBER_EPOCH,
            f"member {heartbeat.member_id!r} of group {heartbeat.group!r} is in epoch {member.epoch}, not "
            f"{heartbeat.epoch}: release all partitions and rejoin",
        )
    return member


def find_member(group: Group | None, group_name: str, member_id: str, instance_id: str = "") -> Member:
    """Return the member. Raise `GroupError` if there is none."""
    if group is not None and group.instances.get(instance_id, member_id) != member_id:
        raise GroupError(
            errors_pb2.FENCED_INSTANCE_ID,
            f"another member of group {group_name!r} joined with instance id {instance_id!r}: use a unique "
            "instance id for each consumer",
        )
    member = group.members.get(member_id) if group is not None else None
    if member is None:
        raise GroupError(
            errors_pb2.UNKNOWN_MEMBER,
            f"group {group_name!r} has no member {member_id!r}: its session expired, or it did not release "
            "its partitions in time; rejoin",
        )
    return member


# -- leaving


def _leave(group: Group | None, heartbeat: Heartbeat, find: FindTopic, now_ms: int) -> MemberDecision:
    """Remove a member. Succeed if it is not in the group."""
    told = MemberAnswer(heartbeat.epoch)
    if group is None or heartbeat.member_id not in group.members:
        return MemberDecision((), told)
    member = group.members[heartbeat.member_id]
    if heartbeat.epoch == LEAVE_FOR_A_WHILE:
        if not member.instance_id:
            raise GroupError(
                errors_pb2.INVALID_GROUP, "only a member with an instance id can leave temporarily: leave with epoch -1"
            )
        draft = GroupDraft(group.name, group)
        draft.put(replace(member, is_away=True))
        return MemberDecision(draft.changes(now_ms), told)
    return MemberDecision(decide_expel(group, [heartbeat.member_id], find, now_ms), told)


def decide_expel(group: Group, member_ids: Collection[str], find: FindTopic, now_ms: int) -> tuple[GroupChange, ...]:
    """Remove members, and free the partitions they held."""
    draft = GroupDraft(group.name, group)
    for member_id in member_ids:
        draft.remove(member_id)
    draft.assign(find)
    return draft.changes(now_ms)


# -- topics


def decide_topics(group: Group, find: FindTopic, now_ms: int) -> tuple[GroupChange, ...]:
    """Reassign if subscribed topics were created, extended or deleted."""
    if not group.members or subscribed_topics(group.members.values(), find) == group.topics:
        return ()
    draft = GroupDraft(group.name, group)
    draft.assign(find)
    return draft.changes(now_ms)


# -- validation

_MAX_NAME = 249
_SESSION_MS = (1_000, 30 * 60 * 1000)
_REBALANCE_MS = (1_000, 24 * 60 * 60 * 1000)
_MAX_TEXT = 1_000


def check_group_name(name: str) -> None:
    if not 0 < len(name) <= _MAX_NAME:
        raise GroupError(
            errors_pb2.INVALID_GROUP, f"the name of a group must have 1 to {_MAX_NAME} characters, not {len(name)}"
        )


def check_heartbeat(heartbeat: Heartbeat) -> None:
    """Raise `GroupError` for invalid requests."""
    check_group_name(heartbeat.group)
    if not heartbeat.member_id:
        raise GroupError(errors_pb2.INVALID_GROUP, "the member id is empty: use a UUID")
    for text in (heartbeat.member_id, heartbeat.instance_id, heartbeat.client_id, heartbeat.rack):
        if len(text) > _MAX_TEXT:
            raise GroupError(errors_pb2.INVALID_GROUP, f"a name has {len(text)} characters: the limit is {_MAX_TEXT}")
    if heartbeat.epoch < LEAVE_FOR_A_WHILE:
        raise GroupError(errors_pb2.INVALID_GROUP, f"member epoch {heartbeat.epoch} is invalid: join with 0")
    if heartbeat.epoch == JOIN and heartbeat.owned:
        raise GroupError(errors_pb2.INVALID_GROUP, "a joining member owns no partitions: release them first")
    if heartbeat.assignor and heartbeat.assignor not in ASSIGNORS:
        raise GroupError(
            errors_pb2.UNKNOWN_ASSIGNOR,
            f"assignor {heartbeat.assignor!r} does not exist: expected one of {', '.join(ASSIGNORS)}",
        )
    _check_range("session_timeout_ms", heartbeat.session_timeout_ms, _SESSION_MS)
    _check_range("rebalance_timeout_ms", heartbeat.rebalance_timeout_ms, _REBALANCE_MS)


def _check_range(field: str, value: int, limits: tuple[int, int]) -> None:
    if not limits[0] <= value <= limits[1]:
        raise GroupError(
            errors_pb2.INVALID_GROUP, f"{field} cannot be {value}: expected {limits[0]} to {limits[1]} milliseconds"
        )
