"""The ways between the processes of a live cluster, each of which can be cut, slowed, made lossy or broken by itself.

Every node is reached through relays only. A relay knows who connects by looking which process has the other end of the
connection; whoever is no node is one of the clients.
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
"""All that is no node."""

Place: TypeAlias = int
"""A node's number, or CLIENTS."""


class Door(Enum):
    """Where a node is reached."""

    BROKER = "broker"
    CONTROLLER = "controller"
    NODES = "nodes"


@dataclass(frozen=True, slots=True, eq=False)
class Trouble:
    """What is wrong with the ways from some place to another, as long as it lasts. `door` None: with all of them, else
    with connections to that side of whichever of the two is called."""

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
    """Between each pair of places. `processes` says which node has which process at the moment."""

    def __init__(self, processes: Callable[[], dict[int, int]], rng: Rng) -> None:
        self._processes = processes
        self._owners = SocketOwners(lambda: processes().values())
        self._rng = rng
        self._states: dict[tuple[Place, Place, Door], LinkState] = {}
        self._relays: dict[Place, list[TcpRelay]] = {}
        self._troubles: list[Trouble] = []

    async def add_relay(self, target: Place, door: Door, listen: str, address: str) -> None:
        """From `listen` to where the node really is."""
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

    # -- what is wrong

    @asynccontextmanager
    async def trouble(self, trouble: Trouble) -> AsyncIterator[None]:
        """For as long as the block lasts. There may be others at the same time, on the same ways."""
        await self.begin(trouble)
        try:
            yield
        finally:
            await self.end(trouble)

    async def begin(self, trouble: Trouble) -> None:
        self._troubles.append(trouble)
        await self._tell()

    async def end(self, trouble: Trouble) -> None:
        """Also if it is over already."""
        if trouble in self._troubles:
            self._troubles.remove(trouble)
            await self._tell()

    async def cut(self, source: Place, target: Place) -> None:
        """Nothing gets from one to the other any more, whoever of the two connected; the other way it does."""
        await self.begin(Trouble(((source, target),), cuts=True))

    async def slow(self, source: Place, target: Place, delay_ms: float, bytes_per_second: int | None = None) -> None:
        """All that goes between the two is so late, and no more than that at a time."""
        ways = both_ways([source], [target])
        await self.begin(Trouble(ways, delay_ms=delay_ms, bytes_per_second=bytes_per_second))

    async def heal(self) -> None:
        """All is as it should be."""
        self._troubles.clear()
        await self._tell()

    def break_connections(self, source: Place, target: Place) -> int:
        """Those there are between the two; how many there were. New ones work."""
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
        """All that is wrong with it at once."""
        troubles = [one for one in self._troubles if direction in one.ways and one.door in (None, door)]
        narrow = [one.bytes_per_second for one in troubles if one.bytes_per_second is not None]
        way.passes = not any(one.cuts for one in troubles)
        way.delay_ms = sum(one.delay_ms for one in troubles)
        way.bytes_per_second = min(narrow, default=None)
        way.loss = max((one.loss for one in troubles), default=0.0)
