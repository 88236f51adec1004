"""The placement of replicas on brokers while a plan is made: counts, changes and balances it. Pure.

A new replica goes to the rack with the fewest replicas of its partition, then to the broker with the fewest of its
topic, then of all. Balancing moves single replicas directly from a broker with many to one with at least two fewer,
first within each topic, then over all topics: no other way to the same balance takes fewer moves. To balance all
topics, only replicas of topics of which the giver has more than the taker are moved, so no topic becomes less balanced.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lograft.clients.types import TopicPartition


class ReplicaLayout:
    """`brokers`: those that may be given replicas. `racks`: the racks of all brokers, respected only if each of
    `brokers` has one. `originals`: the current replicas."""

    def __init__(
        self,
        originals: Mapping[TopicPartition, Sequence[int]],
        brokers: Sequence[int],
        racks: Mapping[int, str | None],
    ) -> None:
        self.brokers = sorted(brokers)
        self.replicas = {name: list(replicas) for name, replicas in originals.items()}
        self._originals = originals
        self._racks = racks if all(racks.get(broker) is not None for broker in brokers) else {}
        self._total: Counter[int] = Counter()
        self._in_topic: dict[str, Counter[int]] = {}
        self._hosted: dict[tuple[str, int], dict[TopicPartition, None]] = {}
        self._fresh: dict[tuple[str, int], dict[TopicPartition, None]] = {}  # the subset that is only planned
        for name, replicas in originals.items():
            for broker in replicas:
                self._count_in(name, broker)

    # -- single replicas

    def best_for(self, name: TopicPartition) -> int | None:
        """Return the broker that should get another replica of the partition, or None if all have one."""
        in_topic = self._in_topic[name.topic]
        free = [broker for broker in self.brokers if broker not in self.replicas[name]]
        return min(
            free,
            key=lambda broker: (self.crowd(name, broker), in_topic[broker], self._total[broker], broker),
            default=None,
        )

    def crowd(self, name: TopicPartition, broker: int, leaving: int | None = None) -> int:
        """Return how many other replicas the partition has in the broker's rack, not counting `leaving`."""
        rack = self._racks.get(broker)
        if rack is None:
            return 0
        others = [other for other in self.replicas[name] if other not in (broker, leaving)]
        return sum(self._racks.get(other) == rack for other in others)

    def load(self, name: TopicPartition, broker: int) -> tuple[int, int]:
        """Return how many replicas the broker has of the partition's topic, and of all topics."""
        return self._in_topic[name.topic][broker], self._total[broker]

    def add(self, name: TopicPartition, broker: int) -> None:
        self.replicas[name].append(broker)
        self._count_in(name, broker)

    def remove(self, name: TopicPartition, broker: int) -> None:
        self.replicas[name].remove(broker)
        self._count_out(name, broker)

    def move(self, name: TopicPartition, giver: int, taker: int) -> None:
        """Replace `giver` with `taker` at the same place in the replica list."""
        replicas = self.replicas[name]
        replicas[replicas.index(giver)] = taker
        self._count_out(name, giver)
        self._count_in(name, taker)

    # -- all of them

    def spread_over_racks(self, names: Sequence[TopicPartition]) -> None:
        """Spread each partition over as many racks as possible."""
        for name in names:
            while (better := self._less_crowded(name)) is not None:
                self.move(name, *better)

    def even_out(self, topics: Sequence[str]) -> None:
        """Balance each topic, then all together, until nothing changes. Repeat because balancing all topics may free a
        rack for a move within one topic. It terminates because no move makes a topic less balanced."""
        while self._even_out_once(topics):
            pass

    def _even_out_once(self, topics: Sequence[str]) -> bool:
        """Return True if a move over all topics was made."""
        for topic in topics:
            while (move := self._evening_of_topic(topic)) is not None:
                self.move(*move)
        was_uneven = False
        while (move := self._evening_of_all(topics)) is not None:
            was_uneven = True
            self.move(*move)
        return was_uneven

    def _less_crowded(self, name: TopicPartition) -> tuple[int, int] | None:
        movable = [broker for broker in self.replicas[name] if broker in self.brokers]
        for giver in sorted(movable, key=lambda broker: (-self.crowd(name, broker), self.replicas[name][0] == broker)):
            takers = [broker for broker in self.brokers if broker not in self.replicas[name]]
            taker = min(takers, key=lambda broker: (self.crowd(name, broker, giver), self.load(name, broker), broker),
                        default=None)  # fmt: skip
            if taker is not None and self.crowd(name, taker, giver) < self.crowd(name, giver):
                return giver, taker
        return None

    def _evening_of_topic(self, topic: str) -> tuple[TopicPartition, int, int] | None:
        for giver, taker in self._uneven_pairs(self._in_topic[topic]):
            name = self._movable(topic, giver, taker)
            if name is not None:
                return name, giver, taker
        return None

    def _evening_of_all(self, topics: Sequence[str]) -> tuple[TopicPartition, int, int] | None:
        total: Counter[int] = Counter()
        for topic in topics:
            total.update(self._in_topic[topic])
        for giver, taker in self._uneven_pairs(total):
            for topic in topics:
                if self._in_topic[topic][giver] <= self._in_topic[topic][taker]:
                    continue
                name = self._movable(topic, giver, taker)
                if name is not None:
                    return name, giver, taker
        return None

    def _uneven_pairs(self, counts: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield (giver, taker) pairs of brokers whose counts differ by at least two, the most uneven first."""
        takers = sorted(self.brokers, key=lambda broker: (counts[broker], self._total[broker], broker))
        givers = sorted(self.brokers, key=lambda broker: (-counts[broker], -self._total[broker], broker))
        for giver in givers:
            for taker in takers:
                if counts[giver] - counts[taker] < 2:
                    break
                yield giver, taker

    def _movable(self, topic: str, giver: int, taker: int) -> TopicPartition | None:
        """Return a partition that can move from `giver` to `taker` without losing a rack. Prefer one whose replica on
        the giver is only planned, and one that the giver would not lead."""
        leading: TopicPartition | None = None
        for names in (self._fresh.get((topic, giver), {}), self._hosted.get((topic, giver), {})):
            for name in names:
                if taker in self.replicas[name] or self.crowd(name, taker, giver) > self.crowd(name, giver):
                    continue
                if self.replicas[name][0] != giver:
                    return name
                leading = leading or name
        return leading

    # -- counting

    def _count_in(self, name: TopicPartition, broker: int) -> None:
        self._total[broker] += 1
        self._in_topic.setdefault(name.topic, Counter())[broker] += 1
        self._hosted.setdefault((name.topic, broker), {})[name] = None
        if broker not in self._originals[name]:
            self._fresh.setdefault((name.topic, broker), {})[name] = None

    def _count_out(self, name: TopicPartition, broker: int) -> None:
        self._total[broker] -= 1
        self._in_topic[name.topic][broker] -= 1
        del self._hosted[name.topic, broker][name]
        self._fresh.get((name.topic, broker), {}).pop(name, None)
