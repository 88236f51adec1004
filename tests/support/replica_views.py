"""Three brokers, each with an image as late as it likes: who of them leads or follows, and with which log."""

from collections.abc import Iterator
from typing import Any

from support.metadata_images import ACTIVE, apply, broker, epoch_of, ids, image_with, partition, topic_id, with_records
from support.replica_ledger import Ledger
from support.replica_logs import MiniatureDirectory, MiniatureDisks, MiniatureLog
from support.replica_processes import Barrier, Process, Request, Stream

from lograft.broker.replication.follower_core import FollowerCore, GiveUp, Truncate
from lograft.broker.replication.leader_core import LeaderCore, LeaderLogEnds
from lograft.broker.replication.log_matching import Reset
from lograft.metadata.config.effective_settings import effective_min_isr
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition
from lograft.metadata.image.records import FeatureLevelChanged

BROKERS = ids(1, 2, 3)
TOPIC = topic_id(1)
KEY = (TOPIC, 0)
LAG_MS = 10_000


class ReplicaViews:
    """Three replicas; each broker with two directories. What is done is decided by the image that a broker knows."""

    def __init__(self) -> None:
        empty = image_with(
            *(broker(number, state=ACTIVE, directories=2) for number in BROKERS),
            topics={"orders": [partition(1, 2, 3)]},
        )
        self.image = with_records(empty, FeatureLevelChanged(1))
        self.history = [self.image]
        self.now_ms = 0
        self.disks = {number: MiniatureDisks(number) for number in BROKERS}
        self.processes = {
            number: Process(number, epoch_of(number), 0, 0, self.image.brokers[number].directories)
            for number in BROKERS
        }
        self.streams: list[Stream] = []
        self.requests: list[Request] = []
        self.ledger = Ledger()
        self.barriers: list[Barrier] = []  # not passed yet
        self.barriers_passed = 0
        self.led = LeaderEpoch(0)  # the latest epoch in which anybody has led
        self._incarnations = 1000
        self._entries_written = 0
        for process in self.processes.values():
            self._take_role(process)

    # -- looking

    @property
    def partition(self) -> Partition:
        return _partition_in(self.image)

    def _known(self, process: Process) -> Partition:
        return _partition_in(self.history[process.view])

    def _used(self, process: Process) -> MiniatureDirectory:
        return self.disks[process.broker_id].used

    def _log(self, process: Process) -> MiniatureLog:
        return self._used(process).log

    def running(self) -> Iterator[Process]:
        return (process for process in self.processes.values() if process.is_running)

    def leaders(self) -> list[tuple[Process, LeaderCore]]:
        """All that believe to lead."""
        return [(process, process.core) for process in self.running() if isinstance(process.core, LeaderCore)]

    # -- the image of each broker

    def learn(self, broker_id: BrokerId, operations: int) -> None:
        """Or, if it is many, take over a snapshot: it does not see what was in between."""
        process = self.processes[broker_id]
        if process.is_running and process.view < len(self.history) - 1:
            process.view = min(process.view + operations, len(self.history) - 1)
            self._take_role(process)

    def _take_role(self, process: Process) -> None:
        known, image = self._known(process), self.history[process.view]
        assert image.brokers[process.broker_id].epoch == process.epoch, "an image older than the registration"
        if not self._find_place(process, known):
            return
        core, used = process.core, self._used(process)
        if used.is_corrupt and not self._mend(process, known):
            self._resign(process)
        elif core is not None and core.leader_epoch == known.leader_epoch:
            if isinstance(core, LeaderCore):
                core.image_changed(known, effective_min_isr(image, TOPIC, known), self.now_ms)
                self._told(core, process)
            else:
                core.image_changed(known)
        else:
            self._resign(process)
            if known.leader == process.broker_id:
                if known.directory_of(process.broker_id) == used.directory_id:
                    self._lead(process, known, image)
            elif known.leader is not None:
                process.core = FollowerCore(used.log, known, process.watermark)

    def _find_place(self, process: Process, known: Partition) -> bool:
        """In the directory that the metadata name if that is there, else in another, once that is known."""
        disks, named = self.disks[process.broker_id], known.directory_of(process.broker_id)
        if process.failed is not None:
            if process.failure_known_at is None or process.view < process.failure_known_at:
                return False
            process.failed = process.failure_known_at = None
        place = disks.find(named if named in process.directories else process.directories[0])
        assert place is not None
        if place is not disks.used:
            self._resign(process)
            disks.used = place
            process.watermark, process.reported_at = place.watermark, None
        return True

    def _mend(self, process: Process, known: Partition) -> bool:
        """Discard what is corrupt, once that is known and another leads; or live with what is left."""
        own, used, reported_at = process.broker_id, self._used(process), process.reported_at
        if reported_at is None or process.view < reported_at:
            return False
        # Elected in spite of it, not before it: what it said it had then, it had.
        if known.leader == own and known.unclean_epoch == known.leader_epoch:
            used.is_corrupt = known.leader_epoch <= _partition_in(self.history[reported_at]).leader_epoch
            return not used.is_corrupt
        if counts(known, own) or known.leader in (None, own):
            return False
        used.start_over()
        process.watermark = 0
        return True

    def _resign(self, process: Process) -> None:
        core = process.core
        if core is None:
            return
        process.watermark = core.high_watermark
        if isinstance(core, FollowerCore):
            core.end()
            self._finish_cut(process, core)
            process.watermark = core.high_watermark
            process.stream = None
        process.core = None

    def _lead(self, process: Process, known: Partition, image: ClusterImage) -> None:
        log = self._log(process)
        log.epochs.assign(known.leader_epoch, log.end_offset)
        core = LeaderCore(
            process.broker_id, known, effective_min_isr(image, TOPIC, known),
            LeaderLogEnds(log.start_offset, log.end_offset, log.end_offset, log.stable_end), process.watermark,
            lag_time_max_ms=LAG_MS, now_ms=self.now_ms,
        )  # fmt: skip
        process.core = core
        self.led = max(self.led, known.leader_epoch)
        self._told(core, process)

    def _told(self, core: LeaderCore, process: Process) -> None:
        assert core.high_watermark <= core.end_offset
        self.ledger.risen(core, self._log(process), self.partition.unclean_epoch)

    def _look_at_barriers(self) -> None:
        """A barrier that is passed proves that nobody led in a later epoch when it was asked for; unless an unclean
        election was held since, by which somebody leads who was not in sync."""
        waiting, self.barriers = self.barriers, []
        for one in waiting:
            if not one.process.is_running or one.process.core is not one.core:
                continue
            if one.core.passed_barrier < one.number:
                self.barriers.append(one)
            elif one.core.leader_epoch >= (self.partition.unclean_epoch or 0):
                self.barriers_passed += 1
                assert one.led <= one.core.leader_epoch, f"epoch {one.led} had begun, and {one.core.leader_epoch} leads"

    def _finish_cut(self, process: Process, core: FollowerCore) -> None:
        cut, log = process.cut, self._log(process)
        if cut is None:
            return
        match cut:
            case Truncate(offset=offset):
                log.truncate(offset)
            case GiveUp():
                log.reset(0, ())
            case Reset(start_offset=start_offset, epochs=epochs):
                log.reset(start_offset, epochs)
        process.cut = None
        core.log_was_cut()

    # -- the controller

    def carry_out(self, decision: Decision[Any]) -> None:
        if not decision.records:
            return
        before = self.partition
        self.image = apply(self.image, decision)
        self.history.append(self.image)
        if self.partition.unclean_epoch != before.unclean_epoch:
            assert self.partition.leader is not None
            elected = self.disks[self.partition.leader].find(self.partition.directory_of(self.partition.leader))
            assert elected is not None
            self.ledger.given_up(elected.log)

    def check(self) -> None:
        """Whoever may be elected cleanly has everything acknowledged."""
        self._look_at_barriers()
        now = self.partition
        claims = [one for one in now.replicas if one.broker_id in now.isr] + list(now.elr)
        for replica in claims:
            holder = self.disks[replica.broker_id].find(replica.directory_id)
            if holder is not None and not holder.is_corrupt:
                self.ledger.check(f"broker {replica.broker_id}", holder.log)
        for process in self.running():
            if process.core is not None and process.cut is None:
                assert process.core.high_watermark <= self._log(process).end_offset


def counts(known: Partition, broker_id: BrokerId) -> bool:
    return broker_id in known.isr or known.is_eligible(broker_id)


def _partition_in(image: ClusterImage) -> Partition:
    found = image.partition(*KEY)
    assert found is not None
    return found
