"""A complete Raft cluster of production parts on virtual time, from one seed: drivers, codec, transport, first start.

run = simulate_nodes(seed)      raises as `simulate_cores` does, or the error that made a node fail
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from lograft.chaos.harness.schedule import Detail, Schedule
from lograft.chaos.raft.core_clients import CoreClients
from lograft.chaos.raft.driver_node import DriverNode, DurableContent
from lograft.chaos.raft.invariants import RaftInvariants
from lograft.chaos.raft.message_fabric import Fabric, MessageFabric
from lograft.chaos.raft.nemesis import RaftNemesis
from lograft.chaos.raft.run import RaftRun, Standing, live_through
from lograft.chaos.raft.stream_fabric import StreamFabric
from lograft.chaos.raft.weather import Weather, draw_weather
from lograft.chaos.world.loop import run_virtual
from lograft.raft.core.configuration import ConfigurationChange, InvalidChange, Member, configuration
from lograft.raft.core.entries import SnapshotMetadata
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.errors import RaftError
from lograft.runtime.rng import Rng

_MAX_VIRTUAL_SECONDS = 300.0
_FIRST_START_MS = 3_000


class NodeCluster:
    """Create it on a virtual loop. If `is_streamed`, use the real transport, otherwise single messages."""

    def __init__(
        self, seed: int, group: asyncio.TaskGroup, *, weather: Weather | None = None, is_streamed: bool | None = None
    ) -> None:
        rng = Rng(seed)
        drawn = draw_weather(rng)
        # This takes about ten times as long as with bare cores.
        self.weather = weather or replace(drawn, duration_ms=drawn.duration_ms // 2, clients=min(drawn.clients, 3))
        self.schedule = Schedule()
        self._loop = asyncio.get_running_loop()
        self._group = group
        self.is_over = False
        self._rng = rng.fork()
        self.is_streamed = rng.random() < 0.5 if is_streamed is None else is_streamed
        self.node_ids = list(range(1, self.weather.voters + self.weather.spares + 1))
        self.nodes = {node_id: DriverNode(node_id, self, rng.fork(), group) for node_id in self.node_ids}
        self._wiped: dict[Member, DurableContent] = {}
        voters = [self.nodes[node_id].member for node_id in self.node_ids[: self.weather.voters]]
        self.invariants = RaftInvariants(
            configuration(voters),
            self._durable,
            lambda member, term: self.note("leader", member.node_id, f"term {term}"),
        )
        self.fabric: Fabric = (StreamFabric if self.is_streamed else MessageFabric)(self, rng.fork())
        self.nemesis = RaftNemesis(self, rng.fork())
        self.clients = CoreClients(self, list(self.nodes.values()), rng.fork())
        self.note("weather", str(self.weather), "streamed" if self.is_streamed else "messages")

    def _durable(self, member: Member) -> DurableContent:
        disk = self.nodes[member.node_id].disk
        return DurableContent(disk.content) if disk.content.identity.member == member else self._wiped[member]

    # -- time

    @property
    def now_us(self) -> int:
        return round(self._loop.time() * 1_000_000)

    def note(self, event: str, *details: Detail) -> None:
        self.schedule.note(self.now_us, event, *details)

    def note_panic(self, node_id: int, error: BaseException) -> None:
        self.note("panic", node_id, repr(error))
        raise error

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Call `action` later, unless the run is over: errors during teardown would hide the cause of a failure."""
        self._loop.call_later(delay_ms / 1000, lambda: None if self.is_over else action())

    # -- called by the nemesis

    def core_of(self, node_id: int) -> RaftCore | None:
        return self.nodes[node_id].core

    def is_up(self, node_id: int) -> bool:
        return self.nodes[node_id].is_up

    def member_of(self, node_id: int) -> Member:
        return self.nodes[node_id].member

    def crash(self, node_id: int) -> None:
        self.note("crash", node_id)
        self.nodes[node_id].crash()

    def stop_node(self, node_id: int) -> None:
        self.note("stop", node_id)
        self.nodes[node_id].close()

    def restart(self, node_id: int) -> None:
        self.note("restart", node_id)
        self.nodes[node_id].start()

    def wipe(self, node_id: int) -> None:
        disk = self.nodes[node_id].disk
        self._wiped[disk.content.identity.member] = DurableContent(disk.content)
        disk.wipe()
        self.note("wipe", node_id, str(self.member_of(node_id)))

    def stall(self, node_id: int, duration_ms: int) -> None:
        self.note("stall", node_id, duration_ms)
        self.nodes[node_id].clock.held_until = self._loop.time() + duration_ms / 1000
        self.fabric.hold(node_id, duration_ms)

    def cut(self, sender_id: int, receiver_id: int) -> None:
        self.note("cut", f"{sender_id}>{receiver_id}")
        self.fabric.cut(sender_id, receiver_id)

    def heal_network(self) -> None:
        self.note("heal")
        self.fabric.heal()

    def break_connection(self, one_id: int, other_id: int) -> None:
        self.note("break", one_id, other_id)
        self.fabric.break_connection(one_id, other_id)

    def set_disk_slowdown(self, node_id: int, slowdown: float) -> None:
        self.note("disk", node_id, slowdown)
        self.nodes[node_id].speed.slowdown = slowdown

    def set_clock_rate(self, node_id: int, rate: float) -> None:
        self.note("clock", node_id, round(rate, 3))
        self.nodes[node_id].clock.set_rate(rate)

    def transfer(self, leader_id: int, target: Member) -> None:
        self.note("transfer", leader_id, target.node_id)
        raft = self.nodes[leader_id].raft
        if raft is not None:
            self._group.create_task(_regardless(raft.transfer_leadership(target.node_id)))

    def change(self, leader_id: int, change: ConfigurationChange) -> None:
        self.note("change", leader_id, type(change).__name__, str(change.member))
        raft = self.nodes[leader_id].raft
        if raft is not None:
            self._group.create_task(_regardless(raft.change_configuration(change)))

    # -- a run

    async def start(self) -> None:
        """Start with the real first start, which needs all voters and some time, or write the voters to disk."""
        voters = self.invariants.committed_configuration[1]
        for node in self.nodes.values():
            if not self.is_streamed and node.member in voters.voters:
                await _write_first_voters(node, SnapshotMetadata(0, 0, voters))
            node.start()
        if self.is_streamed:
            await self.pass_ms(_FIRST_START_MS)

    async def pass_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)

    def standings(self) -> list[Standing]:
        return [
            Standing(node.raft.core, node.raft.applied_index, node.machine.digest)
            for node in self.nodes.values()
            if node.raft is not None
        ]

    def propose(self, core: RaftCore, data: bytes) -> None:
        self.nodes[core.member.node_id].propose(data, lambda outcome, seen: None)

    async def run(self) -> RaftRun:
        return await live_through(self, self._rng.fork())

    def stop(self) -> None:
        """Crash all running nodes, so that nothing is left behind."""
        for node in self.nodes.values():
            if node.is_up:
                node.crash()


async def _write_first_voters(node: DriverNode, metadata: SnapshotMetadata) -> None:
    store = node.disk.open(node.speed, Rng(0))
    await store.initialise(metadata.configuration)
    await store.close()


async def _regardless(request: Coroutine[Any, Any, Any]) -> None:
    """Ignore failures of a request: the nemesis has no use for its outcome."""
    with contextlib.suppress(RaftError, InvalidChange):
        await request


def simulate_nodes(
    seed: int,
    weather: Weather | None = None,
    *,
    is_streamed: bool | None = None,
    on_made: Callable[[NodeCluster], None] = lambda cluster: None,
) -> RaftRun:
    """Run a cluster of production parts from `seed`. Pass it to `on_made`, for callers that print failures."""

    async def main() -> RaftRun:
        async with asyncio.TaskGroup() as group:
            cluster = NodeCluster(seed, group, weather=weather, is_streamed=is_streamed)
            on_made(cluster)
            try:
                run = await cluster.run()
            finally:
                cluster.is_over = True
            cluster.stop()
        return run

    try:
        return run_virtual(main, max_virtual_seconds=_MAX_VIRTUAL_SECONDS)
    except BaseExceptionGroup as group:
        raise _first_cause(group) from group


def _first_cause(error: BaseException) -> BaseException:
    """Return the first error, unwrapped from all the task groups it passed."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
