"""What can be done to a live cluster, each with a way back. What was done, and how long it lasted, is written down."""

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
    """Each method is a block: the fault lasts as long as that does. Several may last at once; but what ends a process,
    or is wrong with one part of its machine, waits until the like is over."""

    def __init__(self, cluster: LiveCluster, recorder: Recorder, rng: Rng) -> None:
        self.cluster = cluster
        self.under_way: dict[int, str] = {}
        self._recorder = recorder
        self._rng = rng
        self._held: dict[Hashable, asyncio.Lock] = {}

    @asynccontextmanager
    async def fault(self, name: str, target: object) -> AsyncIterator[None]:
        """Anything that is done to the cluster: noted, and nothing else."""
        number = self._recorder.begin(Fault, fault=name, target=str(target))
        self.under_way[number] = f"{name} {target}"
        try:
            yield
        finally:
            del self.under_way[number]
            self._recorder.end(number, Done(self._recorder.now()))

    @asynccontextmanager
    async def _hold(self, numbers: Iterable[int], what: str) -> AsyncIterator[None]:
        """In order, so that nobody waits for who waits for them."""
        async with AsyncExitStack() as stack:
            for number in sorted(numbers):
                await stack.enter_async_context(self._held.setdefault((number, what), asyncio.Lock()))
            yield

    # -- processes

    @asynccontextmanager
    async def _down(self, numbers: Iterable[int], name: str, target: str) -> AsyncIterator[None]:
        """Killed, and started again."""
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
        """kill -9, and started again."""
        async with self._down(numbers, "kill", _listed(numbers)):
            yield

    @asynccontextmanager
    async def stopped(self, number: int) -> AsyncIterator[None]:
        """An orderly end, and started again."""
        async with self._hold([number], "process"), self.fault("stop", f"node {number}"):
            self.cluster.nodes[number].ask_to_stop()
            await self._until_down([number])
            try:
                yield
            finally:
                self._start([number])

    @asynccontextmanager
    async def paused(self, *numbers: int) -> AsyncIterator[None]:
        """In the middle of whatever it does: it keeps its connections, and answers nobody."""
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
        """Machines lose power at one moment, and all that was not synced; then they are started again. Their disks take
        their time before that: else there is hardly ever anything that was written and is not synced."""
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
        """Something in the files of a node is spoilt while it is down; the block begins when it is started again."""
        async with self._hold([number], "process"):
            await self._end([number])
            node, rng = self.cluster.nodes[number], self._rng.fork()
            what = await self.cluster.beside(lambda: node.damage(rng, is_careful=is_careful))
            async with self.fault("damage", f"node {number}, {what or 'which has nothing yet'}"):
                self._start([number])
                yield

    @asynccontextmanager
    async def without_files(self, number: int) -> AsyncIterator[None]:
        """Files of one partition of a node are removed while it is down; the block begins when it is started again."""
        async with self._hold([number], "process"):
            await self._end([number])
            node, rng = self.cluster.nodes[number], self._rng.fork()
            what = await self.cluster.beside(lambda: node.lose_files(rng))
            async with self.fault("lose files", f"node {number}, {what or 'which has nothing yet'}"):
                self._start([number])
                yield

    @asynccontextmanager
    async def without_store(self, number: int) -> AsyncIterator[None]:
        """The disk with a controller's metadata is replaced by an empty one while it is down; the block begins when it
        is started again."""
        async with self._hold([number], "process"), self.fault("lose metadata", f"node {number}"):
            await self._end([number])
            await self.cluster.beside(self.cluster.nodes[number].lose_store)
            self._start([number])
            yield

    async def copied(self, number: int, *, is_orderly: bool) -> None:
        """Somebody copies all data of a node, which is down for that."""
        async with self.stopped(number) if is_orderly else self.killed(number):
            await self.cluster.beside(self.cluster.nodes[number].copy_data)

    @asynccontextmanager
    async def put_back(self, number: int) -> AsyncIterator[None]:
        """And puts the copy back, in the place of all that came since; the block begins when it is started again."""
        async with self._hold([number], "process"), self.fault("put back a copy", f"node {number}"):
            await self._end([number])
            await self.cluster.beside(self.cluster.nodes[number].put_data_back)
            self._start([number])
            yield

    @asynccontextmanager
    async def full_disk(self, number: int) -> AsyncIterator[None]:
        """No more fits. Then somebody makes room, and the node, which lives on, finds that out."""
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
        """The disk does not take what is to be synced. Then somebody looks at it, and restarts the machine."""
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
        """Each sync, and each write, takes up to so much longer."""
        async with self._hold([number], "disk"), self.fault("slow disk", f"node {number} by {sync_ms:g} ms"):
            self.cluster.nodes[number].change_machine(sync_delay_ms=sync_ms, write_delay_ms=write_ms)
            try:
                yield
            finally:
                self.cluster.nodes[number].change_machine(sync_delay_ms=0.0, write_delay_ms=0.0)

    @asynccontextmanager
    async def wrong_clock(self, number: int, offset_ms: int, rate: float) -> AsyncIterator[None]:
        """Its calendar jumps by so much, and its time goes at that rate; then all is right again, with another jump."""
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
        """Nothing gets from these to those; nor back, unless it is `one_way`. With `door`: on the way to that side of
        any of them alone."""
        one, others = list(one), list(others)
        ways = tuple((source, target) for source in one for target in others)
        trouble = Trouble(ways if one_way else both_ways(one, others), cuts=True, door=door)
        name = "cut one way" if one_way else "cut"
        where = f"{_listed(one)} from {_listed(others)}" + ("" if door is None else f" ({door.value}s)")
        async with self.fault(name, where), self.cluster.links.trouble(trouble):
            yield

    @asynccontextmanager
    async def slowed(self, number: int, delay_ms: float, bytes_per_second: int | None = None) -> AsyncIterator[None]:
        """All that comes from a node, or goes there, is late; and no more than that gets through."""
        narrow = "" if bytes_per_second is None else f", {bytes_per_second // 1000} kB/s"
        trouble = Trouble(self._all_ways(number), delay_ms=delay_ms, bytes_per_second=bytes_per_second)
        async with self.fault("slow", f"node {number} by {delay_ms:g} ms{narrow}"), self.cluster.links.trouble(trouble):
            yield

    @asynccontextmanager
    async def lossy(self, number: int, loss: float) -> AsyncIterator[None]:
        """A part of all that comes from a node, or goes there, is lost on the way."""
        trouble = Trouble(self._all_ways(number), loss=loss)
        async with self.fault("lose", f"{loss:.0%} to and from node {number}"), self.cluster.links.trouble(trouble):
            yield

    def _all_ways(self, number: int) -> tuple[tuple[int, int], ...]:
        return both_ways([number], [CLIENTS, *self.cluster.nodes])

    async def break_connections(self, number: int) -> None:
        """Of a node, with all others and with clients."""
        async with self.fault("break", f"connections of node {number}"):
            for other in (CLIENTS, *self.cluster.nodes):
                self.cluster.links.break_connections(number, other)


def _listed(numbers: Iterable[int]) -> str:
    names = ["clients" if number == CLIENTS else f"node {number}" for number in numbers]
    return " and ".join(names)
