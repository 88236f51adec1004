"""What the active controller does because time has passed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from support.metadata_images import FENCED, broker, epoch_of, ids, image_with, partition, replica, topic_id
from support.raft_nodes import make_runtime, virtual
from support.scripted_quorum import Office, in_office

from lograft.chaos.world.loop import VirtualClock
from lograft.metadata.controller.broker_liveness import BrokerLiveness
from lograft.metadata.controller.timers import Chore, ControllerTimers, ControllerTiming, usual_chores
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.log_ends import LogEnd, LogEnds
from lograft.metadata.decisions.topics.disk_room import DiskRoom
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch
from lograft.metadata.image.records import BrokerRegistered, ProducerIdsAllocated
from lograft.metadata.image.snapshot import records_of
from lograft.proto import errors_pb2
from lograft.raft.errors import NotLeader
from lograft.rpc.coded_error import ControllerError

ONE, TWO, THREE = ids(1, 2, 3)
THREE_BROKERS = [broker(1), broker(2), broker(3)]


class StallingClock(VirtualClock):
    """Sleepers wake up no earlier than `held_until_ms`."""

    held_until_ms = 0.0

    async def sleep_ms(self, duration_ms: float) -> None:
        await super().sleep_ms(duration_ms)
        left_ms = self.held_until_ms - self.monotonic_ms()
        if left_ms > 0:
            await super().sleep_ms(left_ms)


class Timed:
    """A controller in office, with timers; brokers 1 to 3 have streams to it."""

    def __init__(self, office: Office, chores: list[Chore]) -> None:
        self.office = office
        self.sessions = BrokerLiveness()
        self.clock = StallingClock(asyncio.get_running_loop())
        runtime = replace(make_runtime(1), clock=self.clock)
        self.timers = ControllerTimers(runtime, office.controller, self.sessions, chores)
        self.is_committing = True
        self._heartbeats: dict[int, asyncio.Task[None]] = {}

    @property
    def image(self) -> ClusterImage:
        return self.office.machine.image

    @property
    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    def state(self, broker_id: BrokerId) -> BrokerState:
        return self.image.brokers[broker_id].state

    def count_submissions(self) -> list[Any]:
        """Every decision that is submitted from now on."""
        submitted: list[Any] = []
        original = self.office.controller.submit

        async def submit(decide: Any) -> Any:
            submitted.append(decide)
            return await original(decide)

        self.office.controller.submit = submit  # type: ignore[method-assign]
        return submitted

    async def commit(self) -> None:
        while True:
            await asyncio.sleep(0.005)
            if self.is_committing:
                self.office.node.answer_reads()
                self.office.node.commit()

    async def beat(self, broker_id: BrokerId) -> None:
        self.sessions.stream_opened(broker_id, epoch_of(broker_id), self.now_ms)
        while True:
            self.sessions.heard(broker_id, epoch_of(broker_id), self.now_ms)
            await self.clock.sleep_ms(500)

    async def fenced_after_ms(self, broker_id: BrokerId) -> int:
        began_ms = self.now_ms
        async with asyncio.timeout(60):
            while self.state(broker_id) is not FENCED:  # noqa: ASYNC110  (the time is virtual)
                await asyncio.sleep(0.005)
        return self.now_ms - began_ms


@asynccontextmanager
async def timed(
    image: ClusterImage, *, alive: tuple[BrokerId, ...] = (), chores: list[Chore] | None = None
) -> AsyncIterator[Timed]:
    """With this image. Brokers in `alive` send heartbeats; cancel `beats[...]` to have one fall silent."""
    async with in_office() as office:
        world = Timed(office, chores or [])
        office.node.lose()
        office.node.observe(world.timers)
        office.node.commit_of_others(*records_of(image))
        office.node.lead()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(world.timers.run()), group.create_task(world.commit())]
            tasks += [group.create_task(world.beat(broker_id)) for broker_id in alive]
            yield world
            for task in tasks:
                task.cancel()


# -- sessions


@virtual
async def test_a_broker_that_falls_silent_is_fenced_and_others_lead() -> None:
    image = image_with(*THREE_BROKERS, topics={"a": [partition(1, 2, 3)]})
    async with timed(image, alive=(TWO, THREE)) as world:
        assert 3000 <= await world.fenced_after_ms(ONE) < 3100
        after = world.image.partition(topic_id(1), 0)
        assert after is not None
        assert (after.leader, after.isr) == (TWO, (TWO, THREE))
        await asyncio.sleep(10)
        assert world.state(TWO) is world.state(THREE) is BrokerState.ACTIVE


@virtual
async def test_a_broken_stream_speeds_it_up() -> None:
    async with timed(image_with(*THREE_BROKERS)) as world:
        await asyncio.sleep(1)
        for broker_id in (ONE, TWO, THREE):
            world.sessions.stream_opened(broker_id, epoch_of(broker_id), world.now_ms)
        await asyncio.sleep(0.33)
        world.sessions.stream_broken(ONE, epoch_of(1), world.now_ms)
        assert 200 <= await world.fenced_after_ms(ONE) < 220
        assert world.state(TWO) is BrokerState.ACTIVE


@virtual
async def test_several_are_fenced_together() -> None:
    async with timed(image_with(*THREE_BROKERS), alive=(THREE,)) as world:
        await world.fenced_after_ms(ONE)
        assert await world.fenced_after_ms(TWO) < 50
        assert world.state(THREE) is BrokerState.ACTIVE


@virtual
async def test_a_controller_out_of_office_fences_nobody_and_a_new_one_gives_time() -> None:
    async with timed(image_with(*THREE_BROKERS)) as world:
        await asyncio.sleep(2)
        world.office.node.lose(to=2)
        submitted = world.count_submissions()
        await asyncio.sleep(10)
        assert submitted == []
        assert world.state(ONE) is BrokerState.ACTIVE
        world.office.node.lead()
        assert 3000 <= await world.fenced_after_ms(ONE) < 3100


@virtual
async def test_fencing_that_was_refused_is_tried_again() -> None:
    async with timed(image_with(*THREE_BROKERS), alive=(TWO, THREE)) as world:
        world.office.node.refuses_with = NotLeader(None)
        await asyncio.sleep(10)
        assert world.state(ONE) is BrokerState.ACTIVE
        world.office.node.refuses_with = None
        assert await world.fenced_after_ms(ONE) < 400


@virtual
async def test_a_broker_is_not_fenced_twice_while_the_first_is_under_way() -> None:
    async with timed(image_with(*THREE_BROKERS), alive=(TWO, THREE)) as world:
        world.is_committing = False
        await asyncio.sleep(8)
        assert len(world.office.node.queued) == 1


@virtual
async def test_a_broker_that_is_heard_at_the_last_moment_is_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with timed(image_with(*THREE_BROKERS), alive=(TWO, THREE)) as world:
        original = world.sessions.expired

        def expired(now_ms: int, live: Any) -> Any:
            found = original(now_ms, live)
            if found:
                world.sessions.heard(ONE, epoch_of(1), now_ms)
            return found

        monkeypatch.setattr(world.sessions, "expired", expired)
        await asyncio.sleep(8)
        assert world.state(ONE) is BrokerState.ACTIVE


@virtual
async def test_a_newer_process_is_not_fenced_for_the_silence_of_the_older() -> None:
    async with timed(image_with(*THREE_BROKERS), alive=(TWO, THREE)) as world:
        await asyncio.sleep(2.9)
        newer = broker(1, epoch=999)
        await world.office.controller.submit(lambda image: Decision((BrokerRegistered(newer),), None))
        world.sessions.heard(ONE, BrokerEpoch(999), world.now_ms)
        await asyncio.sleep(2)
        assert world.state(ONE) is BrokerState.ACTIVE
        assert await world.fenced_after_ms(ONE) < 1100


@virtual
async def test_after_a_stall_brokers_are_heard_first() -> None:
    async with timed(image_with(*THREE_BROKERS), alive=(ONE, TWO)) as world:
        await asyncio.sleep(0.2)
        world.clock.held_until_ms = world.now_ms + 10_000
        await asyncio.sleep(9.9)
        # It wakes up. Brokers have long given up on their streams, and need a while to make new ones.
        world.sessions.stream_broken(ONE, epoch_of(1), world.now_ms + 101)
        await asyncio.sleep(1)
        assert world.state(ONE) is BrokerState.ACTIVE
        assert world.state(THREE) is BrokerState.ACTIVE
        assert 1500 < await world.fenced_after_ms(THREE) < 2500
        await asyncio.sleep(5)
        assert world.state(ONE) is world.state(TWO) is BrokerState.ACTIVE


# -- chores


def count_up(image: ClusterImage) -> Decision[None]:
    """Something to do until it was done three times."""
    done = image.next_producer_id
    return Decision((ProducerIdsAllocated(done + 1),) if done < 3 else (), None)


@virtual
async def test_a_chore_is_done_until_there_is_nothing_left_to_do() -> None:
    chore = Chore("count", count_up, every_ms=1000, next_ms=100)
    async with timed(ClusterImage(), chores=[chore]) as world:
        await asyncio.sleep(0.99)
        assert world.image.next_producer_id == 0
        await asyncio.sleep(0.05)
        assert world.image.next_producer_id == 1
        await asyncio.sleep(0.3)
        assert world.image.next_producer_id == 3


@virtual
async def test_a_chore_with_nothing_to_do_does_not_trouble_the_quorum() -> None:
    chore = Chore("nothing", lambda image: Decision((), None), every_ms=100, next_ms=0)
    async with timed(ClusterImage(), chores=[chore]) as world:
        world.is_committing = False
        await asyncio.sleep(5)
        assert world.office.node.reads == []


@pytest.mark.parametrize("where", ["decision", "quorum"])
def test_a_chore_that_fails_is_tried_again(where: str) -> None:
    failing = True

    def decide(image: ClusterImage) -> Decision[None]:
        if failing and where == "decision":
            raise ControllerError(errors_pb2.UNAVAILABLE, "not now")
        return count_up(image)

    @virtual
    async def scenario() -> None:
        nonlocal failing
        async with timed(ClusterImage(), chores=[Chore("fails", decide, every_ms=1000, next_ms=0)]) as world:
            world.office.node.refuses_with = NotLeader(None) if where == "quorum" else None
            await asyncio.sleep(3)
            assert world.image.next_producer_id == 0
            failing, world.office.node.refuses_with = False, None
            await asyncio.sleep(0.5)
            assert world.image.next_producer_id == 3

    scenario()


@virtual
async def test_no_chores_are_done_out_of_office() -> None:
    asked: list[Any] = []

    def decide(image: ClusterImage) -> Decision[None]:
        asked.append(image)
        return Decision((), None)

    async with timed(ClusterImage(), chores=[Chore("asks", decide, every_ms=100, next_ms=0)]) as world:
        world.office.node.lose(to=2)
        await asyncio.sleep(5)
        assert asked == []


@virtual
async def test_leaders_leave_full_disks_at_once_and_go_back_when_there_is_room() -> None:
    image = image_with(broker(1), broker(2), broker(3), topics={"orders": [partition(1, 2, 3)]})
    room, changed = DiskRoom(), asyncio.Event()
    chores = usual_chores(dict, ControllerTiming(), lambda _: room, changed)
    async with timed(image, alive=(ONE, TWO, THREE), chores=chores) as world:

        def leader() -> int | None:
            return world.image.topics[topic_id(1)].partitions[0].leader

        await asyncio.sleep(10.3)
        assert leader() == 1
        room = DiskRoom({replica(1): False})
        changed.set()
        await asyncio.sleep(0.05)
        assert leader() == 2
        await asyncio.sleep(60)
        assert leader() == 2
        room = DiskRoom()
        changed.set()
        await asyncio.sleep(31)
        assert leader() == 1
        room = DiskRoom({replica(1): False})  # whoever came to know of it, and how
        await asyncio.sleep(1.1)
        assert leader() == 2


@virtual
async def test_the_usual_chores_elect_what_can_be_elected_and_move_leaders_back() -> None:
    offline = partition(1, 2, isr=(), leader=None, elr=(1,))
    unclean = partition(1, 2, isr=(), leader=None)
    moved = partition(1, 2, leader=2)
    image = image_with(
        broker(1),
        broker(2),
        topics={"offline": [offline], "unclean": [unclean], "moved": [moved]},
        topic_configs={"unclean": {"unclean.leader.election.enable": "true"}},
    )
    log_ends: LogEnds = {
        (topic_id(2), 0): {
            ONE: LogEnd(epoch_of(1), LeaderEpoch(3), 10),
            TWO: LogEnd(epoch_of(2), LeaderEpoch(3), 11),
        }
    }
    chores = usual_chores(lambda: log_ends, ControllerTiming())
    async with timed(image, alive=(ONE, TWO), chores=chores) as world:

        def leaders() -> list[int | None]:
            return [world.image.topics[topic_id(number)].partitions[0].leader for number in (1, 2, 3)]

        await asyncio.sleep(1.1)
        assert leaders() == [1, 2, 2]
        await asyncio.sleep(30)
        assert leaders()[2] == 1
