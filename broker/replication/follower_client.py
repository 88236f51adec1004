"""The client side of replication: one stream to each broker that leads partitions followed here."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

from lograft.broker.replication.codec import REPLICATE, ReplicationCodecError
from lograft.broker.replication.follower_stream import FollowerStream, FollowerStreamLimits
from lograft.broker.replication.interfaces import Followed
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.proto import replication_pb2 as pb
from lograft.runtime.network import ConnectFailed, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.tasks.retry import Complaints, ExponentialWait, TryAgain, retrying
from lograft.runtime.tasks.silence import SILENCE_LIMIT_MS, Silence
from lograft.runtime.world import Runtime

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FollowerClientTimes:
    """Retries wait for `first_retry_ms`, later up to `last_retry_ms`, with jitter down to half of that."""

    connect_timeout_ms: int = 1000
    silence_ms: int = SILENCE_LIMIT_MS
    first_retry_ms: int = 40
    last_retry_ms: int = 500


@dataclass(frozen=True, slots=True)
class FollowerIdentity:
    """The following broker. `epoch`: returns its broker epoch. `address_of`: returns a broker's address, if known."""

    cluster_id: str
    broker_id: BrokerId
    epoch: Callable[[], BrokerEpoch]
    address_of: Callable[[BrokerId], str | None]


@dataclass(frozen=True, slots=True)
class FollowerClientLimits:
    times: FollowerClientTimes = field(default_factory=FollowerClientTimes)
    following: FollowerStreamLimits = field(default_factory=FollowerStreamLimits)


class FollowerClient:
    """A broker's `PartitionFollower`. Partitions followed before `run` starts wait for it."""

    def __init__(
        self, runtime: Runtime, follower: FollowerIdentity, limits: FollowerClientLimits | None = None
    ) -> None:
        self._runtime = runtime
        self._follower = follower
        self._limits = limits or FollowerClientLimits()
        self._leaders: dict[BrokerId, _Leader] = {}
        self._handles = count(1)
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for leader in self._leaders.values():
                group.create_task(leader.run(), name=f"replication-from-{leader.leader_id}")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None

    def follow(self, followed: Followed) -> None:
        leader = self._leaders.get(followed.leader_id)
        if leader is None:
            leader = self._leaders[followed.leader_id] = _Leader(
                self._runtime, self._follower, followed.leader_id, lambda: next(self._handles), self._limits
            )
            if self._group is not None:
                self._group.create_task(leader.run(), name=f"replication-from-{followed.leader_id}")
        leader.follow(followed)

    def unfollow(self, followed: Followed) -> None:
        self._leaders[followed.leader_id].unfollow(followed)


class _Leader:
    """One broker, and the partitions followed from it."""

    def __init__(
        self,
        runtime: Runtime,
        follower: FollowerIdentity,
        leader_id: BrokerId,
        next_handle: Callable[[], int],
        limits: FollowerClientLimits,
    ) -> None:
        self.leader_id = leader_id
        self._runtime = runtime
        self._follower = follower
        self._next_handle = next_handle
        self._times = limits.times
        self._limits = limits.following
        self._followed: dict[Followed, None] = {}
        self._has_any = asyncio.Event()
        self._has_none = asyncio.Event()
        self._stream: FollowerStream | None = None
        self._wait = ExponentialWait(runtime.rng, limits.times.first_retry_ms, limits.times.last_retry_ms)
        self._log = log.bind(follower=follower.broker_id, leader=leader_id)
        self._complaints = Complaints(self._log, "replication_failed")

    def follow(self, followed: Followed) -> None:
        assert followed not in self._followed
        self._followed[followed] = None
        self._has_any.set()
        self._has_none.clear()
        if self._stream is not None:
            self._stream.follow(followed)

    def unfollow(self, followed: Followed) -> None:
        del self._followed[followed]
        if self._stream is not None:
            self._stream.unfollow(followed)
        if not self._followed:
            self._has_any.clear()
            self._has_none.set()

    async def run(self) -> None:
        """Keep a stream open while there are partitions to follow. Run until cancelled."""
        await retrying(self._runtime.clock, self._wait, on=())(self._converse_once)

    async def _converse_once(self) -> NoReturn:
        """Serve one stream until it ends, then raise `TryAgain`."""
        await self._has_any.wait()
        try:
            await self._converse()
        except ConnectFailed as error:
            self._complaints.complain("unreachable", error.reason)
        raise TryAgain

    async def _converse(self) -> None:
        address = self._follower.address_of(self.leader_id)
        if address is None:
            remedy = "upgrade it if it runs an earlier version, which does not register one"
            self._complaints.complain("unknown", f"its address for other brokers is not known: {remedy}")
            return
        connection = await self._runtime.network.connect(address, self._times.connect_timeout_ms)
        try:
            await self._follow_by(connection.open(REPLICATE), connection.broken)
        finally:
            await connection.close()

    async def _follow_by(self, stream: Stream, broken: asyncio.Event) -> None:
        hello = pb.ReplicaHello(
            cluster_id=self._follower.cluster_id,
            broker_id=self._follower.broker_id,
            broker_epoch=self._follower.epoch(),
            leader_id=self.leader_id,
        )
        silence = Silence(self._runtime.clock, self._times.silence_ms)
        async with asyncio.TaskGroup() as group:
            following = FollowerStream(self._runtime, stream, group, self._next_handle, hello, self._log, self._limits)
            for followed in self._followed:
                following.follow(followed)
            self._stream = following
            try:
                await until_first(
                    self._speak(following),
                    self._listen(following, stream, silence),
                    following.grant(),
                    self._tire(silence),
                    self._has_none.wait(),
                    broken.wait(),
                )
            finally:
                self._stream = None
                following.end()

    async def _speak(self, following: FollowerStream) -> None:
        try:
            await following.speak()
        except StreamError as error:
            self._complain(error)

    async def _listen(self, following: FollowerStream, stream: Stream, silence: Silence) -> None:
        try:
            while (data := await stream.receive()) is not None:
                silence.heard()
                following.hear(data)
                self._wait.succeeded()
                self._complaints.succeeded()
            self._complaints.complain("ended", "the leader ended the stream")
        except StreamError as error:
            self._complain(error)
        except ReplicationCodecError as error:
            self._complaints.complain("unusable", str(error))

    async def _tire(self, silence: Silence) -> None:
        await silence.too_long()
        self._complaints.complain("silent", f"no message within {self._times.silence_ms} ms")

    def _complain(self, error: StreamError) -> None:
        self._complaints.complain(error.status.name.lower(), error.message)
