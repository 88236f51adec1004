"""The links between the processes of a live cluster. Each can be cut, slowed, made lossy or broken independently.

Every node is reached only through relays. A relay identifies a caller by the process that owns the other end of the
connection. A process that is not a node counts as a client.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from lograft.runtime.faults.socket_owners import SocketOwners
from lograft.runtime.faults.tcp_relay import LinkState, RelayDirection, TcpRelay
from lograft.runtime.rng import Rng

CLIENTS = 0
"""Every process that is not a node."""

Place: TypeAlias = int
"""A node's number, or CLIENTS."""


class Door(Enum):
    """The server of a node that a connection is for."""

    BROKER = "broker"
    CONTROLLER = "controller"
    NODES = "nodes"


@dataclass(frozen=True, slots=True, eq=False)
class Trouble:
    """A fault of some directions between places, while it lasts. With a `door`, it affects only connections to that
    door of whichever place is called."""

    ways: tuple[tuple[Place, Place], ...]
    cuts: bool = False
    delay_ms: float = 0.0
    bytes_per_second: int | None = None
    loss: float = 0.0
    door: Door | None = None


def both_ways(one: Iterable[Place], others: Iterable[Place]) -> tuple[tuple[Place, Place], ...]:
    pairs = [(source, target) for source in one for target in others if source != target]
    return (*pairs, *((target, source) for source, target in pairs))


class LiveLinks:
    """The links between all pairs of places. `processes` returns the present process id of each node."""

    def __init__(self, processes: Callable[[], dict[int, int]], rng: Rng) -> None:
        self._processes = processes
        self._owners = SocketOwners(lambda: processes().values())
        self._rng = rng
        self._states: dict[tuple[Place, Place, Door], LinkState] = {}
        self._relays: dict[Place, list[TcpRelay]] = {}
        self._troubles: list[Trouble] = []

    async def add_relay(self, target: Place, door: Door, listen: str, address: str) -> None:
        """Relay connections from `listen` to the node's real address."""
        own_port = int(listen.rpartition(":")[2])
        relay = TcpRelay(
            listen,
            address,
            lambda port: self._source_of(port, own_port),
            lambda source: self._state_to(source, target, door),
            self._rng.fork(),
        )
        await relay.start()
        self._relays.setdefault(target, []).append(relay)

    def _source_of(self, port: int, relay_port: int) -> Place:
        owner = self._owners.owner_of(port, relay_port)
        nodes = {process_id: number for number, process_id in self._processes().items()}
        return CLIENTS if owner is None else nodes.get(owner, CLIENTS)

    def _state_to(self, source: object, target: Place, door: Door) -> LinkState:
        assert isinstance(source, int)
        key = (source, target, door)
        if key not in self._states:
            self._states[key] = LinkState()
            self._refresh(key)
        return self._states[key]

    async def stop(self) -> None:
        for relay in self._all_relays():
            await relay.stop()

    def _all_relays(self) -> Iterable[TcpRelay]:
        return [relay for relays in self._relays.values() for relay in relays]

    # -- faults

    @asynccontextmanager
    async def trouble(self, trouble: Trouble) -> AsyncIterator[None]:
        """Apply a fault for the duration of the block. Faults may overlap, even in the same directions."""
        await self.begin(trouble)
        try:
            yield
        finally:
            await self.end(trouble)

    async def begin(self, trouble: Trouble) -> None:
        self._troubles.append(trouble)
        await self._tell()

    async def end(self, trouble: Trouble) -> None:
        """End a fault, unless it is over already."""
        if trouble in self._troubles:
            self._troubles.remove(trouble)
            await self._tell()

    async def cut(self, source: Place, target: Place) -> None:
        """Let nothing pass in this direction, whichever place connected. The opposite direction still works."""
        await self.begin(Trouble(((source, target),), cuts=True))

    async def slow(self, source: Place, target: Place, delay_ms: float, bytes_per_second: int | None = None) -> None:
        """Delay all traffic between the two places, and limit its rate."""
        ways = both_ways([source], [target])
        await self.begin(Trouble(ways, delay_ms=delay_ms, bytes_per_second=bytes_per_second))

    async def heal(self) -> None:
        """End all faults."""
        self._troubles.clear()
        await self._tell()

    def break_connections(self, source: Place, target: Place) -> int:
        """Break the present connections between two places, and return their number. New ones work."""
        return sum(
            relay.break_connections(lambda who, near=near: who == near)  # type: ignore[misc]
            for near, far in ((source, target), (target, source))
            for relay in self._relays.get(far, ())
        )

    async def _tell(self) -> None:
        for key in self._states:
            self._refresh(key)
        for relay in self._all_relays():
            await relay.tell_changed()

    def _refresh(self, key: tuple[Place, Place, Door]) -> None:
        caller, called, door = key
        state = self._states[key]
        self._make(state.there, (caller, called), door)
        self._make(state.back, (called, caller), door)

    def _make(self, way: RelayDirection, direction: tuple[Place, Place], door: Door) -> None:
        """Combine all faults of one direction."""
        troubles = [one for one in self._troubles if direction in one.ways and one.door in (None, door)]
        narrow = [one.bytes_per_second for one in troubles if one.bytes_per_second is not None]
        way.passes = not any(one.cuts for one in troubles)
        way.delay_ms = sum(one.delay_ms for one in troubles)
        way.bytes_per_second = min(narrow, default=None)
        way.loss = max((one.loss for one in troubles), default=0.0)
