"""Decisions about committed offsets, and about groups as a whole. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lograft.broker.groups.membership import check_group_name, find_member
from lograft.broker.groups.state import (
    CommittedOffset,
    Group,
    GroupChange,
    GroupError,
    GroupGone,
    GroupPut,
    Member,
    OffsetGone,
    OffsetPut,
)
from lograft.metadata.image.partition import PartitionKey, TopicId
from lograft.proto import errors_pb2

MAX_METADATA_CHARACTERS = 4096

TopicSize: TypeAlias = Callable[[TopicId], tuple[str, int] | None]
"""Returns the topic's name and number of partitions, or None if there is no such topic."""


@dataclass(frozen=True, slots=True)
class OffsetCaller:
    """The caller that commits or fetches: a member in an epoch, or, without an id, a client outside the group.
    `may_lower`: allow the commit to lower offsets, because the caller has sought back."""

    group: str
    member_id: str = ""
    epoch: int = 0
    may_lower: bool = False


@dataclass(frozen=True, slots=True)
class ToCommit:
    partition: PartitionKey
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """`errors` has an error, or None, for each item."""

    changes: tuple[GroupChange, ...]
    errors: tuple[GroupError | None, ...]


def decide_commit(
    group: Group | None, speaker: OffsetCaller, items: Sequence[ToCommit], size_of: TopicSize, now_ms: int
) -> CommitDecision:
    """Decide a commit. Raise `GroupError` if the caller may commit nothing at all."""
    check_group_name(speaker.group)
    member = _member_who_commits(group, speaker)
    changes: list[GroupChange] = []
    errors: list[GroupError | None] = []
    for item in items:
        before = group.offsets.get(item.partition) if group is not None else None
        error = _why_not(item, member, speaker, size_of) or _why_not_lower(item, before, speaker)
        errors.append(error)
        if error is None:
            committed = CommittedOffset(item.offset, item.leader_epoch, item.metadata, now_ms)
            changes.append(OffsetPut(speaker.group, item.partition, committed))
    if changes and group is None:
        changes.append(GroupPut(speaker.group, 0, 0, now_ms, ()))
    return CommitDecision(tuple(changes), tuple(errors))


def _member_who_commits(group: Group | None, speaker: OffsetCaller) -> Member | None:
    if speaker.member_id:
        return find_member(group, speaker.group, speaker.member_id)
    if group is not None and group.members:
        raise GroupError(
            errors_pb2.GROUP_NOT_EMPTY,
            f"group {speaker.group!r} has {len(group.members)} members, and only they can commit: stop "
            "them first, or use another group",
        )
    return None


def _why_not(item: ToCommit, member: Member | None, speaker: OffsetCaller, size_of: TopicSize) -> GroupError | None:
    topic_id, number = item.partition
    topic = size_of(topic_id)
    if topic is None:
        return GroupError(
            errors_pb2.UNKNOWN_TOPIC_ID,
            f"topic {topic_id} was deleted, or this broker does not know it yet: look it up again",
        )
    if not 0 <= number < topic[1]:
        return GroupError(
            errors_pb2.UNKNOWN_PARTITION, f"{topic[0]} has {topic[1]} partitions: it has no partition {number}"
        )
    if item.offset < 0:
        return GroupError(errors_pb2.INVALID_REQUEST, f"offset {item.offset} is invalid: expected 0 or more")
    if item.leader_epoch is not None and item.leader_epoch < 0:
        return GroupError(
            errors_pb2.INVALID_REQUEST, f"leader epoch {item.leader_epoch} is invalid: leave it out if unknown"
        )
    if len(item.metadata) > MAX_METADATA_CHARACTERS:
        return GroupError(
            errors_pb2.INVALID_REQUEST,
            f"metadata of {len(item.metadata)} characters is too long: the limit is {MAX_METADATA_CHARACTERS}",
        )
    if member is not None and not _may_commit(member, speaker.epoch, item.partition):
        return GroupError(
            errors_pb2.PARTITION_NOT_OWNED,
            f"{topic[0]}-{number} is not assigned to member {member.member_id!r} in epoch {speaker.epoch}: "
            "it was reassigned, or released",
        )
    return None


def _why_not_lower(item: ToCommit, before: CommittedOffset | None, speaker: OffsetCaller) -> GroupError | None:
    """Return the error for lowering an offset, if any. A delayed request that its sender has since superseded must not
    undo a later commit."""
    if before is None or item.offset >= before.offset or speaker.may_lower:
        return None
    return GroupError(
        errors_pb2.INVALID_REQUEST,
        f"offset {item.offset} is below {before.offset}, which is committed: to lower it, set may_lower",
    )


def _may_commit(member: Member, epoch: int, partition: PartitionKey) -> bool:
    """Return whether the member has held the partition continuously since that epoch."""
    since = member.holds_since(partition)
    return since is not None and since <= epoch <= member.epoch


def check_may_fetch(group: Group | None, speaker: OffsetCaller) -> None:
    """Raise unless the caller knows the epoch in which the member got its partitions."""
    check_group_name(speaker.group)
    if speaker.member_id:
        member = find_member(group, speaker.group, speaker.member_id)
        if speaker.epoch > member.epoch:
            raise GroupError(
                errors_pb2.FENCED_MEMBER_EPOCH,
                f"member {speaker.member_id!r} is in epoch {member.epoch}, not {speaker.epoch}: rejoin",
            )


# -- forgetting


def decide_delete_offsets(
    group: Group | None, name: str, partitions: Sequence[PartitionKey], size_of: TopicSize
) -> CommitDecision:
    group = _existing(group, name)
    changes: list[GroupChange] = []
    errors: list[GroupError | None] = []
    read = frozenset(topic for member in group.members.values() for topic in member.topics)
    for partition in partitions:
        topic = size_of(partition[0])
        if topic is not None and topic[0] in read:
            errors.append(
                GroupError(
                    errors_pb2.GROUP_SUBSCRIBED_TO_TOPIC,
                    f"members of group {name!r} consume topic {topic[0]!r}: stop them first",
                )
            )
            continue
        errors.append(None)
        if partition in group.offsets:
            changes.append(OffsetGone(name, partition))
    return CommitDecision(tuple(changes), tuple(errors))


def decide_delete_group(group: Group | None, name: str) -> tuple[GroupChange, ...]:
    group = _existing(group, name)
    if group.members:
        count = len(group.members)
        members = "1 member: stop it" if count == 1 else f"{count} members: stop them"
        raise GroupError(errors_pb2.GROUP_NOT_EMPTY, f"group {name!r} is not empty: it has {members} first")
    return (*(OffsetGone(name, partition) for partition in group.offsets), GroupGone(name))


def decide_expiry(group: Group, size_of: TopicSize, now_ms: int, retention_ms: int) -> tuple[GroupChange, ...]:
    """Expire offsets of deleted topics, and groups that have had neither members nor commits for the retention
    time."""
    is_old = group.empty_since_ms is not None and group.empty_since_ms + retention_ms <= now_ms
    gone = [
        partition
        for partition, committed in group.offsets.items()
        if size_of(partition[0]) is None or (is_old and committed.committed_at_ms + retention_ms <= now_ms)
    ]
    changes: list[GroupChange] = [OffsetGone(group.name, partition) for partition in gone]
    if is_old and len(gone) == len(group.offsets):
        changes.append(GroupGone(group.name))
    return tuple(changes)


def _existing(group: Group | None, name: str) -> Group:
    if group is None:
        raise GroupError(errors_pb2.GROUP_NOT_FOUND, f"there is no group {name!r}")
    return group


def committed_of(
    group: Group | None, partitions: Iterable[PartitionKey] | None
) -> list[tuple[PartitionKey, CommittedOffset]]:
    """Return the committed offsets of these partitions, or of all."""
    if group is None:
        return []
    wanted = group.offsets if partitions is None else partitions
    return [(partition, group.offsets[partition]) for partition in wanted if partition in group.offsets]
