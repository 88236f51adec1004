"""`lograft.v1.Groups`: reads requests, passes them to the coordinator, and answers."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from lograft.broker.groups.coordinator import GroupCoordinator
from lograft.broker.groups.draft import chosen_assignor
from lograft.broker.groups.membership import Heartbeat, check_group_name
from lograft.broker.groups.offsets import CommitDecision, OffsetCaller, ToCommit
from lograft.broker.groups.state import Group, GroupError, Member
from lograft.broker.requests.service_errors import SERVICE_ERRORS, detail_of, stream_error_of
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, PartitionKey, TopicId
from lograft.proto import errors_pb2
from lograft.proto import groups_pb2 as pb
from lograft.proto.methods import (
    COMMIT_OFFSETS,
    DELETE_GROUPS,
    DELETE_OFFSETS,
    DESCRIBE_GROUPS,
    FETCH_OFFSETS,
    FIND_COORDINATOR,
    GROUP_HEARTBEAT,
    LIST_GROUPS,
)
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler

Q = TypeVar("Q", bound=Message)

DEFAULT_SESSION_MS = 10_000
DEFAULT_REBALANCE_MS = 300_000
MAX_WAIT_MS = 60_000
MAX_ITEMS = 10_000
_UUID_BYTES = 16


class GroupService:
    """Serves all methods of `lograft.v1.Groups`. `own_id`: the id of this broker."""

    def __init__(self, coordinator: GroupCoordinator, image: Callable[[], ClusterImage], own_id: BrokerId) -> None:
        self._coordinator = coordinator
        self._image = image
        self._own_id = own_id

    def handlers(self) -> Mapping[str, Handler]:
        return {
            FIND_COORDINATOR: self._unary(self._find_coordinator, pb.FindCoordinatorRequest),
            GROUP_HEARTBEAT: self._unary(self._heartbeat, pb.GroupHeartbeatRequest),
            COMMIT_OFFSETS: self._unary(self._commit, pb.CommitOffsetsRequest),
            FETCH_OFFSETS: self._unary(self._fetch, pb.FetchOffsetsRequest),
            DELETE_OFFSETS: self._unary(self._delete_offsets, pb.DeleteOffsetsRequest),
            LIST_GROUPS: self._unary(self._list, pb.ListGroupsRequest),
            DESCRIBE_GROUPS: self._unary(self._describe, pb.DescribeGroupsRequest),
            DELETE_GROUPS: self._unary(self._delete_groups, pb.DeleteGroupsRequest),
        }

    def _unary(self, handle: Callable[[Q], Awaitable[Message]], request_type: type[Q]) -> Handler:
        async def answer(request: Q) -> Message:
            try:
                return await handle(request)
            except SERVICE_ERRORS as error:
                raise stream_error_of(detail_of(error, self._image())) from None

        return unary(answer, request_type)

    # -- members

    async def _find_coordinator(self, request: pb.FindCoordinatorRequest) -> pb.FindCoordinatorResponse:
        check_group_name(request.group)
        found = await self._coordinator.find(request.group, existing_only=request.existing_only)
        return pb.FindCoordinatorResponse(
            broker_id=found.broker_id,
            address=found.address,
            partition=found.partition,
            leader_epoch=found.leader_epoch,
        )

    async def _heartbeat(self, request: pb.GroupHeartbeatRequest) -> pb.GroupHeartbeatResponse:
        heartbeat = Heartbeat(
            request.group,
            request.member_id,
            request.member_epoch,
            topics=tuple(sorted(frozenset(request.topics))),
            owned=_partitions(request.owned),
            instance_id=request.instance_id,
            assignor=request.assignor,
            session_timeout_ms=request.session_timeout_ms or DEFAULT_SESSION_MS,
            rebalance_timeout_ms=request.rebalance_timeout_ms or DEFAULT_REBALANCE_MS,
            client_id=request.client_id,
            rack=request.rack,
        )
        max_wait_ms = min(max(request.max_wait_ms, 0), MAX_WAIT_MS)
        told = await self._coordinator.partition_of(request.group).heartbeat(heartbeat, max_wait_ms)
        return pb.GroupHeartbeatResponse(
            member_epoch=told.epoch,
            assigned=self._topics(told.assigned),
            must_give_up=told.must_give_up(heartbeat.owned),
            heartbeat_interval_ms=heartbeat.session_timeout_ms // 3,
        )

    # -- offsets

    async def _commit(self, request: pb.CommitOffsetsRequest) -> pb.CommitOffsetsResponse:
        _check_count(len(request.items))
        items = [
            ToCommit(
                (_topic_id(item.topic_id), item.partition),
                item.offset,
                item.leader_epoch if item.HasField("leader_epoch") else None,
                item.metadata,
            )
            for item in request.items
        ]
        speaker = OffsetCaller(request.group, request.member_id, request.member_epoch, request.may_lower)
        decision = await self._coordinator.partition_of(request.group).commit(speaker, items)
        answer = pb.CommitOffsetsResponse()
        self._fill_results(answer.results, [item.partition for item in items], decision)
        return answer

    async def _fetch(self, request: pb.FetchOffsetsRequest) -> pb.FetchOffsetsResponse:
        wanted = None if request.all else _partitions(request.topics)
        speaker = OffsetCaller(request.group, request.member_id, request.member_epoch)
        found = await self._coordinator.partition_of(request.group).fetch(speaker, wanted)
        answer = pb.FetchOffsetsResponse()
        for (topic_id, number), committed in found:
            answer.offsets.add(
                topic_id=topic_id.bytes,
                partition=number,
                offset=committed.offset,
                leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                committed_at=committed.committed_at_ms,
                topic=self._name_of(topic_id),
            )
        return answer

    async def _delete_offsets(self, request: pb.DeleteOffsetsRequest) -> pb.DeleteOffsetsResponse:
        partitions = _partitions(request.topics)
        decision = await self._coordinator.partition_of(request.group).delete_offsets(request.group, partitions)
        answer = pb.DeleteOffsetsResponse()
        self._fill_results(answer.results, partitions, decision)
        return answer

    def _fill_results(self, results: Any, partitions: Sequence[PartitionKey], decision: CommitDecision) -> None:
        for (topic_id, number), error in zip(partitions, decision.errors, strict=True):
            result = results.add(topic_id=topic_id.bytes, partition=number)
            if error is not None:
                result.error.CopyFrom(detail_of(error, self._image()))

    # -- groups

    async def _list(self, _: pb.ListGroupsRequest) -> pb.ListGroupsResponse:
        answer = pb.ListGroupsResponse()
        for number, partition in sorted(self._coordinator.partitions.items()):
            found = [(group.name, state_of(group), len(group.members)) for group in partition.groups]
            try:
                partition.check_serves()
                await partition.committed()
            except SERVICE_ERRORS:  # not loaded yet, or about to be coordinated by another broker
                answer.loading.append(number)
                continue
            for name, state, members in found:
                answer.groups.add(group=name, state=state, members=members)
        return answer

    async def _describe(self, request: pb.DescribeGroupsRequest) -> pb.DescribeGroupsResponse:
        _check_count(len(request.groups))
        answer = pb.DescribeGroupsResponse()
        for name in request.groups:
            described = answer.groups.add(group=name, coordinator_id=self._own_id)
            try:
                await self._describe_group(name, described)
            except SERVICE_ERRORS as error:
                described.error.CopyFrom(detail_of(error, self._image()))
        return answer

    async def _describe_group(self, name: str, described: pb.DescribeGroupsResponse.Group) -> None:
        check_group_name(name)
        partition = self._coordinator.partition_of(name)
        group = partition.group(name)
        if group is None:
            raise GroupError(errors_pb2.GROUP_NOT_FOUND, f"there is no group {name!r}")
        described.state = state_of(group)
        described.group_epoch, described.assignment_epoch = group.epoch, group.assignment_epoch
        described.assignor = chosen_assignor(group.members.values())
        for member in sorted(group.members.values(), key=lambda one: one.member_id):
            described.members.append(self._member(member))
        await partition.committed()

    def _member(self, member: Member) -> pb.DescribeGroupsResponse.Member:
        return pb.DescribeGroupsResponse.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            rack=member.rack,
            member_epoch=member.epoch,
            topics=member.topics,
            assigned=self._topics(sorted(member.assigned)),
            target=self._topics(member.target),
            giving_up=self._topics(sorted(member.giving_up)),
        )

    async def _delete_groups(self, request: pb.DeleteGroupsRequest) -> pb.DeleteGroupsResponse:
        _check_count(len(request.groups))
        answer = pb.DeleteGroupsResponse()
        for name in request.groups:
            result = answer.results.add(group=name)
            try:
                check_group_name(name)
                await self._coordinator.partition_of(name).delete_group(name)
            except SERVICE_ERRORS as error:
                result.error.CopyFrom(detail_of(error, self._image()))
        return answer

    # -- names

    def _topics(self, partitions: Iterable[PartitionKey]) -> list[pb.GroupTopic]:
        topics: dict[TopicId, pb.GroupTopic] = {}
        for topic_id, number in partitions:
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = pb.GroupTopic(topic_id=topic_id.bytes, name=self._name_of(topic_id))
            topic.partitions.append(number)
        return list(topics.values())

    def _name_of(self, topic_id: TopicId) -> str:
        topic = self._image().topics.get(topic_id)
        return topic.name if topic is not None else ""


def state_of(group: Group) -> pb.GroupState:
    if not group.members:
        return pb.EMPTY
    return pb.STABLE if group.is_settled else pb.RECONCILING


def _partitions(topics: Iterable[pb.GroupTopic]) -> tuple[PartitionKey, ...]:
    partitions = {
        (topic_id, number): None
        for topic in topics
        for topic_id in (_topic_id(topic.topic_id),)
        for number in topic.partitions
    }
    return tuple(partitions)


def _topic_id(data: bytes) -> TopicId:
    if len(data) != _UUID_BYTES:
        raise GroupError(errors_pb2.INVALID_REQUEST, f"topic_id must be a UUID of {_UUID_BYTES} bytes, not {len(data)}")
    return TopicId(UUID(bytes=data))


def _check_count(count: int) -> None:
    if count > MAX_ITEMS:
        raise GroupError(
            errors_pb2.INVALID_REQUEST, f"a request of {count} items is too large: the limit is {MAX_ITEMS}"
        )
