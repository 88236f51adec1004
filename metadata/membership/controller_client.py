"""Requests to the active controller, whichever that is at the moment."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from google.protobuf.message import Message

from lograft.metadata.membership.controller_connection import ClientLimits, ControllerConnection
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import read_detail, to_controller_error, to_stream_error, unknown_outcome
from lograft.rpc.unary import read_answer
from lograft.runtime.network import ConnectFailed, Status, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.retry import ExponentialWait, TryAgain, retrying
from lograft.runtime.world import Runtime

R = TypeVar("R", bound=Message)

log = get_logger(__name__)

# Of errors with a detail: nothing was done, and another controller may do it.
_ASK_ELSEWHERE = (errors_pb2.NOT_CONTROLLER, errors_pb2.UNAVAILABLE)

# Of errors without a detail: the stream was lost, and the request perhaps with it. Other codes are the server's answer.
_LOST = (Status.UNAVAILABLE, Status.CANCELLED, Status.DEADLINE_EXCEEDED, Status.UNKNOWN, Status.ABORTED)


class ControllerClient:
    """Finds the active controller among `controllers` (id to address) and keeps to it while it is the active one.

    It asks until there is an answer; the caller bounds the time by cancelling it (`asyncio.timeout_at`). A request is
    made again only if the one before certainly did nothing, or if the caller says that it is `repeatable`: that doing
    it twice is as good as once. Any other that may have been carried out ends with CONTROLLER_MOVED.
    """

    def __init__(self, runtime: Runtime, controllers: Mapping[int, str], limits: ClientLimits | None = None) -> None:
        self._runtime = runtime
        self._limits = limits or ClientLimits()
        self._lines: dict[int, ControllerConnection] = {}
        self._active_id: int | None = None
        self._is_closed = False
        assert controllers, "no controllers to ask"
        for controller_id, address in controllers.items():
            self.learn(controller_id, address)

    # -- known controllers

    @property
    def active_id(self) -> int | None:
        """The controller to ask first: the active one, as far as known."""
        return self._active_id

    @property
    def trouble(self) -> str:
        """Why no controller took the last requests, for people; empty if nothing is wrong."""
        lines = [line for line in self._lines.values() if line.trouble]
        return "; ".join(f"controller {line.controller_id} at {line.address}: {line.trouble}" for line in lines)

    def learn(self, controller_id: int, address: str) -> None:
        """There is a controller of that id. The address of one that is known already stays."""
        if controller_id not in self._lines and not self._is_closed:
            self._lines[controller_id] = ControllerConnection(self._runtime, controller_id, address, self._limits)

    def heard_from(self, controller_id: int, *, is_active: bool) -> None:
        """It lives: what it was asked and has not answered yet just takes long. `is_active`: it says that it is."""
        line = self._lines.get(controller_id)
        if line is not None:
            line.heard()
            if is_active:
                self._found(controller_id)

    # -- requests

    async def call(self, method: str, request: Message, response_type: type[R], *, repeatable: bool = False) -> R:
        """Return the active controller's answer, or raise its `ControllerError`."""
        try:
            answer = await self.call_bytes(method, request.SerializeToString, repeatable=repeatable)
        except StreamError as error:
            raise to_controller_error(error) from None
        return read_answer(response_type, answer)

    async def call_bytes(self, method: str, request: Callable[[], bytes], *, repeatable: bool = False) -> bytes:
        """The same with messages as bytes, made for each attempt. Errors are `StreamError`s with a detail, the
        controller's own unchanged."""
        wait = ExponentialWait(self._runtime.rng, self._limits.first_retry_ms, self._limits.last_retry_ms)
        may_be_done = False

        async def ask_all() -> bytes:
            """Ask one controller after the other. Raise `TryAgain` when all of them were asked."""
            nonlocal may_be_done
            tried: list[int] = []
            while (line := self._next(tried)) is not None:
                tried.append(line.controller_id)
                try:
                    answer = await line.ask(method, request)
                except (ConnectFailed, StreamError) as error:
                    self._failed(line, error, tried)
                    may_be_done = may_be_done or not _did_nothing(error)
                    refusal = _refusal(error, repeatable=repeatable)
                    if refusal is None and self._is_closed:
                        refusal = _closed(may_be_done=may_be_done)
                    if refusal is not None:
                        raise refusal from None
                else:
                    line.trouble = ""
                    self._found(line.controller_id)
                    return answer
            raise TryAgain

        return await retrying(self._runtime.clock, wait, on=())(ask_all)

    async def close(self) -> None:
        """Close all connections, and end all calls."""
        self._is_closed = True
        for line in self._lines.values():
            await line.close()

    def _next(self, tried: list[int]) -> ControllerConnection | None:
        """Whom to ask now. None: all were asked, and it is time to give them some time."""
        untried = [controller_id for controller_id in self._lines if controller_id not in tried]
        if not untried:
            return None
        if self._active_id in untried:
            return self._lines[self._active_id]
        return self._lines[self._runtime.rng.choice(untried)]

    def _failed(self, line: ControllerConnection, error: ConnectFailed | StreamError, tried: list[int]) -> None:
        if isinstance(error, ConnectFailed):
            line.trouble = error.reason
        else:
            line.trouble = error.message or error.status.name.lower()
        detail = read_detail(error) if isinstance(error, StreamError) else None
        if detail is not None and detail.code not in (*_ASK_ELSEWHERE, errors_pb2.CONTROLLER_MOVED):
            line.trouble = ""  # it is the active one, and has refused
            return
        if self._active_id == line.controller_id:
            self._active_id = None
        if detail is not None and detail.HasField("leader_id"):
            if detail.leader_address:
                self.learn(detail.leader_id, detail.leader_address)
            # A node may keep naming a leader for a while that was found dead already.
            if detail.leader_id in self._lines and detail.leader_id not in tried:
                self._active_id = detail.leader_id

    def _found(self, controller_id: int) -> None:
        if self._active_id != controller_id:
            log.info("active_controller_found", controller=controller_id)
            self._active_id = controller_id


def _refusal(error: ConnectFailed | StreamError, *, repeatable: bool) -> StreamError | None:
    """Return the error that ends the call; None if another attempt may be made."""
    if isinstance(error, ConnectFailed) or _did_nothing(error):
        return None
    detail = read_detail(error)
    if detail is not None:
        return None if repeatable and detail.code == errors_pb2.CONTROLLER_MOVED else error
    if error.status in _LOST:
        return None if repeatable else to_stream_error(unknown_outcome(f"the controller was lost ({error.message})"))
    return to_stream_error(to_controller_error(error))


def _did_nothing(error: ConnectFailed | StreamError) -> bool:
    """Return whether the controller certainly did nothing, so that another may do it."""
    if isinstance(error, ConnectFailed):
        return True
    detail = read_detail(error)
    return detail is not None and detail.code in _ASK_ELSEWHERE


def _closed(*, may_be_done: bool) -> StreamError:
    if may_be_done:
        return to_stream_error(unknown_outcome("the node is stopping"))
    return to_stream_error(
        ControllerError(errors_pb2.UNAVAILABLE, "the node is stopping, nothing was done: ask another one")
    )
