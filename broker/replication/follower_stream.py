"""The follower's side of one stream to a leader.

Each partition independently subscribes when its log is durable, carries out the leader's orders, and subscribes again.
One message carries everything that is due. The follower grants the leader a window of bytes, and grants received bytes
again as the disk keeps up, so that the data waiting for the disk is bounded.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from lograft.broker.replication.codec import (
    ReceivedFrame,
    acknowledgement_message,
    read_frame,
    read_reset,
    read_response,
    read_truncate,
    subscribe_message,
    without_room_message,
)
from lograft.broker.replication.interfaces import Followed, ResetTo
from lograft.broker.replication.log_matching import TruncateTo
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.proto import replication_pb2 as pb
from lograft.proto.errors_pb2 import ErrorCode
from lograft.runtime.clock import until_beat_ms
from lograft.runtime.network import Stream
from lograft.runtime.observability.logging import Logger
from lograft.runtime.tasks.retry import ExponentialWait
from lograft.runtime.world import Runtime

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FollowerStreamLimits:
    """`window_bytes`: the most bytes that may be in transit from the leader or waiting for the disk. A partition that
    was refused, or could not append a frame, retries after `first_retry_ms`, later up to `last_retry_ms`."""

    window_bytes: int = 16 * _MEBIBYTE
    first_retry_ms: int = 40
    last_retry_ms: int = 500
    alive_every_ms: int = 500


class _Subscription:
    """The subscription of a followed partition. `handle`: None while it is not subscribed, and `task` will do so."""

    __slots__ = ("backoff", "followed", "handle", "is_matched", "task", "trouble")

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.handle: int | None = None
        self.is_matched = False
        self.task: asyncio.Task[None] | None = None
        self.backoff: ExponentialWait | None = None
        self.trouble = ""  # the kind of the latest failure; empty after a success


class FollowerStream:
    """`next_handle`: numbers all subscriptions of the process. `group`: owns the tasks."""

    def __init__(
        self,
        runtime: Runtime,
        stream: Stream,
        group: asyncio.TaskGroup,
        next_handle: Callable[[], int],
        hello: pb.ReplicaHello,
        log: Logger,
        limits: FollowerStreamLimits,
    ) -> None:
        self._runtime = runtime
        self._stream = stream
        self._group = group
        self._next_handle = next_handle
        self._log = log
        self._limits = limits
        self._subscriptions: dict[Followed, _Subscription] = {}
        self._by_handle: dict[int, _Subscription] = {}
        self._unsaid = pb.ReplicateRequest(hello=hello, window_bytes=limits.window_bytes)
        self._to_acknowledge: dict[_Subscription, None] = {}
        self._to_answer: dict[_Subscription, int] = {}  # the latest barrier of each subscription
        self._taken_bytes: dict[Followed, int] = {}  # received bytes that the disk may not have absorbed yet
        self._owed_bytes = 0  # bytes to grant again
        self._has_taken = asyncio.Event()
        self._without_room: dict[_Subscription, None] = {}  # subscriptions waiting for space on their disks
        self._tell_without_room = False  # report all of them with the next message
        self._news = asyncio.Event()

    # -- partitions

    def follow(self, followed: Followed) -> None:
        followed.stream = self
        subscription = self._subscriptions[followed] = _Subscription(followed)
        self._start(subscription, self._subscribe(subscription))

    def unfollow(self, followed: Followed) -> None:
        followed.stream = None
        subscription = self._subscriptions.pop(followed)
        if subscription.handle is not None:
            self._unsaid.unsubscribe.append(subscription.handle)
            self._forget(subscription)
            self._news.set()
        if subscription.task is not None:
            subscription.task.cancel()

    def has_acknowledgement(self, followed: Followed) -> None:
        subscription = self._subscriptions[followed]
        if subscription.is_matched:
            self._to_acknowledge[subscription] = None
            self._news.set()

    def end(self) -> None:
        """End all subscriptions: the stream has ended."""
        for followed, subscription in self._subscriptions.items():
            followed.stream = None
            if subscription.handle is not None:
                followed.unsubscribed(subscription.handle)
            if subscription.task is not None:
                subscription.task.cancel()

    # -- subscribing

    def _start(self, subscription: _Subscription, work: Coroutine[Any, Any, None]) -> None:
        subscription.task = self._group.create_task(work, name="replication-subscription")

    async def _subscribe(self, subscription: _Subscription) -> None:
        followed = subscription.followed
        if followed.lacks_room:
            self._without_room[subscription] = None
            self._tell_without_room = True
            self._news.set()
        try:
            await followed.settle()
        except SERVICE_ERRORS as error:
            self._retry(subscription, type(error).__name__, str(error))
            return
        finally:
            self._without_room.pop(subscription, None)
        handle = self._next_handle()
        self._unsaid.subscribe.append(subscribe_message(followed, followed.subscribe(handle)))
        self._by_handle[handle] = subscription
        subscription.handle, subscription.task = handle, None
        self._news.set()

    async def _obey(self, subscription: _Subscription, handle: int, order: TruncateTo | ResetTo) -> None:
        followed = subscription.followed
        try:
            if isinstance(order, TruncateTo):
                await followed.truncate(handle, order)
            else:
                await followed.reset(handle, order)
        except SERVICE_ERRORS as error:
            self._retry(subscription, type(error).__name__, str(error))
            return
        await self._subscribe(subscription)

    def _retry(self, subscription: _Subscription, kind: str, reason: str) -> None:
        """Subscribe again, later."""
        if subscription.trouble != kind:
            subscription.trouble = kind
            followed = subscription.followed
            self._log.info(
                "not_followed", topic_id=str(followed.topic_id), partition=followed.number, kind=kind, reason=reason
            )
        if subscription.backoff is None:
            limits = self._limits
            subscription.backoff = ExponentialWait(self._runtime.rng, limits.first_retry_ms, limits.last_retry_ms)
        self._start(subscription, self._subscribe_later(subscription, subscription.backoff.next_ms()))

    async def _subscribe_later(self, subscription: _Subscription, delay_ms: float) -> None:
        await self._runtime.clock.sleep_ms(delay_ms)
        await self._subscribe(subscription)

    def _forget(self, subscription: _Subscription) -> None:
        """Forget a subscription that has ended."""
        assert subscription.handle is not None
        del self._by_handle[subscription.handle]
        subscription.handle, subscription.is_matched = None, False
        self._to_acknowledge.pop(subscription, None)
        self._to_answer.pop(subscription, None)

    # -- speaking

    async def speak(self) -> None:
        """Send messages as they become due, and keep-alives while idle, until the stream ends."""
        clock, alive_every_ms = self._runtime.clock, self._limits.alive_every_ms
        next_ms = clock.monotonic_ms() + alive_every_ms
        while True:
            self._news.clear()
            # Repeat it with each keep-alive: a leader that has not learned of its election yet ignores it.
            self._tell_without_room |= clock.monotonic_ms() >= next_ms
            message = self._compose()
            if message or clock.monotonic_ms() >= next_ms:
                await self._stream.send(message)
                said_ms = clock.monotonic_ms()
                next_ms = said_ms + until_beat_ms(said_ms, alive_every_ms)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout((next_ms - clock.monotonic_ms()) / 1000):
                    await self._news.wait()

    def _compose(self) -> bytes:
        message, self._unsaid = self._unsaid, pb.ReplicateRequest()
        for subscription in self._to_acknowledge:
            acknowledgement = subscription.followed.acknowledgement()
            if acknowledgement is not None:
                assert acknowledgement.number == subscription.handle
                message.acknowledgements.append(acknowledgement_message(acknowledgement))
        self._to_acknowledge.clear()
        for subscription, number in self._to_answer.items():
            followed, handle = subscription.followed, subscription.handle
            if handle is not None and followed.answers_barriers(handle):
                message.barriers.add(handle=handle, leader_epoch=followed.leader_epoch, number=number)
        self._to_answer.clear()
        if self._tell_without_room:
            self._tell_without_room = False
            waiting = (one.followed for one in self._without_room if one.followed.lacks_room)
            message.without_room.extend(map(without_room_message, waiting))
        # A grant usually travels with an acknowledgement. Send it alone only if the leader may need it.
        if message.ByteSize() or self._owed_bytes >= self._limits.window_bytes // 4:
            message.window_bytes += self._owed_bytes
            self._owed_bytes = 0
        return message.SerializeToString()

    async def grant(self) -> None:
        """Grant received bytes again as the disk keeps up. Run until cancelled."""
        while True:
            while self._taken_bytes:
                followed = next(iter(self._taken_bytes))
                await followed.room()
                self._owed_bytes += self._taken_bytes.pop(followed)
            if self._owed_bytes >= self._limits.window_bytes // 4:
                self._news.set()
            self._has_taken.clear()
            await self._has_taken.wait()

    # -- listening

    def hear(self, data: bytes) -> None:
        """Handle a message from the leader. Raise `ReplicationCodecError` if it cannot be decoded."""
        response, frames = read_response(data)
        for matched in response.matched:
            self._matched(matched)
        for truncate in response.truncate:
            self._parted(truncate.handle, read_truncate(truncate))
        for reset in response.reset:
            self._parted(reset.handle, read_reset(reset))
        for refused in response.refused:
            self._refused(refused)
        for frame in frames:
            self._take(frame)
        for news in response.watermarks:
            subscription = self._by_handle.get(news.handle)
            if subscription is not None:
                subscription.followed.heard(news.handle, news.high_watermark, news.log_start)
                if news.barrier:
                    self._to_answer[subscription] = news.barrier
                    self._news.set()

    def _matched(self, message: pb.ReplicaMatched) -> None:
        subscription = self._by_handle.get(message.handle)
        if subscription is not None and not subscription.is_matched:
            subscription.is_matched = True
            subscription.followed.matched(
                message.handle,
                message.high_watermark,
                message.log_start,
                message.tombstones_removed_below,
                message.cleaned_below,
            )
            # The partition epoch may have changed since the subscription was sent.
            self.has_acknowledgement(subscription.followed)

    def _parted(self, handle: int, order: TruncateTo | ResetTo) -> None:
        subscription = self._by_handle.get(handle)
        if subscription is None:
            return
        if subscription.is_matched:
            self._begin_again(subscription, "unexpected", f"{order} after the logs were matched")
            return
        self._forget(subscription)
        self._start(subscription, self._obey(subscription, handle, order))

    def _refused(self, message: pb.ReplicaRefused) -> None:
        subscription = self._by_handle.get(message.handle)
        if subscription is not None:
            code = message.error.code
            kind = ErrorCode.Name(code) if code in ErrorCode.values() else f"code {code}"
            self._begin_again(subscription, kind, message.error.message)

    def _take(self, received: ReceivedFrame) -> None:
        message = received.fields
        frame, subscription = read_frame(received), self._by_handle.get(message.handle)
        if subscription is None:
            # The subscription has ended, but the frame used the window.
            self._owed_bytes += len(frame.batches)
            self._has_taken.set()
            return
        followed = subscription.followed
        self._taken_bytes[followed] = self._taken_bytes.get(followed, 0) + len(frame.batches)
        self._has_taken.set()
        try:
            followed.append(message.handle, frame, message.high_watermark, message.log_start)
        except SERVICE_ERRORS as error:
            self._unsaid.unsubscribe.append(message.handle)
            self._begin_again(subscription, type(error).__name__, str(error))
        else:
            subscription.backoff, subscription.trouble = None, ""

    def _begin_again(self, subscription: _Subscription, kind: str, reason: str) -> None:
        """End the subscription after an error, and retry."""
        assert subscription.handle is not None
        subscription.followed.unsubscribed(subscription.handle)
        self._forget(subscription)
        self._retry(subscription, kind, reason)
