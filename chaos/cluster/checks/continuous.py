"""Checks that hold at every moment of a simulated run, made from outside, on the metadata and the brokers.

Records that a leader considers committed are on every replica that may lead next: in the ISR, or eligible. All promises
depend on that. A violation shows here long before it affects a client.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.chaos.cluster.checks.history import ClusterHistory, PartitionKey, named, require
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition
from lograft.storage.log.partition_log import PartitionLog


class WatchedCluster(Protocol):
    hosts: list[SimulatedHost]
    history: ClusterHistory

    @property
    def now_us(self) -> int: ...

    @property
    def image(self) -> ClusterImage:
        """The latest committed image."""
        ...


@dataclass(frozen=True, slots=True)
class Committed:
    """The highest watermark seen on any leader of a generation, and the epoch of the record below it. Two logs with a
    record of the same epoch at that offset are equal up to it."""

    generation: int
    watermark: int
    epoch: int | None


_NOTHING = Committed(0, 0, None)


class ClusterWatch:
    """Calls `look` at intervals, and before each process ends: only then are its durable data known."""

    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster
        self._history = cluster.history
        self._committed: dict[PartitionKey, Committed] = {}
        self._highest: dict[PartitionKey, int] = {}  # highest watermark that any replica ever knew
        self._seen: list[tuple[SimulatedHost, PartitionKey, Replica]] = []
        self._durable: dict[tuple[PartitionKey, int, UUID], int] = {}  # the most each replica ever had, by directory

    def look(self) -> None:
        self.note_replicas()
        for host, key, replica in self._seen:
            if isinstance(replica.role, LeaderRole):
                seen = (key, replica.role.core.leader_epoch, host.number)
                self._history.leaders_seen_us.setdefault(seen, self._cluster.now_us)
                check_leader(self._history, key, replica.role.core.leader_epoch, host.process)
                self._note_committed(key, replica.log, replica.role)
                self._check_counted(key, host.number, replica.role)
        self._check_in_sync()

    def check_committed(self, key: PartitionKey, leader_epoch: int, end: int, what: object) -> None:
        """Check an answer to a client: the leader of an epoch said that everything below `end` is committed, so some
        replica must know that.

        A former leader still knows its last watermark.
        """
        history = self._history
        if history.generation(key, leader_epoch) < history.last_generation(key):
            return
        if end <= self._highest.get(key, 0):
            return
        self.note_replicas()
        highest = self._highest[key]
        require(end <= highest, "only what is committed is told", named(key), what, f"is not below {highest}")

    def note_replicas(self) -> None:
        """Record the durable ends, watermarks and log starts of all replicas, including those of the last look."""
        now = self._all_replicas()
        for host, key, replica in (*self._seen, *now):
            self._highest[key] = max(self._highest.get(key, 0), replica.high_watermark)
            self._note_durable(key, host.number, replica)
        self._seen = now

    def _all_replicas(self) -> list[tuple[SimulatedHost, PartitionKey, Replica]]:
        return [(host, *found) for host in self._cluster.hosts for found in _replicas(host)]

    # -- observations

    def _note_durable(self, key: PartitionKey, broker_id: int, replica: Replica) -> None:
        self._history.starts_at(key, replica.log.start_offset)
        place = (key, broker_id, replica.identity.directory_id)
        self._durable[place] = max(self._durable.get(place, 0), replica.log.stable_end)

    def _note_committed(self, key: PartitionKey, log: PartitionLog, role: LeaderRole) -> None:
        known = self._committed.get(key, _NOTHING)
        generation, watermark = self._history.generation(key, role.core.leader_epoch), role.high_watermark
        if generation < known.generation or (generation == known.generation and watermark < known.watermark):
            return
        epoch = _epoch_below(log, watermark)
        if generation == known.generation and watermark == known.watermark:
            is_same = epoch == known.epoch or epoch is None or known.epoch is None
            require(is_same, "committed is committed", named(key), f"below {watermark}: epoch {epoch} and", known)
        if epoch is not None or watermark == 0:
            self._committed[key] = Committed(generation, watermark, epoch)

    # -- checks

    def _check_counted(self, key: PartitionKey, leader_id: int, role: LeaderRole) -> None:
        """Check that every ISR member known to the leader has had all committed records, in the right directory."""
        core, generation = role.core, self._history.generation(key, role.core.leader_epoch)
        if generation < self._history.last_generation(key):
            return
        for broker_id in core.isr.committed:
            directory_id = core.partition.directory_of(broker_id)
            if broker_id == leader_id or directory_id is None:
                continue
            had = self._durable.get((key, broker_id, directory_id), 0)
            require(
                had >= core.high_watermark,
                "who counts has what is committed",
                f"{named(key)} of leader {leader_id}@{core.leader_epoch}: committed up to {core.high_watermark},",
                f"but {broker_id} never had more than {had} in {str(directory_id)[:4]}",
            )

    def _check_in_sync(self) -> None:
        logs = {(key, host.number, one.identity.directory_id): one.log for host, key, one in self._seen}
        for topic_id, topic in self._cluster.image.topics.items():
            for number, partition in topic.partitions.items():
                key = (topic_id, number)
                committed = self._committed.get(key)
                if committed is not None and committed.generation == self._history.last_generation(key):
                    found = {
                        broker_id: logs.get((key, broker_id, directory_id))
                        for broker_id, directory_id in members_of(partition)
                    }
                    self._check_members(key, partition, found, committed)

    def _check_members(
        self,
        key: PartitionKey,
        partition: Partition,
        logs: Mapping[BrokerId, PartitionLog | None],
        committed: Committed,
    ) -> None:
        for broker_id, log in logs.items():
            if log is None:
                continue  # not open, so it cannot be checked
            who = f"{named(key)} on {broker_id} of {list(partition.isr)}, epoch {partition.leader_epoch}:"
            require(
                log.stable_end >= committed.watermark,
                "who may lead has what is committed",
                f"{who} ends at {log.stable_end}, and {committed}",
            )
            epoch = _epoch_below(log, committed.watermark)
            require(
                epoch is None or epoch == committed.epoch,
                "who may lead has what is committed",
                f"{who} has a record of epoch {epoch} below {committed}",
            )


def members_of(partition: Partition) -> Sequence[tuple[BrokerId, UUID]]:
    """Return the replicas that may lead next, each with the directory that has its data."""
    in_sync = [(one.broker_id, one.directory_id) for one in partition.replicas if one.broker_id in partition.isr]
    return [*in_sync, *((one.broker_id, one.directory_id) for one in partition.elr)]


def check_leader(history: ClusterHistory, key: PartitionKey, leader_epoch: int, process: str) -> None:
    """Check that only one process leads in an epoch."""
    other = history.leaders.setdefault((key, leader_epoch), process)
    require(other == process, "one leader an epoch", named(key), "epoch", leader_epoch, other, process)


def _replicas(host: SimulatedHost) -> Iterator[tuple[PartitionKey, Replica]]:
    """Yield the replicas that are open, intact and assigned to this broker."""
    if host.node is not None and host.node.broker is not None:
        yield from host.node.broker.replicas._logs.replicas.items()


def _epoch_below(log: PartitionLog, watermark: int) -> int | None:
    """Return the epoch of the last record below `watermark`, or None if there is none, or it is no longer known."""
    if not log.start_offset < watermark <= log.end_offset:
        return None
    return log.epochs.epoch_at(watermark - 1)
