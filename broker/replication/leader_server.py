"""The leader's side of `lograft.internal.v1.Replication/Replicate`: one stream from each following broker."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lograft.broker.replication.codec import (
    REPLICATE,
    ReplicationCodecError,
    SubscriptionRequest,
    read_acknowledgement,
    read_request,
    read_subscribe,
    read_without_room,
)
from lograft.broker.replication.interfaces import LedReplicas, ResetTo
from lograft.broker.replication.leader_stream import Fed, LeaderStream, LeaderStreamLimits
from lograft.broker.replication.log_matching import TruncateTo
from lograft.broker.replication.throttle import Throttle
from lograft.broker.requests.service_errors import SERVICE_ERRORS, detail_of
from lograft.metadata.config.effective_settings import cluster_setting
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.proto import errors_pb2
from lograft.proto import replication_pb2 as pb
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.rpc.status import to_stream_error
from lograft.rpc.unary import invalid
from lograft.runtime.network import Handler, Status, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.silence import SILENCE_LIMIT_MS, Silence
from lograft.runtime.world import Runtime

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaderServerLimits:
    """`subscriptions`: the most of one stream. `matching_at_once`: the most logs of one stream compared at once, which
    may read from the disk."""

    leader_stream: LeaderStreamLimits = field(default_factory=LeaderStreamLimits)
    subscriptions: int = 40_000
    matching_at_once: int = 4
    silence_ms: int = SILENCE_LIMIT_MS


class LeaderServer:
    """Serves the followers of all partitions that this broker leads. `image`: the cluster image of this broker."""

    def __init__(
        self,
        runtime: Runtime,
        cluster_id: str,
        broker_id: BrokerId,
        replicas: LedReplicas,
        image: Callable[[], ClusterImage],
        limits: LeaderServerLimits | None = None,
    ) -> None:
        self.clock = runtime.clock
        self.replicas = replicas
        self.limits = limits or LeaderServerLimits()
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._image = image
        self.throttle = Throttle(
            lambda: int(cluster_setting(image(), "leader.replication.throttled.rate")), runtime.clock.monotonic_ms()
        )
        self._streams: dict[BrokerId, _FollowerConnection] = {}

    def handlers(self) -> Mapping[str, Handler]:
        return {REPLICATE: self.serve}

    async def serve(self, stream: Stream) -> None:
        """Serve one stream until the follower ends it, falls silent, or opens another."""
        data = await stream.receive()
        if data is None:
            raise invalid("the stream ended before a hello")
        request = _read(data)
        follower_id, broker_epoch = self._admit(request)
        async with asyncio.TaskGroup() as group:
            connection = _FollowerConnection(self, stream, group, follower_id, broker_epoch)
            earlier = self._streams.get(follower_id)
            if earlier is not None:
                earlier.is_replaced.set()
            self._streams[follower_id] = connection
            log.info("follower_connected", follower=follower_id, broker_epoch=broker_epoch)
            try:
                await connection.run(request)
            finally:
                connection.end()
                if self._streams.get(follower_id) is connection:
                    del self._streams[follower_id]
                log.info("follower_disconnected", follower=follower_id, broker_epoch=broker_epoch)

    def describe(self, error: Exception) -> errors_pb2.ErrorDetail:
        return detail_of(error, self._image())

    def _admit(self, request: pb.ReplicateRequest) -> tuple[BrokerId, BrokerEpoch]:
        """Return the follower and its broker epoch. Raise `StreamError` if it may not follow this broker."""
        if not request.HasField("hello"):
            raise invalid("the first message of a stream must be a hello")
        hello = request.hello
        if hello.cluster_id != self._cluster_id:
            raise _refusal(
                errors_pb2.WRONG_CLUSTER,
                f"broker {hello.broker_id} belongs to cluster {hello.cluster_id!r}, this one to "
                f"{self._cluster_id!r}: check cluster_id and the addresses of the brokers",
            )
        if hello.leader_id != self._broker_id:
            raise invalid(f"this is broker {self._broker_id}, not {hello.leader_id}: its address has changed")
        if hello.broker_id == self._broker_id:
            raise invalid(f"broker {hello.broker_id} cannot follow itself")
        follower_id, broker_epoch = BrokerId(hello.broker_id), BrokerEpoch(hello.broker_epoch)
        self.find_follower(follower_id, broker_epoch)
        return follower_id, broker_epoch

    def find_follower(self, follower_id: BrokerId, broker_epoch: BrokerEpoch) -> Broker:
        """Return the broker, whose latest known registration must have that epoch. Otherwise raise `StreamError`: only
        registered processes may follow. A process that has just registered retries."""
        known = self._image().brokers.get(follower_id)
        if known is None or broker_epoch > known.epoch:
            latest = f"epoch {known.epoch}" if known is not None else "no registration"
            raise _refusal(
                errors_pb2.UNAVAILABLE,
                f"broker {self._broker_id} knows {latest} of broker {follower_id}, not epoch "
                f"{broker_epoch}: try again once it has the latest metadata",
            )
        if broker_epoch < known.epoch:
            raise _refusal(
                errors_pb2.STALE_BROKER_EPOCH,
                f"broker {follower_id} was restarted since epoch {broker_epoch}: it is now in {known.epoch}",
            )
        return known


class _FollowerConnection:
    """One stream: one task listens, several compare logs, and one sends."""

    def __init__(
        self,
        source: LeaderServer,
        stream: Stream,
        group: asyncio.TaskGroup,
        follower_id: BrokerId,
        broker_epoch: BrokerEpoch,
    ) -> None:
        self.broker_epoch = broker_epoch
        self.is_replaced = asyncio.Event()
        self._source = source
        self._stream = stream
        self._group = group
        self._follower_id = follower_id
        self._silence = Silence(source.clock, source.limits.silence_ms)
        self._leader_stream = LeaderStream(
            stream, source.clock, group, source.describe, source.throttle, source.limits.leader_stream
        )
        # The limit of subscriptions bounds this queue.
        self._subscriptions: asyncio.Queue[tuple[Fed, SubscriptionRequest]] = asyncio.Queue()

    async def run(self, first: pb.ReplicateRequest) -> None:
        """Return when the follower has finished sending."""
        tasks = [
            self._group.create_task(self._leader_stream.run(), name="replication-leader-stream"),
            self._group.create_task(self._tire(), name="replication-silence"),
            self._group.create_task(self._give_way(), name="replication-replaced"),
            *(
                self._group.create_task(self._match_all(), name="replication-matching")
                for _ in range(self._source.limits.matching_at_once)
            ),
        ]
        self._hear(first)
        while (data := await self._stream.receive()) is not None:
            self._silence.heard()
            request = _read(data)
            if request.HasField("hello"):
                raise invalid("a second hello: only the first message of a stream may be one")
            self._hear(request)
        for task in tasks:
            task.cancel()

    def end(self) -> None:
        """End all subscriptions of the stream, whose acknowledgements no longer count."""
        self._leader_stream.forget_all()

    # -- listening

    def _hear(self, request: pb.ReplicateRequest) -> None:
        leader_stream, follower = self._leader_stream, self._source.find_follower(self._follower_id, self.broker_epoch)
        for handle in request.unsubscribe:
            fed = leader_stream.find(handle)
            if fed is not None:
                leader_stream.forget(fed)
        for subscribe in request.subscribe:
            self._note_wish(subscribe, follower)
        for acknowledgement in request.acknowledgements:
            self._note_acknowledgement(acknowledgement)
        for barrier in request.barriers:
            self._note_barrier(barrier)
        for lacking in request.without_room:
            self._note_without_room(lacking)
        leader_stream.grant(request.window_bytes)

    def _note_wish(self, message: pb.Subscribe, follower: Broker) -> None:
        try:
            subscription = read_subscribe(message, self._follower_id, self.broker_epoch)
        except ReplicationCodecError as error:
            raise invalid(str(error)) from None
        if self._leader_stream.find(message.handle) is not None:
            raise invalid(f"handle {message.handle} is already in use: use a new handle for each subscription")
        if max(len(self._leader_stream), self._subscriptions.qsize()) >= self._source.limits.subscriptions:
            raise invalid(f"a stream is limited to {self._source.limits.subscriptions} subscriptions")
        fed, directory_id = self._leader_stream.add(message.handle), subscription.subscriber.directory_id
        if directory_id not in follower.directories:
            reason = f"broker {self._follower_id} has not registered a data directory {directory_id}"
            self._leader_stream.refuse(fed, ReplicaError(errors_pb2.INELIGIBLE_REPLICA, reason))
            return
        self._subscriptions.put_nowait((fed, subscription))

    def _note_acknowledgement(self, message: pb.ReplicaAcknowledgement) -> None:
        fed = self._leader_stream.find(message.handle)
        if fed is None:
            return  # it has ended, and the answer is still in transit
        if fed.feed is None:
            raise invalid(f"acknowledgement for subscription {message.handle}, which is not matched")
        acknowledgement = read_acknowledgement(message)
        try:
            if acknowledgement.end_offset > fed.next_offset:
                raise ReplicaError(
                    errors_pb2.INVALID_REQUEST,
                    f"broker {self._follower_id} acknowledged offset {acknowledgement.end_offset}, but was "
                    f"sent records only below {fed.next_offset}",
                )
            fed.feed.acknowledged(acknowledgement)
        except SERVICE_ERRORS as error:
            self._leader_stream.refuse(fed, error)
        else:
            self._leader_stream.acknowledged(fed, acknowledgement.end_offset)

    def _note_barrier(self, message: pb.ReplicaBarrier) -> None:
        fed = self._leader_stream.find(message.handle)
        if fed is None:
            return
        if fed.feed is None:
            raise invalid(f"barrier answered for subscription {message.handle}, which is not matched")
        try:
            fed.feed.barrier_answered(message.leader_epoch, message.number)
        except SERVICE_ERRORS as error:
            self._leader_stream.refuse(fed, error)

    def _note_without_room(self, message: pb.ReplicaWithoutRoom) -> None:
        try:
            topic_id, partition = read_without_room(message)
        except ReplicationCodecError as error:
            raise invalid(str(error)) from None
        with contextlib.suppress(*SERVICE_ERRORS):  # not led here, or not yet: the follower repeats it
            self._source.replicas.get(topic_id, partition).has_no_room(self._follower_id, message.leader_epoch)

    # -- matching

    async def _match_all(self) -> None:
        while True:
            fed, subscription = await self._subscriptions.get()
            await self._leader_stream.until_drained()
            if not fed.is_over:
                await self._match(fed, subscription)

    async def _match(self, fed: Fed, subscription: SubscriptionRequest) -> None:
        try:
            replica = self._source.replicas.get(subscription.topic_id, subscription.partition)
            answer = await replica.subscribe(subscription.subscriber, subscription.request, fed)
        except SERVICE_ERRORS as error:
            self._leader_stream.refuse(fed, error)
            return
        if isinstance(answer, TruncateTo | ResetTo):
            if not fed.is_over:
                self._leader_stream.part(fed, answer)
        elif fed.is_over:
            answer.close()
        else:
            self._leader_stream.begin(fed, answer, subscription.request.end_offset)

    # -- end of the stream

    async def _tire(self) -> None:
        await self._silence.too_long()
        raise StreamError(Status.UNAVAILABLE, f"no message within {self._source.limits.silence_ms} ms")

    async def _give_way(self) -> None:
        await self.is_replaced.wait()
        raise StreamError(Status.ABORTED, f"broker {self._follower_id} has opened another stream")


def _read(data: bytes) -> pb.ReplicateRequest:
    try:
        return read_request(data)
    except ReplicationCodecError as error:
        raise invalid(str(error)) from None


def _refusal(code: errors_pb2.ErrorCode, message: str) -> StreamError:
    return to_stream_error(ControllerError(code, message))
