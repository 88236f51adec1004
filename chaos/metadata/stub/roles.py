"""The roles of a simulated broker: a partition's leader or follower, with miniature replication rules. Pure."""

from dataclasses import dataclass, field
from uuid import UUID

from lograft.chaos.metadata.rules.facts import PartitionKey
from lograft.chaos.metadata.stub.acknowledged_ledger import Ledger
from lograft.chaos.metadata.stub.log import Entry, StubDirectory, StubLog
from lograft.chaos.metadata.stub.messages import Diverged, Fetch, Fetched
from lograft.metadata.config.effective_settings import effective_min_isr
from lograft.metadata.decisions.partitions.alter_isr import Alteration, IsrMember
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, PartitionEpoch

_MAX_ENTRIES_IN_AN_ANSWER = 5


@dataclass(slots=True)
class Following:
    """A follower of the leader in `epoch`. `asked_ms` is the time of the fetch that is not answered yet."""

    leader: BrokerId
    epoch: LeaderEpoch
    directory: StubDirectory
    log: StubLog
    asked_ms: int | None = None


@dataclass(slots=True)
class Progress:
    """The progress of a follower's process, and the time at which it last had all entries."""

    broker_epoch: BrokerEpoch
    partition_epoch: PartitionEpoch
    directory_id: UUID
    end: int
    caught_up_ms: int


@dataclass(slots=True)
class Leading:
    """The leader in `epoch`, which began at position `start`.

    - `partition`: from the broker's own image. Only the ISR in it counts, even if the leader already knows of a newer
      one: the image then also includes every change of the minimum before that.
    - `proposed`: brokers that may be in the ISR by now, although the image does not include them.
    - `is_uncertain`: a request in this partition epoch is not known to have been refused. It may still be on its way,
      so even a refusal of the next attempt does not undo it.
    """

    me: BrokerId
    key: PartitionKey
    epoch: LeaderEpoch
    start: int
    directory: StubDirectory
    log: StubLog
    partition: Partition
    progress: dict[BrokerId, Progress] = field(default_factory=dict)
    proposed: dict[BrokerId, None] = field(default_factory=dict)
    is_uncertain: bool = False
    is_asking: bool = False
    expected_epoch: PartitionEpoch | None = None  # the result of the last request, which the image has yet to reach

    def update(self, partition: Partition) -> None:
        if partition.partition_epoch > self.partition.partition_epoch:
            self.proposed.clear()
            self.is_uncertain = False
        self.partition = partition

    # -- fetches of followers

    def fetched(self, asked: Fetch, now_ms: int) -> Fetched | Diverged | None:
        if asked.sender not in self.partition.replica_ids:
            return None
        log = self.log
        if not log.has(asked.end, asked.last_epoch):
            return Diverged(asked, *log.end_of(asked.last_epoch))
        self._note(asked, now_ms)
        entries = tuple(log.entries[asked.end : asked.end + _MAX_ENTRIES_IN_AN_ANSWER])
        return Fetched(asked, entries, log.high_watermark)

    def _note(self, asked: Fetch, now_ms: int) -> None:
        known = self.progress.get(asked.sender)
        caught_up_ms = known.caught_up_ms if known is not None else now_ms
        end = asked.end
        if known is not None:
            ours, theirs = (known.broker_epoch, known.partition_epoch), (asked.broker_epoch, asked.partition_epoch)
            if ours > theirs:
                return  # overtaken by a later fetch of this process, or of its successor
            end = max(known.end, asked.end) if ours == theirs else asked.end
        if end >= self.log.end:
            caught_up_ms = now_ms
        self.progress[asked.sender] = Progress(
            asked.broker_epoch, asked.partition_epoch, asked.directory_id, end, caught_up_ms
        )

    # -- the high watermark

    def advance(self, image: ClusterImage, ledger: Ledger) -> None:
        if len(self.partition.isr) < effective_min_isr(image, self.key[0], self.partition):
            return
        ends = [self.log.end]
        for broker_id in dict.fromkeys((*self.partition.isr, *self.proposed)):
            if broker_id != self.me:
                known = self.progress.get(broker_id)
                ends.append(known.end if known is not None else 0)
        if min(ends) > self.log.high_watermark:
            self.log.high_watermark = min(ends)
            ledger.committed(self.key, self.log, self.epoch)

    def may_append(self, image: ClusterImage) -> bool:
        return len(self.partition.isr) >= effective_min_isr(image, self.key[0], self.partition)

    def append(self, value: str, ledger: Ledger, *, is_synced: bool) -> None:
        entry = Entry(self.epoch, value)
        ledger.appended(self.key, self.log.end, entry)
        self.log.append([entry], is_synced=is_synced)

    # -- the ISR

    def wanted_isr(self, image: ClusterImage, now_ms: int, lag_ms: int) -> tuple[BrokerId, ...]:
        """Return the in-sync replicas: members of the ISR that have kept up, and others that have caught up."""
        isr = []
        for broker_id in self.partition.replica_ids:
            known = self.progress.get(broker_id)
            if broker_id == self.me:
                isr.append(broker_id)
            elif broker_id in self.partition.isr:
                if known is None:
                    self.progress[broker_id] = self._unheard(image, broker_id, now_ms)
                elif now_ms - known.caught_up_ms > lag_ms:
                    continue
                isr.append(broker_id)
            elif known is not None and self._is_caught_up(image, broker_id, known):
                isr.append(broker_id)
        return tuple(isr)

    def _unheard(self, image: ClusterImage, broker_id: BrokerId, now_ms: int) -> Progress:
        """Return the initial progress of a member that has not fetched yet: it gets some time to do so."""
        directory_id = self.partition.directory_of(broker_id)
        assert directory_id is not None
        return Progress(image.brokers[broker_id].epoch, PartitionEpoch(0), directory_id, 0, now_ms)

    def _is_caught_up(self, image: ClusterImage, broker_id: BrokerId, known: Progress) -> bool:
        """Return whether a replica has caught up, and knows the partition's present state: data from before the last
        change may have been discarded since."""
        broker = image.brokers[broker_id]
        return (
            known.end >= self.log.high_watermark
            and known.end >= self.start
            and broker.state is BrokerState.ACTIVE
            and broker.epoch == known.broker_epoch
            and known.partition_epoch >= self.partition.partition_epoch
        )

    def propose(self, image: ClusterImage, isr: tuple[BrokerId, ...]) -> Alteration:
        """Request this ISR. Brokers to be added count from now on."""
        members = []
        for broker_id in isr:
            if broker_id in self.partition.isr:
                directory_id = self.partition.directory_of(broker_id)
                assert directory_id is not None
                members.append(IsrMember(broker_id, image.brokers[broker_id].epoch, directory_id))
            else:
                known = self.progress[broker_id]
                members.append(IsrMember(broker_id, known.broker_epoch, known.directory_id))
                self.proposed[broker_id] = None
        self.is_asking = True
        return Alteration(*self.key, self.epoch, self.partition.partition_epoch, tuple(members))

    def answered(self, asked: Alteration, *, is_refused: bool, partition_epoch: PartitionEpoch | None) -> None:
        """Handle the controller's answer. Without an epoch or a refusal, the outcome is unknown."""
        self.is_asking = False
        if asked.partition_epoch != self.partition.partition_epoch:
            return  # the image has it, or something else, already
        if partition_epoch is not None:
            self.expected_epoch = partition_epoch
        elif not is_refused:
            self.is_uncertain = True
        elif not self.is_uncertain:
            self.proposed.clear()
