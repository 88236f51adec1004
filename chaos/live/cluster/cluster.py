"""A cluster of real processes, each reached through relays, which runs for the duration of a block."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from lograft.chaos.live.cluster.layout import PORTS, LiveLayout
from lograft.chaos.live.cluster.links import Door, LiveLinks
from lograft.chaos.live.cluster.node import LiveNode
from lograft.clients.local.layout import HOST, Layout
from lograft.runtime.clock import LoopClock
from lograft.runtime.process.host import is_port_free
from lograft.runtime.production.threads import ThreadBlocking
from lograft.runtime.rng import Rng

# Below the ephemeral ports, so that no outgoing connection takes one while a node restarts.
_FIRST_PORT, _LAST_PORT = 12_100, 31_000
_LOOK_MS = 50
_END_SECONDS = 40


T = TypeVar("T")


class NotInTime(Exception):
    """A condition was not met in time. The message names the condition, and the progress made."""


class LiveCluster:
    """A cluster whose nodes keep their files in `directory`, even after they end."""

    def __init__(self, directory: Path, nodes: int, rng: Rng) -> None:
        self._clock = LoopClock()
        self._blocking = ThreadBlocking(max_threads=1)
        self.layout = LiveLayout(Layout(f"chaos-{rng.uuid()}", nodes, _free_ports(rng), controllers=nodes))
        self.nodes = {number: LiveNode(directory, self.layout, number) for number in self.layout.numbers}
        self.links = LiveLinks(self._processes, rng.fork())

    def _processes(self) -> dict[int, int]:
        found = {number: node.process_id for number, node in self.nodes.items()}
        return {number: process_id for number, process_id in found.items() if process_id is not None}

    @property
    def bootstrap(self) -> str:
        return self.layout.bootstrap

    async def __aenter__(self) -> Self:
        for number in self.nodes:
            own, layout = self.layout.own, self.layout
            await self.links.add_relay(number, Door.BROKER, layout.client_relay(number), own.client_address(number))
            await self.links.add_relay(
                number, Door.CONTROLLER, layout.controller_relay(number), own.controller_address(number)
            )
            await self.links.add_relay(number, Door.NODES, layout.nodes_relay(number), own.nodes_address(number))
        try:
            for node in self.nodes.values():
                node.start()
            await self.wait_ready(60)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        for node in self.nodes.values():
            node.kill()
        await self.until(lambda: not any(node.is_up for node in self.nodes.values()), _END_SECONDS, "all nodes end")
        await self.links.stop()
        await self._blocking.close()

    async def beside(self, work: Callable[[], T]) -> T:
        """Run blocking work on a thread, because the relays must keep running meanwhile."""
        return await self._blocking.run_blocking(work)

    # -- waiting

    async def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until `condition` holds. Raise `NotInTime` if that takes longer than `seconds`."""
        deadline_ms = self._clock.monotonic_ms() + seconds * 1000
        while not condition():
            if self._clock.monotonic_ms() >= deadline_ms:
                raise NotInTime(f"not in {seconds:g} s: {what}")
            await self._clock.sleep_ms(_LOOK_MS)

    async def wait_ready(self, seconds: float) -> None:
        """Wait until all nodes are ready. Raise `NotInTime` if that takes longer than `seconds`."""
        deadline_ms = self._clock.monotonic_ms() + seconds * 1000
        while reasons := await self._why_not_ready():
            if self._clock.monotonic_ms() >= deadline_ms:
                told = "; ".join(f"node {number}: {reason}" for number, reason in reasons.items())
                raise NotInTime(f"not all nodes are ready after {seconds:g} s: {told}")
            await self._clock.sleep_ms(_LOOK_MS)

    async def _why_not_ready(self) -> dict[int, str]:
        """Return reasons by node. Requests block, and the relays must keep running, so a thread makes them."""
        reasons = {}
        for number, node in self.nodes.items():
            reason = await self._blocking.run_blocking(node.why_not_ready)
            if reason is not None:
                reasons[number] = reason
        return reasons


def _free_ports(rng: Rng) -> int:
    """Return the first port of a sufficiently long range of free ones."""
    while True:
        first = rng.randrange(_FIRST_PORT, _LAST_PORT - PORTS)
        if all(is_port_free(HOST, port) for port in range(first, first + PORTS)):
            return first
