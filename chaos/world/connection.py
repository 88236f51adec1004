"""The two ends of a simulated connection. Frames travel in order in each direction; the ends share nothing else."""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from typing import Protocol

from lograft.chaos.world.link import (
    Credit,
    EndStream,
    Frame,
    GoAway,
    HalfClose,
    HangUp,
    Link,
    Message,
    OpenStream,
    Pipe,
    ResetStream,
)
from lograft.chaos.world.stream import VirtualCallStream, VirtualHandlerStream, Wire
from lograft.runtime.network import Handler, PanicHandler, Status, Stream, StreamError
from lograft.runtime.rng import Rng
from lograft.runtime.stream_handler import run_handler


class End(Protocol):
    """One end, as the network sees it. `local` and `remote` are host names."""

    local: str
    remote: str
    on_gone: Callable[[], None]

    def lose(self, reason: str) -> None:
        """Break the connection; this end notices now."""
        ...

    def crash(self) -> None:
        """Kill this end's process. The other end notices, because the kernel closes the socket."""
        ...

    def vanish(self) -> None:
        """Kill this end's host, including its kernel. The other end notices nothing."""
        ...

    def stop_transmitting(self) -> None:
        """Drop everything this end sends from now on."""
        ...


class VirtualConnection:
    """The connecting end."""

    def __init__(self, local: str, remote: str, address: str, rng: Rng, window_bytes: int) -> None:
        self.local = local
        self.remote = remote
        self.on_gone: Callable[[], None] = lambda: None
        self.context = copy_context()  # of the connecting process
        self._address = address
        self._rng = rng
        self._window_bytes = window_bytes
        self._broken = asyncio.Event()
        self._outgoing: Pipe | None = None
        self._streams: dict[int, VirtualCallStream] = {}
        self._last_stream_id = 0
        self._is_gone = False
        self._has_crashed = False

    def attach(self, link: Link, other: "VirtualConnection | AcceptedConnection") -> None:
        """Send frames over `link` to the `other` end."""
        self._outgoing = Pipe(link, other.deliver, other.context)

    @property
    def broken(self) -> asyncio.Event:
        return self._broken

    def open(self, method: str) -> Stream:
        self._last_stream_id += 1
        stream_id = self._last_stream_id
        stream = VirtualCallStream(Wire(stream_id, self._address, self._transmit, self._window_bytes, self._rng))
        if self._has_crashed:
            stream.crash()
        elif self._broken.is_set():
            stream.connection_lost(f"the connection to {self._address} is broken")
        else:
            self._streams[stream_id] = stream
            self._transmit(OpenStream(stream_id, method))
        return stream

    async def close(self) -> None:
        if self._is_gone:
            return
        self._transmit(HangUp("the caller closed the connection"))
        for stream in list(self._streams.values()):
            stream.drop("the connection was closed")
        self._be_gone()

    def deliver(self, frame: Frame) -> None:
        """Handle a frame that arrived."""
        if self._is_gone:
            return
        match frame:
            case Message(stream_id, body):
                if stream_id in self._streams:
                    self._streams[stream_id].message_arrived(body)
            case Credit(stream_id, size):
                if stream_id in self._streams:
                    self._streams[stream_id].credit_arrived(size)
            case EndStream(stream_id, error):
                if stream_id in self._streams:
                    self._streams.pop(stream_id).ended(error)
            case GoAway():
                self._broken.set()
            case HangUp(reason):
                self.lose(reason)
            case _:
                raise AssertionError(f"{frame} at the connecting end")

    def lose(self, reason: str) -> None:
        if self._is_gone:
            return
        streams, self._streams = self._streams, {}
        self._be_gone()
        for stream in streams.values():
            stream.connection_lost(reason)

    def crash(self) -> None:
        if not self._is_gone:
            self._transmit(HangUp("connection reset by peer"))
            self.vanish()

    def vanish(self) -> None:
        if self._is_gone:
            return
        self._has_crashed = True
        streams, self._streams = self._streams, {}
        self.stop_transmitting()
        self._is_gone = True
        for stream in streams.values():
            stream.crash()
        self.on_gone()

    def stop_transmitting(self) -> None:
        if self._outgoing is not None:
            self._outgoing.close()

    def _transmit(self, frame: Frame) -> None:
        assert self._outgoing is not None
        self._outgoing.push(frame)
        if isinstance(frame, ResetStream):
            self._streams.pop(frame.stream_id, None)

    def _be_gone(self) -> None:
        self._is_gone = True
        self._broken.set()
        self.stop_transmitting()
        self.on_gone()


class AcceptedConnection:
    """The accepting end. Starts a task for each stream."""

    def __init__(
        self,
        local: str,
        remote: str,
        handlers: Mapping[str, Handler],
        on_panic: PanicHandler,
        rng: Rng,
        window_bytes: int,
        context: Context,
    ) -> None:
        self.local = local
        self.remote = remote
        self.on_gone: Callable[[], None] = lambda: None
        self.context = context  # of the listening process
        self.tasks: dict[asyncio.Task[None], None] = {}
        self._handlers = handlers
        self._on_panic = on_panic
        self._rng = rng
        self._window_bytes = window_bytes
        self._outgoing: Pipe | None = None
        self._streams: dict[int, VirtualHandlerStream] = {}
        self._is_stopping = False
        self._is_gone = False

    def attach(self, link: Link, other: VirtualConnection) -> None:
        """Send frames over `link` to the `other` end."""
        self._outgoing = Pipe(link, other.deliver, other.context)

    def deliver(self, frame: Frame) -> None:
        """Handle a frame that arrived."""
        if self._is_gone:
            return
        match frame:
            case OpenStream(stream_id, method):
                self._start(stream_id, method)
            case Message(stream_id, body):
                if stream_id in self._streams:
                    self._streams[stream_id].message_arrived(body)
            case Credit(stream_id, size):
                if stream_id in self._streams:
                    self._streams[stream_id].credit_arrived(size)
            case HalfClose(stream_id):
                if stream_id in self._streams:
                    self._streams[stream_id].half_closed()
            case ResetStream(stream_id):
                if stream_id in self._streams:
                    self._streams[stream_id].abandon("the caller is gone")
            case HangUp(reason):
                self.lose(reason)
            case _:
                raise AssertionError(f"{frame} at the accepting end")

    def go_away(self) -> None:
        """Accept no more streams."""
        self._is_stopping = True
        self._transmit(GoAway())

    def hang_up(self, reason: str) -> None:
        """Close the connection from this end."""
        if not self._is_gone:
            self._transmit(HangUp(reason))
            self.lose(reason)

    def lose(self, reason: str) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        self.stop_transmitting()
        for stream in list(self._streams.values()):
            stream.abandon("the caller is gone")
        self.on_gone()

    def crash(self) -> None:
        if not self._is_gone:
            self._transmit(HangUp("connection reset by peer"))
            self.vanish()

    def vanish(self) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        self.stop_transmitting()
        for stream in list(self._streams.values()):
            stream.crash()
        self.on_gone()

    def stop_transmitting(self) -> None:
        if self._outgoing is not None:
            self._outgoing.close()

    def _start(self, stream_id: int, method: str) -> None:
        if self._is_stopping:
            self._transmit(EndStream(stream_id, StreamError(Status.UNAVAILABLE, "the server is stopping")))
            return
        handler = self._handlers.get(method)
        if handler is None:
            self._transmit(EndStream(stream_id, StreamError(Status.UNIMPLEMENTED, f"no method {method}")))
            return
        stream = VirtualHandlerStream(Wire(stream_id, self.remote, self._transmit, self._window_bytes, self._rng))
        self._streams[stream_id] = stream
        task = asyncio.get_running_loop().create_task(
            self._serve(stream_id, stream, handler), name=f"{self.local} {method} for {self.remote}"
        )
        stream.task = task
        self.tasks[task] = None
        task.add_done_callback(lambda _: self._ended(stream_id, task))

    async def _serve(self, stream_id: int, stream: VirtualHandlerStream, handler: Handler) -> None:
        error = await run_handler(handler, stream, self._on_panic)
        self._transmit(EndStream(stream_id, error))
        stream.finished()

    def _ended(self, stream_id: int, task: "asyncio.Task[None]") -> None:
        del self._streams[stream_id]
        del self.tasks[task]

    def _transmit(self, frame: Frame) -> None:
        assert self._outgoing is not None
        self._outgoing.push(frame)
