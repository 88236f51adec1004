"""Raft nodes on a virtual loop: real drivers, stores in memory, and wires that can be cut."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from lograft.chaos.world.files import VirtualFiles
from lograft.chaos.world.loop import VirtualClock, run_virtual
from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.raft_store import MemoryDisk, MemoryStore
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.raft.core.configuration import Configuration, Member, configuration
from lograft.raft.core.messages import Envelope, InstallSnapshot, Message
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.errors import RaftError
from lograft.raft.interfaces import Inbox, Snapshot
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

CLUSTER = "test"
WIRE_MS = 1.0


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A coroutine test on a loop of its own, in virtual time; ten minutes of that are more than any needs."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        run_virtual(lambda: test(*arguments, **named), max_virtual_seconds=600)

    return run


def make_runtime(seed: int, network: VirtualNetwork | None = None, host: str = "n0", rate: float = 1.0) -> Runtime:
    """A simulated node's outside world. Call on a virtual loop."""
    rng = Rng(seed)
    speed = DiskSpeed(rng.fork())
    return Runtime(
        clock=VirtualClock(asyncio.get_running_loop(), rate),
        rng=rng,
        files=VirtualFiles(rng.fork()),
        network=(network or VirtualNetwork(rng.fork())).host(host),
        blocking=VirtualBlocking(speed),
        make_worker=VirtualWorkers(rng.fork(), speed),
    )


class ListMachine:
    """Keeps every command in order; answers with how many there are."""

    def __init__(self, *, is_lazy: bool = False) -> None:
        self.commands: list[bytes] = []
        self.indexes: list[int] = []
        self.restored = 0
        self._is_lazy = is_lazy

    def apply(self, index: int, data: bytes) -> int:
        assert data != b"poison", "a command that breaks an invariant"
        self.commands.append(data)
        self.indexes.append(index)
        return len(self.commands)

    def snapshot(self) -> bytes | Callable[[], bytes]:
        image = tuple(self.commands)
        return (lambda: b"\n".join(image)) if self._is_lazy else b"\n".join(image)

    def restore(self, data: bytes) -> None:
        self.restored += 1
        self.commands = data.split(b"\n") if data else []


class Wires:
    """Between all nodes: messages take a millisecond, unless they are cut off."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.transports: dict[int, WireTransport] = {}
        self._cuts: list[tuple[int, int]] = []
        self.drops: Callable[[Envelope], bool] = lambda envelope: False

    def isolate(self, node_id: int) -> None:
        """Nothing goes to or from `node_id`, and nobody is told."""
        self._cuts += [pair for other in self.transports for pair in ((node_id, other), (other, node_id))]

    def heal(self) -> None:
        self._cuts.clear()

    def carry(self, source: int, envelope: Envelope) -> None:
        if not self.drops(envelope):
            self._loop.call_later(WIRE_MS / 1000, self._deliver, source, envelope.recipient, envelope.message)

    def _deliver(self, source: int, recipient: Member, message: Message) -> None:
        target = self.transports.get(recipient.node_id)
        if target is not None and target.member == recipient and (source, recipient.node_id) not in self._cuts:
            target.deliver(message)

    def carry_snapshot(self, source: int, order: SnapshotToSend, snapshot: Snapshot) -> None:
        message = InstallSnapshot(self.transports[source].member, order.term, snapshot.metadata, snapshot.data)
        target = self.transports.get(order.recipient.node_id)
        is_delivered = target is not None and (source, order.recipient.node_id) not in self._cuts
        self._loop.call_later(WIRE_MS / 1000, self._deliver, source, order.recipient, message)
        self._loop.call_later(3 * WIRE_MS / 1000, self._report, source, order.recipient, is_delivered)

    def _report(self, source: int, recipient: Member, is_delivered: bool) -> None:
        sender = self.transports.get(source)
        if sender is not None and sender.inbox is not None:
            sender.inbox.snapshot_reported(recipient, is_delivered)

    def unplug(self, node_id: int) -> None:
        """The node is gone, and the others notice."""
        gone = self.transports.pop(node_id)
        for other in self.transports.values():
            if other.inbox is not None:
                self._loop.call_later(WIRE_MS / 1000, other.inbox.connection_broken, gone.member)


class WireTransport:
    """A `Transport` over `Wires`."""

    def __init__(self, wires: Wires, member: Member) -> None:
        self._wires = wires
        self.member = member
        self.inbox: Inbox | None = None
        self.is_closed = False
        self.sent: list[Envelope] = []
        self.snapshots: list[SnapshotToSend] = []
        wires.transports[member.node_id] = self

    def start(self, inbox: Inbox) -> None:
        self.inbox = inbox

    def set_addresses(self, addresses: Mapping[int, str]) -> None:
        """There is one wire to each."""

    def deliver(self, message: Message) -> None:
        if self.inbox is not None and not self.is_closed:
            self.inbox.receive(message)

    def send(self, envelope: Envelope) -> None:
        self.sent.append(envelope)
        self._wires.carry(self.member.node_id, envelope)

    def send_snapshot(self, order: SnapshotToSend, snapshot: Snapshot) -> None:
        self.snapshots.append(order)
        self._wires.carry_snapshot(self.member.node_id, order, snapshot)

    async def close(self) -> None:
        self.is_closed = True


class CountingStore:
    """A store, and how often it was used."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.saves = 0
        self.is_closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def save(self, *arguments: Any) -> None:
        self.saves += 1
        await self._store.save(*arguments)

    async def close(self) -> None:
        self.is_closed = True
        await self._store.close()


class Host:
    """A machine with a disk that outlives the nodes on it."""

    def __init__(self, cluster: "Cluster", node_id: int) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.runtime = make_runtime(cluster.seed * 100 + node_id)
        self.speed = DiskSpeed(self.runtime.rng.fork())
        self.disk = MemoryDisk(CLUSTER, node_id, self.runtime.rng.fork())
        self.node: RaftNode | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def member(self) -> Member:
        return self.disk.content.identity.member

    async def start(self, **options: Any) -> RaftNode:
        memory = self.disk.open(self.speed, self.runtime.rng.fork())
        self.store = CountingStore(memory)
        self.transport = WireTransport(self._cluster.wires, self.member)
        self.machine = ListMachine()
        options = {**self._cluster.options, **options}
        state = await memory.load()
        store = cast(Any, self.store)
        self.node = RaftNode(self.runtime, store, state, self.transport, self.machine, **options)
        self.task = asyncio.ensure_future(self.node.run())
        return self.node

    async def crash(self) -> None:
        """As kill -9: nothing in memory is left, and who was connected notices."""
        assert self.task is not None
        self.store.kill()
        self._cluster.wires.unplug(self.node_id)
        self.task.cancel()
        await asyncio.wait([self.task])
        self.node = self.task = None

    async def stop(self) -> None:
        assert self.node is not None
        assert self.task is not None
        await self.node.close()
        await self.task
        self._cluster.wires.unplug(self.node_id)
        self.node = self.task = None


class Cluster:
    """Hosts 1 to n; those of `voters` know each other from the start."""

    def __init__(self, size: int, *, seed: int = 1, **options: Any) -> None:
        self.seed = seed
        self.options = options
        self.wires = Wires()
        self.hosts = {node_id: Host(self, node_id) for node_id in range(1, size + 1)}

    def __getitem__(self, node_id: int) -> Host:
        return self.hosts[node_id]

    @property
    def living(self) -> list[Host]:
        return [host for host in self.hosts.values() if host.node is not None]

    async def initialise(self, voters: list[int]) -> Configuration:
        members = configuration(self.hosts[node_id].member for node_id in voters)
        for node_id in voters:
            store = self.hosts[node_id].disk.open(self.hosts[node_id].speed, Rng(node_id))
            await store.initialise(members)
            await store.close()
        return members

    async def until(self, condition: Callable[[], bool], within_ms: int = 10_000) -> None:
        """Wait for `condition`, in virtual time."""
        async with asyncio.timeout(within_ms / 1000):
            while not condition():  # noqa: ASYNC110 (conditions of any kind; the time is virtual)
                await asyncio.sleep(0.001)

    async def leader(self) -> Host:
        """The one that leads with everything committed before applied, and whom the living follow."""
        found: list[Host] = []

        def is_known() -> bool:
            leaders = [host for host in self.living if _leads(host)]
            term = max(host.node.core.term for host in self.living if host.node is not None)
            found[:] = [host for host in leaders if host.node is not None and host.node.core.term == term]
            return len(found) == 1 and all(
                host.node is not None and host.node.core.leader == found[0].member for host in self.living
            )

        await self.until(is_known)
        return found[0]

    async def propose(self, data: bytes) -> Any:
        """As a patient client would: until it is done, wherever. Not for commands that must not come twice."""
        while True:
            host = await self.leader()
            try:
                assert host.node is not None
                return await host.node.propose(data)
            except RaftError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(0.01)

    async def agree(self) -> list[bytes]:
        """Wait until all living nodes have applied the same; what that is."""
        await self.until(lambda: len({_applied(host) for host in self.living}) == 1)
        machines = [host.machine.commands for host in self.living]
        assert all(commands == machines[0] for commands in machines)
        return machines[0]


def _leads(host: Host) -> bool:
    assert host.node is not None
    status = host.node.status()
    return status.role == "leader" and status.applied_index == status.last_index


def _applied(host: Host) -> int:
    assert host.node is not None
    return host.node.applied_index if host.node.status().last_index == host.node.applied_index else -host.node_id


@asynccontextmanager
async def running(size: int = 3, *, voters: int | None = None, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster of which all hosts run, stopped cleanly at the end."""
    cluster = Cluster(size, **options)
    await cluster.initialise(list(range(1, (voters or size) + 1)))
    for host in cluster.hosts.values():
        await host.start()
    try:
        yield cluster
    finally:
        for host in cluster.living:
            if host.task is not None and not host.task.done():
                await host.stop()


def node_of(cluster: Cluster, node_id: int) -> RaftNode:
    node = cluster[node_id].node
    assert node is not None
    return node


async def led(cluster: Cluster) -> tuple[RaftNode, list[RaftNode]]:
    """The leader and the others."""
    leader = await cluster.leader()
    others = [host for host in cluster.living if host is not leader]
    return node_of(cluster, leader.node_id), [node_of(cluster, host.node_id) for host in others]
