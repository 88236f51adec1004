import asyncio

import pytest
from support.fake_controllers import FakeControllers, never_answer, until
from support.raft_nodes import virtual

from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from lograft.proto.errors import ERRORS
from lograft.proto.wire_format import CodecError
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import (
    detail_of,
    error_of,
    read_detail,
    to_controller_error,
    to_stream_error,
)
from lograft.rpc.unary import NotSent, call, exchange, unary
from lograft.runtime.network import MAX_MESSAGE_BYTES, Connection, Handler, Status, Stream, StreamError
from lograft.runtime.production.grpc_network import GrpcNetwork

METHOD = "/lograft.test.Controller/Method"
REQUEST = AllocateProducerIdsRequest(broker_id=7, broker_epoch=70)


async def answer(request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(first=request.broker_id, count=1)


async def connected(handler: Handler) -> Connection:
    world = FakeControllers(1)
    await world.serve(1, {METHOD: handler})
    return await world.runtime.network.connect(world.addresses[1])


async def refusal(connection: Connection) -> ControllerError:
    with pytest.raises(ControllerError) as caught:
        await call(connection, METHOD, REQUEST, AllocateProducerIdsResponse)
    return caught.value


async def raw_refusal(connection: Connection, *messages: bytes) -> StreamError:
    stream = connection.open(METHOD)
    for message in messages:
        await stream.send(message)
    await stream.half_close()
    with pytest.raises(StreamError) as caught:
        await stream.receive()
    return caught.value


# -- calls


@virtual
async def test_a_call_brings_the_answer() -> None:
    connection = await connected(unary(answer, AllocateProducerIdsRequest))
    response = await call(connection, METHOD, REQUEST, AllocateProducerIdsResponse)
    assert (response.first, response.count) == (7, 1)


@virtual
async def test_a_refusal_arrives_with_its_code_its_message_and_the_leader() -> None:
    async def refuse(_: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        raise ControllerError(errors_pb2.NOT_CONTROLLER, "ask controller 3", leader_id=3)

    error = await refusal(await connected(unary(refuse, AllocateProducerIdsRequest)))
    assert (error.code, error.message, error.leader_id) == (errors_pb2.NOT_CONTROLLER, "ask controller 3", 3)


@virtual
async def test_a_field_that_cannot_be_read_is_the_callers_fault_and_no_panic() -> None:
    async def read(_: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        raise CodecError("a topic id has 3 bytes, not 16")

    error = await refusal(await connected(unary(read, AllocateProducerIdsRequest)))
    assert error.code == errors_pb2.INVALID_REQUEST
    assert "3 bytes" in error.message


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ((b"\xff\xff\xff",), "not a AllocateProducerIdsRequest"),
        ((), "without a request"),
        ((REQUEST.SerializeToString(), REQUEST.SerializeToString()), "second message"),
    ],
)
def test_what_is_not_one_readable_request_is_refused_and_reaches_nobody(
    messages: tuple[bytes, ...], reason: str
) -> None:
    reached: list[object] = []

    async def note(request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        reached.append(request)
        return AllocateProducerIdsResponse()

    @virtual
    async def run() -> None:
        error = await raw_refusal(await connected(unary(note, AllocateProducerIdsRequest)), *messages)
        assert error.status is Status.INVALID_ARGUMENT
        assert reason in error.message
        detail = read_detail(error)
        assert detail is not None
        assert detail.code == errors_pb2.INVALID_REQUEST

    run()
    assert not reached


def test_a_bug_in_a_handler_is_not_taken_for_a_refusal() -> None:
    async def break_down(_: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        raise AssertionError("an invariant")

    @virtual
    async def run() -> None:
        world = FakeControllers(1)
        panics: list[BaseException] = []
        handlers = {METHOD: unary(break_down, AllocateProducerIdsRequest)}
        await world.network.host("c1").serve("c1:9093", handlers, panics.append)
        error = await refusal(await world.runtime.network.connect("c1:9093"))
        assert error.code == errors_pb2.INTERNAL
        assert len(panics) == 1

    run()


@virtual
async def test_a_call_on_a_broken_connection_did_nothing_and_says_so() -> None:
    connection = await connected(unary(answer, AllocateProducerIdsRequest))
    await connection.close()
    with pytest.raises(NotSent):
        await exchange(connection, METHOD, b"")
    error = await refusal(connection)
    assert error.code == errors_pb2.UNAVAILABLE
    assert not error.outcome_unknown


@virtual
async def test_a_call_whose_connection_is_lost_before_the_answer_has_an_unknown_outcome() -> None:
    world = FakeControllers(1)
    await world.serve(1, {METHOD: never_answer})
    connection = await world.runtime.network.connect(world.addresses[1])
    calling = asyncio.ensure_future(refusal(connection))
    await until(lambda: world.asked == [1])
    world.kill(1)
    error = await calling
    assert error.code == errors_pb2.CONTROLLER_MOVED
    assert error.outcome_unknown


@virtual
async def test_an_answer_counts_although_the_connection_is_lost_right_after_it() -> None:
    world = FakeControllers(1)

    async def answer_and_stay(stream: Stream) -> None:
        await stream.receive()
        await stream.send(AllocateProducerIdsResponse(first=5).SerializeToString())
        await asyncio.Event().wait()

    await world.serve(1, {METHOD: answer_and_stay})
    connection = await world.runtime.network.connect(world.addresses[1])
    calling = asyncio.ensure_future(call(connection, METHOD, REQUEST, AllocateProducerIdsResponse))
    await asyncio.sleep(1)
    world.kill(1)
    assert (await calling).first == 5


@virtual
async def test_a_stream_that_ends_without_an_answer_is_a_bug_over_there() -> None:
    async def return_at_once(stream: Stream) -> None:
        await stream.receive()

    error = await refusal(await connected(return_at_once))
    assert error.code == errors_pb2.INTERNAL
    assert "without an answer" in error.message


@virtual
async def test_an_answer_that_cannot_be_read_is_an_error_of_its_own() -> None:
    async def babble(stream: Stream) -> None:
        await stream.receive()
        await stream.send(b"\xff\xff\xff")

    error = await refusal(await connected(babble))
    assert error.code == errors_pb2.INTERNAL
    assert "not a AllocateProducerIdsResponse" in error.message


@virtual
async def test_a_request_that_is_too_large_is_invalid_not_unavailable() -> None:
    connection = await connected(unary(answer, AllocateProducerIdsRequest))
    with pytest.raises(NotSent) as caught:
        await exchange(connection, METHOD, bytes(MAX_MESSAGE_BYTES + 1))
    assert to_controller_error(caught.value).code == errors_pb2.INVALID_REQUEST


@virtual
async def test_a_method_that_is_not_there_is_invalid() -> None:
    connection = await connected(unary(answer, AllocateProducerIdsRequest))
    with pytest.raises(ControllerError) as caught:
        await call(connection, "/lograft.test.Controller/Other", REQUEST, AllocateProducerIdsResponse)
    assert caught.value.code == errors_pb2.INVALID_REQUEST


def test_calls_and_refusals_pass_over_grpc() -> None:
    async def main() -> None:
        async def odd(request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
            if request.broker_id % 2:
                return await answer(request)
            raise ControllerError(errors_pb2.NOT_CONTROLLER, "ask controller 3", leader_id=3)

        panics: list[BaseException] = []
        network = GrpcNetwork()
        server = await network.serve("127.0.0.1:0", {METHOD: unary(odd, AllocateProducerIdsRequest)}, panics.append)
        connection = await network.connect(server.address)
        try:
            response = await call(connection, METHOD, REQUEST, AllocateProducerIdsResponse)
            assert response.first == 7
            with pytest.raises(ControllerError) as caught:
                await call(connection, METHOD, AllocateProducerIdsRequest(broker_id=2), AllocateProducerIdsResponse)
            assert (caught.value.code, caught.value.leader_id) == (errors_pb2.NOT_CONTROLLER, 3)
            request = REQUEST.SerializeToString()
            assert (await raw_refusal(connection, request, request)).status is Status.INVALID_ARGUMENT
            assert (await raw_refusal(connection, b"\xff")).status is Status.INVALID_ARGUMENT
            await connection.close()
            assert (await refusal(connection)).code == errors_pb2.UNAVAILABLE
        finally:
            await connection.close()
            await server.stop()
        assert not panics

    asyncio.run(main())


# -- errors as they travel


@pytest.mark.parametrize("code", [code for code in ERRORS if code != errors_pb2.NONE])
def test_every_code_survives_the_way(code: errors_pb2.ErrorCode) -> None:
    there = to_stream_error(ControllerError(code, "why and what to do", leader_id=4))
    assert there.status.name == ERRORS[code].grpc_status
    back = to_controller_error(there)
    assert (back.code, back.message, back.leader_id) == (code, "why and what to do", 4)


def test_no_leader_stays_no_leader() -> None:
    error = ControllerError(errors_pb2.NOT_CONTROLLER, "an election is under way")
    assert error_of(detail_of(error)).leader_id is None
    assert to_controller_error(to_stream_error(error)).leader_id is None


def test_the_leaders_address_goes_with_it() -> None:
    error = ControllerError(errors_pb2.NOT_CONTROLLER, "ask 3", leader_id=3)
    detail = read_detail(to_stream_error(error, leader_address="c3:9093"))
    assert detail is not None
    assert detail.leader_address == "c3:9093"


def test_a_code_of_a_later_version_is_an_error_that_is_not_retried() -> None:
    error = error_of(errors_pb2.ErrorDetail(code=99_999, message="quota", retriable=True))  # type: ignore[arg-type]
    assert error.code == errors_pb2.INTERNAL
    assert "quota" in error.message
    assert "99999" in error.message


def test_a_long_message_is_cut_so_that_it_fits_in_a_trailer() -> None:
    error = to_stream_error(ControllerError(errors_pb2.INVALID_REQUEST, "\N{SNOWMAN}" * 10_000))
    assert error.message == "\N{SNOWMAN}" * 341
    assert len(error.detail) < 1100


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.INVALID_ARGUMENT, errors_pb2.INVALID_REQUEST),
        (Status.UNIMPLEMENTED, errors_pb2.INVALID_REQUEST),
        (Status.DEADLINE_EXCEEDED, errors_pb2.TIMED_OUT),
        (Status.INTERNAL, errors_pb2.INTERNAL),
        (Status.UNAVAILABLE, errors_pb2.CONTROLLER_MOVED),
        (Status.CANCELLED, errors_pb2.CONTROLLER_MOVED),
        (Status.UNKNOWN, errors_pb2.CONTROLLER_MOVED),
    ],
)
def test_what_a_status_without_a_readable_detail_means(status: Status, code: errors_pb2.ErrorCode) -> None:
    assert to_controller_error(StreamError(status, "it ended")).code == code
    assert to_controller_error(StreamError(status, "it ended", b"\xff\xff")).code == code
