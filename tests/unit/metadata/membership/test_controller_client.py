import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.fake_controllers import FakeControllers, never_answer, until
from support.raft_nodes import virtual

from lograft.metadata.membership.controller_client import ControllerClient
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_stream_error
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler, Status, Stream, StreamError

METHOD = "/lograft.test.Controller/Method"
REQUEST = AllocateProducerIdsRequest(broker_id=7)


def answering(first: int) -> Handler:
    async def answer(_: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return AllocateProducerIdsResponse(first=first)

    return unary(answer, AllocateProducerIdsRequest)


def refusing(code: errors_pb2.ErrorCode, leader_id: int | None = None, leader_address: str | None = None) -> Handler:
    async def refuse(stream: Stream) -> None:
        await stream.receive()
        error = ControllerError(code, f"refused with {errors_pb2.ErrorCode.Name(code)}", leader_id=leader_id)
        raise to_stream_error(error, leader_address=leader_address)

    return refuse


def standing_by(leader_id: int | None = None, leader_address: str | None = None) -> Handler:
    return refusing(errors_pb2.NOT_CONTROLLER, leader_id, leader_address)


async def ask(client: ControllerClient, *, repeatable: bool = False) -> int:
    async with asyncio.timeout(60):
        return (await client.call(METHOD, REQUEST, AllocateProducerIdsResponse, repeatable=repeatable)).first


async def refusal(client: ControllerClient, *, repeatable: bool = False) -> ControllerError:
    with pytest.raises(ControllerError) as caught:
        await ask(client, repeatable=repeatable)
    return caught.value


async def world_of(*handlers: Handler | None, seed: int = 1) -> tuple[FakeControllers, ControllerClient]:
    """Controllers 1, 2, ... with these handlers; None: that one is down."""
    world = FakeControllers(*range(1, len(handlers) + 1), seed=seed)
    for controller_id, handler in enumerate(handlers, 1):
        if handler is not None:
            await world.serve(controller_id, {METHOD: handler})
    return world, ControllerClient(world.runtime, world.addresses)


# -- finding the active controller


@pytest.mark.parametrize("seed", range(10))
def test_the_active_controller_is_found_and_kept(seed: int) -> None:
    @virtual
    async def run() -> None:
        world, client = await world_of(standing_by(2), answering(2), standing_by(2), seed=seed)
        assert await ask(client) == 2
        assert len(world.asked) <= 2, "a standby says who is active"
        assert client.active_id == 2
        world.calls.clear()
        assert [await ask(client) for _ in range(5)] == [2] * 5
        assert world.asked == [2] * 5

    run()


@pytest.mark.parametrize("seed", range(10))
def test_controllers_that_are_down_or_know_of_no_leader_are_passed_by(seed: int) -> None:
    @virtual
    async def run() -> None:
        world, client = await world_of(None, standing_by(), answering(3), seed=seed)
        assert await ask(client) == 3
        assert world.now_ms < 150, "all are asked before anyone waits"

    run()


@virtual
async def test_a_leader_that_is_in_no_configuration_is_found_by_the_address_in_the_refusal() -> None:
    world, client = await world_of(standing_by(9, "c9:9093"))
    await world.serve(9, {METHOD: answering(9)})
    assert await ask(client) == 9
    world.calls.clear()
    assert await ask(client) == 9
    assert world.asked == [9]


@virtual
async def test_a_leader_that_was_found_dead_is_not_believed_in_because_others_still_name_it() -> None:
    world, client = await world_of(None, standing_by(1), standing_by(1))

    async def elect() -> None:
        await asyncio.sleep(1)
        await world.servers[2].stop()
        await world.serve(2, {METHOD: answering(2)})

    electing = asyncio.ensure_future(elect())
    assert await ask(client) == 2
    await electing
    assert world.now_ms < 2000
    assert len(world.asked) < 40, "between rounds it waits"


@virtual
async def test_a_leader_that_was_found_dead_is_not_who_the_next_call_begins_with() -> None:
    _, client = await world_of(None, standing_by(1), standing_by(1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.045):  # one round
            await client.call(METHOD, REQUEST, AllocateProducerIdsResponse)
    assert client.active_id is None


@virtual
async def test_without_any_controller_it_asks_until_the_callers_time_is_over_and_does_not_hurry() -> None:
    world, client = await world_of(standing_by(), None, None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(20):
            await client.call(METHOD, REQUEST, AllocateProducerIdsResponse)
    assert 20_000 / 500 - 2 <= len(world.asked) <= 20_000 / 250 + 5
    assert "controller 1 at c1:9093: refused with NOT_CONTROLLER" in client.trouble
    assert "controller 2 at c2:9093: connection refused" in client.trouble


@virtual
async def test_trouble_is_forgotten_once_there_is_an_answer() -> None:
    world, client = await world_of(answering(1))
    await world.servers[1].stop()
    asking = asyncio.ensure_future(ask(client))
    await until(lambda: client.trouble != "")
    await world.serve(1, {METHOD: answering(1)})
    assert await asking == 1
    assert client.trouble == ""


@virtual
async def test_who_says_in_a_heartbeat_that_it_is_active_is_asked_first() -> None:
    world, client = await world_of(answering(1), answering(2), answering(3))
    for controller_id in (3, 1, 2):
        client.heard_from(controller_id, is_active=True)
        client.heard_from(controller_id % 3 + 1, is_active=False)
        assert await ask(client) == controller_id
    assert world.asked == [3, 1, 2]


# -- what is made again, and what not


@pytest.mark.parametrize("code", [errors_pb2.NOT_CONTROLLER, errors_pb2.UNAVAILABLE])
@virtual
async def test_what_certainly_did_nothing_is_asked_elsewhere(code: errors_pb2.ErrorCode) -> None:
    _, client = await world_of(refusing(code), refusing(code), answering(3))
    assert await ask(client, repeatable=False) == 3


@pytest.mark.parametrize(
    "code", [errors_pb2.TOPIC_ALREADY_EXISTS, errors_pb2.NOT_ENOUGH_BROKERS, errors_pb2.TIMED_OUT, errors_pb2.INTERNAL]
)
@pytest.mark.parametrize("repeatable", [False, True])
@virtual
async def test_an_answer_that_is_an_error_is_the_answer(code: errors_pb2.ErrorCode, repeatable: bool) -> None:
    world, client = await world_of(refusing(code), refusing(code), refusing(code))
    assert (await refusal(client, repeatable=repeatable)).code == code
    assert len(world.asked) == 1


async def lose(stream: Stream) -> None:
    """The request arrives, the answer does not."""
    await stream.receive()
    raise StreamError(Status.UNAVAILABLE, "connection reset")


async def move(stream: Stream) -> None:
    await stream.receive()
    raise to_stream_error(ControllerError(errors_pb2.CONTROLLER_MOVED, "leadership was lost"))


@pytest.mark.parametrize("handler", [lose, move])
@virtual
async def test_what_may_have_been_done_is_made_again_only_if_it_is_repeatable(
    handler: Callable[[Stream], Awaitable[None]],
) -> None:
    world, client = await world_of(handler, answering(2))
    client.heard_from(1, is_active=True)
    error = await refusal(client, repeatable=False)
    assert error.code == errors_pb2.CONTROLLER_MOVED
    assert error.outcome_unknown
    assert world.asked == [1]
    assert client.active_id is None
    client.heard_from(1, is_active=True)
    assert await ask(client, repeatable=True) == 2
    assert world.asked == [1, 1, 2]


@virtual
async def test_a_request_that_kills_its_controller_is_not_handed_to_the_next() -> None:
    async def die(stream: Stream) -> None:
        raise StreamError(Status.INTERNAL, "the server failed: AssertionError")

    world, client = await world_of(die, die, die)
    assert (await refusal(client, repeatable=True)).code == errors_pb2.INTERNAL
    assert len(world.asked) == 1


@virtual
async def test_a_controller_killed_while_it_is_asked_is_left_at_once() -> None:
    world, client = await world_of(never_answer, answering(2))
    client.heard_from(1, is_active=True)
    asking = asyncio.ensure_future(ask(client, repeatable=True))
    await until(lambda: world.asked == [1])
    world.kill(1)
    began_ms = world.now_ms
    assert await asking == 2
    assert world.now_ms - began_ms < 100


# -- silence


@virtual
async def test_a_silent_controller_is_left_after_a_second_and_a_half() -> None:
    world, client = await world_of(never_answer, answering(2))
    client.heard_from(1, is_active=True)
    assert await ask(client, repeatable=True) == 2
    assert 1500 <= world.now_ms < 1700
    world.calls.clear()
    assert await ask(client) == 2
    assert world.asked == [2], "and not asked again first"


@virtual
async def test_what_a_silent_controller_was_asked_may_have_been_done() -> None:
    world, client = await world_of(never_answer, answering(2))
    client.heard_from(1, is_active=True)
    error = await refusal(client, repeatable=False)
    assert error.code == errors_pb2.CONTROLLER_MOVED
    assert 1500 <= world.now_ms < 1700
    assert world.asked == [1]


@virtual
async def test_the_connection_of_a_silent_controller_is_given_up() -> None:
    cancelled: list[str] = []

    async def hang(stream: Stream) -> None:
        try:
            await never_answer(stream)
        except asyncio.CancelledError:
            cancelled.append(stream.peer)
            raise

    _, client = await world_of(hang)
    await refusal(client)
    await until(lambda: cancelled == ["broker"], within_s=1)


@virtual
async def test_a_slow_controller_that_is_heard_of_is_waited_for() -> None:
    async def work_long(stream: Stream) -> None:
        await asyncio.sleep(10)
        await answering(1)(stream)

    world, client = await world_of(work_long, answering(2))
    client.heard_from(1, is_active=True)

    async def beat() -> None:
        while True:
            client.heard_from(1, is_active=True)
            client.heard_from(2, is_active=False)
            await asyncio.sleep(0.5)

    beating = asyncio.ensure_future(beat())
    assert await ask(client) == 1
    assert world.asked == [1]
    beating.cancel()


@virtual
async def test_a_paused_controller_costs_no_more_than_the_silence_and_a_connect() -> None:
    world, client = await world_of(answering(1), answering(2))
    client.heard_from(1, is_active=True)
    assert await ask(client) == 1
    world.pause(1)
    began_ms = world.now_ms
    assert await ask(client, repeatable=True) == 2
    assert world.now_ms - began_ms < 1700
    client.heard_from(1, is_active=True)
    began_ms = world.now_ms
    assert await ask(client, repeatable=False) == 2, "it was not even connected"
    assert world.now_ms - began_ms < 1200


@virtual
async def test_many_calls_wait_together_for_a_paused_controller_not_one_after_the_other() -> None:
    world, client = await world_of(answering(1), answering(2))
    client.heard_from(1, is_active=True)
    world.pause(1)
    assert await asyncio.gather(*(ask(client) for _ in range(20))) == [2] * 20
    assert world.now_ms < 1500


# -- connections, and the end


@virtual
async def test_many_calls_at_once_share_one_connection() -> None:
    world, client = await world_of(answering(1))
    connects = 0
    connect = world.runtime.network.connect

    async def counted(address: str, timeout_ms: int = 3000) -> object:
        nonlocal connects
        connects += 1
        return await connect(address, timeout_ms)

    world.runtime.network.connect = counted  # type: ignore[assignment, method-assign]
    assert await asyncio.gather(*(ask(client) for _ in range(50))) == [1] * 50
    assert connects == 1
    world.network.break_connections("broker", "c1")
    await asyncio.sleep(1)
    assert await ask(client) == 1
    assert connects == 2


@virtual
async def test_a_caller_that_gives_up_takes_its_request_with_it() -> None:
    world, client = await world_of(never_answer)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.call(METHOD, REQUEST, AllocateProducerIdsResponse)
    await asyncio.sleep(0.1)
    await world.servers[1].stop()  # returns when no handler is left


@virtual
async def test_closing_ends_who_still_asks_and_takes_nothing_new() -> None:
    world, client = await world_of(never_answer, None)
    client.heard_from(1, is_active=True)
    waiting = asyncio.ensure_future(refusal(client))
    repeating = asyncio.ensure_future(refusal(client, repeatable=True))
    await until(lambda: world.asked == [1, 1])
    await client.close()
    for asking in (waiting, repeating):
        error = await asking
        assert error.code == errors_pb2.CONTROLLER_MOVED
    assert (await refusal(client)).code == errors_pb2.UNAVAILABLE
    assert world.asked == [1, 1]


@virtual
async def test_closing_leaves_no_connection_that_was_just_being_made() -> None:
    world, client = await world_of(answering(1))
    world.pause(1)
    asking = asyncio.ensure_future(refusal(client))
    await asyncio.sleep(0.1)
    closing = asyncio.ensure_future(client.close())
    await asyncio.sleep(0.1)
    world.resume(1)
    await closing
    error = await asking
    assert error.code in (errors_pb2.UNAVAILABLE, errors_pb2.CONTROLLER_MOVED)
    assert (await refusal(client)).code == errors_pb2.UNAVAILABLE
    await until(lambda: not world.connections(1), within_s=1)
