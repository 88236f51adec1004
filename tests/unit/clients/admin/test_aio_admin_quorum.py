"""Changes of the quorum, asked for while it cannot change."""

import asyncio
from collections.abc import Sequence

import pytest
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.admin.aio_admin import Admin
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2, methods
from lograft.proto.errors import error_detail
from lograft.runtime.network import Status, Stream, StreamError
from lograft.runtime.tasks.deadline import answer_ms

LOST = None
"""The broker dies with the answer."""
NOT_NOW = errors_pb2.QUORUM_CHANGE_NOT_NOW


class Asked:
    """What brokers answer, one after the other, each after five seconds or when the request leaves no more time. The
    last answer is given again and again."""

    def __init__(self, cluster: FakeCluster, answers: Sequence[int | None]) -> None:
        self.timeouts_ms: list[int] = []
        self._cluster = cluster
        self._answers = list(answers)
        cluster.more_handlers = lambda number: {methods.REPLACE_VOTER: lambda stream: self._serve(number, stream)}

    async def _serve(self, number: int, stream: Stream) -> None:
        timeout_ms = pb.ReplaceVoterRequest.FromString(await stream.receive() or b"").timeout_ms
        self.timeouts_ms.append(timeout_ms)
        code = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if code is LOST:
            self._cluster.kill(number)
            return
        if code != errors_pb2.NONE:
            await asyncio.sleep(min(5000, answer_ms(timeout_ms)) / 1000)
            detail = error_detail(code, "node 3 does not answer")
            raise StreamError(Status.UNAVAILABLE, detail.message, detail.SerializeToString())
        await stream.send(pb.QuorumChangeResponse().SerializeToString())


class Story:
    """An admin client, and what it was told and asked."""

    def __init__(self, *answers: int | None) -> None:
        self._cluster = FakeCluster()
        self.asked = Asked(self._cluster, answers)
        self.told: list[str] = []
        self.seconds = 0.0

    async def replace(self, timeout_ms: int = 20_000) -> None:
        await self._cluster.start()
        began = asyncio.get_running_loop().time()
        try:
            async with Admin(self._cluster.bootstrap, timeout_ms=timeout_ms, runtime=self._cluster.client) as admin:
                admin.when_refused_for_now = lambda error: self.told.append(error.message)
                await admin.replace_voter(3)
        finally:
            self.seconds = asyncio.get_running_loop().time() - began


@virtual
async def test_what_cannot_be_done_now_is_asked_for_again_and_people_are_told_why() -> None:
    story = Story(NOT_NOW, NOT_NOW, errors_pb2.NONE)
    await story.replace()
    assert story.told == ["node 3 does not answer"] * 2
    assert 10 < story.seconds < 12


@virtual
@pytest.mark.parametrize("timeout_ms", [800, 2000, 7000, 20_000])
async def test_the_last_refusal_is_the_outcome_and_comes_in_time(timeout_ms: int) -> None:
    story = Story(NOT_NOW)
    with pytest.raises(errors.QuorumChangeNotNow, match="node 3 does not answer") as caught:
        await story.replace(timeout_ms)
    assert not caught.value.outcome_unknown
    assert timeout_ms / 2000 < story.seconds < timeout_ms / 1000


@virtual
async def test_each_attempt_is_told_how_much_time_is_left() -> None:
    story = Story(NOT_NOW)
    with pytest.raises(errors.QuorumChangeNotNow):
        await story.replace(18_000)
    assert story.asked.timeouts_ms == sorted(story.asked.timeouts_ms, reverse=True)
    assert 17_900 < story.asked.timeouts_ms[0] <= 18_000
    assert story.asked.timeouts_ms[-1] < 3000


@virtual
@pytest.mark.parametrize("answer", [LOST, errors_pb2.CONTROLLER_MOVED, errors_pb2.TIMED_OUT])
async def test_what_may_have_been_done_is_not_done_again(answer: int | None) -> None:
    story = Story(answer, errors_pb2.NONE)
    with pytest.raises(errors.LograftError) as caught:
        await story.replace()
    assert caught.value.outcome_unknown
    assert len(story.asked.timeouts_ms) == 1
