"""Periodic work of the active controller: it fences silent brokers, and tidies up."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lograft.metadata.controller.active_controller import ActiveController
from lograft.metadata.controller.broker_liveness import BrokerLiveness, Process
from lograft.metadata.decisions.brokers.fencing import fence
from lograft.metadata.decisions.decision import Decide
from lograft.metadata.decisions.partitions.elect_leaders import elect_allowed_unclean, elect_possible, rebalance_leaders
from lograft.metadata.decisions.partitions.full_disks import leave_full_disks
from lograft.metadata.decisions.partitions.log_ends import LogEnds
from lograft.metadata.decisions.partitions.reassignment import complete_due
from lograft.metadata.decisions.topics.disk_room import FindRoom, nothing_reported
from lograft.raft.driver.observers import NodeObserver
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.clock import until_beat_ms
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.world import Runtime

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerTiming:
    """`tick_ms`: sessions are checked at least that often. `stall_ms`: a check later than that means that the process
    stood still. `retry_ms`: the pause after a failed operation."""

    tick_ms: int = 500
    stall_ms: int = 100
    retry_ms: int = 200
    elections_ms: int = 1000
    rebalance_ms: int = 30_000
    next_rebalance_ms: int = 2000


@dataclass(frozen=True, slots=True)
class Chore:
    """Work that is due every `every_ms`; after it found something, again `next_ms` later. `is_sooner`: set to have it
    done at once."""

    name: str
    decide: Decide[Any]
    every_ms: int
    next_ms: int
    is_sooner: asyncio.Event = field(default_factory=asyncio.Event)


def usual_chores(
    log_ends: Callable[[], LogEnds],
    timing: ControllerTiming,
    room: FindRoom = nothing_reported,
    disks_changed: asyncio.Event | None = None,
) -> list[Chore]:
    """Return the standard chores. `log_ends` returns reported ends of partitions without a leader, `room` the reported
    disks; `disks_changed` is set when a broker's report of its disks changes."""
    return [
        Chore(
            "leave_full_disks",
            lambda image: leave_full_disks(image, room(image)),
            timing.elections_ms,
            0,
            disks_changed or asyncio.Event(),
        ),
        Chore("elect_possible", elect_possible, timing.elections_ms, 0),
        Chore("elect_unclean", lambda image: elect_allowed_unclean(image, log_ends()), timing.elections_ms, 0),
        Chore("complete_reassignments", complete_due, timing.elections_ms, 0),
        Chore(
            "rebalance_leaders",
            lambda image: rebalance_leaders(image, room=room(image)),
            timing.rebalance_ms,
            timing.next_rebalance_ms,
        ),
    ]


class ControllerTimers(NodeObserver):
    """Observes the node after the controller does. Refused operations are retried while this node is in office."""

    def __init__(
        self,
        runtime: Runtime,
        controller: ActiveController,
        sessions: BrokerLiveness,
        chores: list[Chore],
        timing: ControllerTiming | None = None,
    ) -> None:
        self._clock = runtime.clock
        self._controller = controller
        self._sessions = sessions
        self._chores = chores
        self._timing = timing or ControllerTiming()
        self._being_fenced: dict[Process, None] = {}
        self._is_sooner = asyncio.Event()  # a session may end before the next look
        sessions.may_end_sooner = self._is_sooner.set

    def leadership_taken(self, term: int) -> None:
        self._sessions.became_active(self._clock.monotonic_ms())
        self._is_sooner.set()
        log.info("controller_active", term=term)

    def leadership_lost(self, term: int) -> None:
        log.info("controller_inactive", term=term)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for chore in self._chores:
                group.create_task(self._do_every(chore), name=f"controller-{chore.name}")
            await self._watch_sessions(group)

    # -- sessions

    async def _watch_sessions(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._is_sooner.clear()
            await self._sleep_until(self._next_look_ms())
            if self._controller.is_active:
                for process in self._sessions.expired(self._clock.monotonic_ms(), self._live()):
                    if process not in self._being_fenced:
                        self._being_fenced[process] = None
                        group.create_task(self._fence(process), name=f"fence-{process[0]}")

    def _next_look_ms(self) -> int:
        now_ms = self._clock.monotonic_ms()
        tick_ms = now_ms + until_beat_ms(now_ms, self._timing.tick_ms)
        deadline_ms = self._sessions.next_deadline_ms(self._live()) if self._controller.is_active else None
        return min(tick_ms, deadline_ms) if deadline_ms is not None and deadline_ms > now_ms else tick_ms

    async def _sleep_until(self, wake_ms: int) -> None:
        await until_first(self._is_sooner.wait(), self._clock.sleep_ms(wake_ms - self._clock.monotonic_ms()))
        now_ms = self._clock.monotonic_ms()
        if now_ms - wake_ms > self._timing.stall_ms:
            log.warning("controller_stood_still", duration_ms=now_ms - wake_ms)
            self._sessions.stood_still(now_ms - wake_ms, now_ms)

    def _live(self) -> list[Process]:
        brokers = self._controller.image.brokers.values()
        return [(broker.broker_id, broker.epoch) for broker in brokers if broker.is_live]

    async def _fence(self, process: Process) -> None:
        broker_id, epoch = process
        try:
            if not self._sessions.is_alive(broker_id, epoch, self._clock.monotonic_ms()):
                await self._controller.submit(lambda image: fence(image, broker_id, epoch))
                log.info("broker_fenced", broker=broker_id, epoch=epoch)
        except ControllerError as error:
            log.warning("broker_not_fenced", broker=broker_id, epoch=epoch, reason=error.message)
            await self._clock.sleep_ms(self._timing.retry_ms)
        finally:
            del self._being_fenced[process]

    # -- chores

    async def _do_every(self, chore: Chore) -> None:
        has_more = False
        while True:
            every_ms = until_beat_ms(self._clock.monotonic_ms(), chore.every_ms)
            await until_first(chore.is_sooner.wait(), self._clock.sleep_ms(chore.next_ms if has_more else every_ms))
            chore.is_sooner.clear()
            try:
                has_more = await self._do(chore)
            except ControllerError as error:
                log.warning("controller_chore_failed", chore=chore.name, reason=error.message)
                await self._clock.sleep_ms(self._timing.retry_ms)
                has_more = True

    async def _do(self, chore: Chore) -> bool:
        """Do the chore, and return whether there was anything to do. The committed image is checked first: that there
        is nothing to do needs no confirmation by a quorum."""
        if not self._controller.is_active or not chore.decide(self._controller.image).records:
            return False
        await self._controller.submit(chore.decide)
        return True
