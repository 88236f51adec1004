"""A client of a simulated cluster. Like a real one, it calls any node, and retries while that can help."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from lograft.chaos.harness.outcome import Outcome
from lograft.metadata.membership.controller_client import ControllerClient
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import error_of
from lograft.rpc.unary import call
from lograft.runtime.network import ConnectFailed
from lograft.runtime.world import Runtime

R = TypeVar("R", bound=Message)

_ATTEMPT_MS = 2_500
_PATIENCE_MS = 6_000


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """The outcome of a request. FAIL: nothing was done, and nothing will be. `error` is the last error."""

    outcome: Outcome
    response: R | None = None
    error: ControllerError | None = None


class SimulatedClient:
    """A client with the network of its own host. `brokers` are addresses."""

    def __init__(self, runtime: Runtime, brokers: Sequence[str], controllers: Mapping[int, str]) -> None:
        self._runtime = runtime
        self._brokers = brokers
        self._controllers = controllers
        self._line = ControllerClient(runtime, controllers)

    async def ask(
        self,
        method: str,
        request: Message,
        response_type: type[R],
        refusal: Callable[[R], ErrorDetail | None] = lambda response: None,
    ) -> Answer[R]:
        """Send a request, and retry it for a while. `refusal` extracts the error of a response's only item."""
        clock, rng = self._runtime.clock, self._runtime.rng
        give_up_ms = clock.monotonic_ms() + _PATIENCE_MS
        may_be_done = False
        error: ControllerError | None = None
        while clock.monotonic_ms() < give_up_ms:
            try:
                async with asyncio.timeout(_ATTEMPT_MS / 1000):
                    response = await self._attempt(method, request, response_type)
                detail = refusal(response)
                if detail is None:
                    return Answer(Outcome.OK, response)
                error = error_of(detail)
                return Answer(Outcome.UNKNOWN if may_be_done else Outcome.FAIL, response, error)
            except TimeoutError:
                may_be_done = True
            except ConnectFailed:
                pass
            except ControllerError as refused:
                error = refused
                may_be_done = may_be_done or refused.outcome_unknown
                if not refused.retriable:
                    break
            await clock.sleep_ms(rng.uniform(20, 300))
        return Answer(Outcome.UNKNOWN if may_be_done else Outcome.FAIL, None, error)

    async def _attempt(self, method: str, request: Message, response_type: type[R]) -> R:
        """Call a broker, which forwards the request, or call the controllers directly."""
        if self._runtime.rng.random() < 0.4:
            return await self._line.call(method, request, response_type)
        address = self._runtime.rng.choice(self._brokers)
        return await self.ask_node(address, method, request, response_type)

    async def ask_node(self, address: str, method: str, request: Message, response_type: type[R]) -> R:
        """Call this node once."""
        connection = await self._runtime.network.connect(address, 1000)
        try:
            return await call(connection, method, request, response_type)
        finally:
            await connection.close()

    def any_node(self) -> str:
        return self._runtime.rng.choice([*self._brokers, *self._controllers.values()])
