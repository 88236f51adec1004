"""A complete Raft cluster of bare cores, on virtual time, from one seed: the quick tier, for thousands of seeds.

run = simulate_cores(seed)      raises InvariantBroken, NotLinearizable, NotLive or an AssertionError of the core
"""

import heapq
from collections.abc import Callable

from lograft.chaos.harness.schedule import Detail, Schedule
from lograft.chaos.raft.core_clients import CoreClients
from lograft.chaos.raft.core_disk import CoreDisk
from lograft.chaos.raft.core_node import CoreNode
from lograft.chaos.raft.invariants import RaftInvariants
from lograft.chaos.raft.links import RaftLinks
from lograft.chaos.raft.nemesis import RaftNemesis
from lograft.chaos.raft.run import RaftRun, Standing, live_through
from lograft.chaos.raft.weather import Weather, draw_weather
from lograft.raft.core.configuration import ConfigurationChange, InvalidChange, Member, configuration
from lograft.raft.core.messages import Envelope, InstallSnapshot
from lograft.raft.core.raft_core import RaftCore
from lograft.runtime.rng import Rng


class CoreCluster:
    """Nodes, the network between them, and the event queue."""

    def __init__(self, seed: int, weather: Weather | None = None) -> None:
        rng = Rng(seed)
        self.weather = weather or draw_weather(rng)
        self.schedule = Schedule()
        self.now_us = 0
        self._rng = rng.fork()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._event_count = 0
        self._links = RaftLinks(rng.fork())
        self.node_ids = list(range(1, self.weather.voters + self.weather.spares + 1))
        self._nodes = {node_id: CoreNode(node_id, self, rng.fork()) for node_id in self.node_ids}
        self._disks: dict[Member, CoreDisk] = {node.member: node.disk for node in self._nodes.values()}
        voters = configuration(self._nodes[node_id].member for node_id in self.node_ids[: self.weather.voters])
        for member in voters.voters:
            self._disks[member].initialise(voters)
        self.invariants = RaftInvariants(
            voters,
            lambda member: self._disks[member],
            lambda member, term: self.note("leader", member.node_id, f"term {term}"),
        )
        self.nemesis = RaftNemesis(self, rng.fork())
        self.clients = CoreClients(self, list(self._nodes.values()), rng.fork())
        self.note("weather", str(self.weather))

    # -- time

    def note(self, event: str, *details: Detail) -> None:
        self.schedule.note(self.now_us, event, *details)

    def call_later(self, delay_us: int, action: Callable[[], None]) -> None:
        self._event_count += 1
        heapq.heappush(self._events, (self.now_us + delay_us, self._event_count, action))

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.call_later(int(delay_ms * 1000), action)

    def run_for_ms(self, duration_ms: int) -> None:
        end_us = self.now_us + duration_ms * 1000
        while self._events and self._events[0][0] <= end_us:
            self.now_us, _, action = heapq.heappop(self._events)
            action()
        self.now_us = end_us

    # -- the network

    def send(self, envelope: Envelope) -> None:
        self.invariants.sent(envelope)
        self._carry(envelope, self._links.delay_us(self.weather), None)
        if self._links.is_duplicated(self.weather):
            self._carry(envelope, self._links.delay_us(self.weather), None)

    def send_snapshot(self, sender: Member, recipient: Member, message: InstallSnapshot) -> None:
        def report(is_delivered: bool) -> None:
            node = self._nodes[sender.node_id]
            if node.member == sender:
                node.take(lambda core, now_ms: core.snapshot_reported(recipient, is_delivered))

        self.note("snapshot", f"{sender.node_id}>{recipient.node_id}", message.metadata.index)
        self._carry(Envelope(recipient, message), 2 * self._links.delay_us(self.weather), report)

    def _carry(self, envelope: Envelope, delay_us: int, report: Callable[[bool], None] | None) -> None:
        message, recipient = envelope.message, envelope.recipient
        path = (message.sender.node_id, recipient.node_id)
        is_lost = self._links.is_cut(*path) or self._links.is_lost(self.weather)

        def deliver() -> None:
            node = self._nodes[recipient.node_id]
            is_at_home = node.core is not None and node.member == recipient
            is_there = not is_lost and is_at_home and not self._links.is_cut(*path)
            event = "deliver" if is_there else "lose"
            self.note(event, type(message).__name__, f"{path[0]}>{path[1]}", message.term)
            if is_there:
                node.take(lambda core, now_ms: core.step(message, now_ms))
            if report is not None:
                self.call_later(self._links.delay_us(self.weather), lambda: report(is_there))

        self.call_later(delay_us, deliver)

    # -- called by the nemesis

    def core_of(self, node_id: int) -> RaftCore | None:
        return self._nodes[node_id].core

    def is_up(self, node_id: int) -> bool:
        return self._nodes[node_id].core is not None

    def member_of(self, node_id: int) -> Member:
        return self._nodes[node_id].member

    def crash(self, node_id: int) -> None:
        self.note("crash", node_id)
        self._nodes[node_id].crash()
        for other_id in self.node_ids:
            if self._links.is_noticed(other_id, node_id):
                self._notice_break(other_id, node_id)

    def stop_node(self, node_id: int) -> None:
        """Stop the node. A bare core has nothing to shut down."""
        self.note("stop", node_id)
        self._nodes[node_id].crash()

    def restart(self, node_id: int) -> None:
        self.note("restart", node_id)
        self._nodes[node_id].start()

    def wipe(self, node_id: int) -> None:
        self._nodes[node_id].wipe()  # keep its old disk: the checker still holds the node to its promises
        node = self._nodes[node_id]
        self._disks[node.member] = node.disk
        self.note("wipe", node_id, str(node.member))

    def stall(self, node_id: int, duration_ms: int) -> None:
        self.note("stall", node_id, duration_ms)
        self._nodes[node_id].stall(duration_ms * 1000)

    def cut(self, sender_id: int, receiver_id: int) -> None:
        self.note("cut", f"{sender_id}>{receiver_id}")
        self._links.cut(sender_id, receiver_id)

    def heal_network(self) -> None:
        self.note("heal")
        self._links.heal()

    def break_connection(self, one_id: int, other_id: int) -> None:
        self.note("break", one_id, other_id)
        self._notice_break(one_id, other_id)
        self._notice_break(other_id, one_id)

    def _notice_break(self, node_id: int, other_id: int) -> None:
        gone = self._nodes[other_id].member
        notice = self._nodes[node_id].take
        self.call_later(
            self._links.delay_us(self.weather),
            lambda: notice(lambda core, now_ms: core.connection_broken(gone, now_ms)),
        )

    def set_disk_slowdown(self, node_id: int, slowdown: float) -> None:
        self.note("disk", node_id, slowdown)
        self._nodes[node_id].disk_slowdown = slowdown

    def set_clock_rate(self, node_id: int, rate: float) -> None:
        self.note("clock", node_id, round(rate, 3))
        self._nodes[node_id].set_clock_rate(rate)

    def transfer(self, leader_id: int, target: Member) -> None:
        self.note("transfer", leader_id, target.node_id)
        self._nodes[leader_id].take(lambda core, now_ms: _discard(core.transfer_leadership(target)))

    def change(self, leader_id: int, change: ConfigurationChange) -> None:
        self.note("change", leader_id, type(change).__name__, str(change.member))

        def ask(core: RaftCore, now_ms: int) -> None:
            try:
                core.change_configuration(change)
            except InvalidChange:
                self.note("invalid change", leader_id)

        self._nodes[leader_id].take(ask)

    # -- a run

    async def start(self) -> None:
        for node in self._nodes.values():
            node.start()

    async def pass_ms(self, duration_ms: int) -> None:
        """Run the events of this time span; never actually wait."""
        self.run_for_ms(duration_ms)

    def standings(self) -> list[Standing]:
        return [
            Standing(node.core, node.machine.applied_index, node.machine.digest)
            for node in self._nodes.values()
            if node.core is not None
        ]

    def propose(self, core: RaftCore, data: bytes) -> None:
        self._nodes[core.member.node_id].propose(data, lambda outcome, seen: None)

    def run(self) -> RaftRun:
        course = live_through(self, self._rng.fork())
        try:
            course.send(None)
        except StopIteration as end:
            run: RaftRun = end.value
            return run
        raise AssertionError("a cluster of bare cores waits for nothing")


def _discard(_: bool) -> None:
    """Ignore the result: the nemesis has no use for it."""


def simulate_cores(seed: int, weather: Weather | None = None) -> RaftRun:
    """Run a cluster of bare cores from `seed`, in `weather`, or in weather drawn from the seed."""
    return CoreCluster(seed, weather).run()
