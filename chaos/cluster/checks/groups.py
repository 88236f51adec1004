"""What members of consumer groups did and were told, in a simulated run, and what must be true of it. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lograft.chaos.cluster.checks.history import ClusterHistory, FinalPartition, PartitionKey, Read, named, require


class GroupReader(Protocol):
    """A member that is alive."""

    name: str

    @property
    def partitions(self) -> Mapping[PartitionKey, object]:
        """What it reads at this moment."""
        ...


@dataclass(frozen=True, slots=True)
class Floor:
    """A lower bound of a group's committed offset, which holds for one generation of the partition."""

    offset: int
    generation: int


class GroupHistory:
    """Of one group. `history` knows the generations of partitions.

    An unclean election may cut a partition's log below the group's committed offset. The group then follows the log:
    its member is told LOG_TRUNCATED, goes back to where the logs part, and commits from there. So a floor holds only
    for the generation of the record it was committed behind.
    """

    def __init__(self, history: ClusterHistory) -> None:
        self.members: list[GroupReader] = []
        self.counts: Counter[str] = Counter()
        self._history = history
        self._delivered: dict[PartitionKey, dict[int, bytes]] = {}
        self._committed: dict[PartitionKey, Floor] = {}

    # -- who reads

    def took(self, member: GroupReader, key: PartitionKey) -> None:
        """A member reads a partition from now on. Nobody else does: it was given up, or its session is over."""
        self.counts["partitions taken"] += 1
        for other in self.members:
            is_free = other is member or key not in other.partitions
            require(is_free, "a partition has one reader", named(key), "is taken by", member.name, "from", other.name)

    def delivered(self, read: Read) -> None:
        self.counts["delivered"] += 1
        before = self._delivered.setdefault(read.key, {})
        self.counts["delivered again"] += read.offset in before
        before[read.offset] = read.value

    # -- how far it has come

    def committed_at_least(self, key: PartitionKey) -> Floor:
        """Coordinators answer later requests with no less, until an unclean election of the partition."""
        return self._valid(key, self._committed.get(key))

    def committed(self, key: PartitionKey, offset: int, generation: int) -> None:
        """A commit was acknowledged. `generation`: of the last record before `offset`."""
        self.counts["committed"] += 1
        before = self._committed.get(key)
        if before is None or (generation, offset) > (before.generation, before.offset):
            self._committed[key] = Floor(offset, generation)

    def told(self, key: PartitionKey, offset: int, at_least: Floor) -> None:
        """A coordinator answered with this committed offset. `at_least`: the floor when it was asked. Nobody knows
        behind which record it was committed: only before the first unclean election that does not matter."""
        floor = self._valid(key, at_least).offset
        require(offset >= floor, "what is committed does not go back", named(key), f"from {floor} to", offset)
        if self._history.last_generation(key) == 0:
            self.committed(key, offset, 0)

    def began(self, key: PartitionKey, offset: int, at_least: Floor) -> None:
        """A member's first record of a partition. `at_least`: the floor when it took the partition. Retention may
        have deleted the records there."""
        floor = self._valid(key, at_least).offset
        require(offset >= floor, "a member begins where the group is", named(key), f"at {offset}, not", floor)

    def _valid(self, key: PartitionKey, floor: Floor | None) -> Floor:
        last = self._history.last_generation(key)
        return floor if floor is not None and floor.generation == last else Floor(0, last)

    # -- the end

    def check_delivered(self, partitions: Mapping[PartitionKey, FinalPartition], history: ClusterHistory) -> None:
        """Every record was delivered to some member, unless it may have been gone before, or was never for sure."""
        for key, final in partitions.items():
            is_whole = key[0] not in history.compacted_topics and key[0] not in history.limited_topics
            if not is_whole or history.last_generation(key) > 0:
                continue
            delivered = self._delivered.get(key, {})
            log = min(final.logs.values(), key=lambda one: one.start_offset)
            for stored in log.records:
                got = delivered.get(stored.offset)
                require(got == stored.value, "every record is delivered", named(key), stored, "but", got)
