"""Faults of a live cluster, each with its repair. The nemesis records each fault, and how long it lasted."""

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from lograft.chaos.history.entries import Done, Fault, Note
from lograft.chaos.history.recorder import Recorder
from lograft.chaos.live.cluster.cluster import LiveCluster
from lograft.chaos.live.cluster.links import CLIENTS, Door, Trouble, both_ways
from lograft.runtime.clock import LoopClock
from lograft.runtime.rng import Rng

_END_SECONDS = 60
_LAST_SYNC_MS = 400.0


class LiveNemesis:
    """Each method is a context manager whose fault lasts as long as its block. Faults may overlap, but two that end the
    same process, or affect the same part of its machine, wait for each other."""

    def __init__(self, cluster: LiveCluster, recorder: Recorder, rng: Rng) -> None:
        self.cluster = cluster
        self.under_way: dict[int, str] = {}
        self._recorder = recorder
        self._rng = rng
        self._held: dict[Hashable, asyncio.Lock] = {}

    @asynccontextmanager
    async def fault(self, name: str, target: object) -> AsyncIterator[None]:
        """Record a fault of any kind. Do nothing else."""
        number = self._recorder.begin(Fault, fault=name, target=str(target))
        self.under_way[number] = f"{name} {target}"
        try:
            yield
        finally:
            del self.under_way[number]
            self._recorder.end(number, Done(self._recorder.now()))

    @asynccontextmanager
    async def _hold(self, numbers: Iterable[int], what: str) -> AsyncIterator[None]:
        """Take locks in a fixed order, to prevent deadlocks."""
        async with AsyncExitStack() as stack:
            for number in sorted(numbers):
                await stack.enter_async_context(self._held.setdefault((number, what), asyncio.Lock()))
            yield

    # -- processes

    @asynccontextmanager
    async def _down(self, numbers: Iterable[int], name: str, target: str) -> AsyncIterator[None]:
        """Kill nodes, and start them again after the block."""
        numbers = list(numbers)
        async with self._hold(numbers, "process"), self.fault(name, target):
            await self._end(numbers)
            try:
                yield
            finally:
                self._start(numbers)

    async def _end(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.cluster.nodes[number].kill()
        await self._until_down(numbers)

    def _start(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if not self.cluster.nodes[number].is_up:
                self.cluster.nodes[number].start()

    @asynccontextmanager
    async def killed(self, *numbers: int) -> AsyncIterator[None]:
        """Send SIGKILL to nodes, and start them again after the block."""
        async with self._down(numbers, "kill", _listed(numbers)):
            yield

    @asynccontextmanager
    async def stopped(self, number: int) -> AsyncIterator[None]:
        """Shut a node down in an orderly way, and start it again after the block."""
        async with self._hold([number], "process"), self.fault("stop", f"node {number}"):
            self.cluster.nodes[number].ask_to_stop()
            await self._until_down([number])
            try:
                yield
            finally:
                self._start([number])

    @asynccontextmanager
    async def paused(self, *numbers: int) -> AsyncIterator[None]:
        """Stop processes at an arbitrary point. They keep their connections, but answer nothing."""
        async with self._hold(numbers, "process"), self.fault("pause", _listed(numbers)):
            for number in numbers:
                self.cluster.nodes[number].pause()
            try:
                yield
            finally:
                for number in numbers:
                    self.cluster.nodes[number].resume()

    async def _until_down(self, numbers: Iterable[int]) -> None:
        nodes = [self.cluster.nodes[number] for number in numbers]
        await self.cluster.until(lambda: not any(node.is_up for node in nodes), _END_SECONDS, "nodes end")

    # -- machines

    @asynccontextmanager
    async def powerless(self, *numbers: int) -> AsyncIterator[None]:
        """Cut the power of machines at one moment, which loses unsynced data, and start them again after the block.
        Slow their disks before that, because otherwise there is hardly ever any unsynced data."""
        nodes = [self.cluster.nodes[number] for number in numbers]
        async with self._hold(numbers, "disk"):
            for node in nodes:
                node.change_machine(sync_delay_ms=_LAST_SYNC_MS)
            await LoopClock().sleep_ms(self._rng.uniform(0, _LAST_SYNC_MS))
            async with self._down(numbers, "power failure", _listed(numbers)):
                for node in nodes:
                    node.change_machine(sync_delay_ms=0.0)
                await self._lose_power(numbers)
                yield

    async def _lose_power(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            node, rng = self.cluster.nodes[number], self._rng.fork()
            lost = await self.cluster.beside(lambda node=node, rng=rng: node.lose_power(rng))  # type: ignore[misc]
            text = f"node {number} lost power: {lost.unsynced_files} files and {lost.unsynced_names} names were not "
            self._recorder.happened(Note, text=f"{text}synced, {lost.changed_files} files are not as they were")

    @asynccontextmanager
    async def damaged(self, number: int, *, is_careful: bool) -> AsyncIterator[None]:
        """Damage files of a node while it is down. The block begins once it is started again."""
        async with self._hold([number], "process"):
            await self._end([number])
            node, rng = self.cluster.nodes[number], self._rng.fork()
            what = await self.cluster.beside(lambda: node.damage(rng, is_careful=is_careful))
            async with self.fault("damage", f"node {number}, {what or 'which has nothing yet'}"):
                self._start([number])
                yield

    @asynccontextmanager
    async def without_files(self, number: int) -> AsyncIterator[None]:
        """Remove files of one partition of a node while it is down. The block begins once it is started again."""
        async with self._hold([number], "process"):
            await self._end([number])
            node, rng = self.cluster.nodes[number], self._rng.fork()
            what = await self.cluster.beside(lambda: node.lose_files(rng))
            async with self.fault("lose files", f"node {number}, {what or 'which has nothing yet'}"):
                self._start([number])
                yield

    @asynccontextmanager
    async def without_store(self, number: int) -> AsyncIterator[None]:
        """Replace a controller's metadata disk by an empty one while it is down. The block begins after its restart."""
        async with self._hold([number], "process"), self.fault("lose metadata", f"node {number}"):
            await self._end([number])
            await self.cluster.beside(self.cluster.nodes[number].lose_store)
            self._start([number])
            yield

    async def copied(self, number: int, *, is_orderly: bool) -> None:
        """Copy all data of a node, which is down meanwhile."""
        async with self.stopped(number) if is_orderly else self.killed(number):
            await self.cluster.beside(self.cluster.nodes[number].copy_data)

    @asynccontextmanager
    async def put_back(self, number: int) -> AsyncIterator[None]:
        """Replace all data of a node by its copy. The block begins once it is started again."""
        async with self._hold([number], "process"), self.fault("put back a copy", f"node {number}"):
            await self._end([number])
            await self.cluster.beside(self.cluster.nodes[number].put_data_back)
            self._start([number])
            yield

    @asynccontextmanager
    async def full_disk(self, number: int) -> AsyncIterator[None]:
        """Let a disk have no free space during the block. The node must stay up, and notices the new space itself."""
        async with self._hold([number], "process"), self.fault("disk full", f"node {number}"):
            self.cluster.nodes[number].change_machine(is_full=True)
            try:
                yield
            finally:
                has_lived = self.cluster.nodes[number].is_up
                self.cluster.nodes[number].change_machine(is_full=False)
                self._start([number])
                assert has_lived, f"a full disk has ended node {number}"

    @asynccontextmanager
    async def failing_syncs(self, number: int) -> AsyncIterator[None]:
        """Make syncs of a disk fail. After the block, an operator inspects it, and restarts the machine."""
        async with self._hold([number], "process"), self.fault("fsync error", f"node {number}"):
            self.cluster.nodes[number].change_machine(fails_syncs=True)
            try:
                yield
            finally:
                await self._end([number])
                self.cluster.nodes[number].change_machine(fails_syncs=False)
                await self._lose_power([number])
                self._start([number])

    @asynccontextmanager
    async def slow_disk(self, number: int, sync_ms: float, write_ms: float = 0.0) -> AsyncIterator[None]:
        """Delay each sync and each write by up to these times."""
        async with self._hold([number], "disk"), self.fault("slow disk", f"node {number} by {sync_ms:g} ms"):
            self.cluster.nodes[number].change_machine(sync_delay_ms=sync_ms, write_delay_ms=write_ms)
            try:
                yield
            finally:
                self.cluster.nodes[number].change_machine(sync_delay_ms=0.0, write_delay_ms=0.0)

    @asynccontextmanager
    async def wrong_clock(self, number: int, offset_ms: int, rate: float) -> AsyncIterator[None]:
        """Make a clock jump, and run at `rate`. After the block another jump sets it right."""
        target = f"node {number} by {offset_ms / 1000:+g} s, {rate:g} times as fast"
        async with self._hold([number], "clock"), self.fault("clock", target):
            self.cluster.nodes[number].change_machine(wall_offset_ms=offset_ms, clock_rate=rate)
            try:
                yield
            finally:
                self.cluster.nodes[number].change_machine(wall_offset_ms=0, clock_rate=1.0)

    # -- links

    @asynccontextmanager
    async def cut(
        self, one: Iterable[int], others: Iterable[int], *, one_way: bool = False, door: Door | None = None
    ) -> AsyncIterator[None]:
        """Cut nodes off from others, in both directions unless `one_way`. With a `door`, cut only connections to it."""
        one, others = list(one), list(others)
        ways = tuple((source, target) for source in one for target in others)
        trouble = Trouble(ways if one_way else both_ways(one, others), cuts=True, door=door)
        name = "cut one way" if one_way else "cut"
        where = f"{_listed(one)} from {_listed(others)}" + ("" if door is None else f" ({door.value}s)")
        async with self.fault(name, where), self.cluster.links.trouble(trouble):
            yield

    @asynccontextmanager
    async def slowed(self, number: int, delay_ms: float, bytes_per_second: int | None = None) -> AsyncIterator[None]:
        """Delay all traffic from and to a node, and limit its rate."""
        narrow = "" if bytes_per_second is None else f", {bytes_per_second // 1000} kB/s"
        trouble = Trouble(self._all_ways(number), delay_ms=delay_ms, bytes_per_second=bytes_per_second)
        async with self.fault("slow", f"node {number} by {delay_ms:g} ms{narrow}"), self.cluster.links.trouble(trouble):
            yield

    @asynccontextmanager
    async def lossy(self, number: int, loss: float) -> AsyncIterator[None]:
        """Lose a share of all traffic from and to a node."""
        trouble = Trouble(self._all_ways(number), loss=loss)
        async with self.fault("lose", f"{loss:.0%} to and from node {number}"), self.cluster.links.trouble(trouble):
            yield

    def _all_ways(self, number: int) -> tuple[tuple[int, int], ...]:
        return both_ways([number], [CLIENTS, *self.cluster.nodes])

    async def break_connections(self, number: int) -> None:
        """Break all connections of a node with other nodes and clients."""
        async with self.fault("break", f"connections of node {number}"):
            for other in (CLIENTS, *self.cluster.nodes):
                self.cluster.links.break_connections(number, other)


def _listed(numbers: Iterable[int]) -> str:
    names = ["clients" if number == CLIENTS else f"node {number}" for number in numbers]
    return " and ".join(names)
