"""What the admin client asks for again when an answer is lost, and what it does not."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import ElectionKind
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2, methods
from lograft.proto.errors import error_detail
from lograft.runtime.network import Status, Stream, StreamError

LOST = None
"""The broker dies with the answer."""
DONE = errors_pb2.NONE

REQUESTS: dict[str, tuple[Any, Any]] = {
    methods.DELETE_TOPICS: (pb.DeleteTopicsRequest, pb.DeleteTopicsResponse),
    methods.CREATE_PARTITIONS: (pb.CreatePartitionsRequest, pb.CreatePartitionsResponse),
    methods.ALTER_REASSIGNMENTS: (pb.AlterReassignmentsRequest, pb.AlterReassignmentsResponse),
    methods.ELECT_LEADERS: (pb.ElectLeadersRequest, None),
    methods.UNREGISTER_BROKER: (pb.UnregisterBrokerRequest, None),
}
WITHOUT_ITEMS: dict[str, Any] = {
    methods.ELECT_LEADERS: pb.ElectLeadersResponse,
    methods.UNREGISTER_BROKER: pb.UnregisterBrokerResponse,
}


class Asked:
    """`requests`: what brokers were asked. They answer one after the other as they are told; the last answer is given
    again and again."""

    def __init__(self, cluster: FakeCluster, answers: Sequence[int | None]) -> None:
        self.requests: list[Any] = []
        self._cluster = cluster
        self._answers = list(answers)
        cluster.more_handlers = lambda number: {name: self._handler(number, name) for name in REQUESTS}

    def _handler(self, number: int, name: str) -> Callable[[Stream], Awaitable[None]]:
        request_type, response_type = REQUESTS[name]

        async def serve(stream: Stream) -> None:
            self.requests.append(request_type.FromString(await stream.receive() or b""))
            code = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            if code is LOST:
                self._cluster.kill(number)
                return
            detail = error_detail(code, "told so")
            if response_type is None:
                if code != DONE:
                    raise StreamError(Status.UNAVAILABLE, detail.message, detail.SerializeToString())
                await stream.send(WITHOUT_ITEMS[name]().SerializeToString())
                return
            result = response_type.Result(error=detail if code != DONE else None)
            await stream.send(response_type(results=[result]).SerializeToString())

        return serve


Action = Callable[[Admin], Awaitable[object]]


async def _reassign(admin: Admin, target: list[int] | None, *, validate_only: bool = False) -> None:
    for error in (await admin.reassign({("orders", 0): target}, validate_only=validate_only)).values():
        if error is not None:
            raise error


NOT_REPEATED: dict[str, Action] = {
    "delete by name": lambda admin: admin.delete_topic("nothing"),
    "partitions": lambda admin: admin.create_partitions("orders", 6),
    "reassign": lambda admin: _reassign(admin, [1, 2]),
    "cancel": lambda admin: _reassign(admin, None),
    "unclean election": lambda admin: admin.elect_leaders(ElectionKind.UNCLEAN, [("orders", 0)]),
    "unregister": lambda admin: admin.unregister_broker(3),
}
REPEATED: dict[str, Action] = {
    "delete by id": lambda admin: admin.delete_topic("orders"),
    "partitions, rehearsed": lambda admin: admin.create_partitions("orders", 6, validate_only=True),
    "reassign, rehearsed": lambda admin: _reassign(admin, [1, 2], validate_only=True),
    "preferred election": lambda admin: admin.elect_leaders(ElectionKind.PREFERRED, [("orders", 0)]),
}


async def ask(action: Action, *answers: int | None, timeout_ms: int = 20_000) -> list[Any]:
    """What brokers were asked."""
    cluster = FakeCluster()
    cluster.create_topic("orders", [1])
    asked = Asked(cluster, answers)
    await cluster.start()
    async with Admin(cluster.bootstrap, timeout_ms=timeout_ms, runtime=cluster.client) as admin:
        try:
            await action(admin)
        except errors.LograftError as error:
            error.add_note(f"asked {len(asked.requests)} times")
            raise
    return asked.requests


@pytest.mark.parametrize("answer", [LOST, errors_pb2.CONTROLLER_MOVED], ids=["lost", "controller moved"])
@pytest.mark.parametrize("name", NOT_REPEATED)
@virtual
async def test_what_may_have_been_done_is_not_done_again(name: str, answer: int | None) -> None:
    """Else it could undo what somebody else has done since, or be refused as if nothing had been done."""
    with pytest.raises(errors.LograftError) as caught:
        await ask(NOT_REPEATED[name], answer, DONE)
    assert caught.value.outcome_unknown
    assert caught.value.__notes__ == ["asked 1 times"]


@pytest.mark.parametrize("name", [*NOT_REPEATED, *REPEATED])
@virtual
async def test_what_was_not_done_is_asked_for_again(name: str) -> None:
    action = (NOT_REPEATED | REPEATED)[name]
    assert len(await ask(action, errors_pb2.NOT_CONTROLLER, errors_pb2.UNAVAILABLE, DONE)) == 3


@pytest.mark.parametrize("answer", [LOST, errors_pb2.CONTROLLER_MOVED], ids=["lost", "controller moved"])
@pytest.mark.parametrize("name", REPEATED)
@virtual
async def test_what_is_as_good_done_twice_is_asked_for_again(name: str, answer: int | None) -> None:
    assert len(await ask(REPEATED[name], answer, DONE)) == 2


@virtual
async def test_a_topic_is_deleted_by_the_id_that_it_had_at_first() -> None:
    requests = await ask(REPEATED["delete by id"], LOST, errors_pb2.CONTROLLER_MOVED, DONE)
    assert len({request.topics[0].topic_id for request in requests}) == 1
    assert all(len(request.topics[0].topic_id) == 16 for request in requests)


@pytest.mark.parametrize("timeout_ms", [400, 1500, 5000])
@virtual
async def test_the_last_refusal_is_the_outcome(timeout_ms: int) -> None:
    """Nothing is asked for so late that its answer would be missed."""
    with pytest.raises(errors.NotController) as caught:
        await ask(NOT_REPEATED["partitions"], errors_pb2.NOT_CONTROLLER, timeout_ms=timeout_ms)
    assert not caught.value.outcome_unknown
