"""The controllers' end of heartbeats: who is alive, and what is done for them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.fake_controllers import until
from support.metadata_images import ACTIVE, FENCED, broker, epoch_of, ids, image_with, partition, topic_id
from support.raft_nodes import make_runtime, virtual
from support.scripted_quorum import Office, in_office

from lograft.chaos.world.network import VirtualNetwork
from lograft.metadata.controller.broker_liveness import BrokerLiveness
from lograft.metadata.controller.reported_ends import ReportedEnds
from lograft.metadata.controller.services.heartbeat_service import HeartbeatService
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.metadata.image.snapshot import records_of
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from lograft.proto.metadata_pb2 import BROKER_STATE_ACTIVE, BROKER_STATE_FENCED, BROKER_STATE_UNSPECIFIED
from lograft.proto.methods import BROKER_HEARTBEAT
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_controller_error
from lograft.runtime.network import Connection, Status, Stream, StreamError
from lograft.runtime.rng import Rng

RUN, READY, SHUT_DOWN = BrokerHeartbeatRequest.RUN, BrokerHeartbeatRequest.READY, BrokerHeartbeatRequest.SHUT_DOWN
ONE, TWO, THREE = ids(1, 2, 3)
CLUSTER_ID = "cluster"
CONTROLLERS = {1: "c1:9093", 2: "c2:9093", 3: "c3:9093"}
SESSION_MS, GRACE_MS = 3000, 200


class Line:
    """A broker's stream of heartbeats."""

    def __init__(self, connection: Connection, broker_id: int, epoch: int) -> None:
        self.connection = connection
        self._broker_id = broker_id
        self._epoch = epoch
        self.stream: Stream = connection.open(BROKER_HEARTBEAT)

    async def send(self, wanted: int = RUN, **others: Any) -> None:
        fields: dict[str, Any] = {
            "cluster_id": CLUSTER_ID, "broker_id": self._broker_id, "broker_epoch": self._epoch,
            "metadata_index": 1000, "wanted": wanted, **others,
        }  # fmt: skip
        await self.stream.send(BrokerHeartbeatRequest(**fields).SerializeToString())

    async def answer(self) -> BrokerHeartbeatResponse:
        async with asyncio.timeout(10):
            data = await self.stream.receive()
        assert data is not None, "the stream ended"
        return BrokerHeartbeatResponse.FromString(data)

    async def ask(self, wanted: int = RUN, **others: Any) -> BrokerHeartbeatResponse:
        """The answer at once; what it leads to may follow in another."""
        await self.send(wanted, **others)
        return await self.answer()

    async def is_silent(self) -> bool:
        """For two seconds. The stream is of no use afterwards."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                return await self.stream.receive() is None
        return True

    async def refusal(self) -> tuple[Status, ControllerError]:
        """How the controller ended the stream."""
        try:
            while True:
                await self.answer()
        except StreamError as error:
            return error.status, to_controller_error(error)


class Controller:
    """The service on node 1, which leads a quorum that does only what the test says."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.network = VirtualNetwork(Rng(1))
        self.runtime = make_runtime(1, self.network, "c1")
        self.sessions = BrokerLiveness()
        self.ends = ReportedEnds()
        office.machine.listen(self.ends)
        self.service = HeartbeatService(
            self.runtime.clock, CLUSTER_ID, office.controller, office.machine, self.sessions, self.ends, CONTROLLERS
        )
        self.panics: list[BaseException] = []

    @property
    def image(self) -> ClusterImage:
        return self.office.machine.image

    @property
    def now_ms(self) -> int:
        return self.runtime.clock.monotonic_ms()

    def state(self, broker_id: int) -> BrokerState:
        return self.image.brokers[ids(broker_id)[0]].state

    def is_alive(self, broker_id: int, *, within_ms: int = 0) -> bool:
        """Will it still be, if nothing more is heard?"""
        return self.sessions.is_alive(ids(broker_id)[0], epoch_of(broker_id), self.now_ms + within_ms)

    async def line(self, broker_id: int, *, epoch: int | None = None) -> Line:
        """Over a connection of its own."""
        connection = await self.network.host(f"b{broker_id}").connect("c1:9093")
        return Line(connection, broker_id, epoch if epoch is not None else epoch_of(broker_id))

    async def commit(self) -> None:
        """All that is asked of the quorum, as soon as it is asked."""
        await asyncio.sleep(0.01)
        self.office.node.answer_reads()
        self.office.node.commit()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def controller(image: ClusterImage, *, active: bool = True) -> AsyncIterator[Controller]:
    """In office, with this image; else a standby of controller 2."""
    async with in_office() as office:
        office.node.lose(to=2)
        office.node.commit_of_others(*records_of(image))
        if active:
            office.node.lead()
        here = Controller(office)
        await asyncio.sleep(60)  # so that nobody is alive only because this controller has just begun
        server = await here.runtime.network.serve("c1:9093", {BROKER_HEARTBEAT: here.service.serve}, here.panics.append)
        yield here
        await server.stop()
        assert not here.panics, here.panics


THREE_READY = image_with(broker(1), broker(2), broker(3), topics={"orders": [partition(1, 2, 3)]})
ONE_FENCED = image_with(broker(1, state=FENCED), broker(2), broker(3))


# -- what is said


@virtual
async def test_each_heartbeat_is_answered_with_what_the_active_controller_knows() -> None:
    async with controller(THREE_READY) as here:
        line = await here.line(1)
        for _ in range(3):
            answer = await line.ask()
            assert answer == BrokerHeartbeatResponse(
                is_active=True, active_id=1, active_address="c1:9093", commit_index=here.office.machine.index,
                state=BROKER_STATE_ACTIVE,
            )  # fmt: skip


@virtual
async def test_a_standby_says_who_is_active_and_where_and_does_nothing() -> None:
    async with controller(ONE_FENCED, active=False) as here:
        line = await here.line(1)
        answer = await line.ask(READY)
        assert answer == BrokerHeartbeatResponse(
            active_id=2, active_address="c2:9093", commit_index=here.office.machine.index, state=BROKER_STATE_FENCED
        )
        await here.commit()
        assert here.state(1) is FENCED
        assert here.is_alive(1, within_ms=SESSION_MS - 100)
        for _ in range(3):
            await line.ask(READY)
        assert await line.is_silent(), "there is nothing more to say"


@virtual
async def test_a_standby_that_knows_of_none_names_none() -> None:
    async with controller(ONE_FENCED, active=False) as here:
        here.office.node.leader = None
        answer = await (await here.line(1)).ask()
        assert not answer.HasField("active_id")
        assert not answer.HasField("active_address")


@virtual
async def test_a_leader_whose_address_is_not_known_is_named_without_one() -> None:
    async with controller(ONE_FENCED) as here:
        here.office.node.lose(to=9)
        answer = await (await here.line(1)).ask()
        assert answer.active_id == 9
        assert not answer.HasField("active_address")


@pytest.mark.parametrize(
    ("broker_id", "epoch", "code"),
    [(1, 1, errors_pb2.STALE_BROKER_EPOCH), (1, 999, errors_pb2.STALE_BROKER_EPOCH), (9, 1, errors_pb2.UNKNOWN_BROKER)],
)
def test_who_has_no_place_is_told_so_by_the_active_controller_alone(broker_id: int, epoch: int, code: int) -> None:
    @virtual
    async def scenario() -> None:
        async with controller(ONE_FENCED) as here:
            line = await here.line(broker_id, epoch=epoch)
            answer = await line.ask(READY)
            assert (answer.error.code, answer.state) == (code, BROKER_STATE_UNSPECIFIED)
            await asyncio.sleep(0.1)
            assert not here.office.node.reads, "the quorum is not asked for who has no place"
            assert not here.sessions.is_alive(BrokerId(broker_id), BrokerEpoch(epoch), here.now_ms)
            here.office.node.lose(to=2)
            answer = await line.ask(READY)  # the same stream goes on, for this one may just not know yet
            assert not answer.HasField("error")
            assert here.sessions.is_alive(BrokerId(broker_id), BrokerEpoch(epoch), here.now_ms)
            assert not here.office.node.queued

    scenario()


# -- what is done


@virtual
async def test_who_is_ready_is_unfenced_and_hears_of_it_without_asking_again() -> None:
    async with controller(ONE_FENCED) as here:
        line = await here.line(1)
        assert (await line.ask(READY)).state == BROKER_STATE_FENCED
        await here.commit()
        assert here.state(1) is ACTIVE
        assert (await line.answer()).state == BROKER_STATE_ACTIVE


@pytest.mark.parametrize("wanted", [RUN, BrokerHeartbeatRequest.UNSPECIFIED, 77])
def test_who_does_not_ask_for_it_is_not_unfenced(wanted: int) -> None:
    @virtual
    async def scenario() -> None:
        async with controller(ONE_FENCED) as here:
            await (await here.line(1)).ask(wanted)
            await here.commit()
            assert here.state(1) is FENCED

    scenario()


@virtual
async def test_nothing_is_asked_of_the_quorum_for_who_is_ready_already() -> None:
    async with controller(THREE_READY) as here:
        line = await here.line(1)
        for _ in range(5):
            await line.ask(READY)
        await asyncio.sleep(0.1)
        assert not here.office.node.queued
        assert not here.office.node.reads


@virtual
async def test_a_slow_quorum_holds_up_no_answer_and_is_asked_once() -> None:
    async with controller(ONE_FENCED) as here:
        line = await here.line(1)
        for _ in range(20):
            began_ms = here.now_ms
            assert (await line.ask(READY)).state == BROKER_STATE_FENCED
            assert here.now_ms - began_ms < 100
            await asyncio.sleep(0.5)
        assert len(here.office.node.queued) == 1
        assert here.is_alive(1)
        await here.commit()
        assert (await line.answer()).state == BROKER_STATE_ACTIVE


@virtual
async def test_who_wants_to_leave_has_one_thing_done_at_a_time() -> None:
    async with controller(THREE_READY) as here:
        line = await here.line(1)
        for _ in range(10):
            assert not (await line.ask(SHUT_DOWN)).may_stop
            await asyncio.sleep(0.1)
            assert len(here.office.node.queued) + len(here.office.node.reads) == 1


@virtual
async def test_a_wish_that_the_quorum_could_not_fulfil_is_taken_up_with_a_later_heartbeat() -> None:
    async with controller(ONE_FENCED) as here:
        line = await here.line(1)
        await line.ask(READY)
        await asyncio.sleep(0.1)
        here.office.node.lose(to=2)
        answer = await line.answer()  # of the wish that failed
        assert (answer.is_active, answer.state) == (False, BROKER_STATE_FENCED)
        here.office.node.lead()
        await line.ask(READY)
        await here.commit()
        assert here.state(1) is ACTIVE


@virtual
async def test_a_broker_that_breaks_off_amid_its_wish_is_unfenced_all_the_same_and_harms_nobody() -> None:
    async with controller(ONE_FENCED) as here:
        line = await here.line(1)
        await line.ask(READY)
        await line.connection.close()
        await asyncio.sleep(0.1)
        await here.commit()
        assert here.state(1) is ACTIVE
        assert not here.is_alive(1, within_ms=GRACE_MS)


# -- leaving


@virtual
async def test_who_wants_to_leave_goes_step_by_step_and_may_stop_at_the_end() -> None:
    async with controller(THREE_READY) as here:
        line = await here.line(1)
        answers = []
        for _ in range(3):
            answers.append(await line.ask(SHUT_DOWN))
            await here.commit()
            if not answers[-1].may_stop:
                answers.append(await line.answer())
        assert [answer.may_stop for answer in answers] == [False, False, False, True, True]
        assert here.state(1) is FENCED
        assert here.image.topics[topic_id(1)].partitions[0].leader != 1


@virtual
async def test_that_it_may_stop_is_said_again_and_asked_of_the_quorum_no_more() -> None:
    async with controller(ONE_FENCED) as here:
        line = await here.line(1)
        await line.ask(SHUT_DOWN)
        await here.commit()
        assert (await line.answer()).may_stop
        for _ in range(5):
            assert (await line.ask(SHUT_DOWN)).may_stop
        assert not here.office.node.reads


@virtual
async def test_another_stream_of_who_may_stop_finds_that_out_again() -> None:
    async with controller(ONE_FENCED) as here:
        for _ in range(2):
            line = await here.line(1)
            assert not (await line.ask(SHUT_DOWN)).may_stop
            await here.commit()
            assert (await line.answer()).may_stop


@virtual
async def test_who_changes_its_mind_after_it_was_let_go_is_taken_back() -> None:
    async with controller(ONE_FENCED) as here:
        line = await here.line(1)
        await line.ask(SHUT_DOWN)
        await here.commit()
        assert (await line.answer()).may_stop
        assert not (await line.ask(READY)).may_stop
        await here.commit()
        assert (await line.answer()).state == BROKER_STATE_ACTIVE
        answer = await line.ask(SHUT_DOWN)
        assert not answer.may_stop, "it is needed again, and has to be let go again"


# -- who is alive


@virtual
async def test_a_stream_keeps_its_process_alive_while_heartbeats_come() -> None:
    async with controller(THREE_READY) as here:
        line = await here.line(1)
        for _ in range(20):
            await line.ask()
            assert here.is_alive(1, within_ms=SESSION_MS - 100)
            await asyncio.sleep(0.5)
        assert not here.is_alive(1, within_ms=SESSION_MS)


@pytest.mark.parametrize("how", ["reset", "connection", "half close"])
def test_a_stream_that_ends_leaves_the_grace_alone(how: str) -> None:
    @virtual
    async def scenario() -> None:
        async with controller(THREE_READY) as here:
            line = await here.line(1)
            await line.ask()
            if how == "reset":
                line.stream.reset()
            elif how == "connection":
                await line.connection.close()
            else:
                await line.stream.half_close()
            await asyncio.sleep(0.05)
            assert here.is_alive(1)
            assert not here.is_alive(1, within_ms=GRACE_MS)

    scenario()


@virtual
async def test_a_new_stream_before_the_old_one_is_known_to_be_dead_counts_on() -> None:
    async with controller(THREE_READY) as here:
        old, new = await here.line(1), await here.line(1)
        await old.ask()
        await new.ask()
        await old.connection.close()
        await asyncio.sleep(0.05)
        assert here.is_alive(1, within_ms=SESSION_MS - 200)


@pytest.mark.parametrize("epoch", [1, 999], ids=["an earlier process", "an epoch that was never given out"])
def test_what_another_process_does_changes_nothing_for_the_present_one(epoch: int) -> None:
    @virtual
    async def scenario() -> None:
        image = image_with(broker(1), broker(2), topics={"orders": [partition(1, 2, isr=())]})
        async with controller(image) as here:
            line, other = await here.line(1), await here.line(1, epoch=epoch)
            end = BrokerHeartbeatRequest.LogEnd(topic_id=topic_id(1).bytes, last_epoch=1, end_offset=5)
            await line.ask(log_ends=[end])
            known = {key: dict(ends) for key, ends in here.ends.log_ends.items()}
            assert known
            await other.ask(SHUT_DOWN)
            await other.connection.close()
            await asyncio.sleep(0.05)
            assert here.ends.log_ends == known
            assert here.is_alive(1, within_ms=SESSION_MS - 200)
            assert here.state(1) is ACTIVE
            assert not here.office.node.queued
            # Nor does it keep alive who is dead.
            await line.connection.close()
            other = await here.line(1, epoch=epoch)
            await other.ask()
            await asyncio.sleep(GRACE_MS / 1000)
            assert not here.is_alive(1)

    scenario()


@virtual
async def test_log_ends_are_known_while_they_are_said() -> None:
    async with controller(image_with(broker(1), broker(2), topics={"orders": [partition(1, 2, isr=())]})) as here:
        line = await here.line(1)
        end = BrokerHeartbeatRequest.LogEnd(topic_id=topic_id(1).bytes, last_epoch=4, end_offset=70)
        await line.ask(log_ends=[end])
        (said,) = here.ends.log_ends[topic_id(1), 0].values()
        assert (said.broker_epoch, said.last_epoch, said.end_offset) == (epoch_of(1), 4, 70)
        await line.ask()
        assert not here.ends.log_ends


# -- what is not as it should be


@virtual
async def test_a_stream_without_a_word_ends_well_and_makes_nobody_known() -> None:
    async with controller(THREE_READY) as here:
        line = await here.line(1)
        await line.stream.half_close()
        assert await line.stream.receive() is None


@virtual
async def test_a_broker_of_another_cluster_is_refused_and_not_known_as_alive() -> None:
    async with controller(THREE_READY) as here:
        line = await here.line(1)
        await line.send(cluster_id="other")
        status, error = await line.refusal()
        assert (status, error.code) == (Status.FAILED_PRECONDITION, errors_pb2.WRONG_CLUSTER)
        assert "check cluster_id" in error.message
        assert not here.is_alive(1)


def _after_a_good_one(*bad: bytes) -> Iterable[tuple[bool, bytes]]:
    return [(is_first, each) for each in bad for is_first in (True, False)]


@pytest.mark.parametrize(
    ("is_first", "data"),
    _after_a_good_one(
        b"\xff\xff\xff",
        BrokerHeartbeatRequest(
            cluster_id=CLUSTER_ID, broker_id=1, broker_epoch=epoch_of(1),
            log_ends=[BrokerHeartbeatRequest.LogEnd(topic_id=b"short")],
        ).SerializeToString(),
    ),
)  # fmt: skip
def test_bytes_that_are_no_heartbeat_end_their_stream_and_nothing_else(is_first: bool, data: bytes) -> None:
    @virtual
    async def scenario() -> None:
        async with controller(ONE_FENCED) as here:
            other, line = await here.line(2), await here.line(1)
            await other.ask()
            if not is_first:
                await line.ask(READY)  # with a wish under way
            await line.stream.send(data)
            status, error = await line.refusal()
            assert (status, error.code) == (Status.INVALID_ARGUMENT, errors_pb2.INVALID_REQUEST)
            assert (await other.ask()).state == BROKER_STATE_ACTIVE
            assert not here.is_alive(1, within_ms=GRACE_MS)

    scenario()


@pytest.mark.parametrize(("broker_id", "epoch"), [(2, epoch_of(1)), (1, epoch_of(2))])
def test_a_stream_is_of_one_process(broker_id: int, epoch: BrokerEpoch) -> None:
    @virtual
    async def scenario() -> None:
        async with controller(THREE_READY) as here:
            line = await here.line(1)
            await line.ask()
            await line.send(broker_id=broker_id, broker_epoch=epoch)
            status, error = await line.refusal()
            assert (status, error.code) == (Status.INVALID_ARGUMENT, errors_pb2.INVALID_REQUEST)
            assert "another process" in error.message

    scenario()


@virtual
async def test_nothing_is_kept_of_streams_that_came_and_went() -> None:
    async with controller(THREE_READY) as here:
        for epoch in range(500, 600):
            line = await here.line(1, epoch=epoch)
            await line.ask()
            await line.connection.close()
            await asyncio.sleep(1)
        await until(lambda: len(vars(here.sessions)["_sessions"]) < 40)
