"""Partitions to replicate without disks: a leader's log in memory, a follower's with the real core, and streams whose
other end a test speaks for."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from support.metadata_images import broker, image_with

from lograft.broker.replication.follower_core import Acknowledge, FollowerCore, Subscribe
from lograft.broker.replication.follower_core import Truncate as Cut
from lograft.broker.replication.interfaces import AcknowledgementListener, FeedListener, OutgoingFrame, ResetTo
from lograft.broker.replication.leader_core import Subscriber
from lograft.broker.replication.log_matching import Prefix, TruncateTo, match
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition, PartitionEpoch, Replica, TopicId
from lograft.proto import errors_pb2
from lograft.proto import replication_pb2 as pb
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.network import Stream
from lograft.storage.errors import FrameMismatch
from lograft.storage.log.replica_frame import ReplicaFrame
from lograft.storage.state.epoch_cache import EpochCache

CLUSTER = "test"
LEADER, FOLLOWER = BrokerId(1), BrokerId(2)
TOPIC = TopicId(UUID(int=7))
DIRECTORY = UUID(int=99)


def image() -> ClusterImage:
    epochs = {1: 11, 2: 22, 3: 33}
    return image_with(*(broker(number, epoch=epoch, directories=[DIRECTORY]) for number, epoch in epochs.items()))


def led_by(leader: int, leader_epoch: int = 1, partition_epoch: int = 1) -> Partition:
    """A partition with replicas on brokers 1, 2 and 3."""
    replicas = tuple(Replica(BrokerId(one), DIRECTORY) for one in (1, 2, 3))
    return Partition(
        replicas, (BrokerId(leader),), BrokerId(leader), LeaderEpoch(leader_epoch), PartitionEpoch(partition_epoch)
    )


class Batch(NamedTuple):
    """One record, that is one offset, in as many bytes as a test likes."""

    offset: int
    content: bytes


class LeadersPartition:
    """A `LedReplica`. What is below `memory_start` takes `disk_ms` to read."""

    def __init__(self, leader_epoch: int = 1) -> None:
        self.leader_epoch = leader_epoch
        self.epochs = EpochCache()
        self.epochs.assign(leader_epoch, 0)
        self.batches: list[Batch] = []
        self.start_offset = 0
        self.high_watermark = 0
        self.memory_start = 0
        self.disk_ms = 0
        self.is_throttled = False
        self.matching_ms = 0
        self.error: ReplicaError | None = None
        self.read_error: Exception | None = None
        self.producers = b"producers"
        self.feeds: list[FakeFeed] = []  # those that are not over
        self.subscribers: list[tuple[Subscriber, Subscribe]] = []
        self.acknowledged: list[Acknowledge] = []
        self.reads: list[tuple[int, int]] = []
        self.barrier = 0
        self.barriers_answered: list[tuple[int, int]] = []  # (leader epoch, number)
        self.without_room: list[tuple[BrokerId, int]] = []  # (follower, leader epoch)

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.batches)

    def append(self, *contents: bytes) -> None:
        for content in contents:
            self.batches.append(Batch(self.end_offset, content))
        self.tell()

    def commit(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self.tell()

    def ask_barrier(self) -> int:
        self.barrier += 1
        self.tell()
        return self.barrier

    def tell(self) -> None:
        for feed in list(self.feeds):
            feed.listener.has_news()

    def end(self, error: ReplicaError) -> None:
        self.error = error
        feeds, self.feeds = self.feeds, []
        for feed in feeds:
            feed.listener.ended(error)

    async def subscribe(
        self, subscriber: Subscriber, request: Subscribe, listener: FeedListener
    ) -> "FakeFeed | TruncateTo | ResetTo":
        self.subscribers.append((subscriber, request))
        if self.matching_ms:
            await asyncio.sleep(self.matching_ms / 1000)
        if self.error is not None:
            raise self.error
        if request.leader_epoch != self.leader_epoch:
            raise ReplicaError(errors_pb2.FENCED_LEADER_EPOCH, "another epoch", leader_id=1, leader_epoch=5)
        answer = match(self, 0, request.last_epoch, request.end_offset)
        if isinstance(answer, Prefix):
            feed = FakeFeed(self, listener)
            self.feeds.append(feed)
            return feed
        if isinstance(answer, TruncateTo):
            return answer
        return ResetTo(answer.start_offset, answer.epochs, self.producers)

    def has_no_room(self, follower: BrokerId, leader_epoch: int) -> None:
        self.without_room.append((follower, leader_epoch))

    async def read_from(self, start: int, max_bytes: int) -> OutgoingFrame | None:
        self.reads.append((start, max_bytes))
        if self.read_error is not None:
            raise self.read_error
        if start < self.memory_start:
            await asyncio.sleep(self.disk_ms / 1000)
        buffers: list[bytes] = []
        for one in self.batches[start - self.start_offset :]:
            if buffers and sum(map(len, buffers)) + len(one.content) > max_bytes:
                break
            buffers.append(one.content)
        end = start + len(buffers)
        return OutgoingFrame(start, end, buffers, self.epochs.between(start, end)) if buffers else None


class FakeFeed:
    tombstones_removed_below = 0
    cleaned_below = 0

    def __init__(self, partition: LeadersPartition, listener: FeedListener) -> None:
        self.listener = listener
        self._partition = partition

    @property
    def log_end(self) -> int:
        return self._partition.end_offset

    @property
    def log_start(self) -> int:
        return self._partition.start_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    @property
    def is_throttled(self) -> bool:
        return self._partition.is_throttled

    @property
    def barrier(self) -> int:
        return self._partition.barrier

    def tell_barrier(self) -> int:
        return self._partition.barrier

    def barrier_answered(self, leader_epoch: int, number: int) -> None:
        if number > self.barrier:
            raise ReplicaError(errors_pb2.INVALID_REQUEST, "it was not sent that")
        self._partition.barriers_answered.append((leader_epoch, number))

    def is_in_memory(self, start: int) -> bool:
        return start >= self._partition.memory_start

    async def read(self, start: int, max_bytes: int) -> OutgoingFrame | None:
        return await self._partition.read_from(start, max_bytes)

    def acknowledged(self, acknowledgement: Acknowledge) -> None:
        if acknowledgement.end_offset > self.log_end:
            raise ReplicaError(errors_pb2.INVALID_REQUEST, "it was not sent that")
        self._partition.acknowledged.append(acknowledgement)

    def close(self) -> None:
        if self in self._partition.feeds:
            self._partition.feeds.remove(self)


class LeadersPartitions:
    """`LedReplicas`: partitions of one topic, by number."""

    def __init__(self, *partitions: LeadersPartition) -> None:
        self.partitions: Sequence[LeadersPartition] = partitions

    def get(self, topic_id: TopicId, number: int) -> LeadersPartition:
        if topic_id != TOPIC or not 0 <= number < len(self.partitions):
            raise ReplicaError(errors_pb2.UNKNOWN_TOPIC_ID, "no such partition here")
        return self.partitions[number]


class FollowersPartition:
    """A `Followed`, with the real core. What is appended is durable when a test says `sync`, or at once."""

    def __init__(self, partition: Partition, number: int = 0, *, is_synced: bool = True) -> None:
        assert partition.leader is not None
        self.topic_id = TOPIC
        self.number = number
        self.leader_id = partition.leader
        self.leader_epoch = partition.leader_epoch
        self.directory_id = DIRECTORY
        self.epochs = EpochCache()
        self.start_offset = 0
        self.end_offset = 0
        self.stable_end = 0
        self.contents: list[bytes] = []
        self.core = FollowerCore(self, partition, 0)
        self.is_synced = is_synced
        self.has_settled = asyncio.Event()
        self.has_settled.set()
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.lacks_room = False
        self.is_cut = asyncio.Event()  # orders are carried out
        self.is_cut.set()
        self.orders: list[TruncateTo | ResetTo] = []
        self.unsubscribed_numbers: list[int] = []
        self.stream: AcknowledgementListener | None = None

    def has_log(self, end_offset: int, *epochs: tuple[int, int]) -> None:
        """It ends so, before anything is followed."""
        for epoch, start_offset in epochs:
            self.epochs.assign(epoch, start_offset)
        self.end_offset = self.stable_end = end_offset
        self.contents = [b"old"] * end_offset

    def sync(self) -> None:
        self.stable_end = self.end_offset
        if self.stream is not None:
            self.stream.has_acknowledgement(self)

    def change_epoch(self, partition: Partition) -> None:
        self.core.image_changed(partition)
        if self.stream is not None:
            self.stream.has_acknowledgement(self)

    async def settle(self) -> None:
        await self.has_settled.wait()

    def subscribe(self, number: int) -> Subscribe:
        return self.core.subscribe(number)

    def unsubscribed(self, number: int) -> None:
        self.unsubscribed_numbers.append(number)
        self.core.unsubscribed(number)

    def matched(
        self, number: int, high_watermark: int, log_start: int, tombstones_removed_below: int, cleaned_below: int
    ) -> None:
        assert self.core.matched(number, high_watermark)

    async def truncate(self, number: int, order: TruncateTo) -> None:
        self.orders.append(order)
        cut = self.core.parted(number, order.epoch, order.end_offset)
        assert isinstance(cut, Cut)
        await self.is_cut.wait()
        self.end_offset = self.stable_end = cut.offset
        del self.contents[cut.offset :]
        self.epochs.truncate_from(cut.offset)
        self.core.log_was_cut()

    async def reset(self, number: int, order: ResetTo) -> None:
        self.orders.append(order)
        assert self.core.told_to_reset(number, order.start_offset)
        await self.is_cut.wait()
        self.start_offset = self.end_offset = self.stable_end = order.start_offset
        self.contents = []
        self.epochs.replace_all(order.epochs)
        self.core.log_was_cut()

    def append(self, number: int, frame: ReplicaFrame, high_watermark: int, log_start: int) -> None:
        assert self.core.is_matched(number)
        if frame.start != self.end_offset:
            raise FrameMismatch(f"{frame.start} is not {self.end_offset}")
        for entry in self.core.new_epochs(frame.epochs):
            self.epochs.assign(*entry)
        self.contents.append(frame.batches)  # type: ignore[arg-type]
        self.end_offset = frame.end
        self.core.appended(high_watermark)
        if self.is_synced:
            self.sync()

    def heard(self, number: int, high_watermark: int, log_start: int) -> None:
        self.core.heard_watermark(number, high_watermark)

    def answers_barriers(self, number: int) -> bool:
        return self.core.is_matched(number)

    def acknowledgement(self) -> Acknowledge | None:
        return self.core.acknowledgement()

    async def room(self) -> None:
        await self.has_room.wait()


class ByHand:
    """The other end of a stream, played by a test. What comes is read only when the test asks for it."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.responses: list[pb.ReplicateResponse] = []  # all that came, signs of life left out

    async def say(self, **fields: object) -> None:
        await self.stream.send(pb.ReplicateRequest(**fields).SerializeToString())  # type: ignore[arg-type]

    async def next(self) -> pb.ReplicateResponse:
        """The next that is not only a sign of life."""
        while True:
            data = await self.stream.receive()
            assert data is not None, "the stream has ended"
            if data:
                self.responses.append(pb.ReplicateResponse.FromString(data))
                return self.responses[-1]

    async def until(self, condition: Callable[[], bool], within_s: float = 5) -> None:
        """Read until it holds."""
        async with asyncio.timeout(within_s):
            while not condition():
                await self.next()

    def frames(self, handle: int) -> list[pb.ReplicaFrame]:
        return [frame for response in self.responses for frame in response.frames if frame.handle == handle]

    def watermarks(self, handle: int) -> list[int]:
        return [
            news.high_watermark for response in self.responses for news in response.watermarks if news.handle == handle
        ]
