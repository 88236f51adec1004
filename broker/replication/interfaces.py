"""Interfaces between replication streams and replicas: the leader's side and the follower's side.

A replica has each role for a while. When the image assigns another role, the former one ends, with all of its
subscriptions. Calls to a role that has ended have no effect.

A subscription's `number` is its handle on the stream. A follower's process takes the numbers of all streams from one
increasing counter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from lograft.broker.replication.follower_core import Acknowledge, Subscribe
from lograft.broker.replication.leader_core import Subscriber
from lograft.broker.replication.log_matching import TruncateTo
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, TopicId
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.log.replica_frame import ReplicaFrame
from lograft.storage.state.epoch_cache import EpochEntry


@dataclass(frozen=True, slots=True)
class ResetTo:
    """An order to a follower whose next records the leader no longer has: drop everything and continue at
    `start_offset`, with the leader's epochs and producer state at that offset."""

    start_offset: int
    epochs: tuple[EpochEntry, ...]
    producers: bytes


@dataclass(frozen=True, slots=True)
class OutgoingFrame:
    """A frame to send. Its batches stay in the buffers they were read into, and are joined only in the message."""

    start: int
    end: int
    buffers: Sequence[bytes | memoryview]
    epochs: Sequence[EpochEntry] = ()

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.buffers))


# -- the leader's side


class FeedListener(Protocol):
    """A follower's stream. Called on the event loop, also from within calls to the feed. Implementations must not
    block."""

    def has_news(self) -> None:
        """Note that the log's end, its start or the watermark has changed, or that the follower must answer a
        barrier."""
        ...

    def ended(self, error: ReplicaError) -> None:
        """Note that the feed has ended, and send the follower the reason. Called at most once, and not after
        `close`."""
        ...


class Feed(Protocol):
    """The leader's feed for a follower whose log was matched. Valid until it ends or is closed.

    `log_end` and `high_watermark`: of the leader. `log_start`: the log start that the leader has decided; the follower
    deletes the records below it. `tombstones_removed_below` and `cleaned_below`: of the leader, as of the match.
    """

    @property
    def tombstones_removed_below(self) -> int: ...

    @property
    def cleaned_below(self) -> int: ...

    @property
    def log_end(self) -> int: ...

    @property
    def log_start(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def barrier(self) -> int:
        """The latest barrier that the follower must answer, or 0 if no call waits for one."""
        ...

    def tell_barrier(self) -> int:
        """Return the barrier to put into a message now. Later calls for a barrier get another number."""
        ...

    def barrier_answered(self, leader_epoch: int, number: int) -> None:
        """Note the follower's answer. Raise `ReplicaError` if it is invalid; then close the feed."""
        ...

    @property
    def is_throttled(self) -> bool:
        """Return whether the replica is being added and is not in sync yet, so that no write waits for it."""
        ...

    def is_in_memory(self, start: int) -> bool:
        """Return whether `read` can return without waiting for the disk. If not, serve other partitions first."""
        ...

    async def read(self, start: int, max_bytes: int) -> OutgoingFrame | None:
        """Return the batches from `start`, about `max_bytes` but at least one, or None if there are none yet.

        Await nothing if the log has them in memory. Raise `ReplicaError`, after calling the listener's `ended`, if the
        feed has ended. The feed also ends if the log start has passed `start`, or compaction has changed the log beyond
        it. The follower then subscribes again, and gets its orders.
        """
        ...

    def acknowledged(self, acknowledgement: Acknowledge) -> None:
        """Note an acknowledgement. Raise `ReplicaError` if it is invalid; then close the feed."""
        ...

    def close(self) -> None:
        """Close the feed, after the follower unsubscribed or its stream ended. May be called at any time, and
        repeatedly."""
        ...


class LedReplica(Protocol):
    """A replica on this broker, as followers use it."""

    async def subscribe(
        self, subscriber: Subscriber, request: Subscribe, listener: FeedListener
    ) -> Feed | TruncateTo | ResetTo:
        """Compare the follower's log with ours, and return a feed or an order. Raise `ReplicaError` if the partition
        cannot be followed here, or not now.

        End an earlier feed of the same follower, and call its listener.
        """
        ...

    def has_no_room(self, follower: BrokerId, leader_epoch: int) -> None:
        """Note that the follower does not subscribe, because its disk is full. Ignore it if this broker does not lead
        in that epoch."""
        ...


class LedReplicas(Protocol):
    """All replicas of this broker."""

    def get(self, topic_id: TopicId, number: int) -> LedReplica:
        """Return the replica. Raise `ReplicaError` if there is no such partition, or no replica of it here."""
        ...


# -- the follower's side


class AcknowledgementListener(Protocol):
    """The stream that replicates a followed partition. Called on the event loop. Implementations must not block."""

    def has_acknowledgement(self, followed: "Followed") -> None:
        """Fetch the acknowledgement soon: more of the log is durable, or the partition epoch has changed."""
        ...


class Followed(Protocol):
    """A replica on this broker that follows one leader in one epoch. Another leader or epoch needs another object.

    The stream calls `settle`, subscribes, carries out the leader's orders, and repeats this when a subscription ends.
    Answers to any subscription but the latest are ignored. `stream`: set by the stream that replicates the partition.
    """

    stream: AcknowledgementListener | None

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def number(self) -> int:
        """The partition's number in its topic."""
        ...

    @property
    def leader_id(self) -> BrokerId: ...

    @property
    def leader_epoch(self) -> LeaderEpoch: ...

    @property
    def directory_id(self) -> UUID: ...

    @property
    def lacks_room(self) -> bool:
        """Return whether the disk is too full to accept records of the partition."""
        ...

    async def settle(self) -> None:
        """Return when the whole log is durable, including truncations, and the disk has space. Then call `subscribe`
        without an await between. Raise `DiskFailed` if the disk has failed, `ReplicaError` if the role ended
        meanwhile."""
        ...

    def subscribe(self, number: int) -> Subscribe:
        """Return the subscription request. `number`: must be above all earlier ones."""
        ...

    def unsubscribed(self, number: int) -> None:
        """Note that the subscription has ended: the stream ended, or the leader refused it."""
        ...

    def matched(
        self, number: int, high_watermark: int, log_start: int, tombstones_removed_below: int, cleaned_below: int
    ) -> None:
        """Note that the leader has found our log to be a prefix of its own."""
        ...

    async def truncate(self, number: int, order: TruncateTo) -> None:
        """Truncate the log as ordered. Call `settle` before subscribing again, even if this was cancelled."""
        ...

    async def reset(self, number: int, order: ResetTo) -> None:
        """Drop everything and start over as ordered. Call `settle` before subscribing again, even if this was
        cancelled."""
        ...

    def append(self, number: int, frame: ReplicaFrame, high_watermark: int, log_start: int) -> None:
        """Append a frame that continues the log. Raise `FrameMismatch`, `InvalidBatch` or `DiskFull` without changing
        anything; then end the subscription and subscribe again. Raise `DiskFailed` if the log can no longer be
        used."""
        ...

    def heard(self, number: int, high_watermark: int, log_start: int) -> None:
        """Note a watermark and a log start that arrived without a frame."""
        ...

    def answers_barriers(self, number: int) -> bool:
        """Return whether to answer barriers: the subscription is matched, and the role has not ended."""
        ...

    def acknowledgement(self) -> Acknowledge | None:
        """Return the acknowledgement to send, or None if nothing is new or the logs are not matched. It counts as sent
        from then on."""
        ...

    async def room(self) -> None:
        """Return when the disk is not too far behind. Await it before granting more bytes."""
        ...


class PartitionFollower(Protocol):
    """Follows the leaders of this broker's partitions. Called on the event loop; each call returns at once."""

    def follow(self, followed: Followed) -> None:
        """Follow the partition until `unfollow`."""
        ...

    def unfollow(self, followed: Followed) -> None:
        """Stop following the partition: the role has ended."""
        ...
