"""What replication streams and replicas are to each other, as interfaces: a leader's side and a follower's.

Each is a role that a replica has for a while: it ends when the image says something else, and with it all that was
agreed on its behalf. What a role is told after its end changes nothing.

A subscription's `number` is its handle on the stream. A process numbers its subscriptions upwards, on whatever stream
they go: who follows takes the numbers from one counter for all streams.
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
    """What follows the follower's end is gone: it drops all and goes on at `start_offset`, with what was known there of
    epochs, and of idempotent producers."""

    start_offset: int
    epochs: tuple[EpochEntry, ...]
    producers: bytes


@dataclass(frozen=True, slots=True)
class OutgoingFrame:
    """A `ReplicaFrame` on the wire: its batches in the parts they were found in, put together only in the message."""

    start: int
    end: int
    buffers: Sequence[bytes | memoryview]
    epochs: Sequence[EpochEntry] = ()

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.buffers))


# -- the leader's side


class FeedListener(Protocol):
    """A follower's stream. Called on the loop, also from inside calls to the feed; it only takes note."""

    def has_news(self) -> None:
        """The log's end, its start or the watermark is another; or the follower is to answer a barrier."""
        ...

    def ended(self, error: ReplicaError) -> None:
        """The feed is over: the follower is to be told why. Called once at most, and not after `close`."""
        ...


class Feed(Protocol):
    """A follower whose log was matched, until it ends or is closed.

    `log_end` and `high_watermark` are the leader's. `log_start` is where the leader decided that the log starts: all
    below is to be deleted. `tombstones_removed_below` and `cleaned_below` are the leader's, as they were when the logs
    were matched.
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
        """The latest barrier that somebody waits for, if the follower has to answer it; else 0."""
        ...

    def tell_barrier(self) -> int:
        """The same, at the moment when it is put into a message."""
        ...

    def barrier_answered(self, leader_epoch: int, number: int) -> None:
        """The follower did. `ReplicaError` if that makes no sense: the feed is to be closed."""
        ...

    @property
    def is_throttled(self) -> bool:
        """Is it a replica that is being added, and does not count yet? Nobody waits for that."""
        ...

    def is_in_memory(self, start: int) -> bool:
        """Would `read` answer without waiting for the disk? Who must wait gives way to others meanwhile."""
        ...

    async def read(self, start: int, max_bytes: int) -> OutgoingFrame | None:
        """What follows `start`: about `max_bytes`, but at least one batch. None: there is nothing yet.

        Nothing is awaited if the log has it in memory. `ReplicaError`: the feed is over, and the listener was told; so
        it is if the log's start has passed `start`, or tombstones beyond it went, the answer to which the follower gets
        when it subscribes again.
        """
        ...

    def acknowledged(self, acknowledgement: Acknowledge) -> None:
        """What the follower said. `ReplicaError` if it makes no sense: the feed is to be closed."""
        ...

    def close(self) -> None:
        """The follower unsubscribed, or its stream is gone. Any time, and more than once."""
        ...


class LedReplica(Protocol):
    """One partition on this broker, for who asks to follow it."""

    async def subscribe(
        self, subscriber: Subscriber, request: Subscribe, listener: FeedListener
    ) -> Feed | TruncateTo | ResetTo:
        """Compare the follower's log with ours. `ReplicaError`: it cannot be followed here, or not now.

        An earlier feed of the same follower ends, and says so to its listener.
        """
        ...

    def has_no_room(self, follower: BrokerId, leader_epoch: int) -> None:
        """The follower does not subscribe, because its disk is full. Passed over if this broker does not lead in that
        epoch."""
        ...


class LedReplicas(Protocol):
    """All partitions of this broker."""

    def get(self, topic_id: TopicId, number: int) -> LedReplica:
        """`ReplicaError` if there is no such partition, or it has no replica here."""
        ...


# -- the follower's side


class AcknowledgementListener(Protocol):
    """The stream that carries a followed partition. Called on the loop; it only takes note."""

    def has_acknowledgement(self, followed: "Followed") -> None:
        """Fetch an acknowledgement soon: more is durable, or the partition epoch has changed."""
        ...


class Followed(Protocol):
    """One partition on this broker, to be followed from one leader in one epoch: another object for each.

    The stream settles it, subscribes, carries out the leader's orders, and begins again when a subscription is over.
    Answers to a subscription other than the latest are ignored. `stream`: set by the stream that carries the partition.
    """

    stream: AcknowledgementListener | None

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def number(self) -> int:
        """Of the partition in its topic."""
        ...

    @property
    def leader_id(self) -> BrokerId: ...

    @property
    def leader_epoch(self) -> LeaderEpoch: ...

    @property
    def directory_id(self) -> UUID: ...

    @property
    def lacks_room(self) -> bool:
        """Does its disk take no records of the partition?"""
        ...

    async def settle(self) -> None:
        """Return when all that is in the log is durable, truncations included, and the disk has room for more:
        `subscribe` may follow, with no await between. `DiskFailed`: it never will be; `ReplicaError`: the role has
        ended meanwhile."""
        ...

    def subscribe(self, number: int) -> Subscribe:
        """What to tell the leader. `number` is above all that were used before."""
        ...

    def unsubscribed(self, number: int) -> None:
        """The stream is gone, or the leader refuses: that subscription is over."""
        ...

    def matched(
        self, number: int, high_watermark: int, log_start: int, tombstones_removed_below: int, cleaned_below: int
    ) -> None:
        """The leader has found our log to be the beginning of its own."""
        ...

    async def truncate(self, number: int, order: TruncateTo) -> None:
        """Cut our log as told. To be settled before it subscribes again, cancelled or not."""
        ...

    async def reset(self, number: int, order: ResetTo) -> None:
        """Drop all, and go on as told. To be settled before it subscribes again, cancelled or not."""
        ...

    def append(self, number: int, frame: ReplicaFrame, high_watermark: int, log_start: int) -> None:
        """What follows our end. `FrameMismatch`, `InvalidBatch` or `DiskFull`: nothing changed; end the subscription,
        and begin again. `DiskFailed`: nothing more can be taken."""
        ...

    def heard(self, number: int, high_watermark: int, log_start: int) -> None:
        """News of the leader's without a frame."""
        ...

    def answers_barriers(self, number: int) -> bool:
        """Is that subscription matched, and the role not over? Else what the leader asks is not answered."""
        ...

    def acknowledgement(self) -> Acknowledge | None:
        """What the leader is to be told now, if there is anything new; None also if it is not matched. Once it was
        asked for it counts as told."""
        ...

    async def room(self) -> None:
        """Return when the disk is not too far behind: await it before more is taken in."""
        ...


class PartitionFollower(Protocol):
    """What follows the leaders of this broker's partitions. Called on the loop; each returns at once."""

    def follow(self, followed: Followed) -> None:
        """From now on, until `unfollow`."""
        ...

    def unfollow(self, followed: Followed) -> None:
        """Nothing is said of it any more: it has ended."""
        ...
