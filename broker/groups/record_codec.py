"""Changes of groups as the records of `__consumer_offsets`, and back. Pure."""

from collections.abc import Iterable
from uuid import UUID

from google.protobuf.message import DecodeError

from lograft.broker.groups.state import (
    CommittedOffset,
    GroupChange,
    GroupGone,
    GroupPut,
    Held,
    Member,
    MemberGone,
    MemberPut,
    OffsetGone,
    OffsetPut,
    SubscribedTopic,
)
from lograft.metadata.image.partition import PartitionKey, TopicId
from lograft.proto import group_records_pb2 as pb


class NotAGroupRecord(Exception):
    """Raised for bytes that no version of a coordinator has written."""


# -- to records


def encode_change(change: GroupChange) -> tuple[bytes, bytes | None]:
    """Return a record's key and value. Changes of the same group, member or offset share a key."""
    key = pb.GroupRecordKey(group=change.group)
    value: pb.GroupRecord | pb.GroupMemberRecord | pb.CommittedOffsetRecord | None = None
    match change:
        case GroupPut():
            key.is_group = True
            value = _group_record(change)
        case GroupGone():
            key.is_group = True
        case MemberPut():
            key.member_id = change.member.member_id
            value = _member_record(change.member)
        case MemberGone():
            key.member_id = change.member_id
        case OffsetPut():
            _name_partition(key, change.partition)
            committed = change.committed
            value = pb.CommittedOffsetRecord(
                offset=committed.offset,
                leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                committed_at=committed.committed_at_ms,
            )
        case OffsetGone():
            _name_partition(key, change.partition)
    return key.SerializeToString(deterministic=True), None if value is None else value.SerializeToString()


def _name_partition(key: pb.GroupRecordKey, partition: PartitionKey) -> None:
    key.offset.topic_id, key.offset.partition = partition[0].bytes, partition[1]


def _group_record(change: GroupPut) -> pb.GroupRecord:
    topics = [
        pb.SubscribedTopic(name=topic.name, topic_id=topic.topic_id.bytes, partitions=topic.partitions)
        for topic in change.topics
    ]
    return pb.GroupRecord(
        group_epoch=change.epoch,
        assignment_epoch=change.assignment_epoch,
        empty_since=change.empty_since_ms,
        topics=topics,
    )


def _member_record(member: Member) -> pb.GroupMemberRecord:
    return pb.GroupMemberRecord(
        instance_id=member.instance_id,
        client_id=member.client_id,
        rack=member.rack,
        topics=member.topics,
        assignor=member.assignor,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        member_epoch=member.epoch,
        previous_epoch=member.previous_epoch,
        assigned=_by_topic(member.assigned, member.assigned),
        giving_up=_by_topic(member.giving_up, member.giving_up),
        target=_by_topic(member.target),
        is_away=member.is_away,
    )


def _by_topic(partitions: Iterable[PartitionKey], since: Held | None = None) -> Iterable[pb.HeldTopic]:
    """Group partitions by topic. `since`: the epoch in which the member got each partition; None omits the epochs."""
    topics: dict[TopicId, pb.HeldTopic] = {}
    for partition in partitions:
        topic_id, number = partition
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = pb.HeldTopic(topic_id=topic_id.bytes)
        topic.partitions.append(number)
        if since is not None:
            topic.since_epochs.append(since[partition])
    return topics.values()


# -- from records


def decode_change(key: bytes | None, value: bytes | None) -> GroupChange:
    """Return the change. Raise `NotAGroupRecord` for other records."""
    try:
        return _change(pb.GroupRecordKey.FromString(key or b""), value)
    except (DecodeError, ValueError) as error:
        raise NotAGroupRecord(f"key {key!r} is not the key of a group record: {error}") from None


def _change(key: pb.GroupRecordKey, value: bytes | None) -> GroupChange:
    group = key.group
    match key.WhichOneof("about"):
        case "is_group":
            return GroupGone(group) if value is None else _group_put(group, pb.GroupRecord.FromString(value))
        case "member_id":
            if value is None:
                return MemberGone(group, key.member_id)
            return MemberPut(group, _member(key.member_id, pb.GroupMemberRecord.FromString(value)))
        case "offset":
            partition = (TopicId(UUID(bytes=key.offset.topic_id)), key.offset.partition)
            if value is None:
                return OffsetGone(group, partition)
            return OffsetPut(group, partition, _committed(pb.CommittedOffsetRecord.FromString(value)))
        case about:
            raise ValueError(f"it describes {about}")


def _group_put(group: str, record: pb.GroupRecord) -> GroupPut:
    return GroupPut(
        group,
        record.group_epoch,
        record.assignment_epoch,
        record.empty_since if record.HasField("empty_since") else None,
        tuple(
            SubscribedTopic(topic.name, TopicId(UUID(bytes=topic.topic_id)), topic.partitions)
            for topic in record.topics
        ),
    )


def _member(member_id: str, record: pb.GroupMemberRecord) -> Member:
    return Member(
        member_id,
        instance_id=record.instance_id,
        client_id=record.client_id,
        rack=record.rack,
        topics=tuple(record.topics),
        assignor=record.assignor,
        session_timeout_ms=record.session_timeout_ms,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        epoch=record.member_epoch,
        previous_epoch=record.previous_epoch,
        assigned=_held(record.assigned),
        giving_up=_held(record.giving_up),
        target=tuple(
            (topic_id, number)
            for topic in record.target
            for topic_id in (TopicId(UUID(bytes=topic.topic_id)),)
            for number in topic.partitions
        ),
        is_away=record.is_away,
    )


def _held(topics: Iterable[pb.HeldTopic]) -> Held:
    held: dict[PartitionKey, int] = {}
    for topic in topics:
        topic_id = TopicId(UUID(bytes=topic.topic_id))
        for number, since in zip(topic.partitions, topic.since_epochs, strict=True):
            held[topic_id, number] = since
    return held


def _committed(record: pb.CommittedOffsetRecord) -> CommittedOffset:
    leader_epoch = record.leader_epoch if record.HasField("leader_epoch") else None
    return CommittedOffset(record.offset, leader_epoch, record.metadata, record.committed_at)
