"""Settings, changed while brokers and controllers come and go."""

from typing import Any

import pytest
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import ConfigKind
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2, methods
from lograft.proto.errors import error_detail
from lograft.runtime.network import Stream

LOST = None
"""The broker dies with the answer."""


class Asked:
    """What brokers answer, one after the other, when a setting is to be changed."""

    def __init__(self, cluster: FakeCluster, *answers: int | None) -> None:
        self.count = 0
        self._cluster = cluster
        self._answers = list(answers)
        cluster.more_handlers = lambda number: {methods.ALTER_CONFIGS: lambda stream: self._serve(number, stream)}

    async def _serve(self, number: int, stream: Stream) -> None:
        await stream.receive()
        self.count += 1
        code = self._answers.pop(0)
        if code is LOST:
            self._cluster.kill(number)
            return
        result: Any = pb.AlterConfigsResponse.Result()
        if code != errors_pb2.NONE:
            result.error.CopyFrom(error_detail(code, "told so"))
        await stream.send(pb.AlterConfigsResponse(results=[result]).SerializeToString())


async def alter(*answers: int | None, validate_only: bool = False) -> int:
    """How often brokers were asked."""
    cluster = FakeCluster()
    asked = Asked(cluster, *answers)
    await cluster.start()
    async with Admin(cluster.bootstrap, timeout_ms=20_000, runtime=cluster.client) as admin:
        await admin.alter_config(ConfigKind.TOPIC, "orders", {"retention.ms": "1"}, validate_only=validate_only)
    return asked.count


@virtual
async def test_what_was_not_done_is_asked_for_again() -> None:
    assert await alter(errors_pb2.NOT_CONTROLLER, errors_pb2.UNAVAILABLE, errors_pb2.NONE) == 3


@virtual
@pytest.mark.parametrize("answer", [LOST, errors_pb2.CONTROLLER_MOVED])
async def test_what_may_have_been_done_is_not_done_again(answer: int | None) -> None:
    """Else it could undo what somebody else has set since (seed 3000425 of the simulator)."""
    with pytest.raises(errors.LograftError) as caught:
        await alter(answer, errors_pb2.NONE)
    assert caught.value.outcome_unknown


@virtual
@pytest.mark.parametrize("answer", [LOST, errors_pb2.CONTROLLER_MOVED])
async def test_a_rehearsal_can_be_repeated(answer: int | None) -> None:
    assert await alter(answer, errors_pb2.NONE, validate_only=True) == 2
