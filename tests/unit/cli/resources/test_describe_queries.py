"""What `lograft describe` and `lograft top` find out from a cluster that does not answer everything."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from support.described_clusters import described
from support.raft_nodes import virtual

from lograft.cli.common.best_effort import ask_soon
from lograft.cli.common.cluster_options import NOT_CONFIRMED, Settings, open_admin
from lograft.cli.resources.describe_queries import described_topic
from lograft.cli.resources.describe_text import story_lines
from lograft.cli.top.command import look
from lograft.cli.top.model import top_view
from lograft.cli.top.screen import Order, top_lines
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.group_types import GroupListing, GroupOffset, GroupState
from lograft.clients.admin.model.types import (
    BrokerLoad,
    ClusterDescription,
    ConfigEntry,
    QuorumDescription,
    ReplicaDescription,
    TopicDescription,
)
from lograft.clients.errors import LograftError, NoBrokerAvailable, TimedOut
from lograft.clients.types import TopicPartition
from lograft.proto import cluster_pb2 as pb
from lograft.runtime.clock import LoopClock

CLUSTER = described({"orders": [[1, 2, 3]]})


class Coordinators:
    """An admin client of a cluster whose brokers know their topics, and who else does not answer."""

    def __init__(self, **trouble: LograftError) -> None:
        self._trouble = trouble

    def _raise_for(self, question: str) -> None:
        if question in self._trouble:
            raise self._trouble[question]

    async def describe_cluster(self, topics: Any = (), *, include_internal: bool = False) -> ClusterDescription:
        return CLUSTER

    async def describe_topic(self, name: str) -> TopicDescription:
        return CLUSTER.topics[0]

    async def describe_replicas(self, topics: Any = (), *, include_internal: bool = False) -> list[ReplicaDescription]:
        return []

    async def describe_load(self) -> list[BrokerLoad]:
        return []

    async def describe_config(self, *_: Any) -> list[ConfigEntry]:
        self._raise_for("config")
        return []

    async def describe_quorum(self) -> QuorumDescription:
        self._raise_for("quorum")
        return QuorumDescription("test", 1, 4, 10, 10, ())

    async def list_groups(self) -> list[GroupListing]:
        self._raise_for("listing")
        return [GroupListing(name, GroupState.EMPTY, 0, 1) for name in ("billing", "shipping")]

    async def group_offsets(self, group: str) -> dict[TopicPartition, GroupOffset]:
        self._raise_for("offsets")
        return {TopicPartition("orders", 0): GroupOffset(3, 5, "", None, 0)}


@virtual
async def test_a_topics_groups_are_told() -> None:
    found = await described_topic(cast(Admin, Coordinators()), "orders")
    assert [(group["name"], group["lag"]) for group in found["status"]["groups"]] == [("billing", 2), ("shipping", 2)]


@pytest.mark.parametrize("which", ["listing", "offsets"])
@virtual
async def test_groups_that_cannot_be_asked_do_not_keep_a_topic_from_being_told(which: str) -> None:
    silent = TimedOut("not all coordinators said what groups they have")
    found = await described_topic(cast(Admin, Coordinators(**{which: silent})), "orders")
    assert (found["status"]["groups"], len(found["status"]["partitions"])) == (None, 1)


@virtual
async def test_a_configuration_that_cannot_be_asked_for_does_not_either() -> None:
    admin = Coordinators(config=TimedOut("DescribeConfigs got no answer"))
    found = await described_topic(cast(Admin, admin), "orders")
    assert found["status"]["config"] is None
    story = "".join(story_lines(found, Settings("b", 1), is_coloured=False))
    assert "Configuration: not available in time" in story
    assert "Replicas:    3\n" in story


@virtual
async def test_top_shows_the_rest_if_neither_controllers_nor_coordinators_answer() -> None:
    silent = TimedOut("nobody answers")
    seen = await look(cast(Admin, Coordinators(listing=silent, quorum=silent)), LoopClock())
    view = top_view(None, seen)
    assert view["status"]["groups"] is None
    assert view["status"]["problems"][-1] == "groups are not available: nobody answers"
    assert any("is unreachable: nobody answers" in each for each in view["status"]["problems"])
    lines = top_lines(view, Settings("b", 1), Order.TRAFFIC, height=None)
    assert lines[-1] == "(groups are not available)"


@virtual
async def test_what_never_comes_is_not_waited_for_long() -> None:
    assert await ask_soon(asyncio.Event().wait(), 3000) == (None, "no answer within 3s")


class Cut:
    """Brokers that are cut off from the controllers: they know what they knew. `is_gone`: there are none."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self._is_gone = is_gone

    @contextlib.asynccontextmanager
    async def within(self, *_: object) -> AsyncIterator[None]:
        yield

    async def call_any(self, method: str, request: pb.DescribeRequest, *_: Any, **__: Any) -> pb.ClusterDescription:
        if request.linearizable:
            await asyncio.Event().wait()
        if self._is_gone:
            raise NoBrokerAvailable("no broker answered")
        return pb.ClusterDescription(cluster_id="test")


@virtual
async def test_what_no_controller_confirms_is_said_to_be_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = open_admin(Settings("b:1", 30_000))
    monkeypatch.setattr(admin, "_open", Cut)
    for _ in range(2):
        assert (await admin.describe_cluster()).cluster_id == "test"
    assert capsys.readouterr().err == f"{NOT_CONFIRMED}\n"


@virtual
async def test_nothing_is_said_of_what_nobody_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = open_admin(Settings("b:1", 30_000))
    monkeypatch.setattr(admin, "_open", lambda: Cut(is_gone=True))
    with pytest.raises(NoBrokerAvailable):
        await admin.describe_cluster()
    assert capsys.readouterr().err == ""
