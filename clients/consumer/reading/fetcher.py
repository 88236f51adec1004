"""Fetches the records of a consumer's partitions from their leaders, or from followers in its rack."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.cluster.cluster_view import ClusterView
from lograft.clients.consumer.reading.broker_stream import FetchSettings, FetchStream, Subscription
from lograft.clients.consumer.reading.fetched_partition import FetchedPartition, Start
from lograft.clients.consumer.reading.metrics import FetchFigures
from lograft.clients.consumer.reading.position_lookup import PositionLookup
from lograft.clients.errors import LograftError, LogTruncated, OffsetOutOfRange, UnknownTopicId
from lograft.clients.types import TopicPartition
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.retry import ExponentialWait

log = get_logger(__name__)

_FIRST_RETRY_MS = 20
_LAST_RETRY_MS = 500
_RETRY_MS = 100  # after a partition was refused; sooner if there is a new leader
_LOOK_EVERY_MS = 1000
_LEADER_MS = 5000  # how long to use the leader after a follower failed; doubles each time a follower fails at once
_MOST_LEADER_MS = 300_000
_DAMAGED_MS = 60_000  # how long a replica that sent damaged records is asked last
_FIRST_REFETCH_MS = 50
_LAST_REFETCH_MS = 1000  # all refetches together give the cluster time to elect another leader


@dataclass(slots=True, eq=False)
class _Place:
    """Where a partition is fetched from, if at all, and when to retry. `from_leader_until_ms`: when a follower may be
    used again, `from_leader_ms` after the last follower failed, which was first asked at `followed_ms`. `refetched`:
    the generation of the last refetch handled. `damaged`: by broker, when it last sent damaged records."""

    line: FetchStream | None = None
    subscription: Subscription | None = None
    retry_at_ms: float = 0
    refused_epoch: int = -1
    from_leader_until_ms: float = 0
    from_leader_ms: float = 0
    followed_ms: float = 0
    refetched: int = -1
    damaged: dict[int, float] = field(default_factory=dict)

    def follower_failed(self, now_ms: float) -> None:
        has_lasted = now_ms - self.followed_ms > max(self.from_leader_ms, _LEADER_MS)
        self.from_leader_ms = _LEADER_MS if has_lasted else min(2 * self.from_leader_ms or _LEADER_MS, _MOST_LEADER_MS)
        self.from_leader_until_ms = now_ms + self.from_leader_ms


class Fetcher:
    """Fetches `partitions`; call `wake` after any change to them. `news` is set, and replaced by a new event, whenever
    there may be something to take. `reset`: where to continue when an offset does not exist; None: fail."""

    def __init__(self, cluster: ClusterClient, settings: FetchSettings, reset: Start | None) -> None:
        self.partitions: dict[TopicPartition, FetchedPartition] = {}
        self.news = asyncio.Event()
        self.figures = FetchFigures(cluster.runtime.clock.monotonic_ms())
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._rng = cluster.runtime.rng
        self._settings = settings
        self._reset = reset
        self._lookup = PositionLookup(cluster)
        self._places: dict[FetchedPartition, _Place] = {}
        self._lines: dict[int, FetchStream] = {}
        self._woken = asyncio.Event()
        self._has_anchors = asyncio.Event()
        cluster.listen(self._woken.set)

    def wake(self) -> None:
        self._woken.set()

    @property
    def buffered_bytes(self) -> int:
        """The size of received data that is not decoded yet."""
        return sum(line.held_bytes for line in self._lines.values())

    def records_taken(self, partitions: Iterable[FetchedPartition]) -> None:
        """Records of these partitions were handed to the user, so there may be room for more."""
        for line in self._lines.values():
            line.records_taken()
        if any(partition.anchor is not None or partition.refetches for partition in partitions):
            self._woken.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._find_positions(), name="find-positions")
            while True:
                self._woken.clear()
                wake_ms = self._dispatch(group)
                self.tell()
                delay_ms = max(wake_ms - self._clock.monotonic_ms(), 0)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay_ms / 1000):
                        await self._woken.wait()

    def tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def _dispatch(self, group: asyncio.TaskGroup) -> float:
        """Subscribe to each partition at its source. Return when to check again at the latest."""
        now_ms = self._clock.monotonic_ms()
        wake_ms: float = now_ms + _LOOK_EVERY_MS
        for gone in [each for each in self._places if self.partitions.get(each.name) is not each]:
            self._leave(self._places.pop(gone))
        for partition in self.partitions.values():
            place = self._places.setdefault(partition, _Place())
            if partition.anchor is not None:
                self._has_anchors.set()
            wake_ms = min(wake_ms, self._settle(partition, place, now_ms, group))
        return wake_ms

    def _settle(self, partition: FetchedPartition, place: _Place, now_ms: float, group: asyncio.TaskGroup) -> float:
        """Make sure that the partition is fetched from the right replica. Return when to check it again."""
        leader = self._cluster.view.leader(partition.topic_id, partition.name.partition)
        if leader is None:
            partition.failure = UnknownTopicId(f"topic {partition.name.topic!r} was deleted")
        if not partition.wants_data or leader is None or leader.broker_id is None:
            self._leave(place)
            return float("inf")
        self._note_refetch(partition, place, leader.epoch, now_ms)
        source = self._follower(partition, place, now_ms)
        if self._is_served(place, leader.broker_id if source is None else source, leader.epoch):
            return float("inf")
        if self._was_lost(place):
            place.follower_failed(now_ms)
            source = None
        self._leave(place)
        # Wait after a refusal, unless there is a newer leader epoch to ask in.
        if now_ms < place.retry_at_ms and leader.epoch <= place.refused_epoch:
            return place.retry_at_ms
        if source is not None:
            place.followed_ms = now_ms
        place.line = self._line(leader.broker_id if source is None else source, group)
        place.subscription = place.line.subscribe(partition, leader.epoch, from_follower=source is not None)
        return float("inf")

    def _note_refetch(self, partition: FetchedPartition, place: _Place, epoch: int, now_ms: float) -> None:
        """If damaged records arrived, schedule a refetch after a delay and remember the broker that sent them.

        That broker is not necessarily the one the partition is fetched from now.
        """
        if partition.refetches and partition.generation != place.refetched:
            topic, number = partition.name
            log.warning(
                "damaged_records_fetched_again", topic=topic, partition=number, offset=partition.fetch_offset,
                broker=partition.damaged_source, times=partition.refetches,
            )  # fmt: skip
            place.refetched = partition.generation
            place.damaged[partition.damaged_source] = now_ms
            place.refused_epoch = epoch
            place.retry_at_ms = now_ms + min(_FIRST_REFETCH_MS * 2 ** (partition.refetches - 1), _LAST_REFETCH_MS)
        elif not partition.refetches and now_ms - max(place.damaged.values(), default=now_ms) > _DAMAGED_MS:
            place.damaged.clear()

    def _follower(self, partition: FetchedPartition, place: _Place, now_ms: float) -> int | None:
        """Return the follower to fetch from, or None for the leader."""
        if now_ms < place.from_leader_until_ms:
            return None
        view, topic_id, number = self._cluster.view, partition.topic_id, partition.name.partition
        near = near_follower(view, topic_id, number, self._settings.rack)
        return intact_source(view, topic_id, number, near, place.damaged) if place.damaged else near

    def _was_lost(self, place: _Place) -> bool:
        """Return True if a follower served the partition and refused it, or its stream broke."""
        line, subscription = place.line, place.subscription
        if line is None or subscription is None or not subscription.from_follower:
            return False
        return not line.is_subscribed(subscription)

    def _is_served(self, place: _Place, broker_id: int, epoch: int) -> bool:
        line, subscription = place.line, place.subscription
        if line is None or subscription is None or not line.is_subscribed(subscription):
            return False
        return line.broker_id == broker_id and subscription.leader_epoch == epoch and subscription.is_current

    def _leave(self, place: _Place) -> None:
        if place.line is not None and place.subscription is not None:
            place.line.unsubscribe(place.subscription)
        place.line = place.subscription = None

    def _line(self, broker_id: int, group: asyncio.TaskGroup) -> FetchStream:
        line = self._lines.get(broker_id)
        if line is None:
            line = FetchStream(self._cluster, broker_id, self._settings, self, self.figures)
            self._lines[broker_id] = line
            group.create_task(line.run(), name=f"fetch-from-{broker_id}")
        return line

    # -- FetchListener

    def arrived(self) -> None:
        self.tell()

    def stream_lost(self) -> None:
        self._woken.set()

    def refused(self, subscription: Subscription, error: LograftError) -> None:
        partition = subscription.partition
        place = self._places.get(partition)
        if place is None:
            return
        if subscription.from_follower:
            # Only the leader knows which offsets exist, so ask it next.
            self._cluster.hinted(partition.topic_id, partition.name.partition, error)
        elif isinstance(error, LogTruncated) and error.valid_end is not None:
            self._truncated(partition, error.valid_end)
        elif isinstance(error, OffsetOutOfRange):
            if self._reset is None:
                partition.failure = error
            else:
                is_below_start = error.valid_start is not None and partition.fetch_offset < error.valid_start
                partition.gone(self._reset, is_below_start=is_below_start)
        elif error.retriable:
            place.refused_epoch = subscription.leader_epoch
            place.retry_at_ms = self._clock.monotonic_ms() + self._rng.uniform(_RETRY_MS / 2, _RETRY_MS)
            self._cluster.hinted(partition.topic_id, partition.name.partition, error)
        else:
            partition.failure = error
        self._woken.set()

    def _truncated(self, partition: FetchedPartition, valid_end: int) -> None:
        position = partition.position
        if partition.truncated(valid_end, may_go_back=self._reset is not None):
            topic, number = partition.name
            log.warning("log_truncated", topic=topic, partition=number, position=position, valid_end=valid_end)
            self.figures.truncations += 1

    # -- positions to look up

    async def _find_positions(self) -> None:
        wait = ExponentialWait(self._rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)
        while True:
            await self._has_anchors.wait()
            asked = {name: partition for name, partition in self.partitions.items() if partition.anchor is not None}
            if not asked:
                self._has_anchors.clear()
                continue
            found_all = await self._lookup.settle(asked)
            self._woken.set()
            if found_all:
                wait.succeeded()
            else:
                await self._clock.sleep_ms(wait.next_ms())


# -- which replica to read from


def near_follower(view: ClusterView, topic_id: bytes, partition: int, rack: str | None) -> int | None:
    """Return an in-sync follower in the reader's rack, or None if the leader is there or none exists. Partitions are
    spread over the rack's followers."""
    leader = view.leader(topic_id, partition)
    if rack is None or leader is None or leader.broker_id is None or view.racks.get(leader.broker_id) == rack:
        return None
    near = [
        broker_id
        for broker_id in sorted(view.in_sync(topic_id, partition))
        if view.racks.get(broker_id) == rack and broker_id in view.addresses
    ]
    return near[partition % len(near)] if near else None


def intact_source(
    view: ClusterView, topic_id: bytes, partition: int, preferred: int | None, damaged: Mapping[int, float]
) -> int | None:
    """Return the replica to read from after some sent damaged records: an in-sync follower, or None for the leader.
    Choose one that sent none, else the one that did so longest ago; among equals `preferred`, then the leader.
    `damaged`: by broker, when it last sent damaged records."""
    leader = view.leader(topic_id, partition)
    if leader is None or leader.broker_id is None:
        return None
    in_sync = [each for each in sorted(view.in_sync(topic_id, partition)) if each in view.addresses]
    first = [] if preferred is None else [preferred]
    chosen = min(dict.fromkeys([*first, leader.broker_id, *in_sync]), key=lambda each: damaged.get(each, -1.0))
    return None if chosen == leader.broker_id else chosen
