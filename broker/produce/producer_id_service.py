"""`lograft.v1.Log/InitProducer`: ids for idempotent producers, from blocks that the controller allocates."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from lograft.metadata.decisions.brokers.producer_ids import ProducerIdBlock
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import INIT_PRODUCER
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import unary
from lograft.runtime.network import Handler
from lograft.runtime.tasks.deadline import ATTEMPT_MS, answer_ms

_TIMEOUT_MS = answer_ms(ATTEMPT_MS)


class ProducerIdService:
    """Assigns each id once. `allocate` requests another block, and waits while there is no controller."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]], timeout_ms: int = _TIMEOUT_MS) -> None:
        self._allocate = allocate
        self._timeout_ms = timeout_ms
        self._next = 0
        self._end = 0
        self._allocating = asyncio.Lock()

    def handlers(self) -> Mapping[str, Handler]:
        return {INIT_PRODUCER: unary(self._init, pb.InitProducerRequest)}

    async def _init(self, _request: pb.InitProducerRequest) -> pb.InitProducerResponse:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return pb.InitProducerResponse(producer_id=await self._next_id(), producer_epoch=0)
        except TimeoutError:
            raise ControllerError(
                errors_pb2.UNAVAILABLE,
                f"no controller assigned producer ids to this broker within {self._timeout_ms} ms: try again",
            ) from None

    async def _next_id(self) -> int:
        if self._next == self._end:
            async with self._allocating:
                # The previous holder of the lock may have allocated a block, and others may have used it up.
                if self._next == self._end:
                    block = await self._allocate()
                    self._next, self._end = block.first, block.first + block.count
        self._next += 1
        return self._next - 1
