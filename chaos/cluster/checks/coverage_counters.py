"""Counters of the events that a simulated run has met, to show which were tested, and which never occurred."""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from lograft.broker.hosting.log_lifecycle import Corrupt, Lost
from lograft.broker.replica.replica import Replica
from lograft.chaos.cluster.checks.history import PartitionKey, named
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.harness.schedule import Detail
from lograft.metadata.image.partition import Partition


class CountedCluster(Protocol):
    hosts: list[SimulatedHost]

    def note(self, event: str, *details: Detail) -> None: ...


class Sights:
    """`counts` holds totals by name, and `crashes` the crashes in a disk call, by the code that made it. Events that
    are of interest to readers of a run's story are also noted there."""

    def __init__(self, cluster: CountedCluster) -> None:
        self.counts: Counter[str] = Counter()
        self.crashes: Counter[str] = Counter()
        self._cluster = cluster
        self._partitions: dict[PartitionKey, Partition] = {}
        self._cuts: dict[Replica, int] = {}
        self._cleaned: dict[Replica, int] = {}
        self._broken: dict[tuple[str, PartitionKey], None] = {}

    def changed(self, key: PartitionKey, after: Partition) -> None:
        """Count a change of a partition in the metadata."""
        before = self._partitions.get(key)
        self._partitions[key] = after
        if before is None:
            return
        if after.leader != before.leader:
            self.counts["elections" if after.leader is not None else "leaderless"] += 1
        if after.unclean_epoch != before.unclean_epoch:
            self.counts["unclean elections"] += 1
            self._cluster.note("unclean_election", named(key), after.unclean_epoch)
        elif after.leader is not None and before.is_eligible(after.leader):
            self.counts["eligible elected"] += 1
        self._count_full_disks(key, before, after)
        self.counts["joined the isr"] += len([one for one in after.isr if one not in before.isr])
        self.counts["left the isr"] += len([one for one in before.isr if one not in after.isr])
        self.counts["replicas moved"] += len([one for one in after.replica_ids if one not in before.replica_ids])
        self._count_reassignment(before, after)

    def _count_full_disks(self, key: PartitionKey, before: Partition, after: Partition) -> None:
        """Count effects of full disks: an in-sync leader is replaced, or a follower leaves the ISR."""
        gone = [one for one in before.isr if one not in after.isr]
        is_handed_over = before.leader is not None and after.leader != before.leader and before.leader in after.isr
        for host in self._cluster.hosts:
            if host.number == before.leader and is_handed_over and _is_without_room(host, key):
                self.counts["leaders left full disks"] += 1
                self._cluster.note("left_full_disk", host.process, named(key), after.leader)
            elif host.number in gone and after.leader is not None and _is_without_room(host, key):
                self.counts["replicas without room left the isr"] += 1

    def _count_reassignment(self, before: Partition, after: Partition) -> None:
        if before.is_reassigning and not after.is_reassigning:
            is_through = after.replica_ids == before.target
            self.counts["reassignments through" if is_through else "reassignments cancelled"] += 1
        elif before.is_reassigning and after.target != before.target:
            self.counts["reassignments redirected"] += 1
        if not after.is_reassigning and len(after.replicas) != len(before.final_replicas):
            self.counts["more replicas" if len(after.replicas) > len(before.final_replicas) else "fewer replicas"] += 1

    def look(self) -> None:
        for host in self._cluster.hosts:
            for _, replica in _replicas(host):
                cuts = replica.log.generation
                self.counts["logs cut or reset"] += cuts - self._cuts.get(replica, 0)
                self._cuts[replica] = cuts
                cleaned_below = replica.log.checkpointed.cleaned_below
                self.counts["compactions"] += cleaned_below > self._cleaned.get(replica, cleaned_below)
                self._cleaned[replica] = cleaned_below
            for key, state in _broken(host):
                place = (host.process, key)
                if place not in self._broken:
                    self._broken[place] = None
                    self._cluster.note(state, host.process, named(key))


def _replicas(host: SimulatedHost) -> list[tuple[PartitionKey, Replica]]:
    if host.node is None or host.node.broker is None:
        return []
    return list(host.node.broker.replicas._logs.replicas.items())


def _is_without_room(host: SimulatedHost, key: PartitionKey) -> bool:
    return any(one == key and replica.log.disk.space.is_full for one, replica in _replicas(host))


def _broken(host: SimulatedHost) -> Iterator[tuple[PartitionKey, str]]:
    if host.node is not None and host.node.broker is not None:
        for key, state in host.node.broker.replicas._logs._states.items():
            if isinstance(state, Corrupt):
                yield key, "found_corrupt"
            elif isinstance(state, Lost):
                yield key, "directory_failed"
