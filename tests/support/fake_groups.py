"""Groups on fake brokers: a coordinator without a log, served by whichever broker a test says.

groups = FakeGroups(cluster)
groups.members            # of the one group there is
groups.offsets            # what is committed, by (topic, partition)
groups.move(2)            # another broker coordinates
groups.when_found = lambda: groups.move(2)  # whoever found the coordinator asks the wrong one
groups.refuse_next(methods.COMMIT_OFFSETS, errors_pb2.FENCED_MEMBER_EPOCH)
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message
from support.fake_log_service import FakeCluster
from support.model_coordinator import GROUP, INTERVAL_MS, ModelCoordinator, as_key, client_error

from lograft.broker.groups.offsets import OffsetCaller, ToCommit, decide_commit
from lograft.broker.groups.state import GroupError, Member
from lograft.clients.consumer.group.member import Beat, GroupPartition
from lograft.clients.errors import LograftError
from lograft.proto import errors_pb2, methods
from lograft.proto import groups_pb2 as pb
from lograft.proto.errors import error_detail
from lograft.proto.errors_pb2 import ErrorCode, ErrorDetail
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler, Status, StreamError

Q = TypeVar("Q", bound=Message)


class FakeGroups:
    """Its clock is the loop's."""

    def __init__(self, cluster: FakeCluster, coordinator: int = 1) -> None:
        self.coordinator = coordinator
        self.model = ModelCoordinator({})
        self.committed: dict[GroupPartition, pb.CommitOffsetsRequest.Item] = {}
        self.commits: list[pb.CommitOffsetsRequest] = []
        self.beats: list[pb.GroupHeartbeatRequest] = []
        self.deleted: list[str] = []
        self.has_topic = True  # set False: there never was a group; whoever wants one creates it
        self.cluster = cluster
        self.when_found: Callable[[], None] = lambda: None
        self._epoch = 1
        self._refusals: dict[str, list[ErrorCode]] = {}
        self._changed = asyncio.Event()
        cluster.more_handlers = self._handlers

    # -- for tests

    @property
    def members(self) -> dict[str, Member]:
        return self.model.members

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        names = {topic_id.bytes: name for name, topic_id in self.cluster.topics.items()}
        return {(names[key.topic_id], key.partition): item.offset for key, item in self.committed.items()}

    def move(self, broker: int) -> None:
        self.coordinator, self._epoch = broker, self._epoch + 1
        self.model.restart(_now_ms())
        self._tell()

    def refuse_next(self, method: str, *codes: ErrorCode) -> None:
        self._refusals.setdefault(method, []).extend(codes)

    def serve_again(self, method: str) -> None:
        self._refusals.pop(method, None)

    def put_out(self, member_id: str) -> None:
        self.model.put_out(member_id)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- the service

    def _handlers(self, broker: int) -> Mapping[str, Handler]:
        def served(
            method: str, handle: Callable[[Q], Awaitable[Message]], request_type: type[Q], *, by_all: bool = False
        ) -> tuple[str, Handler]:
            async def checked(request: Q) -> Message:
                if not by_all:
                    self._check_coordinator(broker)
                refusals = self._refusals.get(method)
                if refusals:
                    raise _refused(refusals.pop(0))
                try:
                    return await handle(request)
                except LograftError as error:
                    raise _refused(getattr(errors_pb2, error.code), error.message) from None

            return method, unary(checked, request_type)

        return dict(
            [
                served(methods.FIND_COORDINATOR, self._find, pb.FindCoordinatorRequest, by_all=True),
                served(methods.GROUP_HEARTBEAT, self._heartbeat, pb.GroupHeartbeatRequest),
                served(methods.COMMIT_OFFSETS, self._commit, pb.CommitOffsetsRequest),
                served(methods.FETCH_OFFSETS, self._fetch, pb.FetchOffsetsRequest),
                # What is wrong is said of each group, not of the call.
                served(methods.DESCRIBE_GROUPS, partial(self._describe, broker), pb.DescribeGroupsRequest, by_all=True),
                served(methods.DELETE_GROUPS, partial(self._delete, broker), pb.DeleteGroupsRequest, by_all=True),
            ]
        )

    def _check_coordinator(self, broker: int) -> None:
        if broker != self.coordinator:
            raise _refused_with(self._not_coordinator())

    def _not_coordinator(self) -> ErrorDetail:
        return error_detail(
            errors_pb2.NOT_COORDINATOR,
            "another broker coordinates the group",
            leader_id=self.coordinator,
            leader_epoch=self._epoch,
            leader_address=self.cluster.addresses[self.coordinator],
        )

    async def _find(self, request: pb.FindCoordinatorRequest) -> pb.FindCoordinatorResponse:
        if request.existing_only and not self.has_topic:
            raise _refused(errors_pb2.GROUP_NOT_FOUND, f"there is no group {request.group!r}")
        self.has_topic = True
        address = self.cluster.addresses[self.coordinator]
        answer = pb.FindCoordinatorResponse(broker_id=self.coordinator, address=address, leader_epoch=self._epoch)
        self.when_found()
        return answer

    async def _describe(self, broker: int, request: pb.DescribeGroupsRequest) -> pb.DescribeGroupsResponse:
        response = pb.DescribeGroupsResponse()
        for name in request.groups:
            described = response.groups.add(group=name, coordinator_id=broker)
            if broker != self.coordinator:
                described.error.CopyFrom(self._not_coordinator())
        return response

    async def _delete(self, broker: int, request: pb.DeleteGroupsRequest) -> pb.DeleteGroupsResponse:
        response = pb.DeleteGroupsResponse()
        for name in request.groups:
            result = response.results.add(group=name)
            if broker != self.coordinator:
                result.error.CopyFrom(self._not_coordinator())
            else:
                self.deleted.append(name)
        return response

    async def _heartbeat(self, request: pb.GroupHeartbeatRequest) -> pb.GroupHeartbeatResponse:
        self.beats.append(request)
        owned = tuple(GroupPartition(topic.topic_id, number) for topic in request.owned for number in topic.partitions)
        beat = Beat(request.member_epoch, tuple(request.topics), owned, member_id=request.member_id)
        self.model.topics = {
            name: sorted(GroupPartition(key[0].bytes, key[1]) for key in self.cluster.logs if key[0] == topic_id)
            for name, topic_id in self.cluster.topics.items()
        }
        session_ms = request.session_timeout_ms
        answer = self.model.beat(beat, _now_ms(), session_ms, request.instance_id)
        self._tell()
        over_ms = _now_ms() + request.max_wait_ms
        while not beat.is_farewell and (answer.epoch, set(answer.assigned)) == (beat.epoch, set(owned)):
            changed = self._changed
            if _now_ms() >= over_ms:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((over_ms - _now_ms()) / 1000):
                    await changed.wait()
            answer = self.model.beat(beat, _now_ms(), session_ms, request.instance_id)
        response = pb.GroupHeartbeatResponse(member_epoch=answer.epoch, heartbeat_interval_ms=INTERVAL_MS)
        names = {topic_id.bytes: name for name, topic_id in self.cluster.topics.items()}
        for topic_id, number in answer.assigned:
            response.assigned.add(topic_id=topic_id, partitions=[number], name=names.get(topic_id, ""))
        return response

    async def _commit(self, request: pb.CommitOffsetsRequest) -> pb.CommitOffsetsResponse:
        self.commits.append(request)
        keys = [GroupPartition(item.topic_id, item.partition) for item in request.items]
        items = [ToCommit(as_key(key), item.offset) for key, item in zip(keys, request.items, strict=True)]
        speaker = OffsetCaller(GROUP, request.member_id, request.member_epoch, request.may_lower)
        try:
            decision = decide_commit(self.model.group, speaker, items, lambda _: ("a topic", 1000), 0)
        except GroupError as error:
            raise client_error(error) from None
        self.model.carry_out(decision.changes)
        response = pb.CommitOffsetsResponse()
        for key, item, error in zip(keys, request.items, decision.errors, strict=True):  # type: ignore[misc]
            result = response.results.add(topic_id=item.topic_id, partition=item.partition)
            if error is None:
                self.committed[key] = item
            else:
                result.error.CopyFrom(error_detail(error.code, error.message))
        return response

    async def _fetch(self, request: pb.FetchOffsetsRequest) -> pb.FetchOffsetsResponse:
        if request.member_id and request.member_id not in self.members:
            raise _refused(errors_pb2.UNKNOWN_MEMBER)
        response = pb.FetchOffsetsResponse()
        for topic in request.topics:
            for number in topic.partitions:
                item = self.committed.get(GroupPartition(topic.topic_id, number))
                if item is not None:
                    epoch = item.leader_epoch if item.HasField("leader_epoch") else None
                    response.offsets.add(
                        topic_id=topic.topic_id,
                        partition=number,
                        offset=item.offset,
                        leader_epoch=epoch,
                        metadata=item.metadata,
                    )
        return response


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def _refused(code: ErrorCode, message: str = "so it is") -> StreamError:
    return _refused_with(error_detail(code, message))


def _refused_with(detail: ErrorDetail) -> StreamError:
    return StreamError(Status.UNAVAILABLE, detail.message, detail.SerializeToString())
