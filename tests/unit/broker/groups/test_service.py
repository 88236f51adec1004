"""`lograft.v1.Groups` as clients see it: who coordinates, what is asked and answered, what is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf.message import Message
from support.log_services import Node
from support.metadata_images import broker, image_with, partition, topic_id, with_records
from support.raft_nodes import virtual
from support.served_replicas import FakeReplica

from lograft.broker.groups.coordinator import GroupCoordinator
from lograft.broker.groups.service import MAX_ITEMS, GroupService
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS
from lograft.metadata.image.partition import BrokerId, PartitionKey
from lograft.metadata.image.records import PartitionChanged, TopicCreated
from lograft.proto import errors_pb2, methods
from lograft.proto import groups_pb2 as pb
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.rpc.unary import exchange
from lograft.runtime.network import StreamError

ORDERS, OFFSETS = topic_id(1), topic_id(9)
LOST = ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads", leader_id=2, leader_epoch=6)


class GroupNode(Node):
    """Broker 1 of two. `orders` has four partitions; `__consumer_offsets` has two, of which this broker leads the
    first, once `lead_offsets` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.image = image_with(broker(1), broker(2), topics={"orders": [partition(1, 2) for _ in range(4)]})
        self.tell_role: Callable[[PartitionKey], None] = lambda key: None
        self.replicas.listen_to_roles = self._listen  # type: ignore[attr-defined]
        self.creation_error: Exception | None = None
        self.image_is_old = False  # the topic of groups is there, and not heard of yet
        self.coordinator = GroupCoordinator(
            self.runtime.clock,
            lambda: self.image,
            self.replicas,  # type: ignore[arg-type]
            self._create,
            self._catch_up,
        )
        self.service = GroupService(self.coordinator, lambda: self.image, BrokerId(1))

    def _listen(self, listener: Callable[[PartitionKey], None]) -> None:
        self.tell_role = listener

    async def _create(self, name: str) -> None:
        if self.creation_error is not None:
            raise self.creation_error
        self.create_offsets()

    async def _catch_up(self) -> None:
        if self.image_is_old:
            self.create_offsets()

    def create_offsets(self) -> None:
        new = [PartitionChanged(OFFSETS, number, partition(1 + number, 2 - number)) for number in range(2)]
        self.image = with_records(self.image, TopicCreated(OFFSETS, CONSUMER_OFFSETS), *new)

    def lead_offsets(self) -> FakeReplica:
        if self.image.topic(CONSUMER_OFFSETS) is None:
            self.create_offsets()
        replica = self.replicas.add(9, 0)
        self.tell_role((OFFSETS, 0))
        return replica

    async def ask(self, method: str, request: Message, answer_type: type[Any]) -> Any:
        connection = await self.serve(self.service.handlers())
        return answer_type.FromString(await exchange(connection, method, request.SerializeToString()))

    async def refused(self, method: str, request: Message) -> ErrorDetail:
        with pytest.raises(StreamError) as error:
            await self.ask(method, request, pb.FindCoordinatorResponse)
        return ErrorDetail.FromString(error.value.detail)

    async def beat(self, **fields: Any) -> pb.GroupHeartbeatResponse:
        request = pb.GroupHeartbeatRequest(**{"group": HERE, "member_id": "a", "topics": ["orders"], **fields})
        answer = await self.ask(methods.GROUP_HEARTBEAT, request, pb.GroupHeartbeatResponse)
        assert isinstance(answer, pb.GroupHeartbeatResponse)
        return answer


# Of two partitions, by CRC-32.
HERE, ELSEWHERE = "billing", "audit"


@asynccontextmanager
async def node(*, leads: bool = True) -> AsyncIterator[GroupNode]:
    one = GroupNode()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.coordinator.run())
        if leads:
            one.lead_offsets()
            await asyncio.sleep(0.1)
        yield one
        running.cancel()


def numbers(topics: Any) -> list[int]:
    return [number for topic in topics for number in topic.partitions]


# -- who coordinates


@virtual
async def test_the_first_question_creates_the_topic() -> None:
    async with node(leads=False) as one:
        found = await one.ask(
            methods.FIND_COORDINATOR, pb.FindCoordinatorRequest(group=HERE), pb.FindCoordinatorResponse
        )
        assert (found.broker_id, found.address, found.partition) == (1, "broker-1:9092", 0)
        found = await one.ask(
            methods.FIND_COORDINATOR, pb.FindCoordinatorRequest(group=ELSEWHERE), pb.FindCoordinatorResponse
        )
        assert (found.broker_id, found.partition) == (2, 1)


@virtual
async def test_a_question_about_existing_groups_creates_nothing() -> None:
    async with node(leads=False) as one:
        request = pb.FindCoordinatorRequest(group=HERE, existing_only=True)
        error = await one.refused(methods.FIND_COORDINATOR, request)
        assert (error.code, error.retriable) == (errors_pb2.GROUP_NOT_FOUND, False)
        assert one.image.topic(CONSUMER_OFFSETS) is None


@virtual
async def test_a_broker_with_an_old_image_denies_no_group() -> None:
    async with node(leads=False) as one:
        one.image_is_old = True
        request = pb.FindCoordinatorRequest(group=HERE, existing_only=True)
        found = await one.ask(methods.FIND_COORDINATOR, request, pb.FindCoordinatorResponse)
        assert (found.broker_id, found.partition) == (1, 0)


@virtual
async def test_a_topic_that_cannot_be_created_yet_is_worth_another_question() -> None:
    async with node(leads=False) as one:
        one.creation_error = ControllerError(errors_pb2.NOT_ENOUGH_BROKERS, "two of three are there")
        error = await one.refused(methods.FIND_COORDINATOR, pb.FindCoordinatorRequest(group=HERE))
        assert (error.code, error.retriable) == (errors_pb2.NOT_ENOUGH_BROKERS, True)


@virtual
async def test_who_does_not_coordinate_says_who_does() -> None:
    async with node() as one:
        for method, request in (
            (methods.GROUP_HEARTBEAT, pb.GroupHeartbeatRequest(group=ELSEWHERE, member_id="a")),
            (methods.COMMIT_OFFSETS, pb.CommitOffsetsRequest(group=ELSEWHERE)),
            (methods.FETCH_OFFSETS, pb.FetchOffsetsRequest(group=ELSEWHERE)),
            (methods.DELETE_OFFSETS, pb.DeleteOffsetsRequest(group=ELSEWHERE)),
        ):
            error = await one.refused(method, request)
            assert (error.code, error.leader_id, error.leader_address) == (
                errors_pb2.NOT_COORDINATOR, 2, "broker-2:9092",
            )  # fmt: skip


@virtual
async def test_before_there_is_any_coordinator_that_is_said() -> None:
    async with node(leads=False) as one:
        error = await one.refused(methods.COMMIT_OFFSETS, pb.CommitOffsetsRequest(group=HERE))
        assert (error.code, error.retriable) == (errors_pb2.NOT_COORDINATOR, True)


@virtual
async def test_a_coordinator_that_is_still_reading_says_so() -> None:
    async with node(leads=False) as one:
        replica = one.lead_offsets()
        await asyncio.sleep(0.1)
        await one.beat()
        replica.may_read.clear()
        replica.leader_epoch += 1
        one.tell_role((OFFSETS, 0))
        error = await one.refused(methods.FETCH_OFFSETS, pb.FetchOffsetsRequest(group=HERE))
        assert (error.code, error.retriable) == (errors_pb2.LOADING, True)
        listed = await one.ask(methods.LIST_GROUPS, pb.ListGroupsRequest(), pb.ListGroupsResponse)
        assert (list(listed.loading), list(listed.groups)) == ([0], [])
        replica.may_read.set()
        await asyncio.sleep(0.1)
        listed = await one.ask(methods.LIST_GROUPS, pb.ListGroupsRequest(), pb.ListGroupsResponse)
        assert [(group.group, group.members) for group in listed.groups] == [(HERE, 1)]


@virtual
async def test_groups_of_a_partition_that_is_lost_meanwhile_are_not_listed() -> None:
    async with node(leads=False) as one:
        replica = one.lead_offsets()
        await asyncio.sleep(0.1)
        await one.beat()
        replica.is_held = True
        joining = asyncio.ensure_future(
            one.refused(methods.GROUP_HEARTBEAT, pb.GroupHeartbeatRequest(group=HERE, member_id="b"))
        )
        await asyncio.sleep(1)
        listing = asyncio.ensure_future(one.ask(methods.LIST_GROUPS, pb.ListGroupsRequest(), pb.ListGroupsResponse))
        await asyncio.sleep(1)
        replica.lose(LOST)
        listed = await listing
        assert (list(listed.loading), list(listed.groups)) == ([0], [])
        await joining


@virtual
async def test_who_lost_its_partition_coordinates_no_more() -> None:
    async with node(leads=False) as one:
        replica = one.lead_offsets()
        await asyncio.sleep(0.1)
        await one.beat()
        replica.lose(LOST)
        one.tell_role((OFFSETS, 0))
        assert one.coordinator.partitions == {}
        error = await one.refused(methods.FETCH_OFFSETS, pb.FetchOffsetsRequest(group=HERE))
        assert error.code == errors_pb2.NOT_COORDINATOR


# -- members


@virtual
async def test_a_member_is_told_what_to_read_with_names() -> None:
    async with node() as one:
        told = await one.beat(session_timeout_ms=6000)
        assert [(topic.topic_id, topic.name, list(topic.partitions)) for topic in told.assigned] == [
            (ORDERS.bytes, "orders", [0, 1, 2, 3])
        ]
        assert told.heartbeat_interval_ms == 2000
        assert not told.must_give_up
        await one.beat(member_id="b")
        told = await one.beat(member_epoch=told.member_epoch, owned=told.assigned)
        assert told.must_give_up
        assert len(numbers(told.assigned)) == 2


@virtual
async def test_topics_that_come_and_grow_are_heard_of() -> None:
    async with node() as one:
        told = await one.beat(topics=["orders", "payments"])
        waiting = asyncio.ensure_future(
            one.beat(
                topics=["orders", "payments"], member_epoch=told.member_epoch, owned=told.assigned, max_wait_ms=3000
            )
        )
        await asyncio.sleep(1)
        record = TopicCreated(topic_id(5), "payments")
        records = (record, PartitionChanged(topic_id(5), 0, partition(1, 2)))
        one.image = with_records(one.image, *records)
        one.coordinator.applied(1, records)
        one.coordinator.advanced(1)
        told = await waiting
        assert [topic.name for topic in told.assigned] == ["orders", "payments"]


@virtual
async def test_a_bad_name_or_id_is_refused_with_its_cause() -> None:
    async with node() as one:
        for request, message in (
            (pb.GroupHeartbeatRequest(group=HERE), "is empty: use a UUID"),
            (pb.GroupHeartbeatRequest(group=HERE, member_id="a", session_timeout_ms=5), "session_timeout_ms"),
            (
                pb.GroupHeartbeatRequest(
                    group=HERE, member_id="a", owned=[pb.GroupTopic(topic_id=b"x", partitions=[1])]
                ),
                "16 bytes",
            ),
        ):
            error = await one.refused(methods.GROUP_HEARTBEAT, request)
            assert message in error.message
            assert not error.retriable
        error = await one.refused(methods.FIND_COORDINATOR, pb.FindCoordinatorRequest())
        assert error.code == errors_pb2.INVALID_GROUP


# -- offsets


def item(number: int, offset: int, **fields: Any) -> pb.CommitOffsetsRequest.Item:
    return pb.CommitOffsetsRequest.Item(topic_id=ORDERS.bytes, partition=number, offset=offset, **fields)


@virtual
async def test_what_is_committed_is_told_and_forgotten() -> None:
    async with node() as one:
        request = pb.CommitOffsetsRequest(group=HERE, items=[item(0, 5, leader_epoch=3, metadata="m"), item(7, 1)])
        answer = await one.ask(methods.COMMIT_OFFSETS, request, pb.CommitOffsetsResponse)
        assert [result.error.code for result in answer.results] == [0, errors_pb2.UNKNOWN_PARTITION]
        wanted = pb.FetchOffsetsRequest(group=HERE, topics=[pb.GroupTopic(topic_id=ORDERS.bytes, partitions=[0, 1])])
        for asked in (wanted, pb.FetchOffsetsRequest(group=HERE, all=True)):
            (found,) = (await one.ask(methods.FETCH_OFFSETS, asked, pb.FetchOffsetsResponse)).offsets
            assert (found.topic, found.partition, found.offset) == ("orders", 0, 5)
            assert (found.leader_epoch, found.metadata) == (3, "m")
            assert found.committed_at > 0
        forget = pb.DeleteOffsetsRequest(group=HERE, topics=[pb.GroupTopic(topic_id=ORDERS.bytes, partitions=[0])])
        (result,) = (await one.ask(methods.DELETE_OFFSETS, forget, pb.DeleteOffsetsResponse)).results
        assert not result.HasField("error")
        assert not (await one.ask(methods.FETCH_OFFSETS, wanted, pb.FetchOffsetsResponse)).offsets


@virtual
async def test_a_request_has_only_so_many_items() -> None:
    async with node() as one:
        request = pb.CommitOffsetsRequest(group=HERE, items=[item(0, 5)] * (MAX_ITEMS + 1))
        assert (await one.refused(methods.COMMIT_OFFSETS, request)).code == errors_pb2.INVALID_REQUEST


# -- groups


@virtual
async def test_groups_are_listed_described_and_deleted() -> None:
    async with node() as one:
        await one.beat(client_id="c", rack="r", instance_id="i")
        (described, missing, strange) = (
            await one.ask(
                methods.DESCRIBE_GROUPS,
                pb.DescribeGroupsRequest(groups=[HERE, "shipping", ELSEWHERE]),
                pb.DescribeGroupsResponse,
            )
        ).groups
        (member,) = described.members
        assert (described.state, described.assignor, described.coordinator_id) == (pb.STABLE, "uniform", 1)
        assert (member.client_id, member.rack, member.instance_id) == ("c", "r", "i")
        assert numbers(member.assigned) == numbers(member.target) == [0, 1, 2, 3]
        assert missing.error.code == errors_pb2.GROUP_NOT_FOUND
        assert strange.error.code == errors_pb2.NOT_COORDINATOR
        (result,) = (
            await one.ask(methods.DELETE_GROUPS, pb.DeleteGroupsRequest(groups=[HERE]), pb.DeleteGroupsResponse)
        ).results
        assert result.error.code == errors_pb2.GROUP_NOT_EMPTY
        await one.beat(member_epoch=-1)
        listed = await one.ask(methods.LIST_GROUPS, pb.ListGroupsRequest(), pb.ListGroupsResponse)
        assert [(group.group, group.state) for group in listed.groups] == [(HERE, pb.EMPTY)]
        (result,) = (
            await one.ask(methods.DELETE_GROUPS, pb.DeleteGroupsRequest(groups=[HERE]), pb.DeleteGroupsResponse)
        ).results
        assert not result.HasField("error")
        assert not (await one.ask(methods.LIST_GROUPS, pb.ListGroupsRequest(), pb.ListGroupsResponse)).groups


@virtual
async def test_a_group_whose_partitions_are_moving_is_reconciling() -> None:
    async with node() as one:
        await one.beat()
        await one.beat(member_id="b")
        (described,) = (
            await one.ask(methods.DESCRIBE_GROUPS, pb.DescribeGroupsRequest(groups=[HERE]), pb.DescribeGroupsResponse)
        ).groups
        assert described.state == pb.RECONCILING
        assert [len(numbers(member.target)) for member in described.members] == [2, 2]


@virtual
async def test_what_is_forgotten_by_itself_goes_within_a_minute() -> None:
    async with node() as one:
        await one.ask(
            methods.COMMIT_OFFSETS, pb.CommitOffsetsRequest(group=HERE, items=[item(0, 5)]), pb.CommitOffsetsResponse
        )
        one.image = image_with(broker(1), broker(2))
        one.create_offsets()
        await asyncio.sleep(61)
        assert [group.offsets for group in one.coordinator.partitions[0].groups] == [{}]
