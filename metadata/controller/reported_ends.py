"""Log ends that brokers report with their heartbeats, of partitions without a leader.

Valid only while there is no leader: under a leader, logs are truncated and grow.
"""

from collections.abc import Iterable
from typing import TypeAlias

from lograft.metadata.controller.broker_liveness import Process
from lograft.metadata.decisions.partitions.log_ends import LogEnd, LogEnds
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, TopicId
from lograft.metadata.image.records import PartitionChanged, Record, TopicDeleted
from lograft.metadata.image.state_machine import MachineListener
from lograft.proto.controller_pb2 import BrokerHeartbeatRequest
from lograft.rpc.request_limits import read_uuid

_Key: TypeAlias = tuple[TopicId, int]


class ReportedEnds(MachineListener):
    """The latest report of each broker, by partition. An end that a later heartbeat does not repeat is forgotten."""

    def __init__(self) -> None:
        self._ends: dict[_Key, dict[BrokerId, LogEnd]] = {}
        self._keys: dict[BrokerId, list[_Key]] = {}
        # The index by which each partition without a leader lost it; of those not here it was by `_restored_index`.
        self._lost_index: dict[_Key, int] = {}
        self._restored_index = 0

    @property
    def log_ends(self) -> LogEnds:
        return self._ends

    def note(self, process: Process, heartbeat: BrokerHeartbeatRequest, image: ClusterImage) -> None:
        """Take note of a heartbeat's report. Ignore reports of a process that `image` does not have registered, or that
        it sent before it knew that there is no leader."""
        broker_id, epoch = process
        broker = image.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            return
        self._forget(broker_id)
        for end in heartbeat.log_ends:
            key = (TopicId(read_uuid(end.topic_id, "topic_id")), end.partition)
            partition = image.partition(*key)
            if partition is None or partition.leader is not None or broker_id not in partition.replica_ids:
                continue
            # A heartbeat that was long under way may speak of the time before the last leader.
            if heartbeat.metadata_index >= self._lost_index.get(key, self._restored_index):
                known = LogEnd(epoch, LeaderEpoch(end.last_epoch), end.end_offset, end.is_damaged)
                self._ends.setdefault(key, {})[broker_id] = known
                self._keys.setdefault(broker_id, []).append(key)

    # -- what changes in the metadata

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        for record in records:
            if isinstance(record, PartitionChanged):
                key = (record.topic_id, record.number)
                if record.partition.leader is not None:
                    self._forget_partitions((key,))
                else:
                    self._lost_index.setdefault(key, index)
            elif isinstance(record, TopicDeleted):
                known = [*self._ends, *self._lost_index]
                self._forget_partitions(key for key in known if key[0] == record.topic_id)

    def restored(self, index: int) -> None:
        """Forget everything: there may have been leaders that this node did not hear of."""
        self._ends.clear()
        self._keys.clear()
        self._lost_index.clear()
        self._restored_index = index

    def _forget_partitions(self, keys: Iterable[_Key]) -> None:
        for key in keys:
            self._ends.pop(key, None)
            self._lost_index.pop(key, None)

    def _forget(self, broker_id: BrokerId) -> None:
        for key in self._keys.pop(broker_id, ()):
            of_partition = self._ends.get(key, {})
            of_partition.pop(broker_id, None)
            if not of_partition:
                self._ends.pop(key, None)
