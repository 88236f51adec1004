"""Counters of each partition's traffic since the process started. Pure.

A counter never decreases while its topic exists, even if the replica closes, moves away and returns, so that two
readings give a rate.
"""

from collections.abc import Container, Iterable, Iterator
from itertools import chain

from lograft.metadata.image.partition import PartitionKey, TopicId


class PartitionTraffic:
    """Counts bytes of batches as stored, compressed or not. `replicated_...`: between brokers. `records_out` counts
    offsets, so in a compacted log superseded records count, too."""

    __slots__ = ("bytes_in", "bytes_out", "records_in", "records_out", "replicated_bytes_in", "replicated_bytes_out")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0
        self.records_out = 0
        self.replicated_bytes_in = 0
        self.replicated_bytes_out = 0

    def took_in(self, size_bytes: int, records: int) -> None:
        """Count a batch from a client or from the broker itself."""
        self.bytes_in += size_bytes
        self.records_in += records

    def gave_out(self, size_bytes: int, records: int) -> None:
        """Count records sent to a reader."""
        self.bytes_out += size_bytes
        self.records_out += records

    def add(self, other: "PartitionTraffic") -> None:
        # Written out for speed: summing ten thousand of these blocks the event loop.
        self.bytes_in += other.bytes_in
        self.records_in += other.records_in
        self.bytes_out += other.bytes_out
        self.records_out += other.records_out
        self.replicated_bytes_in += other.replicated_bytes_in
        self.replicated_bytes_out += other.replicated_bytes_out

    def __bool__(self) -> bool:
        """Return whether any traffic was counted."""
        return bool(self.records_in or self.bytes_out or self.replicated_bytes_in or self.replicated_bytes_out)


class Traffic:
    """Counters of all partitions of a broker. A limited number of topics have sums of their own: the first ones, as
    long as they exist. The sum of the others must not lose or gain a whole topic at once."""

    def __init__(self, told_apart: int = 100) -> None:
        self._topics: dict[TopicId, dict[int, PartitionTraffic]] = {}
        self._told_apart: dict[TopicId, None] = {}
        self._most_told_apart = told_apart
        self._former = PartitionTraffic()  # of all deleted topics
        self._former_others = PartitionTraffic()  # of deleted topics without sums of their own

    def of(self, key: PartitionKey) -> PartitionTraffic:
        topic_id, number = key
        if topic_id not in self._topics:
            self._topics[topic_id] = {}
            if len(self._told_apart) < self._most_told_apart:
                self._told_apart[topic_id] = None
        partitions = self._topics[topic_id]
        if number not in partitions:
            partitions[number] = PartitionTraffic()
        return partitions[number]

    def partitions(self) -> Iterator[tuple[PartitionKey, PartitionTraffic]]:
        """Yield partitions with any traffic."""
        for topic_id, partitions in self._topics.items():
            for number, traffic in partitions.items():
                if traffic:
                    yield (topic_id, number), traffic

    def is_told_apart(self, topic_id: TopicId) -> bool:
        return topic_id in self._told_apart

    def topics(self) -> Iterator[tuple[TopicId, PartitionTraffic]]:
        """Yield the sums of topics that have sums of their own."""
        for topic_id in self._told_apart:
            yield topic_id, _sum(self._topics[topic_id].values())

    def others(self) -> PartitionTraffic:
        """Return the sum of all other topics, including deleted ones."""
        others = (each.values() for topic_id, each in self._topics.items() if topic_id not in self._told_apart)
        return _sum(chain([self._former_others], *others))

    def total(self) -> PartitionTraffic:
        """Return the sum of all topics, including deleted ones. It never decreases."""
        return _sum(chain([self._former], *(partitions.values() for partitions in self._topics.values())))

    def forget_all_but(self, topics: Container[TopicId]) -> None:
        """Fold the counters of deleted topics into the totals."""
        for topic_id in [one for one in self._topics if one not in topics]:
            gone = _sum(self._topics.pop(topic_id).values())
            self._former.add(gone)
            if topic_id in self._told_apart:
                del self._told_apart[topic_id]
            else:
                self._former_others.add(gone)


def _sum(each: Iterable[PartitionTraffic]) -> PartitionTraffic:
    total = PartitionTraffic()
    for traffic in each:
        total.add(traffic)
    return total
