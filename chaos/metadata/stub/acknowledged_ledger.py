"""The entries acknowledged to producers, and checks that the right replicas have them. Pure.

This is the strongest check of the metadata. From the moment of its acknowledgement, an entry must be on every replica
that can be elected cleanly, which is all of ISR and ELR, unless an unclean election gave it up.
"""

from collections.abc import Callable, Mapping

from lograft.chaos.metadata.rules.facts import PartitionKey
from lograft.chaos.metadata.rules.partition_rules import require
from lograft.chaos.metadata.stub.log import Entry, StubDisks, StubLog
from lograft.metadata.decisions.brokers.producer_ids import ProducerIdBlock
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition
from lograft.metadata.image.records import BrokerRegistered, PartitionChanged, Record

_EMPTY = StubLog()


class Ledger:
    """Checks every operation, and every advance of a high watermark."""

    def __init__(self, disks: Mapping[BrokerId, StubDisks], image: Callable[[], ClusterImage]) -> None:
        self._disks = disks
        self._image = image
        self.acknowledged: dict[PartitionKey, list[Entry]] = {}
        self._written: dict[tuple[PartitionKey, LeaderEpoch, int], str] = {}
        self._blocks: dict[int, None] = {}
        self.given_up = 0
        self.unclean_elections = 0

    # -- reports of brokers

    def appended(self, key: PartitionKey, position: int, entry: Entry) -> None:
        """Check an append by a leader: only one broker writes in an epoch, and only once at each position."""
        written = self._written.setdefault((key, entry.epoch, position), entry.value)
        require(written == entry.value, "one leader writes in an epoch", key, f"at {position}:", entry, written)

    def committed(self, key: PartitionKey, log: StubLog, epoch: LeaderEpoch) -> None:
        """Note that the high watermark of the leader of `epoch` rose: all entries below it are acknowledged."""
        partition = self._image().partition(*key)
        if partition is None or _is_given_up(partition, epoch):
            return
        ours = self.acknowledged.setdefault(key, [])
        ours += log.entries[len(ours) : log.high_watermark]
        self._check_log(key, log, log.high_watermark, f"the leader in {epoch}")
        self._check_members(key, partition)

    def leads(self, key: PartitionKey, log: StubLog, broker_id: BrokerId, epoch: LeaderEpoch) -> None:
        """Check that a new leader has every acknowledged entry. A broker that learns of its election so late that
        another one already leads is exempt."""
        partition = self._image().partition(*key)
        if partition is None or partition.leader_epoch > epoch:
            return
        ours = self.acknowledged.get(key, [])
        has_all = log.entries[: len(ours)] == ours
        who = f"broker {broker_id} in {epoch}"
        require(has_all, "a leader has all that was acknowledged", who, key, log.entries, "not", ours, partition)

    def truncated(self, key: PartitionKey, log: StubLog, end: int, partition: Partition) -> None:
        """Check that a follower, whose image has `partition`, may cut its log at `end`."""
        is_allowed = partition.unclean_epoch is not None and log.last_epoch < partition.unclean_epoch
        is_kept = end >= log.high_watermark or is_allowed
        where = f"to {end}, with {log.high_watermark} of {log.end}"
        require(is_kept, "nothing below a high watermark is cut", key, where, partition)

    def allocated(self, block: ProducerIdBlock) -> None:
        """Check that a block of producer ids is new."""
        is_new = block.first % block.count == 0 and block.first not in self._blocks
        require(is_new, "nobody gets the same producer ids", block)
        self._blocks[block.first] = None

    # -- changes of the metadata

    def judged(self, index: int, records: tuple[Record, ...], old: ClusterImage, new: ClusterImage) -> None:
        for record in records:
            if isinstance(record, BrokerRegistered):
                self._check_registered(record, old, new)
        for record in records:
            if isinstance(record, PartitionChanged) and new.partition(record.topic_id, record.number) is not None:
                self._check_changed((record.topic_id, record.number), old, record.partition)
        for key in [key for key in self.acknowledged if key[0] not in new.topics]:
            del self.acknowledged[key]

    def _check_registered(self, record: BrokerRegistered, old: ClusterImage, new: ClusterImage) -> None:
        broker, disks = record.broker, self._disks[record.broker.broker_id]
        before = old.brokers.get(broker.broker_id)
        if (before is None or before.epoch != broker.epoch) and broker.boot_id == disks.boot_id:
            disks.registered()
        for topic_id, number, partition in new.hosted_by(broker.broker_id):
            self._check_members((topic_id, number), partition)

    def _check_changed(self, key: PartitionKey, old: ClusterImage, partition: Partition) -> None:
        before = old.partition(*key)
        if before is not None and before.unclean_epoch != partition.unclean_epoch:
            self.unclean_elections += 1
            self._give_up(key, partition)
        self._check_members(key, partition)

    def _give_up(self, key: PartitionKey, partition: Partition) -> None:
        """Forget acknowledged entries given up by an unclean election: only the elected replica's entries remain."""
        assert partition.leader is not None
        ours = self.acknowledged.get(key, [])
        log = self._log_of(key, partition, partition.leader) or _EMPTY
        kept = 0
        while kept < min(len(ours), log.end) and ours[kept] == log.entries[kept]:
            kept += 1
        self.given_up += len(ours) - kept
        del ours[kept:]

    # -- replicas that must have acknowledged entries

    def _check_members(self, key: PartitionKey, partition: Partition) -> None:
        ours = self.acknowledged.get(key)
        if not ours:
            return
        for broker_id in (*partition.isr, *(replica.broker_id for replica in partition.elr)):
            log = self._log_of(key, partition, broker_id)
            if log is not None:
                self._check_log(key, log, len(ours), f"broker {broker_id}")

    def _check_log(self, key: PartitionKey, log: StubLog, end: int, who: str) -> None:
        """Check the last entry, which stands for all entries before it."""
        if end > 0:
            ours = self.acknowledged[key][:end]
            has_all = log.end >= end and log.entries[end - 1] == ours[-1]
            evidence = (who, key, log.entries, "not", ours, self._image().partition(*key))
            require(has_all, "who may be elected has all that was acknowledged", *evidence)

    def _log_of(self, key: PartitionKey, partition: Partition, broker_id: BrokerId) -> StubLog | None:
        """Return the replica's log, or None if it is known not to count, even if the metadata does not say so yet."""
        eligible = {replica.broker_id: replica.directory_id for replica in partition.elr}
        directory = self._disks[broker_id].find(eligible.get(broker_id) or partition.directory_of(broker_id))
        if directory is None:
            return None  # its disk was replaced
        log = directory.logs.get(key, _EMPTY)
        return None if log.is_corrupt or log.is_doubtful else log

    def is_anywhere(self, key: PartitionKey, partition: Partition) -> bool:
        """Return whether a replica that can be elected cleanly still has its data."""
        members = (*partition.isr, *(replica.broker_id for replica in partition.elr))
        return any(self._log_of(key, partition, broker_id) is not None for broker_id in members)


def _is_given_up(partition: Partition, epoch: LeaderEpoch) -> bool:
    """Return whether a leader precedes an unclean election, so that its reports do not count."""
    return partition.unclean_epoch is not None and epoch < partition.unclean_epoch
