"""The leader's side of one follower's stream: sends frames of many partitions in turn, within the follower's window.

One message carries everything that is ready, at once, with these exceptions. Watermark updates are not urgent, and wait
briefly for a frame to travel with. After a small message, the next one waits until the follower acknowledges the first,
or for a short time: each message has a fixed cost, and under load more becomes ready meanwhile. Barriers never wait. A
partition whose next batches are not in memory reads a bounded chunk from disk while the others have their turns.
Replicas being added are throttled, regardless of the window.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from math import ceil

from lograft.broker.replication.interfaces import Feed, OutgoingFrame, ResetTo
from lograft.broker.replication.log_matching import TruncateTo
from lograft.broker.replication.outbox import ReplicationOutbox
from lograft.broker.replication.throttle import Throttle
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.clock import Clock, until_beat_ms
from lograft.runtime.network import Stream

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LeaderStreamLimits:
    """`message_bytes`, `message_frames`: send a message at this size. `frame_bytes`: the most that one partition sends
    before others get a turn. `reads_at_once`: the most frames being read from disk, or read and not sent yet.
    `unsent_bytes`: match no further logs while this much is unsent. `small_bytes`: after a smaller message, send the
    next frames only once it is acknowledged, or after `hold_ms`."""

    message_bytes: int = _MEBIBYTE
    message_frames: int = 256
    frame_bytes: int = _MEBIBYTE
    reads_at_once: int = 2
    unsent_bytes: int = 4 * _MEBIBYTE
    small_bytes: int = 128 * 1024
    hold_ms: int = 5
    watermark_delay_ms: int = 10
    alive_every_ms: int = 500


class _Phase(Enum):
    """The reason why a partition with data to send is waiting, if any."""

    IDLE = auto()
    TURN = auto()
    WINDOW = auto()
    THROTTLE = auto()
    READING = auto()


class Fed:
    """One subscription: first unanswered, then fed from `next_offset`, then over. It is the listener of its feed."""

    __slots__ = ("_leader_stream", "barrier", "feed", "handle", "is_over", "next_offset", "phase", "ready", "told")

    def __init__(self, leader_stream: "LeaderStream", handle: int) -> None:
        self._leader_stream = leader_stream
        self.handle = handle
        self.feed: Feed | None = None
        self.next_offset = 0
        self.told = (0, 0)  # the watermark and log start last sent to the follower
        self.barrier = 0  # the latest barrier sent to the follower
        self.phase = _Phase.IDLE
        self.ready: OutgoingFrame | None = None  # read from disk, not sent yet
        self.is_over = False

    def has_news(self) -> None:
        self._leader_stream.has_news(self)

    def ended(self, error: ReplicaError) -> None:
        self._leader_stream.refuse(self, error)


class LeaderStream:
    """All subscriptions of one stream. `describe`: converts an error for the follower. `throttle`: shared by all
    streams."""

    def __init__(
        self,
        stream: Stream,
        clock: Clock,
        group: asyncio.TaskGroup,
        describe: Callable[[Exception], ErrorDetail],
        throttle: Throttle,
        limits: LeaderStreamLimits,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._group = group
        self._describe = describe
        self._throttle = throttle
        self._limits = limits
        self._subscriptions: dict[int, Fed] = {}
        self._window_bytes = 0
        self._outbox = ReplicationOutbox()
        self._turns: deque[Fed] = deque()
        self._without_window: list[Fed] = []
        self._throttled: OrderedDict[Fed, None] = OrderedDict()
        self._to_read: deque[Fed] = deque()
        self._reads = 0  # reads under way, and frames read but not sent
        self._untold: dict[Fed, None] = {}  # subscriptions with unsent watermark updates
        self._untold_since_ms = 0
        self._to_ask: dict[Fed, None] = {}  # subscriptions that must answer a barrier
        self._news = asyncio.Event()
        self._drained = asyncio.Event()
        self._sent_ms = clock.monotonic_ms()
        self._awaited: tuple[Fed, int] | None = None  # the end of a small message's last frame, until acknowledged

    def __len__(self) -> int:
        return len(self._subscriptions)

    # -- subscriptions

    def find(self, handle: int) -> Fed | None:
        return self._subscriptions.get(handle)

    def add(self, handle: int) -> Fed:
        """Add a subscription, to be answered later."""
        assert handle not in self._subscriptions
        fed = self._subscriptions[handle] = Fed(self, handle)
        return fed

    def begin(self, fed: Fed, feed: Feed, next_offset: int) -> None:
        """Answer that the logs match, and send the log from `next_offset`."""
        assert not fed.is_over
        fed.feed, fed.next_offset = feed, next_offset
        fed.told = (feed.high_watermark, feed.log_start)
        self._outbox.matched(fed.handle, *fed.told, feed.tombstones_removed_below, feed.cleaned_below)
        self.has_news(fed)
        self._news.set()

    def part(self, fed: Fed, order: TruncateTo | ResetTo) -> None:
        """Answer that the follower's log differs from the leader's, and end the subscription."""
        self.forget(fed)
        if isinstance(order, TruncateTo):
            self._outbox.truncate(fed.handle, order)
        else:
            self._outbox.reset(fed.handle, order)
        self._news.set()

    def refuse(self, fed: Fed, error: Exception) -> None:
        """End the subscription, and send the follower the reason."""
        if not fed.is_over:
            self.forget(fed)
            self._outbox.refused(fed.handle, self._describe(error))
            self._news.set()

    def forget(self, fed: Fed) -> None:
        """End the subscription without an answer."""
        if fed.is_over:
            return
        fed.is_over = True
        self._untold.pop(fed, None)
        self._to_ask.pop(fed, None)
        self._throttled.pop(fed, None)
        if self._awaited is not None and self._awaited[0] is fed:
            self._release()
        del self._subscriptions[fed.handle]
        if fed.ready is not None:
            fed.ready = None
            self._read_is_over()
        if fed.feed is not None:
            fed.feed.close()

    def forget_all(self) -> None:
        for fed in list(self._subscriptions.values()):
            self.forget(fed)

    # -- events

    def has_news(self, fed: Fed) -> None:
        feed = fed.feed
        if feed is None or fed.is_over:
            return
        if feed.barrier > fed.barrier:
            self._to_ask[fed] = None
            self._news.set()
        if fed.told != (feed.high_watermark, feed.log_start):
            if not self._untold:
                self._untold_since_ms = self._clock.monotonic_ms()
                self._news.set()
            self._untold[fed] = None
        if fed.phase is _Phase.THROTTLE and not feed.is_throttled:
            # It is in sync now: writes wait for it, so send without throttling.
            del self._throttled[fed]
            self._queue(fed)
        elif fed.phase is _Phase.IDLE and fed.next_offset < feed.log_end:
            self._queue(fed)

    def acknowledged(self, fed: Fed, end_offset: int) -> None:
        if self._awaited is not None and self._awaited[0] is fed and end_offset >= self._awaited[1]:
            self._release()

    def _release(self) -> None:
        self._awaited = None
        if self._turns:
            self._news.set()

    def grant(self, window_bytes: int) -> None:
        """Let the follower's window grow by `window_bytes` of batches."""
        self._window_bytes += window_bytes
        if self._window_bytes > 0 and self._without_window:
            waiting, self._without_window = self._without_window, []
            for fed in waiting:
                self._queue(fed)

    async def until_drained(self) -> None:
        """Return once no more than `unsent_bytes` are unsent."""
        while self._outbox.size_bytes > self._limits.unsent_bytes:
            self._drained.clear()
            await self._drained.wait()

    # -- sending

    async def run(self) -> None:
        """Send messages as they become ready, and keep-alives while idle. Run until cancelled."""
        while True:
            self._news.clear()
            await self._take_turns()
            self._ask_barriers()
            if self._outbox.size_bytes or self._next_ms() <= self._clock.monotonic_ms():
                await self._send()
            elif not self._news.is_set():
                await self._wait_for_news()

    def _ask_barriers(self) -> None:
        for fed in self._to_ask:
            assert fed.feed is not None
            fed.barrier = fed.feed.tell_barrier()
            self._untold.pop(fed, None)
            fed.told = (fed.feed.high_watermark, fed.feed.log_start)
            self._outbox.watermark(fed.handle, *fed.told, fed.barrier)
        self._to_ask.clear()

    async def _take_turns(self) -> None:
        """Serve partitions in turn, so that none waits for long."""
        limits, outbox = self._limits, self._outbox
        if self._throttled and self._throttle.wait_ms(self._clock.monotonic_ms()) <= 0:
            self._queue(self._throttled.popitem(last=False)[0])
        if self._awaited is not None and self._clock.monotonic_ms() < self._sent_ms + limits.hold_ms:
            return
        while self._turns and outbox.size_bytes < limits.message_bytes and outbox.frame_count < limits.message_frames:
            await self._take_turn(self._turns.popleft())

    async def _take_turn(self, fed: Fed) -> None:
        fed.phase = _Phase.IDLE
        feed, frame = fed.feed, fed.ready
        if fed.is_over or feed is None or (frame is None and fed.next_offset >= feed.log_end):
            return
        if self._window_bytes <= 0:
            fed.phase = _Phase.WINDOW
            self._without_window.append(fed)
            return
        if frame is None:
            if feed.is_throttled and self._throttle.wait_ms(self._clock.monotonic_ms()) > 0:
                fed.phase = _Phase.THROTTLE
                self._throttled[fed] = None
                return
            if not feed.is_in_memory(fed.next_offset):
                self._read_aside(fed)
                return
            room_bytes = max(self._limits.message_bytes - self._outbox.size_bytes, 1)
            frame = await self._read(fed, feed, min(self._frame_bytes(feed), room_bytes))
            if frame is None:
                self.has_news(fed)
                return
        self._put(fed, feed, frame)

    def _put(self, fed: Fed, feed: Feed, frame: OutgoingFrame) -> None:
        assert frame.start == fed.next_offset < frame.end
        if fed.ready is not None:
            fed.ready = None
            self._read_is_over()
        self._untold.pop(fed, None)
        fed.told = (feed.high_watermark, feed.log_start)
        self._outbox.frame(fed.handle, frame, *fed.told)
        self._window_bytes -= frame.size_bytes
        if feed.is_throttled:
            self._throttle.take(frame.size_bytes, self._clock.monotonic_ms())
        fed.next_offset = frame.end
        self._awaited = (fed, frame.end)
        if fed.next_offset < feed.log_end:
            self._queue(fed)

    async def _send(self) -> None:
        for fed in self._untold:
            assert fed.feed is not None
            fed.told = (fed.feed.high_watermark, fed.feed.log_start)
            self._outbox.watermark(fed.handle, *fed.told)
        self._untold.clear()
        if not self._outbox.size_bytes:
            await self._stream.send(b"")
        if self._outbox.size_bytes >= self._limits.small_bytes:
            self._awaited = None
        for message in self._outbox.take():
            await self._stream.send(message)
        self._sent_ms = self._clock.monotonic_ms()
        self._drained.set()

    def _next_ms(self) -> int:
        """Return the time to send a message even if only watermark updates, or nothing, is due."""
        next_ms = self._sent_ms + until_beat_ms(self._sent_ms, self._limits.alive_every_ms)
        if self._untold:
            next_ms = min(next_ms, self._untold_since_ms + self._limits.watermark_delay_ms)
        return next_ms

    async def _wait_for_news(self) -> None:
        wake_ms = self._next_ms()
        if self._turns:  # held back after a small message
            wake_ms = min(wake_ms, self._sent_ms + self._limits.hold_ms)
        now_ms = self._clock.monotonic_ms()
        if self._throttled:
            wake_ms = min(wake_ms, now_ms + ceil(self._throttle.wait_ms(now_ms)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((wake_ms - now_ms) / 1000):
                await self._news.wait()

    def _queue(self, fed: Fed) -> None:
        fed.phase = _Phase.TURN
        self._turns.append(fed)
        self._news.set()

    # -- reading

    def _frame_bytes(self, feed: Feed) -> int:
        limit_bytes = self._limits.frame_bytes
        return min(limit_bytes, self._throttle.piece_bytes()) if feed.is_throttled else limit_bytes

    async def _read(self, fed: Fed, feed: Feed, max_bytes: int) -> OutgoingFrame | None:
        """Return a frame, or None if there is no data yet or the subscription is over."""
        fed.phase = _Phase.READING
        try:
            found = await feed.read(fed.next_offset, max_bytes)
        except SERVICE_ERRORS as error:
            self.refuse(fed, error)
            return None
        fed.phase = _Phase.IDLE
        return None if fed.is_over else found

    def _read_aside(self, fed: Fed) -> None:
        fed.phase = _Phase.READING
        self._to_read.append(fed)
        self._start_reads()

    def _start_reads(self) -> None:
        while self._to_read and self._reads < self._limits.reads_at_once:
            fed = self._to_read.popleft()
            if not fed.is_over:
                self._reads += 1
                self._group.create_task(self._read_from_disk(fed), name="replication-read")

    async def _read_from_disk(self, fed: Fed) -> None:
        assert fed.feed is not None
        fed.ready = await self._read(fed, fed.feed, self._frame_bytes(fed.feed))
        if fed.ready is not None:
            self._queue(fed)
            return
        self._read_is_over()
        self.has_news(fed)

    def _read_is_over(self) -> None:
        self._reads -= 1
        self._start_reads()
