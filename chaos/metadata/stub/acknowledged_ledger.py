"""What was acknowledged to producers, and whether it is where it has to be. Pure.

The strongest check of the metadata: whatever a leader acknowledges must at that moment, and from then on, be with
everybody who may be elected cleanly: all of the ISR and the ELR. Unless an unclean election gave it up.
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
    """Told of every operation and of every step of a high watermark."""

    def __init__(self, disks: Mapping[BrokerId, StubDisks], image: Callable[[], ClusterImage]) -> None:
        self._disks = disks
        self._image = image
        self.acknowledged: dict[PartitionKey, list[Entry]] = {}
        self._written: dict[tuple[PartitionKey, LeaderEpoch, int], str] = {}
        self._blocks: dict[int, None] = {}
        self.given_up = 0
        self.unclean_elections = 0

    # -- what brokers tell

    def appended(self, key: PartitionKey, position: int, entry: Entry) -> None:
        """A leader wrote it: nobody else writes in its epoch, and itself only once at each place."""
        written = self._written.setdefault((key, entry.epoch, position), entry.value)
        require(written == entry.value, "one leader writes in an epoch", key, f"at {position}:", entry, written)

    def committed(self, key: PartitionKey, log: StubLog, epoch: LeaderEpoch) -> None:
        """The high watermark of the leader of `epoch` rose: all below it is acknowledged."""
        partition = self._image().partition(*key)
        if partition is None or _is_given_up(partition, epoch):
            return
        ours = self.acknowledged.setdefault(key, [])
        ours += log.entries[len(ours) : log.high_watermark]
        self._check_log(key, log, log.high_watermark, f"the leader in {epoch}")
        self._check_members(key, partition)

    def leads(self, key: PartitionKey, log: StubLog, broker_id: BrokerId, epoch: LeaderEpoch) -> None:
        """A broker begins to lead: it must have everything acknowledged. Unless it learns so late of its election that
        another leads already."""
        partition = self._image().partition(*key)
        if partition is None or partition.leader_epoch > epoch:
            return
        ours = self.acknowledged.get(key, [])
        has_all = log.entries[: len(ours)] == ours
        who = f"broker {broker_id} in {epoch}"
        require(has_all, "a leader has all that was acknowledged", who, key, log.entries, "not", ours, partition)

    def truncated(self, key: PartitionKey, log: StubLog, end: int, partition: Partition) -> None:
        """A follower, whose image has `partition`, is about to cut its log."""
        is_allowed = partition.unclean_epoch is not None and log.last_epoch < partition.unclean_epoch
        is_kept = end >= log.high_watermark or is_allowed
        where = f"to {end}, with {log.high_watermark} of {log.end}"
        require(is_kept, "nothing below a high watermark is cut", key, where, partition)

    def allocated(self, block: ProducerIdBlock) -> None:
        """A broker got producer ids."""
        is_new = block.first % block.count == 0 and block.first not in self._blocks
        require(is_new, "nobody gets the same producer ids", block)
        self._blocks[block.first] = None

    # -- what the metadata tells

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
        """An unclean election: only what the elected has is left."""
        assert partition.leader is not None
        ours = self.acknowledged.get(key, [])
        log = self._log_of(key, partition, partition.leader) or _EMPTY
        kept = 0
        while kept < min(len(ours), log.end) and ours[kept] == log.entries[kept]:
            kept += 1
        self.given_up += len(ours) - kept
        del ours[kept:]

    # -- who must have it

    def _check_members(self, key: PartitionKey, partition: Partition) -> None:
        ours = self.acknowledged.get(key)
        if not ours:
            return
        for broker_id in (*partition.isr, *(replica.broker_id for replica in partition.elr)):
            log = self._log_of(key, partition, broker_id)
            if log is not None:
                self._check_log(key, log, len(ours), f"broker {broker_id}")

    def _check_log(self, key: PartitionKey, log: StubLog, end: int, who: str) -> None:
        """The last stands for all before it."""
        if end > 0:
            ours = self.acknowledged[key][:end]
            has_all = log.end >= end and log.entries[end - 1] == ours[-1]
            evidence = (who, key, log.entries, "not", ours, self._image().partition(*key))
            require(has_all, "who may be elected has all that was acknowledged", *evidence)

    def _log_of(self, key: PartitionKey, partition: Partition, broker_id: BrokerId) -> StubLog | None:
        """None if it is known to the world, and will be to the metadata, that it counts for nothing."""
        eligible = {replica.broker_id: replica.directory_id for replica in partition.elr}
        directory = self._disks[broker_id].find(eligible.get(broker_id) or partition.directory_of(broker_id))
        if directory is None:
            return None  # its disk was replaced
        log = directory.logs.get(key, _EMPTY)
        return None if log.is_corrupt or log.is_doubtful else log

    def is_anywhere(self, key: PartitionKey, partition: Partition) -> bool:
        """Is there a disk with the data of one that may be elected cleanly?"""
        members = (*partition.isr, *(replica.broker_id for replica in partition.elr))
        return any(self._log_of(key, partition, broker_id) is not None for broker_id in members)


def _is_given_up(partition: Partition, epoch: LeaderEpoch) -> bool:
    """What a leader from before an unclean election says does not count."""
    return partition.unclean_epoch is not None and epoch < partition.unclean_epoch
