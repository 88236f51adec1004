"""The life of one partition: real decisions of the controller, and brokers that act on metadata as late as they like.

Each broker has its own view of the metadata, somewhere in the past; so a leader may be deposed and not know. What the
model takes for granted of brokers:

- they take the metadata in order, one operation after the other, also what their own requests brought about;
- a leader counts a record as acknowledged when all of the ISR that it knows, and all that it has asked to let join,
  have it, and that ISR is not below the minimum that it knows;
- what a follower has counts only in the directory that the metadata, or the request to let it join, names for it;
- a leader forgets what a follower has when that is no replica any more, and believes one that is a replica again only
  when it knows that, too: it may have to discard what it has before;
- a replica that turns out to be corrupt ends its subscription before it is reported;
- a replica discards its data when it sees itself removed, and another leader;
- how long its log is, a replica says only while it knows that there is no leader.

What must hold then, after each step: whoever is in sync or eligible, and could lead now, has everything acknowledged.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from support.metadata_images import (
    ACTIVE,
    apply,
    broker,
    directory,
    epoch_of,
    ids,
    image_with,
    partition,
    topic_id,
    with_records,
)

from lograft.metadata.config.effective_settings import CLUSTER, effective_min_isr
from lograft.metadata.decisions.alter_configs import alter_configs
from lograft.metadata.decisions.brokers.fencing import fence, shut_down, unfence
from lograft.metadata.decisions.brokers.registration import Registration, latest_epoch, register
from lograft.metadata.decisions.brokers.report_failures import report_failures
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.alter_isr import Alteration, IsrMember, alter_partitions
from lograft.metadata.decisions.partitions.elect_leaders import (
    elect_possible,
    elect_preferred,
    elect_unclean_leaders,
    rebalance_leaders,
)
from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.decisions.partitions.reassignment import Reassignment, complete_due, reassign
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, PartitionEpoch, Replica
from lograft.metadata.image.records import ConfigResource, FeatureLevelChanged, ResourceKind
from lograft.rpc.coded_error import ControllerError

BROKERS = ids(1, 2, 3, 4)
TOPIC = topic_id(1)
KEY = (TOPIC, 0)
FEATURE_LEVEL = 1

Entry = tuple[int, int]  # the leader epoch it was written in, and a number of its own


@dataclass
class Acknowledged:
    """What a follower has told its leader."""

    end: int
    broker_epoch: BrokerEpoch
    directory_id: UUID


@dataclass
class Joining:
    """A follower that was asked to be let in, until its leader sees what came of it."""

    asked_at: PartitionEpoch
    directory_id: UUID


@dataclass
class Process:
    """A broker's process. Leading is what it believes by its own view of the metadata."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    directories: tuple[UUID, ...]
    view: int
    is_running: bool = True
    leads: LeaderEpoch | None = None
    epoch_start: int = 0
    watermark: int = 0
    followers: dict[BrokerId, Acknowledged] = field(default_factory=dict)
    joining: dict[BrokerId, Joining] = field(default_factory=dict)
    replica_since: dict[BrokerId, PartitionEpoch] = field(default_factory=dict)


class PartitionLife:
    """One partition of three replicas on four brokers, each with two directories."""

    def __init__(self, *, flush_mode: str) -> None:
        self.flush_mode = flush_mode
        empty = image_with(
            *(broker(number, state=ACTIVE, directories=2) for number in BROKERS),
            topics={"orders": [partition(1, 2, 3)]},
            topic_configs={"orders": {"flush.mode": flush_mode}},
        )
        self.image = with_records(empty, FeatureLevelChanged(FEATURE_LEVEL))
        self.history = [self.image]
        self.disks: dict[Replica, list[Entry]] = {}
        self.boot_ids = dict.fromkeys(BROKERS, 0)
        self.incarnations = 1000
        self.entries_written = 0
        self.acknowledged: list[Entry] = []
        self.asked_replicas = ids(1, 2, 3)
        self.processes = {
            number: Process(number, epoch_of(number), (directory(number, 0), directory(number, 1)), 0)
            for number in BROKERS
        }
        for process in self.processes.values():
            self._take_in_view(process)

    @property
    def partition(self) -> Partition:
        return self._partition_in(self.image)

    def _partition_in(self, image: ClusterImage) -> Partition:
        found = image.partition(*KEY)
        assert found is not None
        return found

    # -- brokers

    def learn(self, broker_id: BrokerId, operations: int) -> None:
        process = self.processes[broker_id]
        for _ in range(min(operations, len(self.history) - 1 - process.view) if process.is_running else 0):
            process.view += 1
            self._take_in_view(process)

    def _take_in_view(self, process: Process) -> None:
        known, own = self._known(process), process.broker_id
        if known.leader != own:
            process.leads = None
            if own not in known.replica_ids and known.leader is not None:
                self._discard(own)
            return
        if process.leads != known.leader_epoch:
            process.leads = known.leader_epoch
            process.epoch_start, process.watermark = len(self._log(process)), 0
            process.followers, process.joining = {}, {}
            process.replica_since = dict.fromkeys(known.replica_ids, PartitionEpoch(0))
        since = process.replica_since
        process.replica_since = {one: since.get(one, known.partition_epoch) for one in known.replica_ids}
        process.followers = {one: has for one, has in process.followers.items() if one in known.replica_ids}
        process.joining = {one: at for one, at in process.joining.items() if at.asked_at >= known.partition_epoch}

    def _known(self, process: Process) -> Partition:
        return self._partition_in(self.history[process.view])

    def _discard(self, broker_id: BrokerId) -> None:
        for replica in list(self.disks):
            if replica.broker_id == broker_id and replica.directory_id in self.processes[broker_id].directories:
                del self.disks[replica]

    def _place(self, process: Process) -> Replica:
        """The directory that the metadata names or, if that is away, another."""
        named = self._known(process).directory_of(process.broker_id)
        listed = process.directories
        return Replica(process.broker_id, named if named is not None and named in listed else listed[0])

    def _log(self, process: Process) -> list[Entry]:
        return self.disks.setdefault(self._place(process), [])

    def _leader(self, which: int) -> Process | None:
        """One of those that believe to lead."""
        leading = [one for one in self.processes.values() if one.is_running and one.leads is not None]
        return leading[which % len(leading)] if leading else None

    def write(self, which: int, entries: int) -> None:
        leader = self._leader(which)
        if leader is not None:
            assert leader.leads is not None
            for _ in range(entries):
                self.entries_written += 1
                self._log(leader).append((leader.leads, self.entries_written))

    def replicate(self, broker_id: BrokerId, entries: int) -> None:
        """A follower matches its log with its leader's, takes some more of it, and says so."""
        process = self.processes[broker_id]
        known = self._known(process)
        if not process.is_running or not process.directories or broker_id not in known.replica_ids:
            return
        leader = self.processes[known.leader] if known.leader is not None else None
        if leader is None or leader is process or not leader.is_running or leader.leads != known.leader_epoch:
            return
        if known.partition_epoch < leader.replica_since.get(broker_id, known.partition_epoch + 1):
            return
        source, log = self._log(leader), self._log(process)
        matching = _matching(source, log)
        log[matching:] = source[matching : matching + entries]
        leader.followers[broker_id] = Acknowledged(len(log), process.epoch, self._place(process).directory_id)

    def advance_watermark(self, which: int) -> None:
        leader = self._leader(which)
        if leader is None:
            return
        assert leader.leads is not None
        known, image = self._known(leader), self.history[leader.view]
        if len(known.isr) < effective_min_isr(image, TOPIC, known):
            return
        log = self._log(leader)
        watermark = min([len(log), *self._ends_in_sync(leader, known)])
        leader.watermark = max(leader.watermark, watermark)
        if leader.leads < (self.partition.unclean_epoch or 0):
            return  # what it acknowledges was given up
        if leader.watermark > len(self.acknowledged):
            committed = log[: leader.watermark]
            assert committed[: len(self.acknowledged)] == self.acknowledged, "another record than was acknowledged"
            self.acknowledged = committed

    def _ends_in_sync(self, leader: Process, known: Partition) -> Iterator[int]:
        named = {one.broker_id: one.directory_id for one in known.replicas if one.broker_id in known.isr}
        named.update({one: asked.directory_id for one, asked in leader.joining.items()})
        for follower, directory_id in named.items():
            has = leader.followers.get(follower)
            if follower != leader.broker_id:
                yield has.end if has is not None and has.directory_id == directory_id else 0

    def alter_isr(self, which: int, wanted: tuple[BrokerId, ...]) -> None:
        """A leader asks for an ISR of itself and those of `wanted` that are in it, or have caught up."""
        leader = self._leader(which)
        if leader is None:
            return
        assert leader.leads is not None
        known, image = self._known(leader), self.history[leader.view]
        least = max(leader.watermark, leader.epoch_start)
        members = []
        for member in known.replica_ids:
            has = leader.followers.get(member)
            if member == leader.broker_id or (member in wanted and member in known.isr):
                own = known.directory_of(member)
                assert own is not None
                members.append(IsrMember(member, image.brokers[member].epoch, own))
            elif member in wanted and has is not None and has.end >= least:
                members.append(IsrMember(member, has.broker_epoch, has.directory_id))
        request = Alteration(TOPIC, 0, leader.leads, known.partition_epoch, tuple(members))
        try:
            decision = alter_partitions(self.image, leader.broker_id, leader.epoch, [request])
        except ControllerError:
            return
        if not isinstance(decision.answer[0].outcome, ControllerError):
            for one in members:
                if one.broker_id not in known.isr:
                    leader.joining[one.broker_id] = Joining(known.partition_epoch, one.directory_id)
        self.carry_out(decision)

    def run_well(self) -> None:
        """Everyone is there, learns everything, catches up and is let in."""
        for broker_id in BROKERS:
            self.unfence(broker_id)
        for broker_id in BROKERS:
            self.learn(broker_id, len(self.history))
        for broker_id in BROKERS:
            self.replicate(broker_id, 1000)
        self.alter_isr(0, BROKERS)
        self.advance_watermark(0)

    # -- what happens to brokers

    def fence(self, broker_id: BrokerId) -> None:
        self.carry_out(fence(self.image, broker_id, self.image.brokers[broker_id].epoch))

    def unfence(self, broker_id: BrokerId) -> None:
        if self.processes[broker_id].is_running:
            self.carry_out(unfence(self.image, broker_id, self.processes[broker_id].epoch))

    def shut_down(self, broker_id: BrokerId) -> None:
        if self.processes[broker_id].is_running:
            self.carry_out(shut_down(self.image, broker_id, self.processes[broker_id].epoch))

    def kill(self, broker_id: BrokerId) -> None:
        self.processes[broker_id].is_running = False

    def restart(self, broker_id: BrokerId, directories: tuple[int, ...], is_clean: bool) -> None:
        """With these of its two directories: one may be away, and come back."""
        clean_epoch = self.processes[broker_id].epoch if is_clean else None
        self._register(broker_id, tuple(directory(broker_id, number) for number in directories), clean_epoch)

    def lose_power(self, broker_id: BrokerId, kept_entries: int, directories: tuple[int, ...]) -> None:
        """And restart. What was not on the disk is gone; all was, unless the topic trusts the page cache."""
        self.boot_ids[broker_id] += 1
        if self.flush_mode == "os":
            for replica, log in self.disks.items():
                if replica.broker_id == broker_id and replica.directory_id in self.processes[broker_id].directories:
                    del log[kept_entries:]
        self.restart(broker_id, directories, False)

    def _register(self, broker_id: BrokerId, directories: tuple[UUID, ...], clean_epoch: BrokerEpoch | None) -> None:
        self.incarnations += 1
        decision = register(
            self.image,
            Registration(
                broker_id, UUID(int=self.incarnations), f"broker-{broker_id}:9092", None, directories,
                f"boot-{broker_id}-{self.boot_ids[broker_id]}", clean_epoch, FEATURE_LEVEL, FEATURE_LEVEL,
            ),
            previous_epoch=latest_epoch(self.image, broker_id),
            is_old_alive=False,
        )  # fmt: skip
        self.carry_out(decision, may_lose=self.flush_mode == "os")
        self.processes[broker_id] = Process(broker_id, decision.answer, directories, len(self.history) - 1)
        self._take_in_view(self.processes[broker_id])

    def find_corrupt(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        if not process.is_running or not process.directories:
            return
        self._log(process).clear()
        self._end_subscriptions(broker_id)
        self.carry_out(report_failures(self.image, broker_id, process.epoch, [], [KEY]), may_lose=True)
        self.learn(broker_id, len(self.history))

    def lose_directory(self, broker_id: BrokerId, number: int) -> None:
        process = self.processes[broker_id]
        if not process.is_running or len(process.directories) < 2:
            return
        self._end_subscriptions(broker_id)
        lost = directory(broker_id, number)
        self.carry_out(report_failures(self.image, broker_id, process.epoch, [lost], []))
        # It stops what it led there before it reports.
        self.learn(broker_id, len(self.history))
        process.directories = tuple(one for one in process.directories if one != lost)

    def _end_subscriptions(self, broker_id: BrokerId) -> None:
        for process in self.processes.values():
            process.followers.pop(broker_id, None)

    # -- what operators and timers ask for

    def set_min_isr(self, value: str | None, for_all: bool) -> None:
        resource = CLUSTER if for_all else ConfigResource(ResourceKind.TOPIC, str(TOPIC))
        with suppress(ControllerError):  # more than there are replicas
            self.carry_out(alter_configs(self.image, resource, {"min.insync.replicas": value}))

    def reassign(self, target: tuple[BrokerId, ...] | None) -> None:
        original = self.partition.original
        decision = reassign(self.image, [Reassignment(*KEY, target)])
        if decision.answer[0].error is None:
            self.asked_replicas = target if target is not None else original
        self.carry_out(decision)

    def elect_preferred(self) -> None:
        self.carry_out(elect_preferred(self.image, None))

    def elect_uncleanly(self) -> None:
        ends = {}
        for replica in self.partition.replicas:
            known = self._known(self.processes[replica.broker_id])
            if known.leader_epoch != self.partition.leader_epoch or known.leader is not None:
                continue
            log = self.disks.get(replica, [])
            last_epoch = LeaderEpoch(log[-1][0] if log else -1)
            ends[replica.broker_id] = LogEnd(self.image.brokers[replica.broker_id].epoch, last_epoch, len(log))
        self.carry_out(elect_unclean_leaders(self.image, [KEY], {KEY: ends}), may_lose=True)
        if self.partition.leader is not None and self.partition.unclean_epoch == self.partition.leader_epoch:
            log = self._committed_log(self.partition.leader)
            self.acknowledged = self.acknowledged[: _matching(self.acknowledged, log)]

    def tend(self) -> None:
        """What timers do."""
        self.carry_out(elect_possible(self.image))
        self.carry_out(complete_due(self.image))
        self.carry_out(rebalance_leaders(self.image))

    # -- what must hold

    def carry_out(self, decision: Decision[Any], *, may_lose: bool = False) -> None:
        if not decision.records:
            return
        before = self.partition
        self.image = apply(self.image, decision)
        self.history.append(self.image)
        self._check_change(before, self.partition, may_lose)

    def _check_change(self, before: Partition, after: Partition, may_lose: bool) -> None:
        changed = after != before
        assert after.partition_epoch == before.partition_epoch + changed
        assert after.leader_epoch == before.leader_epoch + (after.leader != before.leader)
        if len(after.isr) < effective_min_isr(self.image, TOPIC, after) and not may_lose:
            holders = {*before.isr, *(replica.broker_id for replica in before.elr)} & {*after.replica_ids}
            assert holders <= {*after.isr, *(replica.broker_id for replica in after.elr)}, (
                "one that has all is forgotten"
            )

    def check(self) -> None:
        self._check_shape(self.partition)
        self._check_reassignment(self.partition)
        for replica in self._electable(self.partition):
            log = self.disks.get(replica, [])
            assert log[: len(self.acknowledged)] == self.acknowledged, f"{replica} lacks something acknowledged"

    def _check_shape(self, now: Partition) -> None:
        eligible = [replica.broker_id for replica in now.elr]
        assert (now.leader is None) == (not now.isr)
        assert now.leader is None or now.leader in now.isr
        for member in now.isr:
            assert self.image.brokers[member].is_live
            assert now.directory_of(member) in self.image.brokers[member].directories
        assert {*now.isr, *eligible} <= {*now.replica_ids}
        assert not {*now.isr} & {*eligible}
        if len(now.isr) >= effective_min_isr(self.image, TOPIC, now):
            assert not eligible, "eligible although others acknowledge without it"

    def _check_reassignment(self, now: Partition) -> None:
        assert now.final_replicas == self.asked_replicas
        if now.is_reassigning:
            assert now.replica_ids == (*now.original, *now.adding)
            assert {*now.adding} <= {*now.target}

    def _electable(self, now: Partition) -> list[Replica]:
        """In sync or eligible, and on a live broker with that directory."""
        in_sync = [replica for replica in now.replicas if replica.broker_id in now.isr]
        return [
            replica
            for replica in (*in_sync, *now.elr)
            if self.processes[replica.broker_id].is_running
            and self.image.brokers[replica.broker_id].is_live
            and replica.directory_id in self.image.brokers[replica.broker_id].directories
        ]

    def _committed_log(self, broker_id: BrokerId) -> list[Entry]:
        own = self.partition.directory_of(broker_id)
        assert own is not None
        return self.disks.get(Replica(broker_id, own), [])


def _matching(one: list[Entry], other: list[Entry]) -> int:
    """How far two logs are the same."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))
