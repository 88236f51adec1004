"""What members of consumer groups did and were told, in a simulated run, and what must be true of it. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from lograft.chaos.cluster_history import ClusterHistory, FinalPartition, PartitionKey, Read, named, require


class GroupReader(Protocol):
    """A member that is alive."""

    name: str

    @property
    def partitions(self) -> Mapping[PartitionKey, object]:
        """What it reads at this moment."""
        ...


class GroupHistory:
    """Of one group."""

    def __init__(self) -> None:
        self.members: list[GroupReader] = []
        self.counts: Counter[str] = Counter()
        self._delivered: dict[PartitionKey, dict[int, bytes]] = {}
        self._committed: dict[PartitionKey, int] = {}  # at least

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

    def committed_at_least(self, key: PartitionKey) -> int:
        """Whoever asks from now on is told no less."""
        return self._committed.get(key, 0)

    def committed(self, key: PartitionKey, offset: int) -> None:
        """It was acknowledged, or told."""
        self.counts["committed"] += 1
        self._committed[key] = max(offset, self._committed.get(key, 0))

    def told(self, key: PartitionKey, offset: int, at_least: int) -> None:
        """`at_least`: what was committed when it was asked."""
        require(offset >= at_least, "what is committed does not go back", named(key), f"from {at_least} to", offset)
        self.committed(key, offset)

    def began(self, key: PartitionKey, offset: int, at_least: int) -> None:
        """A member's first record of a partition. `at_least`: what was committed when it took that; there may be
        nothing there any more."""
        require(offset >= at_least, "a member begins where the group is", named(key), f"at {offset}, not", at_least)

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
