"""The actions of consumer group members in a simulated run, and checks that need live members. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lograft.chaos.cluster.checks.history import ClusterHistory, PartitionKey, Read, named, require


class GroupReader(Protocol):
    """A live member."""

    name: str

    @property
    def partitions(self) -> Mapping[PartitionKey, object]:
        """The partitions it reads at present."""
        ...


@dataclass(frozen=True, slots=True)
class Floor:
    """A lower bound of a group's committed offset, valid for one generation of the partition."""

    offset: int
    generation: int


class GroupHistory:
    """The history of one group. `history` knows the generations of partitions.

    An unclean election may cut a partition's log below the group's committed offset. The group then follows the log:
    its member receives LOG_TRUNCATED, returns to the offset where the logs diverge, and commits from there. Therefore a
    floor is valid only in the generation of the last record before it.
    """

    def __init__(self, history: ClusterHistory) -> None:
        self.members: list[GroupReader] = []
        self.counts: Counter[str] = Counter()
        self._history = history
        self._delivered: dict[tuple[PartitionKey, int], None] = {}
        self._committed: dict[PartitionKey, Floor] = {}

    # -- ownership

    def took(self, member: GroupReader, key: PartitionKey) -> None:
        """Note that a member reads a partition from now on. No other may: it gave it up, or its session is over."""
        self.counts["partitions taken"] += 1
        for other in self.members:
            is_free = other is member or key not in other.partitions
            require(is_free, "a partition has one reader", named(key), "is taken by", member.name, "from", other.name)

    def delivered(self, read: Read) -> None:
        self.counts["delivered"] += 1
        self.counts["delivered again"] += (read.key, read.offset) in self._delivered
        self._delivered[read.key, read.offset] = None

    # -- committed offsets

    def committed_at_least(self, key: PartitionKey) -> Floor:
        """Return the floor of coordinators' later answers, valid until the partition's next unclean election."""
        return self._valid(key, self._committed.get(key))

    def committed(self, key: PartitionKey, offset: int, generation: int) -> None:
        """Note an acknowledged commit. `generation` is that of the last record before `offset`."""
        self.counts["committed"] += 1
        before = self._committed.get(key)
        if before is None or (generation, offset) > (before.generation, before.offset):
            self._committed[key] = Floor(offset, generation)

    def told(self, key: PartitionKey, offset: int, at_least: Floor) -> None:
        """Check a coordinator's answer. `at_least` is the floor at the time of the request. The last record before the
        offset is unknown, which does not matter before the first unclean election."""
        floor = self._valid(key, at_least).offset
        require(offset >= floor, "what is committed does not go back", named(key), f"from {floor} to", offset)
        if self._history.last_generation(key) == 0:
            self.committed(key, offset, 0)

    def began(self, key: PartitionKey, offset: int, at_least: Floor) -> None:
        """Check the offset of a member's first record of a partition. `at_least` is the floor when the member took the
        partition. It may start later, because retention may have deleted records."""
        floor = self._valid(key, at_least).offset
        require(offset >= floor, "a member begins where the group is", named(key), f"at {offset}, not", floor)

    def _valid(self, key: PartitionKey, floor: Floor | None) -> Floor:
        last = self._history.last_generation(key)
        return floor if floor is not None and floor.generation == last else Floor(0, last)
