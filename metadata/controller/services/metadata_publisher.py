"""The stream of committed metadata to followers: a snapshot first, then every change, from any controller."""

import asyncio
import contextlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.delta_buffer import Delta
from lograft.metadata.image.snapshot import split
from lograft.metadata.image.state_machine import MachineListener, MetadataMachine
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import (
    Alive,
    FollowRequest,
    FollowResponse,
    MetadataDelta,
    MetadataDeltas,
    MetadataSnapshotPart,
)
from lograft.proto.metadata_pb2 import MetadataOperation
from lograft.proto.methods import FOLLOW
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_stream_error
from lograft.rpc.unary import invalid, read_request
from lograft.runtime.clock import Clock, until_beat_ms
from lograft.runtime.network import Handler, Stream
from lograft.runtime.world import Runtime


@dataclass(frozen=True, slots=True)
class PublisherLimits:
    """`silence_ms`: every follower gets a message at least that often. `max_shared_age`: how many changes a copy of the
    image may be behind when it is sent to another follower."""

    silence_ms: int = 500
    message_bytes: int = 1024 * 1024
    snapshot_part_bytes: int = 256 * 1024
    max_shared_age: int = 1000


class MetadataPublisher(MachineListener):
    """Serves any number of followers. It sends only committed changes that are newer than the follower's; each comes
    whole and in order, with none left out.

    A slow follower is held back by its stream. If the change that it needs next is forgotten here, it gets a snapshot
    again.
    """

    def __init__(
        self, runtime: Runtime, machine: MetadataMachine, cluster_id: str, limits: PublisherLimits | None = None
    ) -> None:
        self._runtime = runtime
        self._machine = machine
        self._cluster_id = cluster_id
        self._limits = limits or PublisherLimits()
        self._news = asyncio.Event()  # another one each time: all who wait for it are woken, once
        self._copy_index = 0
        self._copy: weakref.ref[ClusterImage] | None = None  # lives as long as someone is being sent it
        machine.listen(self)

    def handlers(self) -> Mapping[str, Handler]:
        return {FOLLOW: self.serve_follow}

    def advanced(self, index: int) -> None:
        self._wake()

    def restored(self, index: int) -> None:
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # -- one follower

    async def serve_follow(self, stream: Stream) -> None:
        """Serve one stream, until it ends."""
        follower = _Follower(stream, self._runtime.clock, await self._admit(stream))
        while True:
            news = self._news
            if not await self._send_next(follower):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(follower.until_silent_ms(self._limits.silence_ms) / 1000):
                        await news.wait()

    async def _admit(self, stream: Stream) -> int:
        """Return the index from which the follower continues."""
        data = await stream.receive()
        if data is None:
            raise invalid("the stream ended without a request: send one message")
        request = read_request(FollowRequest, data)
        if request.cluster_id != self._cluster_id:
            raise to_stream_error(
                ControllerError(
                    errors_pb2.WRONG_CLUSTER,
                    f"node {request.node_id} is of cluster {request.cluster_id!r}, this controller of "
                    f"{self._cluster_id!r}: check cluster_id and the addresses of the controllers",
                )
            )
        return request.from_index

    async def _send_next(self, follower: "_Follower") -> bool:
        """Send the follower what it lacks, or a part of that. Return False if there was nothing, except perhaps a sign
        of life."""
        machine = self._machine
        if machine.index == 0:
            await follower.break_silence(self._limits.silence_ms, 0)
            return False
        deltas = machine.deltas.since(follower.index, self._limits.message_bytes) if follower.index else None
        if deltas is None:
            await self._send_snapshot(follower)
        elif deltas:
            await follower.send_deltas(deltas)
        elif follower.index < machine.index:
            await follower.send_alive(machine.index)  # entries that changed nothing
        else:
            # It has all there is, or even more: then it is this node that has to catch up first.
            await follower.break_silence(self._limits.silence_ms, machine.index)
            return False
        return True

    async def _send_snapshot(self, follower: "_Follower") -> None:
        """Send a snapshot one part at a time: a slow follower costs no more memory than a quick one."""
        index, image = self._shared_copy()
        assert index >= follower.index
        parts = split(image, self._limits.snapshot_part_bytes)
        while (part := await self._runtime.blocking.run_blocking(next, parts, None)) is not None:
            await follower.send_part(index, part)
        follower.index = index

    def _shared_copy(self) -> tuple[int, ClusterImage]:
        """Return an unchanging image and its index: a fresh copy, or another follower's."""
        deltas = self._machine.deltas
        image = self._copy() if self._copy is not None else None
        if (
            image is None
            or self._copy_index < deltas.floor
            or deltas.count_since(self._copy_index) > self._limits.max_shared_age
        ):
            image = self._machine.image.copy()
            self._copy, self._copy_index = weakref.ref(image), self._machine.index
        return self._copy_index, image


class _Follower:
    """A follower that is at `index` once all sent messages have arrived; 0: it has nothing."""

    def __init__(self, stream: Stream, clock: Clock, index: int) -> None:
        self.index = index
        self._stream = stream
        self._clock = clock
        self._sent_ms = clock.monotonic_ms()

    def until_silent_ms(self, silence_ms: int) -> int:
        """Return how long until a sign of life is due."""
        return self._sent_ms + until_beat_ms(self._sent_ms, silence_ms) - self._clock.monotonic_ms()

    async def send_part(self, index: int, data: bytes) -> None:
        part = MetadataSnapshotPart(index=index, data=data)
        await self._send(FollowResponse(applied_index=index, snapshot=part).SerializeToString())

    async def send_deltas(self, deltas: list[Delta]) -> None:
        """Send deltas as one message: concatenated messages are one message with the deltas of all."""
        self.index = deltas[-1].index
        head = FollowResponse(applied_index=self.index).SerializeToString()
        await self._send(b"".join([head, *map(_wire_of, deltas)]))

    async def send_alive(self, index: int) -> None:
        """State that everything up to `index` was sent."""
        self.index = max(self.index, index)
        await self._send(FollowResponse(applied_index=index, alive=Alive()).SerializeToString())

    async def break_silence(self, silence_ms: int, index: int) -> None:
        if self.until_silent_ms(silence_ms) <= 0:
            await self.send_alive(index)

    async def _send(self, message: bytes) -> None:
        await self._stream.send(message)
        self._sent_ms = self._clock.monotonic_ms()


def _wire_of(delta: Delta) -> bytes:
    if delta.wire is None:
        records = MetadataOperation.FromString(delta.data).records
        deltas = MetadataDeltas(deltas=[MetadataDelta(index=delta.index, records=records)])
        delta.wire = FollowResponse(deltas=deltas).SerializeToString()
    return delta.wire
