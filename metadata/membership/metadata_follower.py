"""A broker's copy of the cluster's metadata: followed from any controller, and never going back."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from google.protobuf.message import DecodeError

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.record_codec import decode_records
from lograft.metadata.image.records import Record
from lograft.metadata.image.snapshot import SnapshotBuilder
from lograft.metadata.image.state_machine import MachineListener
from lograft.proto.controller_pb2 import FollowRequest, FollowResponse, MetadataDelta, MetadataSnapshotPart
from lograft.proto.methods import FOLLOW
from lograft.proto.wire_format import CodecError
from lograft.runtime.network import ConnectFailed, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.tasks.retry import Complaints, ExponentialWait, TryAgain, retrying
from lograft.runtime.tasks.silence import SILENCE_LIMIT_MS, Silence
from lograft.runtime.world import Runtime

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FollowerTimes:
    """`behind_ms`: how long to stay with a controller that does not send changes known to be committed."""

    connect_timeout_ms: int = 1000
    silence_ms: int = SILENCE_LIMIT_MS
    behind_ms: int = 1000
    first_retry_ms: int = 20
    last_retry_ms: int = 500


class _Unusable(Exception):
    """The controller's messages cannot be used: follow another controller."""


class MetadataFollower:
    """`image` is the metadata as of `index`, an index of the Raft log: everything committed up to there, and nothing
    else.

    Each operation is applied to the image in place, whole, with no await within. After a snapshot `image` is another
    object: keep the follower, not the image. Changes older than the image are ignored, whichever controller sends them.
    """

    def __init__(
        self,
        runtime: Runtime,
        controllers: Mapping[int, str],
        cluster_id: str,
        node_id: int,
        times: FollowerTimes | None = None,
    ) -> None:
        assert controllers, "no controllers to follow"
        self.image = ClusterImage()
        self.index = 0
        self.source_id: int | None = None  # the controller that is followed, or tried, at the moment
        self._runtime = runtime
        self._controllers = dict(controllers)
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._times = times or FollowerTimes()
        self._listeners: list[MachineListener] = []
        self._waiters: dict[asyncio.Future[None], int] = {}
        self._lag = Lag()
        self._is_behind = asyncio.Event()
        self._wait = ExponentialWait(runtime.rng, self._times.first_retry_ms, self._times.last_retry_ms)
        self._complaints = Complaints(log.bind(node_id=node_id), "metadata_source_failed")

    # -- for readers of the image

    def listen(self, listener: MachineListener) -> None:
        """Tell `listener` what happens from now on."""
        self._listeners.append(listener)

    async def wait_for(self, index: int) -> None:
        """Return when all that was committed up to `index` is in the image."""
        if self.index >= index:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = index
        try:
            await waiter
        finally:
            del self._waiters[waiter]

    # -- known controllers

    def learn(self, controller_id: int, address: str) -> None:
        """There is a controller of that id. The address of one that is known already stays."""
        self._controllers.setdefault(controller_id, address)

    def commit_index_heard(self, index: int) -> None:
        """Some controller says that all up to `index` is committed. One that does not send it for a second is left."""
        now_ms = self._runtime.clock.monotonic_ms()
        self._lag.heard(index, self.index, now_ms)
        since_ms = self._lag.behind_since_ms(self.index)
        if since_ms is not None and now_ms - since_ms >= self._times.behind_ms:
            self._is_behind.set()

    # -- following

    async def run(self) -> None:
        """Follow one controller after the other, until cancelled."""
        await retrying(self._runtime.clock, self._wait, on=())(self._follow_next)

    async def _follow_next(self) -> NoReturn:
        """Follow the next controller until that ends. Raise `TryAgain`."""
        self.source_id = self._next_source()
        self._is_behind.clear()
        self._lag.restart(self._runtime.clock.monotonic_ms())
        try:
            await self._follow(self._controllers[self.source_id])
        except ConnectFailed as error:
            self._complain("unreachable", error.reason)
        raise TryAgain

    def _next_source(self) -> int:
        """The one after the last, in the order of their ids; at first any, so that not all brokers follow the same."""
        ids = sorted(self._controllers)
        if self.source_id is None:
            return self._runtime.rng.choice(ids)
        return next((other for other in ids if other > self.source_id), ids[0])

    async def _follow(self, address: str) -> None:
        connection = await self._runtime.network.connect(address, self._times.connect_timeout_ms)
        try:
            silence = Silence(self._runtime.clock, self._times.silence_ms)
            await until_first(
                self._take_all(connection.open(FOLLOW), silence),
                self._tire(silence),
                self._fall_behind(),
                connection.broken.wait(),
            )
        finally:
            await connection.close()

    async def _take_all(self, stream: Stream, silence: Silence) -> None:
        request = FollowRequest(cluster_id=self._cluster_id, node_id=self._node_id, from_index=self.index)
        intake = _Intake(self)
        try:
            await stream.send(request.SerializeToString())
            await stream.half_close()
            while (data := await stream.receive()) is not None:
                silence.heard()
                intake.take(FollowResponse.FromString(data))
                self._wait.succeeded()
                self._complaints.succeeded()
            self._complain("ended", "the controller ended the stream")
        except StreamError as error:
            self._complain(error.status.name.lower(), error.message)
        except (DecodeError, CodecError, _Unusable) as error:
            self._complain("unusable", str(error))

    async def _tire(self, silence: Silence) -> None:
        await silence.too_long()
        self._complain("silent", f"nothing heard for {self._times.silence_ms} ms")

    async def _fall_behind(self) -> None:
        await self._is_behind.wait()
        self._complain("behind", f"at {self.index} for {self._times.behind_ms} ms while others are ahead")

    def _complain(self, kind: str, reason: str) -> None:
        self._complaints.complain(kind, f"controller {self.source_id}: {reason}")

    # -- what the stream brings

    def snapshot_is_coming(self) -> None:
        """A large one may take its time: that is no reason to begin it all over elsewhere."""
        self._lag.restart(self._runtime.clock.monotonic_ms())

    def restore(self, index: int, image: ClusterImage) -> None:
        if image.sequence < self.image.sequence:
            raise _Unusable(
                f"a snapshot of {index} after {image.sequence} operations, but {self.index} was after "
                f"{self.image.sequence}: it is not this cluster's metadata"
            )
        self.image = image
        self.index = index
        log.info("metadata_restored", index=index, source=self.source_id)
        for listener in self._listeners:
            listener.restored(index)

    def apply(self, index: int, records: tuple[Record, ...]) -> None:
        for record in records:
            self.image.apply(record)
        self.image.sequence += 1
        self.index = index
        for listener in self._listeners:
            listener.applied(index, records)

    def tell(self) -> None:
        """Say how far the image is now; once for all that came together."""
        for waiter, wanted in self._waiters.items():
            if wanted <= self.index and not waiter.done():
                waiter.set_result(None)
        for listener in self._listeners:
            listener.advanced(self.index)


class _Intake:
    """Judges the messages of one stream, and hands on to the follower what it may take."""

    def __init__(self, follower: MetadataFollower) -> None:
        self._follower = follower
        self._builder: SnapshotBuilder | None = None
        self._snapshot_index = 0

    def take(self, message: FollowResponse) -> None:
        before = self._follower.index
        try:
            self._take_content(message)
        finally:
            # Some changes of a message may have been applied before one that cannot be.
            assert self._follower.index >= before, f"the metadata went back from {before}"
            if self._follower.index > before:
                self._follower.tell()

    def _take_content(self, message: FollowResponse) -> None:
        match message.WhichOneof("content"):
            case "snapshot":
                self._take_part(message.snapshot)
            case "deltas":
                for delta in message.deltas.deltas:
                    self._take_delta(delta)
            case "alive":
                self._take_nothing(message.applied_index)
            case _:
                raise _Unusable("a message of a kind that is not known here: it may be of a later version")

    def _take_part(self, part: MetadataSnapshotPart) -> None:
        follower = self._follower
        if part.index < follower.index:
            raise _Unusable(f"a snapshot of {part.index}, which is older than {follower.index}")
        if self._builder is None:
            self._builder, self._snapshot_index = SnapshotBuilder(), part.index
        if part.index != self._snapshot_index:
            raise _Unusable(f"a part of the snapshot of {part.index} among those of the one of {self._snapshot_index}")
        follower.snapshot_is_coming()
        image = self._builder.take(part.data)
        if image is not None:
            self._builder = None
            follower.restore(part.index, image)

    def _take_delta(self, delta: MetadataDelta) -> None:
        if self._builder is not None:
            raise _Unusable(f"a change of {delta.index} amid a snapshot")
        if delta.index <= self._follower.index:
            raise _Unusable(f"a change of {delta.index}, which is not newer than {self._follower.index}")
        self._follower.apply(delta.index, decode_records(delta.records))

    def _take_nothing(self, applied_index: int) -> None:
        """Note that everything up to there was sent. Ignore it before a snapshot, and from a controller behind us."""
        if self._builder is None and self._follower.index > 0:
            self._follower.index = max(self._follower.index, applied_index)


class Lag:
    """Since when an announced index has not been reached.

    A follower that keeps up is always a little behind the latest index; the measure is how long it takes to reach an
    index once announced.
    """

    def __init__(self) -> None:
        self._mark = 0
        self._since_ms: int | None = None

    def heard(self, index: int, own_index: int, now_ms: int) -> None:
        """Note that `index` was announced; `own_index` is the one reached here."""
        if self.behind_since_ms(own_index) is None and own_index < index:
            self._mark, self._since_ms = index, now_ms

    def behind_since_ms(self, own_index: int) -> int | None:
        """Return since when an announced index has not been reached; None if all are."""
        if own_index >= self._mark:
            self._since_ms = None
        return self._since_ms

    def restart(self, now_ms: int) -> None:
        """Measure from now on, because something has changed."""
        if self._since_ms is not None:
            self._since_ms = now_ms
