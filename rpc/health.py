"""gRPC's standard health checking: `grpc.health.v1.Health`, for any probe or load balancer."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping

from google.protobuf.message import DecodeError, Message
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse

from lograft.runtime.network import Handler, Status, Stream, StreamError

SERVICE = "grpc.health.v1.Health"
WHOLE_SERVER = ""

_SERVING = HealthCheckResponse.SERVING
_NOT_SERVING = HealthCheckResponse.NOT_SERVING
_UNKNOWN_SERVICE = HealthCheckResponse.SERVICE_UNKNOWN


class HealthService:
    """Reports whether each service in `names`, and the whole server (the empty name), is serving. At first none is."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = (WHOLE_SERVER, *dict.fromkeys(names))
        self._is_serving = False
        self._changed = asyncio.Event()

    @property
    def is_serving(self) -> bool:
        return self._is_serving

    def set_serving(self, is_serving: bool) -> None:
        """Set the status of all services: those of a node start and stop together."""
        if is_serving != self._is_serving:
            self._is_serving = is_serving
            self._changed.set()
            self._changed = asyncio.Event()

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers for the node's server, by method."""
        return {
            f"/{SERVICE}/Check": self._serve_check,
            f"/{SERVICE}/List": self._serve_list,
            f"/{SERVICE}/Watch": self._serve_watch,
        }

    def _status_of(self, name: str) -> HealthCheckResponse.ServingStatus:
        if name not in self._names:
            return _UNKNOWN_SERVICE
        return _SERVING if self._is_serving else _NOT_SERVING

    async def _serve_check(self, stream: Stream) -> None:
        request = HealthCheckRequest()
        await _receive(stream, request)
        if request.service not in self._names:
            known = ", ".join(name for name in self._names if name)
            raise StreamError(Status.NOT_FOUND, f"no service {request.service[:200]!a} is served here: {known}")
        await _answer(stream, HealthCheckResponse(status=self._status_of(request.service)))

    async def _serve_list(self, stream: Stream) -> None:
        await _receive(stream, HealthListRequest())
        statuses = {name: HealthCheckResponse(status=self._status_of(name)) for name in self._names}
        await _answer(stream, HealthListResponse(statuses=statuses))

    async def _serve_watch(self, stream: Stream) -> None:
        """Send the status at once, and then each change."""
        request = HealthCheckRequest()
        await _receive(stream, request)
        said: HealthCheckResponse.ServingStatus | None = None
        while True:
            changed = self._changed
            if (status := self._status_of(request.service)) != said:
                said = status
                await _answer(stream, HealthCheckResponse(status=status))
            await changed.wait()


async def _receive(stream: Stream, request: Message) -> None:
    data = await stream.receive()
    with contextlib.suppress(DecodeError):
        if data is not None:
            request.ParseFromString(data)
            return
    raise StreamError(Status.INVALID_ARGUMENT, f"not a {request.DESCRIPTOR.full_name}")


async def _answer(stream: Stream, answer: Message) -> None:
    await stream.send(answer.SerializeToString())
