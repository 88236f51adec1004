import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from google.protobuf.message import Message
from support.fake_controllers import FakeControllers, fail, never_answer, until
from support.raft_nodes import virtual

from lograft.metadata.membership.admin_forwarding import FORWARDED, AdminForwarding
from lograft.metadata.membership.controller_client import ControllerClient
from lograft.proto import admin_pb2 as pb
from lograft.proto import cluster_pb2, controller_pb2, errors_pb2, groups_pb2, log_pb2, methods, node_proof_pb2
from lograft.proto.methods import CREATE_TOPICS, DELETE_TOPICS
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_controller_error
from lograft.rpc.unary import call, exchange, unary
from lograft.runtime.network import Connection, Handler, Status, Stream, StreamError

CREATE = pb.CreateTopicsRequest(topics=[pb.NewTopic(name="orders"), pb.NewTopic(name="bills", topic_id=b"x" * 16)])
DELETE = pb.DeleteTopicsRequest(topics=[pb.TopicReference(name="orders")])


@asynccontextmanager
async def broker_before(world: FakeControllers, **settings: int) -> AsyncIterator[Connection]:
    """A user's connection to a broker that forwards to these controllers."""
    client = ControllerClient(world.runtime, world.addresses)
    handlers = AdminForwarding(world.runtime, client, **settings).handlers()
    server = await world.runtime.network.serve("broker:9092", handlers, fail)
    connection = await world.network.host("user").connect("broker:9092")
    try:
        yield connection
    finally:
        await connection.close()
        await server.stop()
        await client.close()


async def create(connection: Connection, request: pb.CreateTopicsRequest = CREATE) -> pb.CreateTopicsResponse:
    return await call(connection, CREATE_TOPICS, request, pb.CreateTopicsResponse)


async def refusal(connection: Connection, method: str, request: Message) -> ControllerError:
    with pytest.raises(StreamError) as caught:
        await exchange(connection, method, request.SerializeToString())
    assert caught.value.detail, "whatever happens, the caller gets a detail"
    return to_controller_error(caught.value)


class Topics:
    """A controller that creates topics, and forgets to answer as often as it is told."""

    def __init__(self, lost_answers: int = 0) -> None:
        self.requests: list[pb.CreateTopicsRequest] = []
        self._lost_answers = lost_answers

    async def create(self, request: pb.CreateTopicsRequest) -> pb.CreateTopicsResponse:
        self.requests.append(request)
        if len(self.requests) <= self._lost_answers:
            raise StreamError(Status.UNAVAILABLE, "connection reset")
        response = pb.CreateTopicsResponse()
        for topic in request.topics:
            response.results.add(name=topic.name, topic_id=topic.topic_id)
        return response

    def handlers(self) -> dict[str, Handler]:
        return {CREATE_TOPICS: unary(self.create, pb.CreateTopicsRequest)}


def refusing(code: errors_pb2.ErrorCode, request_type: type[Message]) -> Handler:
    async def refuse(_: Message) -> Message:
        raise ControllerError(code, "so it is", leader_id=2)

    return unary(refuse, request_type)


@virtual
async def test_a_request_goes_to_the_active_controller_and_its_answer_comes_back() -> None:
    world = FakeControllers(1, 2)
    topics = Topics()
    await world.serve(1, {CREATE_TOPICS: refusing(errors_pb2.NOT_CONTROLLER, pb.CreateTopicsRequest)})
    await world.serve(2, topics.handlers())
    async with broker_before(world) as connection:
        response = await create(connection)
    assert [result.name for result in response.results] == ["orders", "bills"]
    assert len(topics.requests) == 1


@virtual
async def test_a_topic_without_an_id_gets_one_and_keeps_it_in_every_attempt() -> None:
    world = FakeControllers(1)
    topics = Topics(lost_answers=3)
    await world.serve(1, topics.handlers())
    async with broker_before(world) as connection:
        response = await create(connection)
        assert len(topics.requests) == 4
        made = response.results[0].topic_id
        assert len(made) == 16
        assert [[topic.topic_id for topic in request.topics] for request in topics.requests] == [[made, b"x" * 16]] * 4
        again = await create(connection)
        assert again.results[0].topic_id != made


@virtual
async def test_a_request_that_needs_no_id_is_relayed_as_it_is_but_for_the_time_that_is_left() -> None:
    world = FakeControllers(1)
    seen: list[bytes | None] = []

    async def echo(stream: Stream) -> None:
        seen.append(await stream.receive())
        await stream.send(b"\x0a\x03\x12\x01z" + b"\xfa\x06\x01q")  # with a field of a later version

    await world.serve(1, {DELETE_TOPICS: echo})
    data = DELETE.SerializeToString() + b"\xfa\x06\x01y"
    async with broker_before(world) as connection:
        assert await exchange(connection, DELETE_TOPICS, data) == b"\x0a\x03\x12\x01z" + b"\xfa\x06\x01q"
    (relayed,) = seen
    assert relayed is not None
    assert relayed.startswith(data)
    assert pb.DeleteTopicsRequest.FromString(relayed[len(data) :]) == pb.DeleteTopicsRequest(timeout_ms=28_999)


@virtual
async def test_a_refusal_comes_back_as_it_was() -> None:
    world = FakeControllers(1)
    await world.serve(1, {DELETE_TOPICS: refusing(errors_pb2.INVALID_TOPIC, pb.DeleteTopicsRequest)})
    async with broker_before(world) as connection:
        with pytest.raises(StreamError) as caught:
            await exchange(connection, DELETE_TOPICS, DELETE.SerializeToString())
    assert (caught.value.status, caught.value.message) == (Status.INVALID_ARGUMENT, "so it is")
    error = to_controller_error(caught.value)
    assert (error.code, error.leader_id) == (errors_pb2.INVALID_TOPIC, 2)


@virtual
async def test_an_error_of_a_later_version_comes_back_as_it_was() -> None:
    world = FakeControllers(1)
    detail = errors_pb2.ErrorDetail(message="quota", retriable=True)
    detail.code = 9999  # type: ignore[assignment]

    async def refuse(stream: Stream) -> None:
        await stream.receive()
        raise StreamError(Status.RESOURCE_EXHAUSTED, "quota", detail.SerializeToString())

    await world.serve(1, {DELETE_TOPICS: refuse})
    async with broker_before(world) as connection:
        with pytest.raises(StreamError) as caught:
            await exchange(connection, DELETE_TOPICS, DELETE.SerializeToString())
    assert (caught.value.status, caught.value.detail) == (Status.RESOURCE_EXHAUSTED, detail.SerializeToString())


@virtual
async def test_what_may_have_been_done_and_cannot_be_repeated_is_of_unknown_outcome() -> None:
    world = FakeControllers(1)

    async def lose(stream: Stream) -> None:
        await stream.receive()
        raise StreamError(Status.UNAVAILABLE, "connection reset")

    await world.serve(1, {DELETE_TOPICS: lose})
    async with broker_before(world) as connection:
        error = await refusal(connection, DELETE_TOPICS, DELETE)
    assert error.code == errors_pb2.CONTROLLER_MOVED
    assert world.asked == [1]


@pytest.mark.parametrize(
    ("data", "reason"), [(b"\xff\xff", "not a CreateTopicsRequest"), (b"\x0a\xff", "not a CreateTopicsRequest")]
)
@virtual
async def test_what_cannot_be_read_is_refused_here(data: bytes, reason: str) -> None:
    world = FakeControllers(1)
    await world.serve(1, Topics().handlers())
    async with broker_before(world) as connection:
        with pytest.raises(StreamError) as caught:
            await exchange(connection, CREATE_TOPICS, data)
    assert caught.value.status is Status.INVALID_ARGUMENT
    assert reason in caught.value.message
    assert not world.asked


@pytest.mark.parametrize(("timeout_ms", "after_ms"), [(0, 29_000), (2_500, 2_000), (300_000, 299_000)])
@virtual
async def test_when_the_time_is_over_the_caller_hears_why(timeout_ms: int, after_ms: int) -> None:
    world = FakeControllers(1, 2)
    await world.serve(1, {DELETE_TOPICS: refusing(errors_pb2.NOT_CONTROLLER, pb.DeleteTopicsRequest)})
    async with broker_before(world) as connection:
        began_ms = world.now_ms
        error = await refusal(connection, DELETE_TOPICS, pb.DeleteTopicsRequest(timeout_ms=timeout_ms))
        assert after_ms <= world.now_ms - began_ms < after_ms + 200
    assert error.code == errors_pb2.TIMED_OUT
    assert f"within {after_ms} ms" in error.message
    assert "controller 2 at c2:9093: connection refused" in error.message


@virtual
async def test_a_caller_that_is_gone_is_asked_for_no_longer() -> None:
    world = FakeControllers(1)
    await world.serve(1, {DELETE_TOPICS: never_answer})
    async with broker_before(world) as connection:
        stream = connection.open(DELETE_TOPICS)
        await stream.send(DELETE.SerializeToString())
        await stream.half_close()
        await until(lambda: world.asked == [1])
        stream.reset()
        await asyncio.sleep(0.2)
        await world.servers[1].stop()  # returns when no handler is left
        assert world.now_ms < 1000


@virtual
async def test_no_more_wait_for_the_controller_than_there_is_room_for() -> None:
    world = FakeControllers(1)
    await world.serve(1, {DELETE_TOPICS: never_answer, CREATE_TOPICS: Topics().handlers()[CREATE_TOPICS]})
    async with broker_before(world, max_in_flight=3) as connection:
        waiting = [asyncio.ensure_future(refusal(connection, DELETE_TOPICS, DELETE)) for _ in range(3)]
        await until(lambda: len(world.asked) == 3)
        error = await refusal(connection, DELETE_TOPICS, DELETE)
        assert error.code == errors_pb2.UNAVAILABLE
        assert len(world.asked) == 3
        await asyncio.gather(*waiting)
        assert len((await create(connection)).results) == 2, "there is room again"


def test_every_method_of_the_admin_service_is_forwarded() -> None:
    service = pb.DESCRIPTOR.services_by_name["Admin"]
    assert {f"/{service.full_name}/{method.name}": method.input_type.full_name for method in service.methods} == {
        name: forwarded.request_type.DESCRIPTOR.full_name for name, forwarded in FORWARDED.items()
    }


def test_every_method_is_in_the_list() -> None:
    listed = {value for value in vars(methods).values() if isinstance(value, str)}
    services = [pb, controller_pb2, cluster_pb2, groups_pb2, log_pb2, node_proof_pb2]
    served = {
        f"/{service.full_name}/{method.name}"
        for file in services
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert served == {path for path in listed if path.startswith("/lograft.") and not path.endswith("/")}


@pytest.mark.parametrize("timeout_ms", [-1, 300_001, 2**31 - 1])
@virtual
async def test_a_time_that_makes_no_sense_is_refused_as_the_controller_does(timeout_ms: int) -> None:
    world = FakeControllers(1)
    await world.serve(1, {DELETE_TOPICS: never_answer})
    async with broker_before(world) as connection:
        error = await refusal(connection, DELETE_TOPICS, pb.DeleteTopicsRequest(timeout_ms=timeout_ms))
    assert error.code == errors_pb2.INVALID_REQUEST
    assert "give 1 to 300000, or 0 for 30000" in error.message
    assert not world.asked
