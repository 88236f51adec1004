"""One broker's services of `lograft.v1.Log` on a virtual network, over replicas that a test has in hand."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message
from support.metadata_images import broker, image_with, partition, topic_id
from support.raft_nodes import make_runtime
from support.served_replicas import FakeReplica, FakeReplicas

from lograft.broker.replica.partition_lookup import PartitionLookup
from lograft.chaos.world.network import VirtualNetwork
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.runtime.network import Connection, Handler, Stream, StreamError
from lograft.runtime.rng import Rng
from lograft.storage.log.log_config import LogConfig

R = TypeVar("R", bound=Message)

ORDERS = topic_id(1).bytes


class Node:
    """Broker 1 of two. Topic `orders` has three partitions; which of them have replicas here, a test says."""

    def __init__(self) -> None:
        self.network = VirtualNetwork(Rng(3))
        self.runtime = make_runtime(1, self.network, "node")
        self.image = image_with(broker(1), broker(2), topics={"orders": [partition(1, 2) for _ in range(3)]})
        self.replicas = FakeReplicas()
        self.logs = PartitionLookup(self.replicas, lambda: self.image)
        self.panics: list[BaseException] = []
        self._is_serving = False

    def lead(self, number: int = 0, config: LogConfig | None = None) -> FakeReplica:
        return self.replicas.add(1, number, config)

    async def serve(self, handlers: Mapping[str, Handler]) -> Connection:
        """A connection to the node, which serves `handlers`; those of the first call, if there are several."""
        if not self._is_serving:
            await self.runtime.network.serve("node:1", handlers, self.panics.append)
            self._is_serving = True
        return await self.network.host("client").connect("node:1")


class Talk(Generic[R]):
    """A stream as its client has it."""

    def __init__(self, stream: Stream, response_type: type[R]) -> None:
        self.stream = stream
        self._response_type = response_type
        self._receiving: asyncio.Task[bytes | None] | None = None

    async def say(self, request: Message) -> None:
        await self.stream.send(request.SerializeToString())

    async def hear(self) -> R:
        """The next message."""
        data = await self._next()
        assert data is not None, "the stream has ended"
        return self._response_type.FromString(data)

    async def hear_until(self, is_it: Callable[[R], bool]) -> R:
        """The next message like that; others are passed over."""
        while not is_it(message := await self.hear()):
            pass
        return message

    async def silence(self, seconds: float) -> None:
        """Nothing but signs of life comes for so long."""
        end = asyncio.get_running_loop().time() + seconds
        while (left := end - asyncio.get_running_loop().time()) > 0:
            receiving = self._receive()
            await asyncio.wait([receiving], timeout=left)
            if not receiving.done():
                return
            data = await self._next()
            assert data == b"", f"heard {self._response_type.FromString(data or b'')}"

    async def ends(self) -> None:
        assert await self._next() is None

    async def fails(self) -> StreamError:
        try:
            while await self._next() is not None:
                pass
        except StreamError as error:
            return error
        raise AssertionError("the stream ended well")

    def _receive(self) -> "asyncio.Task[bytes | None]":
        if self._receiving is None:
            self._receiving = asyncio.ensure_future(self.stream.receive())
        return self._receiving

    async def _next(self) -> bytes | None:
        receiving = self._receive()
        try:
            return await asyncio.shield(receiving)
        finally:
            self._receiving = None


def detail_in(error: StreamError) -> ErrorDetail:
    return ErrorDetail.FromString(error.detail)


async def refused(awaitable: Any) -> ErrorDetail:
    """What a call is refused with."""
    try:
        await awaitable
    except StreamError as error:
        return detail_in(error)
    raise AssertionError("it was not refused")


async def settle(seconds: float = 0.2) -> None:
    """Long enough for whatever was sent to arrive and be done."""
    await asyncio.sleep(seconds)
