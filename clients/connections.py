"""One connection to each broker, shared by all that a client has to say there."""

import asyncio

from lograft.clients.errors import ClientClosed
from lograft.runtime.network import ConnectFailed, Connection
from lograft.runtime.world import Runtime

CONNECT_TIMEOUT_MS = 2000


class Connections:
    """By address. `trouble` has, for each address that failed last time, why."""

    def __init__(self, runtime: Runtime, connect_timeout_ms: int = CONNECT_TIMEOUT_MS) -> None:
        self._runtime = runtime
        self._connect_timeout_ms = connect_timeout_ms
        self._open: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Lock] = {}
        self._is_closed = False
        self.has_connected = False  # ever, anywhere
        self.trouble: dict[str, str] = {}

    def is_open(self, address: str) -> bool:
        connection = self._open.get(address)
        return connection is not None and not connection.broken.is_set()

    @property
    def has_open(self) -> bool:
        """Whether there is any now."""
        return any(map(self.is_open, self._open))

    async def get(self, address: str) -> Connection:
        """A live connection: the one there is, or a new one. `ConnectFailed` if there is none to be had."""
        connection = self._open.get(address)
        if connection is not None and not connection.broken.is_set():
            return connection
        async with self._connecting.setdefault(address, asyncio.Lock()):
            connection = self._open.get(address)
            if connection is None or connection.broken.is_set():
                connection = await self._connect(address)
        return connection

    async def _connect(self, address: str) -> Connection:
        self._check_open()
        old = self._open.pop(address, None)
        if old is not None:
            await old.close()
        try:
            connection = await self._runtime.network.connect(address, self._connect_timeout_ms)
        except ConnectFailed as error:
            self.trouble[address] = error.reason
            raise
        self.has_connected = True
        self.trouble.pop(address, None)
        self._open[address] = connection
        try:
            self._check_open()
        except ClientClosed:
            await connection.close()
            raise
        return connection

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the client is closed: make another one")

    async def close(self) -> None:
        """End all connections, and make no more."""
        self._is_closed = True
        while self._open:
            await self._open.popitem()[1].close()
