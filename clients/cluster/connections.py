"""One connection to each broker, shared by all of a client's requests to it."""

import asyncio

from lograft.clients.cluster.cluster_identity import ClusterIdentity
from lograft.clients.cluster.unary_call import call
from lograft.clients.errors import ClientClosed, LograftError
from lograft.proto import cluster_pb2 as pb
from lograft.proto.methods import DESCRIBE_CLUSTER
from lograft.runtime.network import ConnectFailed, Connection
from lograft.runtime.world import Runtime

CONNECT_TIMEOUT_MS = 2000
LEAST_TOPIC = "__consumer_offsets"  # brokers without `cluster_only` describe this one topic instead of all


class Connections:
    """Connections by address. `trouble` has the reason for each address whose last attempt failed.

    Once the cluster's `identity` is known, every new connection is asked for its cluster id before any other use. A
    connection ends with the broker's process, so the answer holds for the connection's lifetime.
    """

    def __init__(
        self, runtime: Runtime, connect_timeout_ms: int = CONNECT_TIMEOUT_MS, identity: ClusterIdentity | None = None
    ) -> None:
        self._runtime = runtime
        self._identity = identity or ClusterIdentity()
        self._identity.watch(lambda: self.has_open)
        self._connect_timeout_ms = connect_timeout_ms
        self._open: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Lock] = {}
        self._is_closed = False
        self.has_connected = False  # ever, to any broker
        self.trouble: dict[str, str] = {}

    def is_open(self, address: str) -> bool:
        connection = self._open.get(address)
        return connection is not None and not connection.broken.is_set()

    @property
    def has_open(self) -> bool:
        """True if any connection is open."""
        return any(map(self.is_open, self._open))

    async def get(self, address: str) -> Connection:
        """Return the open connection to the address, or a new one. Raise `ConnectFailed` if the broker is unreachable,
        `WrongCluster` if the cluster was replaced."""
        self._identity.check()
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
        if self._identity.cluster_id:
            await self._check_cluster(address, connection)
        self.has_connected = True
        self.trouble.pop(address, None)
        self._open[address] = connection
        try:
            self._check_open()
        except ClientClosed:
            await connection.close()
            raise
        return connection

    async def _check_cluster(self, address: str, connection: Connection) -> None:
        """Close the connection and raise unless it leads to the client's own cluster."""
        try:
            told = await self._cluster_of(connection)
            if self._identity.is_of_another(told, self._runtime.clock.monotonic_ms()):
                self._identity.check()
                raise ConnectFailed(address, f"another cluster answers there, {told!r}: check the address")
        except ConnectFailed as error:
            self.trouble[address] = error.reason
            await connection.close()
            raise
        except (LograftError, TimeoutError) as error:
            self.trouble[address] = reason = str(error) or f"no answer within {self._connect_timeout_ms} ms"
            await connection.close()
            self._identity.check()
            raise ConnectFailed(address, reason) from None
        except BaseException:
            await connection.close()
            raise

    async def _cluster_of(self, connection: Connection) -> str:
        request = pb.DescribeRequest(topics=[LEAST_TOPIC], cluster_only=True)
        async with asyncio.timeout(self._connect_timeout_ms / 1000):
            return (await call(connection, DESCRIBE_CLUSTER, request, pb.ClusterDescription)).cluster_id

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the client is closed: make another one")

    async def close(self) -> None:
        """Close all connections and refuse new ones."""
        self._is_closed = True
        while self._open:
            await self._open.popitem()[1].close()
