"""The network of a simulated world: named hosts, the links between them, and the faults of both.

Everything follows from one seed. A host's address is `name:port`; `VirtualNetwork.host(name)` is the `Network` of the
node on that host.
"""

import asyncio
from collections.abc import Mapping
from contextvars import copy_context

from lograft.chaos.world.connection import AcceptedConnection, End, VirtualConnection
from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.link import Delays, Link
from lograft.chaos.world.process import current_process
from lograft.runtime.network import AddressInUse, ConnectFailed, ConnectionLimits, Handler, PanicHandler
from lograft.runtime.rng import Rng

_FIRST_FREE_PORT = 20_000
_RESET_SECONDS = 3.0
_ANY_ADDRESS = ("0.0.0.0", "[::]")


class VirtualNetwork:
    """All hosts and links of one simulated world."""

    def __init__(self, rng: Rng, *, delays: Delays | None = None, window_bytes: int = 256 * 1024) -> None:
        self._rng = rng
        self._delays = delays or Delays()
        self._window_bytes = window_bytes
        self._hosts: dict[str, VirtualHost] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._ends: dict[End, None] = {}
        self._left_over: dict[str, list[End]] = {}  # ends whose peer vanished with its host

    def host(self, name: str) -> "VirtualHost":
        """Return the network as seen from the living host `name`: a new incarnation if the last one crashed."""
        host = self._hosts.get(name)
        if host is None or not host.is_alive:
            before, host = host, VirtualHost(self, name)
            self._hosts[name] = host
            if before is not None:
                before.is_replaced.set()
            self._reset_left_over(name)
        return host

    def _reset_left_over(self, name: str) -> None:
        """Reset connections to a vanished incarnation, each after a random delay: its successor does not know them."""
        loop = asyncio.get_running_loop()
        for end in self._left_over.pop(name, []):
            loop.call_later(self._rng.uniform(0, _RESET_SECONDS), end.lose, "connection reset")

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Hold back all traffic from `source` to `target` (one way) until `heal`."""
        self.link(source, target).cut()

    def heal(self, source: str, target: str) -> None:
        """Undo `cut`: surviving connections continue where they were."""
        self.link(source, target).heal()

    def heal_all(self) -> None:
        for link in self._links.values():
            link.heal()

    def set_delays(self, source: str, target: str, delays: Delays) -> None:
        """Change the delays of everything sent from `source` to `target` from now on."""
        self.link(source, target).delays = delays

    def break_connections(self, one: str, other: str) -> None:
        """Break every connection between the two hosts. Each end notices after its own delay."""
        loop = asyncio.get_running_loop()
        for end in list(self._ends):
            if {end.local, end.remote} == {one, other}:
                end.stop_transmitting()
                delay_seconds = self.link(end.remote, end.local).sample_delay_seconds()
                loop.call_later(delay_seconds, end.lose, "connection reset")

    def crash(self, name: str) -> None:
        """Kill host `name`: its listeners vanish, its handlers are cancelled, and peers notice after a delay unless cut
        off.

        Code of the host that still uses its network is unwound by `SimulatedCrash`. `host` returns its successor.
        """
        for end in self._bury(name):
            end.crash()

    def vanish(self, name: str) -> None:
        """Cut the power of host `name`. Unlike after `crash`, peers notice nothing and get no answers. Their ends of
        its connections stay open until the host is back."""
        for end in self._bury(name):
            end.vanish()
        if name in self._hosts:
            self._hosts[name].is_dark = True
        self._left_over.setdefault(name, []).extend(end for end in self._ends if end.remote == name)

    def _bury(self, name: str) -> list[End]:
        host = self._hosts.get(name)
        if host is None or not host.is_alive:
            return []
        host.is_alive = False
        host.listeners.clear()
        return [end for end in self._ends if end.local == name]

    # -- used by hosts

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self._rng.fork(), self._delays)
        return link

    def join(self, client: str, address: str, server: "VirtualServer") -> VirtualConnection:
        """Create both ends of a connection."""
        calling = VirtualConnection(client, server.host_name, address, self._rng.fork(), self._window_bytes)
        accepting = AcceptedConnection(
            server.host_name,
            client,
            server.handlers,
            server.on_panic,
            self._rng.fork(),
            self._window_bytes,
            server.context,
        )
        calling.attach(self.link(client, server.host_name), accepting)
        accepting.attach(self.link(server.host_name, client), calling)
        self._ends[calling] = None
        self._ends[accepting] = None
        server.accepted[accepting] = None

        def accepting_gone() -> None:
            self._ends.pop(accepting, None)
            server.connection_gone(accepting)

        calling.on_gone = lambda: self._ends.pop(calling, None)
        accepting.on_gone = accepting_gone
        return calling

    def listener(self, address: str) -> "VirtualServer | None":
        name, _, port = address.rpartition(":")
        host = self._hosts.get(name)
        return host.listeners.get(int(port)) if host is not None else None

    async def until_lit(self, name: str) -> None:
        """Wait while the host has no power."""
        while (host := self._hosts.get(name)) is not None and host.is_dark:
            await host.is_replaced.wait()


class VirtualHost:
    """One incarnation of a host, and the `Network` of the node on it."""

    def __init__(self, network: VirtualNetwork, name: str) -> None:
        self._network = network
        self.name = name
        self.is_alive = True
        self.is_dark = False  # without power: does not even refuse connections
        self.is_replaced = asyncio.Event()
        self.listeners: dict[int, VirtualServer] = {}

    async def connect(self, address: str, timeout_ms: int = 3000) -> VirtualConnection:
        self._check_alive()
        connection: VirtualConnection | None = None
        target = address.rpartition(":")[0]
        outward, homeward = self._network.link(self.name, target), self._network.link(target, self.name)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await outward.travel()
                await self._network.until_lit(target)
                self._check_alive()
                while (server := self._network.listener(address)) is not None and server.is_stopped:
                    await server.until_running()
                if server is not None and server.has_room_for(self.name):
                    connection = self._network.join(self.name, address, server)
                await homeward.travel()
        except TimeoutError:
            await _abandon(connection)
            raise ConnectFailed(address, f"no answer within {timeout_ms} ms") from None
        except asyncio.CancelledError:
            await _abandon(connection)
            raise
        self._check_alive()
        if connection is None:
            raise ConnectFailed(address, "connection refused")
        if connection.broken.is_set():
            raise ConnectFailed(address, "connection lost while it was made")
        return connection

    async def serve(
        self,
        address: str,
        handlers: Mapping[str, Handler],
        on_panic: PanicHandler,
        limits: ConnectionLimits | None = None,
    ) -> "VirtualServer":
        self._check_alive()
        name, _, port_text = address.rpartition(":")
        if name != self.name and name not in _ANY_ADDRESS:
            raise AddressInUse(address, "Cannot assign requested address")
        port = int(port_text) or self._free_port()
        if port in self.listeners:
            raise AddressInUse(address, "Address already in use")
        server = VirtualServer(self, f"{name}:{port}", handlers, on_panic, limits)
        self.listeners[port] = server
        return server

    def _free_port(self) -> int:
        return max(self.listeners, default=_FIRST_FREE_PORT - 1) + 1

    def _check_alive(self) -> None:
        if not self.is_alive:
            raise SimulatedCrash


class VirtualServer:
    """A listening address of a host."""

    def __init__(
        self,
        host: VirtualHost,
        address: str,
        handlers: Mapping[str, Handler],
        on_panic: PanicHandler,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._host = host
        self._limits = limits
        self.connections_refused = 0
        self._address = address
        self._leaving: dict[asyncio.Task[None], None] = {}
        self._process = current_process()
        self.context = copy_context()
        self.host_name = host.name
        self.handlers = handlers
        self.on_panic = on_panic
        self.accepted: dict[AcceptedConnection, None] = {}

    @property
    def address(self) -> str:
        return self._address

    @property
    def is_stopped(self) -> bool:
        """Whether the process is stopped: it accepts no connections, but the host does not refuse them."""
        return self._process is not None and self._process.is_stopped

    async def until_running(self) -> None:
        if self._process is not None:
            await self._process.until_running()

    @property
    def connections(self) -> int:
        return len(self.accepted)

    def has_room_for(self, host: str) -> bool:
        """Return whether one more connection from `host` is within the limits."""
        if self._limits is None:
            return True
        if len(self.accepted) >= self._limits.total:
            return False
        if sum(connection.remote == host for connection in self.accepted) < self._limits.per_address:
            return True
        self.connections_refused += 1
        return False

    async def stop(self, grace_ms: int = 0) -> None:
        port = int(self._address.rpartition(":")[2])
        if self._host.listeners.get(port) is self:
            del self._host.listeners[port]
        for connection in self.accepted:
            connection.go_away()
        if grace_ms and (tasks := self._handler_tasks()):
            await asyncio.wait(tasks, timeout=grace_ms / 1000)
        for connection in list(self.accepted):
            connection.hang_up("the server has stopped")
        while tasks := self._handler_tasks():
            await asyncio.wait(tasks)

    def connection_gone(self, connection: AcceptedConnection) -> None:
        """Forget a connection that has ended; its handlers may still be cleaning up."""
        self.accepted.pop(connection, None)
        for task in connection.tasks:
            self._leaving[task] = None
            task.add_done_callback(lambda done: self._leaving.pop(done, None))

    def _handler_tasks(self) -> list[asyncio.Task[None]]:
        tasks = [*self._leaving, *(task for connection in self.accepted for task in connection.tasks)]
        return [task for task in tasks if task is not asyncio.current_task()]


async def _abandon(connection: VirtualConnection | None) -> None:
    if connection is not None:
        await connection.close()
