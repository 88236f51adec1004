"""Plans replica placement when brokers or replicas are added or removed, with as few moves as possible. Pure.

A partition under reassignment counts as already moved to its target. A broker whose disks are all full keeps its
replicas but gets no new ones, because a new replica there could not catch up.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lograft.clients.admin.model.types import (
    BrokerDescription,
    BrokerState,
    ClusterDescription,
    PartitionDescription,
    Reassignment,
)
from lograft.clients.admin.planning.leader_layout import LeaderLayout
from lograft.clients.admin.planning.replica_layout import ReplicaLayout
from lograft.clients.types import TopicPartition


class CannotPlan(Exception):
    """The request cannot be met: the cause, and a remedy."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's replicas before and after the move, the preferred leader first."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.before if broker not in self.after)


def plan_balance(
    cluster: ClusterDescription,
    under_way: Iterable[Reassignment] = (),
    *,
    topics: Collection[str] | None = None,
    brokers: Collection[int] | None = None,
    replicas: int | None = None,
    full: Collection[int] = (),
) -> list[Move]:
    """Balance the replicas and preferred leaders of `topics` (default: all) over exactly `brokers`. By default, balance
    them over all live brokers and leave replicas on the others where they are. `replicas`: the new replication factor;
    None keeps the current one. `full`: brokers whose disks are full.
    """
    drawing = _Drawing(cluster, under_way, topics, _takers(cluster, brokers), full)
    stays = set(brokers) if brokers is not None else None
    for name in drawing.names:
        leaving = [broker for broker in drawing.layout.replicas[name] if stays is not None and broker not in stays]
        drawing.refit(name, leaving, replicas)
    drawing.layout.spread_over_racks(drawing.names)
    drawing.layout.even_out(drawing.topics)
    drawing.mend_leaders()
    drawing.leaders().even_out(drawing.topics)
    return drawing.moves()


def plan_drain(
    cluster: ClusterDescription,
    under_way: Iterable[Reassignment],
    drained: Collection[int],
    *,
    full: Collection[int] = (),
) -> list[Move]:
    """Move all replicas away from the `drained` brokers; leave all others in place."""
    _check_known(cluster, drained)
    takers = [broker for broker in _takers(cluster, None) if broker not in drained]
    drawing = _Drawing(cluster, under_way, None, takers, full)
    for name in drawing.names:
        drawing.refit(name, [broker for broker in drawing.layout.replicas[name] if broker in drained], None)
    drawing.mend_leaders()
    return drawing.moves()


def plan_replicas(
    cluster: ClusterDescription,
    under_way: Iterable[Reassignment],
    topics: Collection[str],
    replicas: int,
    *,
    full: Collection[int] = (),
) -> list[Move]:
    """Set the replication factor of these topics. Add replicas on the least loaded brokers; when removing, keep the
    leader and in-sync replicas if possible."""
    drawing = _Drawing(cluster, under_way, topics, _takers(cluster, None), full)
    for name in drawing.names:
        drawing.refit(name, [], replicas)
    drawing.mend_leaders()
    return drawing.moves()


def is_live(broker: BrokerDescription) -> bool:
    """Return True if the broker may be given replicas."""
    return broker.state is BrokerState.ACTIVE and bool(broker.directories)


def standing_replicas(
    cluster: ClusterDescription, under_way: Iterable[Reassignment]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return every partition's replicas; for a partition under reassignment, its target replicas."""
    targets = {reassignment.partition: reassignment.target for reassignment in under_way}
    partitions = [partition for topic in cluster.topics for partition in topic.partitions]
    return {partition.name: _standing(partition, targets.get(partition.name)) for partition in partitions}


def _standing(partition: PartitionDescription, target: tuple[int, ...] | None) -> tuple[int, ...]:
    """Use the target only if it matches the partition's own state: the two come from separate requests, and the
    partition's state is authoritative."""
    staying = tuple(broker for broker in partition.replicas if broker not in partition.removing)
    return target if target is not None and sorted(target) == sorted(staying) else staying


def _takers(cluster: ClusterDescription, brokers: Collection[int] | None) -> list[int]:
    if brokers is None:
        return [broker.id for broker in cluster.brokers if is_live(broker) and not broker.is_cordoned]
    _check_known(cluster, brokers)
    for broker in cluster.brokers:
        if broker.id in brokers and not is_live(broker):
            is_homeless = broker.state is BrokerState.ACTIVE
            why = "it has no data directory that works" if is_homeless else f"it is {broker.state.value}"
            raise CannotPlan(
                f"broker {broker.id} cannot be given anything: {why}",
                f"{'repair it' if is_homeless else 'start it'} first, or leave it out",
            )
    return list(dict.fromkeys(brokers))


def _check_known(cluster: ClusterDescription, brokers: Iterable[int]) -> None:
    known = [broker.id for broker in cluster.brokers]
    for broker_id in brokers:
        if broker_id not in known:
            raise CannotPlan(
                f"there is no broker {broker_id}", f"name some of {_listed(known)}; `lograft get brokers` shows them"
            )


class _Drawing:
    """A plan under construction. It moves the partitions `names` of `topics`; all others only count as load."""

    def __init__(
        self,
        cluster: ClusterDescription,
        under_way: Iterable[Reassignment],
        topics: Collection[str] | None,
        takers: Sequence[int],
        full: Collection[int] = (),
    ) -> None:
        self._full = [broker for broker in takers if broker in full]
        takers = [broker for broker in takers if broker not in full]
        self._described: dict[TopicPartition, PartitionDescription] = {
            partition.name: partition for topic in cluster.topics for partition in topic.partitions
        }
        self._before = standing_replicas(cluster, under_way)
        self._takers = takers
        self._cordoned = [broker.id for broker in cluster.brokers if is_live(broker) and broker.is_cordoned]
        self._internal = [topic.name for topic in cluster.topics if topic.is_internal]
        self.topics = sorted(topic.name for topic in cluster.topics if topics is None or topic.name in topics)
        self.names = sorted(name for name in self._described if topics is None or name.topic in topics)
        self.layout = ReplicaLayout(self._before, takers, {broker.id: broker.rack for broker in cluster.brokers})

    def refit(self, name: TopicPartition, leaving: Sequence[int], replicas: int | None) -> None:
        """Move the partition off the `leaving` brokers and give it this many replicas (None: as before). Raise
        `CannotPlan` if there are not enough brokers."""
        wanted = replicas if replicas is not None else len(self._before[name])
        # First replace leaving brokers one for one, then add or remove replicas to reach the number.
        for broker in leaving:
            taker = self.layout.best_for(name) if len(self.layout.replicas[name]) <= wanted else None
            if taker is not None:
                self.layout.move(name, broker, taker)
            else:
                self.layout.remove(name, broker)
        while len(self.layout.replicas[name]) > wanted:
            self.layout.remove(name, self._most_dispensable(name))
        while len(self.layout.replicas[name]) < wanted:
            taker = self.layout.best_for(name)
            if taker is None:
                raise self._too_few(name, leaving, wanted)
            self.layout.add(name, taker)

    def _most_dispensable(self, name: TopicPartition) -> int:
        """Return the broker whose replica to remove: prefer one out of sync, then one that is neither the leader nor
        the preferred leader, then one in a crowded rack, then one with many replicas."""
        described, replicas = self._described[name], self.layout.replicas[name]

        def worth(broker: int) -> tuple[bool, bool, bool, int, int, int, int]:
            in_topic, total = self.layout.load(name, broker)
            return (
                broker in described.isr,
                broker == described.leader,
                broker == replicas[0],
                -self.layout.crowd(name, broker),
                -in_topic,
                -total,
                -replicas.index(broker),
            )

        return min(replicas, key=worth)

    def _too_few(self, name: TopicPartition, leaving: Sequence[int], wanted: int) -> CannotPlan:
        count = len(self._takers)
        without = f" without {_listed(leaving)}" if leaving else ""
        unused = [broker for broker in self._cordoned if broker not in self._takers and broker not in leaving]
        cordoned = f"; {_listed(unused)} may be given nothing new" if unused else ""
        full = f"; {_listed(self._full)} without room on disk" if self._full else ""
        make_room = f"make room on the disks of {_listed(self._full)}, " if self._full else ""
        use = f"have it used again with `lograft config unset broker/{unused[0]} placement.enable`, " if unused else ""
        return CannotPlan(
            f"topic {name.topic!r} is to have {wanted} replicas of each partition, and{without} there "
            f"{'is' if count == 1 else 'are'} only {count} live broker{'' if count == 1 else 's'} for them "
            f"({_listed(self._takers)}{cordoned}{full})",
            f"{make_room}{use}start more brokers or name more of them, or have fewer replicas: "
            f"{self._cordoning(name, leaving)}`lograft scale topic {name.topic} --replicas {max(count, 1)}`",
        )

    def _cordoning(self, name: TopicPartition, leaving: Sequence[int]) -> str:
        """Return the commands to run before lowering the replication factor: internal topics keep their replicas while
        enough brokers accept them."""
        if name.topic not in self._internal:
            return ""
        taking = [broker for broker in leaving if broker not in self._cordoned]
        return "".join(f"`lograft config set broker/{broker} placement.enable=false`, then " for broker in taking)

    def leaders(self) -> LeaderLayout:
        return LeaderLayout(self.layout.replicas, self._takers)

    def mend_leaders(self) -> None:
        """Give each partition that lost its preferred leader a lightly burdened one."""
        leaders = self.leaders()
        for name in self.names:
            if self.layout.replicas[name][0] != self._before[name][0]:
                leaders.choose(name)

    def moves(self) -> list[Move]:
        after: Mapping[TopicPartition, Sequence[int]] = self.layout.replicas
        return [
            Move(name, self._before[name], tuple(after[name]))
            for name in self.names
            if self._before[name] != tuple(after[name])
        ]


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
