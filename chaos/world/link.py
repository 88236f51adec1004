"""The wire between two simulated hosts: a `Link` is one direction of it, a `Pipe` one direction of a connection."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import TypeAlias

from lograft.runtime.network import StreamError
from lograft.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class OpenStream:
    stream_id: int
    method: str


@dataclass(frozen=True, slots=True)
class Message:
    stream_id: int
    body: bytes


@dataclass(frozen=True, slots=True)
class HalfClose:
    stream_id: int


@dataclass(frozen=True, slots=True)
class Credit:
    """The receiver took messages of this many bytes, so the sender may send as many more."""

    stream_id: int
    size: int


@dataclass(frozen=True, slots=True)
class EndStream:
    """The handler returned, successfully or with an error."""

    stream_id: int
    error: StreamError | None


@dataclass(frozen=True, slots=True)
class ResetStream:
    stream_id: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The server is stopping: open no more streams."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """The other end is gone."""

    reason: str


Frame: TypeAlias = OpenStream | Message | HalfClose | Credit | EndStream | ResetStream | GoAway | HangUp


@dataclass(frozen=True, slots=True)
class Delays:
    """Transit times of frames: uniform from minimum to maximum, occasionally up to `slow_ms`."""

    minimum_ms: float = 0.05
    maximum_ms: float = 1.0
    slow_probability: float = 0.005
    slow_ms: float = 40.0

    def sample_seconds(self, rng: Rng) -> float:
        slowest_ms = self.slow_ms if rng.random() < self.slow_probability else self.maximum_ms
        return rng.uniform(self.minimum_ms, slowest_ms) / 1000


class Link:
    """Traffic from one host to another. A cut holds everything back until healed, like TCP retransmission."""

    def __init__(self, rng: Rng, delays: Delays) -> None:
        self._rng = rng
        self.delays = delays
        self._is_cut = False
        self._pipes: dict[Pipe, None] = {}
        self._travellers: list[asyncio.Future[None]] = []

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    def cut(self) -> None:
        self._is_cut = True

    def heal(self) -> None:
        if not self._is_cut:
            return
        self._is_cut = False
        for pipe in list(self._pipes):
            pipe.resume()
        travellers, self._travellers = self._travellers, []
        for traveller in travellers:
            if not traveller.done():
                traveller.set_result(None)

    def sample_delay_seconds(self) -> float:
        return self.delays.sample_seconds(self._rng)

    async def travel(self) -> None:
        """Return once a packet sent now, outside any connection, has arrived."""
        await asyncio.sleep(self.sample_delay_seconds())
        while self._is_cut:
            healed = asyncio.get_running_loop().create_future()
            self._travellers.append(healed)
            await healed
            await asyncio.sleep(self.sample_delay_seconds())

    def add(self, pipe: "Pipe") -> None:
        self._pipes[pipe] = None

    def remove(self, pipe: "Pipe") -> None:
        self._pipes.pop(pipe, None)


class Pipe:
    """Carries frames to `deliver`, in order, each after its own delay.

    The receiver's process takes frames in, in its `context`. Frames in flight belong to no process: stopping the sender
    does not hold back frames it has sent.
    """

    def __init__(self, link: Link, deliver: Callable[[Frame], None], context: Context) -> None:
        self._link = link
        self._deliver = deliver
        self._receiver = context
        self._nobody = Context()
        self._loop = asyncio.get_running_loop()
        self._in_flight: deque[tuple[float, Frame]] = deque()
        self._last_arrival = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        link.add(self)

    def push(self, frame: Frame) -> None:
        if self._is_closed:
            return
        arrival = max(self._last_arrival, self._loop.time() + self._link.sample_delay_seconds())
        self._last_arrival = arrival
        self._in_flight.append((arrival, frame))
        self._arm(arrival)

    def close(self) -> None:
        """Accept no more frames. Frames in flight still arrive."""
        self._is_closed = True
        self._forget_if_done()

    def resume(self) -> None:
        """Continue delivery after the link was healed."""
        if self._in_flight:
            self._arm(self._loop.time() + self._link.sample_delay_seconds())

    def _arm(self, when: float) -> None:
        if self._timer is None and not self._link.is_cut:
            self._timer = self._loop.call_at(when, self._deliver_due, context=self._nobody)

    def _deliver_due(self) -> None:
        self._timer = None
        if self._link.is_cut:
            return
        while self._in_flight and self._in_flight[0][0] <= self._loop.time():
            self._loop.call_soon(self._deliver, self._in_flight.popleft()[1], context=self._receiver)
        if self._in_flight:
            self._arm(max(self._in_flight[0][0], self._loop.time()))
        self._forget_if_done()

    def _forget_if_done(self) -> None:
        if self._is_closed and not self._in_flight:
            self._link.remove(self)
