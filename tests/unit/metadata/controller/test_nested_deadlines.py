"""A definite refusal of the controller wins over every deadline on its way: the broker's that hands the request on,
and the client's. The machine is slow: each message takes a while, and so does finding the active controller."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast
from uuid import UUID

import pytest
from google.protobuf.message import Message
from support.fake_controllers import FakeControllers, fail
from support.raft_nodes import make_runtime, virtual

from lograft.chaos.world.link import Delays
from lograft.clients import errors
from lograft.clients.admin.aio_admin import Admin
from lograft.metadata.controller.quorum_changes import ConnectedMembers, QuorumNode
from lograft.metadata.controller.services.admin_handler import admin_handler
from lograft.metadata.controller.services.quorum_service import QuorumService
from lograft.metadata.membership.admin_forwarding import AdminForwarding
from lograft.metadata.membership.controller_client import ControllerClient
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2, methods
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.interfaces import RaftStatus
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler

METHODS: dict[str, type[Message]] = {
    methods.REPLACE_VOTER: pb.ReplaceVoterRequest,
    methods.CREATE_TOPICS: pb.CreateTopicsRequest,
    methods.UNREGISTER_BROKER: pb.UnregisterBrokerRequest,
}


class Leading:
    """The Raft node of a controller that leads three voters, of which node 3 is down."""

    member = Member(2, UUID(int=2))

    def status(self) -> RaftStatus:
        voters = tuple(Member(number, UUID(int=number)) for number in (1, 2, 3))
        return RaftStatus(self.member, "leader", 1, self.member, 1, 1, 1, 1, Configuration(voters))

    async def read_index(self) -> int:
        return 1


async def nobody_answers(_: int) -> None:
    return None


class World:
    """An admin client, a broker, controller 2 that leads, and controller 1 that takes `search_ms` to say that it does
    not."""

    def __init__(self, search_ms: int, message_ms: float) -> None:
        self.fakes = FakeControllers(1, 2)
        self._search_ms = search_ms
        hosts = ["user", "broker", "c1", "c2"]
        for one in hosts:
            for other in hosts:
                self.fakes.network.set_delays(one, other, Delays(message_ms, message_ms))

    async def ask(self, handlers: dict[str, Handler], timeout_ms: int, do: Callable[[Admin], Awaitable[Any]]) -> Any:
        await self.fakes.serve(1, {name: self._elsewhere(METHODS[name]) for name in handlers})
        await self.fakes.serve(2, handlers)
        client = ControllerClient(self.fakes.runtime, self.fakes.addresses)
        client.heard_from(1, is_active=True)
        server = await self.fakes.runtime.network.serve(
            "broker:9092", AdminForwarding(self.fakes.runtime, client).handlers(), fail
        )
        runtime = make_runtime(2, self.fakes.network, "user")
        heartbeats = asyncio.create_task(self._hear_of_controllers(client))
        try:
            async with Admin("broker:9092", timeout_ms=timeout_ms, runtime=runtime) as admin:
                return await do(admin)
        finally:
            heartbeats.cancel()
            await server.stop()
            await client.close()

    async def _hear_of_controllers(self, client: ControllerClient) -> None:
        """As a broker does by its heartbeats: else it takes who does not answer soon for dead."""
        while True:
            for number in (1, 2):
                client.heard_from(number, is_active=False)
            await self.fakes.runtime.clock.sleep_ms(500)

    def _elsewhere(self, request_type: type[Message]) -> Handler:
        async def refuse(_: Message) -> Message:
            await asyncio.sleep(self._search_ms / 1000)
            raise ControllerError(errors_pb2.NOT_CONTROLLER, "not here", leader_id=2)

        return unary(refuse, request_type)

    def quorum(self) -> dict[str, Handler]:
        service = QuorumService(
            self.fakes.runtime,
            lambda: cast(QuorumNode, Leading()),
            cast(ConnectedMembers, None),
            nobody_answers,
            {number: f"c{number}:9093" for number in (1, 2, 3)},
            "test",
        )
        return {methods.REPLACE_VOTER: service.handlers()[methods.REPLACE_VOTER]}


@virtual
@pytest.mark.parametrize("search_ms", [0, 1200])
@pytest.mark.parametrize("timeout_ms", [5000, 8000, 30_000])
async def test_the_reason_why_a_voter_is_not_replaced_arrives_in_time(timeout_ms: int, search_ms: int) -> None:
    world = World(search_ms, message_ms=60)
    with pytest.raises(errors.QuorumChangeNotNow, match="node 3 does not answer") as caught:
        await world.ask(world.quorum(), timeout_ms, lambda admin: admin.replace_voter(3))
    assert not caught.value.outcome_unknown


@virtual
@pytest.mark.parametrize("search_ms", [0, 1200])
@pytest.mark.parametrize("timeout_ms", [5000, 30_000])
async def test_the_controller_says_itself_that_it_took_too_long(timeout_ms: int, search_ms: int) -> None:
    """Rather than those who wait for it: they would not know why."""
    world = World(search_ms, message_ms=60)

    async def never(_: Message) -> Message:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    handlers = {methods.UNREGISTER_BROKER: admin_handler(never, pb.UnregisterBrokerRequest, {})}
    with pytest.raises(errors.TimedOut, match="not known to be committed within") as caught:
        await world.ask(handlers, timeout_ms, lambda admin: admin.unregister_broker(7))
    assert caught.value.outcome_unknown


@virtual
async def test_each_attempt_at_a_controller_says_how_much_time_is_left() -> None:
    world = World(1200, message_ms=0.1)
    seen: list[int] = []

    async def create(request: pb.CreateTopicsRequest) -> pb.CreateTopicsResponse:
        seen.append(request.timeout_ms)
        if len(seen) < 3:
            await asyncio.sleep(1)
            raise ControllerError(errors_pb2.UNAVAILABLE, "not yet")
        return pb.CreateTopicsResponse(results=[pb.CreateTopicsResponse.Result(name="orders", topic_id=b"x" * 16)])

    await world.ask(
        {methods.CREATE_TOPICS: unary(create, pb.CreateTopicsRequest)},
        9000,
        lambda admin: admin.create_topic("orders", partitions=1),
    )
    assert 6500 < seen[0] < 9000 - 1000 - 1200 + 10
    assert seen[1] <= seen[0] - 1000
    assert seen[2] <= seen[1] - 1000
