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
    """Order to a follower whose next records are gone: drop everything and continue at `start_offset`, with the
    leader's epochs and producer state there."""

    start_offset: int
    epochs: tuple[EpochEntry, ...]
    producers: bytes


@dataclass(frozen=True, slots=True)
class OutgoingFrame:
    """A `ReplicaFrame` on the wire: its batches stay in the parts they were read in, joined only in the message."""

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
        """The log's end, its start or the watermark has changed; or the follower must answer a barrier."""
        ...

    def ended(self, error: ReplicaError) -> None:
        """The feed is over, and the follower should hear why. Called at most once, and not after `close`."""
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
        """The latest barrier that the follower must answer; 0 if no call waits for one."""
        ...

    def tell_barrier(self) -> int:
        """Return the same, at the moment of putting it into a message."""
        ...

    def barrier_answered(self, leader_epoch: int, number: int) -> None:
        """Note the follower's answer. Raise `ReplicaError` if it is invalid: close the feed then."""
        ...

    @property
    def is_throttled(self) -> bool:
        """Return whether the replica is being added and not in sync yet, so that no write waits for it."""
        ...

    def is_in_memory(self, start: int) -> bool:
        """Return whether `read` would answer without waiting for the disk. If not, other partitions go first."""
        ...

    async def read(self, start: int, max_bytes: int) -> OutgoingFrame | None:
        """What follows `start`: about `max_bytes`, but at least one batch. None: there is nothing yet.

        Nothing is awaited if the log has it in memory. `ReplicaError`: the feed is over, and the listener was told; so
        it is if the log's start has passed `start`, or tombstones beyond it went, the answer to which the follower gets
        when it subscribes again.
        """
        ...

    def acknowledged(self, acknowledgement: Acknowledge) -> None:
        """Note an acknowledgement. Raise `ReplicaError` if it is invalid: close the feed then."""
        ...

    def close(self) -> None:
        """Close the feed after the follower unsubscribed, or its stream ended. At any time, and more than once."""
        ...


class LedReplica(Protocol):
    """One partition on this broker, as followers see it."""

    async def subscribe(
        self, subscriber: Subscriber, request: Subscribe, listener: FeedListener
    ) -> Feed | TruncateTo | ResetTo:
        """Compare the follower's log with ours. Raise `ReplicaError` if it cannot be followed here, or not now.

        An earlier feed of the same follower ends, and calls its listener.
        """
        ...

    def has_no_room(self, follower: BrokerId, leader_epoch: int) -> None:
        """Note that the follower does not subscribe, because its disk is full. Ignored if this broker does not lead in
        that epoch."""
        ...


class LedReplicas(Protocol):
    """All partitions of this broker."""

    def get(self, topic_id: TopicId, number: int) -> LedReplica:
        """Return the replica. Raise `ReplicaError` if there is no such partition, or no replica of it here."""
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
        """The number of the partition in its topic."""
        ...

    @property
    def leader_id(self) -> BrokerId: ...

    @property
    def leader_epoch(self) -> LeaderEpoch: ...

    @property
    def directory_id(self) -> UUID: ...

    @property
    def lacks_room(self) -> bool:
        """Return whether the disk takes no records of the partition."""
        ...

    async def settle(self) -> None:
        """Return when everything in the log is durable, truncations included, and the disk has room: call `subscribe`
        then, with no await between. Raise `DiskFailed` if that will never be, `ReplicaError` if the role has ended
        meanwhile."""
        ...

    def subscribe(self, number: int) -> Subscribe:
        """Return the subscription request. `number` is above all earlier ones."""
        ...

    def unsubscribed(self, number: int) -> None:
        """Note that the subscription is over: the stream is gone, or the leader refuses."""
        ...

    def matched(
        self, number: int, high_watermark: int, log_start: int, tombstones_removed_below: int, cleaned_below: int
    ) -> None:
        """Note that the leader has found our log to be a prefix of its own."""
        ...

    async def truncate(self, number: int, order: TruncateTo) -> None:
        """Truncate our log as ordered. It must settle before it subscribes again, cancelled or not."""
        ...

    async def reset(self, number: int, order: ResetTo) -> None:
        """Drop everything and start over as ordered. It must settle before it subscribes again, cancelled or not."""
        ...

    def append(self, number: int, frame: ReplicaFrame, high_watermark: int, log_start: int) -> None:
        """Append what follows our end. After `FrameMismatch`, `InvalidBatch` or `DiskFull` nothing has changed: end the
        subscription, and begin again. After `DiskFailed` nothing more can be taken."""
        ...

    def heard(self, number: int, high_watermark: int, log_start: int) -> None:
        """Note a watermark and a log start that came without a frame."""
        ...

    def answers_barriers(self, number: int) -> bool:
        """Return whether the subscription is matched and the role has not ended; otherwise barriers are not
        answered."""
        ...

    def acknowledgement(self) -> Acknowledge | None:
        """Return the acknowledgement to send now, if there is anything new and the logs are matched. It counts as sent
        then."""
        ...

    async def room(self) -> None:
        """Return when the disk is not too far behind: await it before taking in more."""
        ...


class PartitionFollower(Protocol):
    """Follows the leaders of this broker's partitions. Called on the loop; each call returns at once."""

    def follow(self, followed: Followed) -> None:
        """Follow from now on, until `unfollow`."""
        ...

    def unfollow(self, followed: Followed) -> None:
        """Stop following: the role has ended."""
        ...
