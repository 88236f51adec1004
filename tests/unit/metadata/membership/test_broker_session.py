import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from support.fake_controllers import FakeControllers, until
from support.raft_nodes import virtual

from lograft.metadata.decisions.brokers.registration import DirectoryUse, Registration
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, TopicId
from lograft.metadata.membership.broker_session import BrokerSession, FullDirectory, ReplicaEnd, SessionHooks, Wanted
from lograft.metadata.membership.controller_client import ControllerClient
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    LatestEpochRequest,
    LatestEpochResponse,
    RegisterRequest,
    RegisterResponse,
)
from lograft.proto.errors import error_detail
from lograft.proto.metadata_pb2 import BROKER_STATE_ACTIVE, BROKER_STATE_FENCED, BROKER_STATE_SHUTTING_DOWN
from lograft.proto.metadata_pb2 import BrokerState as State
from lograft.proto.methods import BROKER_HEARTBEAT, LATEST_EPOCH, REGISTER
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_stream_error
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler, Stream

CLUSTER = "cluster"
PREVIOUS_EPOCH = 69
EPOCH = 70
REGISTERED_AT = 100
READY, RUN, SHUT_DOWN = BrokerHeartbeatRequest.READY, BrokerHeartbeatRequest.RUN, BrokerHeartbeatRequest.SHUT_DOWN

REGISTRATION = Registration(
    broker_id=BrokerId(7),
    incarnation=UUID(int=1),
    address="broker-7:9092",
    rack="a",
    directories=(UUID(int=2), UUID(int=3), UUID(int=4)),
    boot_id="boot",
    clean_epoch=BrokerEpoch(PREVIOUS_EPOCH),
    min_feature_level=1,
    max_feature_level=4,
    nodes_address="broker-7:9094",
    uses=(
        DirectoryUse(UUID(int=2), BrokerEpoch(PREVIOUS_EPOCH)),
        DirectoryUse(UUID(int=3), is_restored=True),
        DirectoryUse(UUID(int=4), BrokerEpoch(PREVIOUS_EPOCH), damage="high-watermarks is missing"),
    ),
    version="1.2.3",
)


class Controller:
    """Answers heartbeats with `answer`, which a test changes."""

    def __init__(self, world: FakeControllers, controller_id: int, **answer: Any) -> None:
        self.answer: dict[str, Any] = {"commit_index": REGISTERED_AT, "state": BROKER_STATE_FENCED, **answer}
        self.beats: list[tuple[int, BrokerHeartbeatRequest]] = []
        self.streams = 0
        self.is_silent = False
        self.register: Handler = unary(self._register, RegisterRequest)
        self.registrations: list[RegisterRequest] = []
        self.latest_epoch: int | None = PREVIOUS_EPOCH
        self.stale_directories: list[UUID] = []
        self._world = world
        self.controller_id = controller_id

    async def serve(self) -> "Controller":
        await self._world.serve(self.controller_id, self.handlers())
        return self

    def handlers(self) -> dict[str, Handler]:
        return {
            BROKER_HEARTBEAT: self._heartbeat,
            LATEST_EPOCH: unary(self._tell_latest_epoch, LatestEpochRequest),
            REGISTER: lambda stream: self.register(stream),
        }

    @property
    def last(self) -> BrokerHeartbeatRequest:
        return self.beats[-1][1]

    async def _tell_latest_epoch(self, request: LatestEpochRequest) -> LatestEpochResponse:
        assert request == LatestEpochRequest(cluster_id=CLUSTER, broker_id=7)
        self._check_active()
        return LatestEpochResponse(broker_epoch=self.latest_epoch)

    async def _register(self, request: RegisterRequest) -> RegisterResponse:
        self.registrations.append(request)
        self._check_active()
        stale = [directory.bytes for directory in self.stale_directories]
        return RegisterResponse(broker_epoch=EPOCH, index=REGISTERED_AT, stale_directories=stale)

    def _check_active(self) -> None:
        if not self.answer.get("is_active"):
            raise ControllerError(errors_pb2.NOT_CONTROLLER, "ask another")

    async def _heartbeat(self, stream: Stream) -> None:
        self.streams += 1
        while (data := await stream.receive()) is not None:
            self.beats.append((self._world.now_ms, BrokerHeartbeatRequest.FromString(data)))
            if not self.is_silent:
                await stream.send(BrokerHeartbeatResponse(**self.answer).SerializeToString())


@dataclass
class Broker:
    """What a session knows of its broker."""

    metadata_index: int = 1000
    log_ends: list[ReplicaEnd] = field(default_factory=list)
    full: list[FullDirectory] | None = None
    heard: list[int] = field(default_factory=list)
    learned: list[tuple[int, str]] = field(default_factory=list)

    def ports(self) -> SessionHooks:
        return SessionHooks(
            metadata_index=lambda: self.metadata_index,
            log_ends=lambda: self.log_ends,
            commit_index_heard=self.heard.append,
            controller_learned=lambda *learned: self.learned.append(learned),
            full_directories=lambda: self.full,
        )


class Setting:
    """Three controllers, of which the first is the active one, and a session."""

    def __init__(self, seed: int = 1) -> None:
        self.world = FakeControllers(1, 2, 3, seed=seed)
        self.controllers = {each: Controller(self.world, each, is_active=each == 1) for each in (1, 2, 3)}
        self.client = ControllerClient(self.world.runtime, self.world.addresses)
        self.broker = Broker()
        self.session = BrokerSession(
            self.world.runtime, self.client, self.world.addresses, CLUSTER, REGISTRATION, self.broker.ports()
        )
        self.running: asyncio.Task[None] | None = None

    @property
    def active(self) -> Controller:
        return self.controllers[1]

    async def serve(self) -> "Setting":
        for controller in self.controllers.values():
            await controller.serve()
        return self

    @asynccontextmanager
    async def session_running(self) -> AsyncIterator[BrokerSession]:
        self.running = asyncio.ensure_future(self.session.run())
        try:
            await self.all_beat()
            yield self.session
        finally:
            self.running.cancel()
            await asyncio.wait([self.running])

    async def all_beat(self) -> None:
        """Return when each has had a heartbeat, from now on, and its answer was heard."""
        before = {each: len(controller.beats) for each, controller in self.controllers.items()}
        await until(lambda: all(len(each.beats) > before[id_] for id_, each in self.controllers.items()))
        await asyncio.sleep(0.1)


async def setting(seed: int = 1) -> Setting:
    return await Setting(seed).serve()


# -- registering


@virtual
async def test_a_broker_registers_with_all_it_has_to_say_of_itself() -> None:
    here = await setting()
    async with here.session_running() as session:
        assert session.is_registered
        assert (session.broker_epoch, session.registration_index) == (EPOCH, REGISTERED_AT)
    request = here.active.registrations[0]
    assert request == RegisterRequest(
        cluster_id=CLUSTER, broker_id=7, incarnation=UUID(int=1).bytes, address="broker-7:9092", rack="a",
        directories=[UUID(int=number).bytes for number in (2, 3, 4)], boot_id="boot", clean_epoch=69,
        min_feature_level=1, max_feature_level=4, previous_epoch=PREVIOUS_EPOCH, nodes_address="broker-7:9094",
        version="1.2.3",
        uses=[
            RegisterRequest.DirectoryUse(directory_id=UUID(int=2).bytes, used_epoch=PREVIOUS_EPOCH),
            RegisterRequest.DirectoryUse(directory_id=UUID(int=3).bytes, is_restored=True),
            # A controller that does not know of damage yet must not trust it, either.
            RegisterRequest.DirectoryUse(
                directory_id=UUID(int=4).bytes, used_epoch=PREVIOUS_EPOCH, is_restored=True,
                damage="high-watermarks is missing",
            ),
        ],
    )  # fmt: skip


@virtual
async def test_a_broker_learns_which_of_its_directories_are_from_the_past() -> None:
    here = await setting()
    here.active.stale_directories = [UUID(int=3)]
    async with here.session_running() as session:
        assert session.stale_directories == (UUID(int=3),)


@virtual
async def test_the_first_process_of_a_broker_names_no_epoch_before_its_own() -> None:
    here = await setting()
    here.active.latest_epoch = None
    async with here.session_running():
        assert not here.active.registrations[0].HasField("previous_epoch")


@virtual
async def test_who_is_overtaken_by_a_dead_process_asks_for_the_latest_epoch_again() -> None:
    here = await setting()
    accept = here.active.register

    async def overtaken(request: RegisterRequest) -> RegisterResponse:
        assert request.previous_epoch == PREVIOUS_EPOCH
        here.active.latest_epoch = EPOCH
        here.active.register = accept
        raise ControllerError(errors_pb2.STALE_BROKER_EPOCH, "another has registered")

    here.active.register = unary(overtaken, RegisterRequest)
    async with here.session_running():
        assert [request.previous_epoch for request in here.active.registrations] == [EPOCH]


@virtual
async def test_who_misses_the_answer_to_its_registration_sends_the_same_again() -> None:
    """By its incarnation the controller knows it, and by its epoch it knows those that are late."""
    here = await setting()
    accept, taken = here.active.register, []

    async def lose_the_answer(request: RegisterRequest) -> RegisterResponse:
        taken.append(request)
        here.active.latest_epoch = EPOCH
        here.active.register = accept
        raise ControllerError(errors_pb2.CONTROLLER_MOVED, "who knows")

    here.active.register = unary(lose_the_answer, RegisterRequest)
    async with here.session_running() as session:
        assert here.active.registrations == taken
        assert session.broker_epoch == EPOCH


@virtual
async def test_registration_goes_on_until_there_is_a_controller_that_takes_it() -> None:
    world_without = Setting()
    running = asyncio.ensure_future(world_without.session.run())
    await asyncio.sleep(120)
    assert not world_without.session.is_registered
    await world_without.serve()
    await until(lambda: world_without.session.is_registered, within_s=1)
    running.cancel()


@virtual
async def test_a_refusal_that_may_pass_is_waited_out() -> None:
    here = await setting()
    accept = here.active.register
    attempts = 0

    async def refuse(stream: Stream) -> None:
        nonlocal attempts
        attempts += 1
        raise to_stream_error(ControllerError(errors_pb2.DUPLICATE_BROKER, "the old one still lives"))

    here.active.register = refuse
    running = asyncio.ensure_future(here.session.run())
    await asyncio.sleep(20)
    assert not running.done()
    assert 8 <= attempts <= 30
    here.active.register = accept
    await until(lambda: here.session.is_registered, within_s=3)
    running.cancel()


@virtual
async def test_a_refusal_for_good_ends_the_session_before_any_heartbeat() -> None:
    here = await setting()

    async def refuse(stream: Stream) -> None:
        raise to_stream_error(ControllerError(errors_pb2.WRONG_CLUSTER, "check cluster_id"))

    for controller in here.controllers.values():
        controller.register = refuse
    with pytest.raises(ControllerError) as caught:
        await here.session.run()
    assert caught.value.code == errors_pb2.WRONG_CLUSTER
    assert not any(controller.beats for controller in here.controllers.values())


# -- heartbeats


@virtual
async def test_every_controller_hears_twice_a_second() -> None:
    here = await setting()
    async with here.session_running():
        await asyncio.sleep(10)
        for controller in here.controllers.values():
            assert 19 <= len(controller.beats) <= 23
            assert controller.streams == 1
            beat = controller.last
            assert (beat.cluster_id, beat.broker_id, beat.broker_epoch, beat.metadata_index, beat.wanted) == (
                CLUSTER, 7, EPOCH, 1000, RUN,
            )  # fmt: skip


@pytest.mark.parametrize(("wanted", "sent"), [(Wanted.READY, READY), (Wanted.SHUT_DOWN, SHUT_DOWN)])
@virtual
async def test_what_the_broker_wants_is_said_at_once_to_all(wanted: Wanted, sent: Any) -> None:
    here = await setting()
    async with here.session_running() as session:
        await asyncio.sleep(0.1)
        session.set_wanted(wanted)
        await asyncio.sleep(0.05)
        assert [controller.last.wanted for controller in here.controllers.values()] == [sent] * 3
        assert session.wanted is wanted


@virtual
async def test_a_broker_is_not_ready_before_its_image_has_its_registration() -> None:
    here = await setting()
    here.broker.metadata_index = REGISTERED_AT - 1
    async with here.session_running() as session:
        session.set_wanted(Wanted.READY)
        await here.all_beat()
        assert {controller.last.wanted for controller in here.controllers.values()} == {RUN}
        here.broker.metadata_index = REGISTERED_AT
        await asyncio.sleep(0.6)
        assert {controller.last.wanted for controller in here.controllers.values()} == {READY}


@virtual
async def test_every_controller_hears_at_once_which_directories_are_full() -> None:
    one, full = await setting(), FullDirectory(UUID(int=2), is_critical=True)
    cases: list[tuple[list[FullDirectory] | None, Any]] = [(None, None), ([], []), ([full], [[UUID(int=2), True]])]
    async with one.session_running() as session:
        for said, expected in cases:
            one.broker.full = said
            before = {each: len(controller.beats) for each, controller in one.controllers.items()}
            session.hurry()
            await asyncio.sleep(0.1)
            for each, controller in one.controllers.items():
                assert len(controller.beats) > before[each]
                beat = controller.beats[-1][1]
                told = [[UUID(bytes=one.directory_id), one.is_critical] for one in beat.full_directories.directories]
                assert (told if beat.HasField("full_directories") else None) == expected


@virtual
async def test_log_ends_go_to_the_active_controller_alone() -> None:
    here = await setting()
    here.broker.log_ends = [
        ReplicaEnd(TopicId(UUID(int=9)), 3, LeaderEpoch(4), 1234),
        ReplicaEnd(TopicId(UUID(int=9)), 4, LeaderEpoch(-1), 0),
    ]
    async with here.session_running():
        await here.all_beat()
        assert [
            (UUID(bytes=end.topic_id).int, end.partition, end.last_epoch, end.end_offset)
            for end in here.active.last.log_ends
        ] == [(9, 3, 4, 1234), (9, 4, -1, 0)]
        assert not here.controllers[2].last.log_ends
        here.active.answer["is_active"] = False
        here.controllers[2].answer["is_active"] = True
        await asyncio.sleep(1.1)
        assert not here.active.last.log_ends
        assert len(here.controllers[2].last.log_ends) == 2


@pytest.mark.parametrize("seed", range(5))
def test_a_broken_stream_is_there_again_before_the_controller_loses_patience(seed: int) -> None:
    @virtual
    async def run() -> None:
        here = await setting(seed)
        async with here.session_running():
            here.world.network.break_connections("broker", "c1")
            began_ms = here.world.now_ms
            await until(lambda: here.active.streams == 2, within_s=5)
            assert here.world.now_ms - began_ms < 150
            assert [controller.streams for controller in here.controllers.values()] == [2, 1, 1]

    run()


@virtual
async def test_a_silent_controller_is_connected_anew_after_a_second_and_a_half() -> None:
    here = await setting()
    async with here.session_running():
        here.active.is_silent = True
        await asyncio.sleep(1.2)
        assert here.active.streams == 1
        await asyncio.sleep(0.8)
        assert here.active.streams == 2
        here.active.is_silent = False
        await asyncio.sleep(5)
        assert here.active.streams <= 3
        assert here.controllers[2].streams == 1


@virtual
async def test_a_controller_that_comes_back_is_found_soon() -> None:
    here = await setting()
    async with here.session_running():
        here.world.kill(2)
        await asyncio.sleep(60)
        await here.controllers[2].serve()
        await until(lambda: here.controllers[2].streams == 2, within_s=0.7)
        await here.all_beat()
        here.world.network.break_connections("broker", "c2")
        await until(lambda: here.controllers[2].streams == 3, within_s=0.15)


@virtual
async def test_a_controller_that_stops_in_an_orderly_way_is_not_held_up() -> None:
    here = await setting()
    async with here.session_running():
        began_ms = here.world.now_ms
        await here.world.servers[2].stop(grace_ms=5000)
        assert here.world.now_ms - began_ms < 100


@virtual
async def test_a_controller_of_another_cluster_is_asked_seldom_and_ends_nothing() -> None:
    here = Setting()
    attempts = 0

    async def refuse(stream: Stream) -> None:
        nonlocal attempts
        attempts += 1
        raise to_stream_error(ControllerError(errors_pb2.WRONG_CLUSTER, "check cluster_id"))

    await here.active.serve()
    await here.world.serve(2, {**here.controllers[2].handlers(), BROKER_HEARTBEAT: refuse})
    running = asyncio.ensure_future(here.session.run())
    await asyncio.sleep(30)
    assert 2 <= attempts <= 10
    assert not running.done()
    running.cancel()


@virtual
async def test_answers_that_cannot_be_read_end_nothing() -> None:
    here = Setting()

    async def babble(stream: Stream) -> None:
        await stream.receive()
        await stream.send(b"\xff\xff\xff")
        await asyncio.Event().wait()

    await here.active.serve()
    await here.world.serve(2, {**here.controllers[2].handlers(), BROKER_HEARTBEAT: babble})
    running = asyncio.ensure_future(here.session.run())
    await asyncio.sleep(30)
    assert not running.done()
    assert len(here.active.beats) > 50
    running.cancel()


@virtual
async def test_stopping_leaves_no_connection() -> None:
    here = await setting()
    async with here.session_running():
        pass
    await here.client.close()
    await until(lambda: all(here.world.connections(each) == 0 for each in (1, 2, 3)), within_s=1)


# -- what the controllers say


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (BROKER_STATE_ACTIVE, BrokerState.ACTIVE),
        (BROKER_STATE_SHUTTING_DOWN, BrokerState.SHUTTING_DOWN),
        (BROKER_STATE_FENCED, BrokerState.FENCED),
    ],
)
@virtual
async def test_the_state_is_what_the_active_controller_says(told: State, state: BrokerState) -> None:
    here = await setting()
    async with here.session_running() as session:
        session.state = BrokerState.ACTIVE if told == BROKER_STATE_FENCED else BrokerState.FENCED
        here.active.answer["state"] = told
        async with asyncio.timeout(1):
            await session.wait_until(lambda: session.state is state)


@virtual
async def test_what_a_standby_or_a_replaced_controller_believes_does_not_count() -> None:
    here = await setting()
    here.active.answer |= {"state": BROKER_STATE_ACTIVE, "commit_index": 200}
    here.controllers[2].answer |= {"state": BROKER_STATE_SHUTTING_DOWN, "may_stop": True, "commit_index": 300}
    here.controllers[3].answer |= {
        "is_active": True, "state": BROKER_STATE_SHUTTING_DOWN, "may_stop": True, "commit_index": 150,
    }  # fmt: skip
    async with here.session_running() as session:
        session.set_wanted(Wanted.SHUT_DOWN)
        await asyncio.sleep(5)
        assert session.state is BrokerState.ACTIVE
        assert not session.may_stop.is_set()


@pytest.mark.parametrize("code", [errors_pb2.STALE_BROKER_EPOCH, errors_pb2.UNKNOWN_BROKER])
@virtual
async def test_a_process_that_was_replaced_ends(code: errors_pb2.ErrorCode) -> None:
    here = await setting()
    async with here.session_running():
        here.active.answer["error"] = error_detail(code, "another process took over")
        assert here.running is not None
        with pytest.raises(ControllerError) as caught:
            async with asyncio.timeout(1):
                await asyncio.shield(here.running)
        assert caught.value.code == code
    await here.client.close()
    await until(lambda: all(here.world.connections(each) == 0 for each in (1, 2, 3)), within_s=1)


@pytest.mark.parametrize(
    "answer",
    [
        {"is_active": False, "commit_index": 500},
        {"is_active": True, "commit_index": REGISTERED_AT - 1},
    ],
    ids=["a standby", "one that was replaced before the registration"],
)
@virtual
async def test_a_controller_that_does_not_know_of_the_registration_ends_nothing(answer: dict[str, Any]) -> None:
    here = await setting()
    here.controllers[2].answer |= {**answer, "error": error_detail(errors_pb2.STALE_BROKER_EPOCH, "no such epoch")}
    here.active.is_silent = True
    async with here.session_running():
        await asyncio.sleep(5)
        assert here.running is not None
        assert not here.running.done()


@virtual
async def test_an_error_that_does_not_concern_the_brokers_place_ends_nothing() -> None:
    here = await setting()
    here.active.answer["error"] = error_detail(errors_pb2.UNAVAILABLE, "busy")
    async with here.session_running():
        await asyncio.sleep(5)
        assert here.running is not None
        assert not here.running.done()


@virtual
async def test_the_commit_index_is_the_highest_that_any_controller_named() -> None:
    here = await setting()
    here.controllers[3].answer["commit_index"] = 140
    async with here.session_running() as session:
        assert session.commit_index == 140
        assert here.broker.heard[-1] == 140
        assert here.broker.heard == sorted(here.broker.heard)
        here.controllers[3].answer["commit_index"] = 120
        await here.all_beat()
        assert session.commit_index == 140


@virtual
async def test_it_is_known_since_when_the_image_is_behind() -> None:
    here = await setting()
    here.broker.metadata_index = 150
    async with here.session_running() as session:
        assert session.metadata_behind_since_ms is None
        here.active.answer["commit_index"] = 160
        began_ms = here.world.now_ms
        await asyncio.sleep(5)
        since_ms = session.metadata_behind_since_ms
        assert since_ms is not None
        assert began_ms <= since_ms <= began_ms + 600
        here.active.answer["commit_index"] = 170
        await asyncio.sleep(1)
        assert session.metadata_behind_since_ms == since_ms
        here.broker.metadata_index = 160
        assert session.metadata_behind_since_ms is None, "what was heard of then is reached"
        await asyncio.sleep(1)
        assert session.metadata_behind_since_ms is not None
        here.broker.metadata_index = 170
        assert session.metadata_behind_since_ms is None


@virtual
async def test_a_new_member_of_the_quorum_hears_of_the_broker_once_it_is_active() -> None:
    here = await setting()
    four = await Controller(here.world, 4, is_active=True, active_id=4, active_address="c4:9093").serve()
    async with here.session_running() as session:
        await asyncio.sleep(2)
        assert not four.beats
        here.active.answer["is_active"] = False
        here.controllers[2].answer |= {"active_id": 4, "active_address": "c4:9093"}
        here.controllers[3].answer |= {"active_id": 4, "active_address": "c4:9093"}
        await until(lambda: bool(four.beats), within_s=1)
        assert four.streams == 1
        assert here.broker.learned == [(4, "c4:9093")]
        session.set_wanted(Wanted.READY)
        await asyncio.sleep(0.1)
        assert four.last.wanted == READY
        await until(lambda: here.client.active_id == 4, within_s=1)


@virtual
async def test_the_client_learns_from_heartbeats_who_is_active_and_who_lives() -> None:
    here = await setting()
    async with here.session_running():
        assert here.client.active_id == 1
        here.active.answer["is_active"] = False
        here.controllers[3].answer["is_active"] = True
        await until(lambda: here.client.active_id == 3, within_s=1)

        async def work_long(request: RegisterRequest) -> RegisterResponse:
            await asyncio.sleep(8)
            return RegisterResponse(broker_epoch=1)

        here.controllers[3].register = unary(work_long, RegisterRequest)
        response = await here.client.call(REGISTER, RegisterRequest(), RegisterResponse)
        assert response.broker_epoch == 1


@virtual
async def test_requests_do_not_go_back_to_a_controller_that_was_replaced_and_has_not_noticed() -> None:
    here = await setting()
    async with here.session_running():
        here.controllers[3].answer |= {"is_active": True, "commit_index": 200}
        await until(lambda: here.client.active_id == 3, within_s=1)
        for _ in range(2000):
            await asyncio.sleep(0.001)
            assert here.client.active_id == 3


# -- leaving


@virtual
async def test_a_broker_goes_when_the_controller_lets_it() -> None:
    here = await setting()
    async with here.session_running() as session:
        here.active.answer["may_stop"] = True
        await asyncio.sleep(2)
        assert not session.may_stop.is_set(), "it did not ask to"
        here.active.answer["may_stop"] = False
        session.set_wanted(Wanted.SHUT_DOWN)
        waiting = asyncio.ensure_future(session.wait_until_may_stop())
        await asyncio.sleep(10)
        assert not waiting.done()
        here.active.answer["may_stop"] = True
        async with asyncio.timeout(1):
            assert await waiting


@virtual
async def test_a_broker_that_is_not_let_go_waits_half_a_minute_at_most() -> None:
    here = await setting()
    async with here.session_running() as session:
        session.set_wanted(Wanted.SHUT_DOWN)
        began_ms = here.world.now_ms
        assert not await session.wait_until_may_stop()
        assert here.world.now_ms - began_ms == 30_000


@virtual
async def test_without_an_active_controller_a_broker_goes_after_two_seconds() -> None:
    here = await setting()
    async with here.session_running() as session:
        here.active.answer["is_active"] = False
        await asyncio.sleep(20)
        session.set_wanted(Wanted.SHUT_DOWN)
        began_ms = here.world.now_ms
        assert not await session.wait_until_may_stop()
        assert here.world.now_ms - began_ms == 2000


@virtual
async def test_a_controller_lost_meanwhile_is_waited_for_as_long_and_its_successor_lets_go() -> None:
    here = await setting()
    async with here.session_running() as session:
        session.set_wanted(Wanted.SHUT_DOWN)
        waiting = asyncio.ensure_future(session.wait_until_may_stop())
        await asyncio.sleep(5)
        here.world.kill(1)
        await asyncio.sleep(0.8)
        assert not waiting.done()
        here.controllers[2].answer |= {"is_active": True, "commit_index": 300}
        await asyncio.sleep(5)
        assert not waiting.done()
        contact_ms = session.last_active_contact_ms
        assert here.world.now_ms - contact_ms <= 600
        here.controllers[2].answer["may_stop"] = True
        async with asyncio.timeout(1):
            assert await waiting
