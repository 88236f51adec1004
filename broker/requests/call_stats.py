"""Requests, errors and durations of a server's methods.

A unary call counts as one request. Its duration runs to its answer, without the time that the client asked it to wait.
On a stream each message counts as one request, except keep-alives; streams are not timed, because their duration means
nothing. The service itself counts errors and slow requests inside a stream.
"""

from collections.abc import Iterator, Mapping

from google.protobuf.descriptor_pool import Default

from lograft.broker.requests.slow_requests import SlowRequests, begin_timing
from lograft.proto.errors_pb2 import ErrorCode, ErrorDetail
from lograft.rpc.status import read_detail
from lograft.runtime.clock import Clock
from lograft.runtime.histogram import Histogram
from lograft.runtime.network import Handler, Status, Stream, StreamError

_UNKNOWN = "UNKNOWN"


class CallStats:
    """Statistics of one method. `method`: the short name, `Log/Produce` for `/lograft.v1.Log/Produce`. `errors`: counts
    by the name of our error code, or of gRPC's status if the error has none of ours."""

    __slots__ = ("errors", "method", "open", "requests", "seconds")

    def __init__(self, method: str) -> None:
        service, _, name = method.rpartition("/")
        self.method = f"{service.rpartition('.')[2]}/{name}"
        self.requests = 0
        self.errors: dict[str, int] = {}
        self.open = 0  # calls or streams
        self.seconds = Histogram()

    def failed(self, error: ErrorDetail) -> None:
        self._count(_name_of(error.code))

    def ended(self, error: StreamError) -> None:
        """Count the error that ended a call. A cancelled call is not the server's failure."""
        if (detail := read_detail(error)) is not None:
            self.failed(detail)
        elif error.status is not Status.CANCELLED:
            self._count(error.status.name)

    def _count(self, name: str) -> None:
        self.errors[name] = self.errors.get(name, 0) + 1


class ServerStats:
    """Statistics of all methods of a server. `slow`: its slow requests."""

    def __init__(self) -> None:
        self.slow = SlowRequests()
        self._methods: dict[str, CallStats] = {}

    def of(self, method: str) -> CallStats:
        if method not in self._methods:
            self._methods[method] = CallStats(method)
        return self._methods[method]

    def __iter__(self) -> Iterator[CallStats]:
        return iter(self._methods.values())

    @property
    def requests(self) -> int:
        return sum(stats.requests for stats in self)

    @property
    def errors(self) -> int:
        return sum(sum(stats.errors.values()) for stats in self)

    @property
    def open(self) -> int:
        return sum(stats.open for stats in self)


def counted(handlers: Mapping[str, Handler], stats: ServerStats, clock: Clock) -> dict[str, Handler]:
    """Return the handlers, wrapped so that `stats` counts their requests and errors."""
    return {
        method: _counted_call(handler, stats.of(method), clock, stats.slow)
        if _has_one_answer(method)
        else _counted_stream(handler, stats.of(method))
        for method, handler in handlers.items()
    }


def _has_one_answer(method: str) -> bool:
    """Return whether the descriptors define the method as unary. Methods without a descriptor count as streams."""
    service, _, name = method.removeprefix("/").partition("/")
    try:
        described = Default().FindServiceByName(service).methods_by_name[name]
    except KeyError:
        return False
    return not described.client_streaming and not described.server_streaming


def _counted_call(handler: Handler, stats: CallStats, clock: Clock, slow: SlowRequests) -> Handler:
    async def serve(stream: Stream) -> None:
        began_seconds, timer = clock.monotonic_seconds(), begin_timing()
        stats.requests += 1
        stats.open += 1
        try:
            await handler(stream)
        except StreamError as error:
            stats.ended(error)
            raise
        finally:
            stats.open -= 1
            seconds = clock.monotonic_seconds() - began_seconds - timer.waited_seconds
            stats.seconds.observe(seconds)
            if seconds >= slow.threshold_seconds:
                slow.note(stats.method, seconds, waited_ms=round(timer.waited_seconds * 1000), peer=stream.peer)

    return serve


def _counted_stream(handler: Handler, stats: CallStats) -> Handler:
    async def serve(stream: Stream) -> None:
        stats.open += 1
        try:
            await handler(_CountedStream(stream, stats))
        except Exception as error:
            for cause in _stream_errors(error):
                stats.ended(cause)
                break
            raise
        finally:
            stats.open -= 1

    return serve


class _CountedStream:
    """Counts incoming messages."""

    __slots__ = ("_stats", "_stream", "half_close", "reset", "send")

    def __init__(self, stream: Stream, stats: CallStats) -> None:
        self._stream = stream
        self._stats = stats
        self.send = stream.send
        self.half_close = stream.half_close
        self.reset = stream.reset

    async def receive(self) -> bytes | None:
        message = await self._stream.receive()
        if message:
            self._stats.requests += 1
        return message

    @property
    def peer(self) -> str:
        return self._stream.peer


def _stream_errors(error: BaseException) -> Iterator[StreamError]:
    """Yield the stream errors in `error`: a handler with a task group raises them in exception groups."""
    if isinstance(error, StreamError):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _stream_errors(each)


def _name_of(code: ErrorCode) -> str:
    return ErrorCode.Name(code) if code in ErrorCode.values() else _UNKNOWN
