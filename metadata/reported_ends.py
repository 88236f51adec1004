"""What brokers say, with their heartbeats, about the ends of logs that have no leader.

Only while there is no leader: under one, logs are cut and grow.
"""

from collections.abc import Iterable

from lograft.metadata.image import ClusterImage
from lograft.metadata.log_ends import LogEnd, LogEnds
from lograft.metadata.machine import MachineListener
from lograft.metadata.partition import BrokerId, LeaderEpoch, TopicId
from lograft.metadata.records import PartitionChanged, Record
from lograft.metadata.sessions import Process
from lograft.metadata.wire import read_uuid
from lograft.proto.controller_pb2 import BrokerHeartbeatRequest


class ReportedEnds(MachineListener):
    """The latest word of each broker, by partition. What a later heartbeat does not repeat is forgotten."""

    def __init__(self) -> None:
        self._ends: dict[tuple[TopicId, int], dict[BrokerId, LogEnd]] = {}
        self._keys: dict[BrokerId, list[tuple[TopicId, int]]] = {}

    @property
    def log_ends(self) -> LogEnds:
        return self._ends

    def note(self, process: Process, reported: Iterable[BrokerHeartbeatRequest.LogEnd], image: ClusterImage) -> None:
        """`image`: what this controller knows; a report on what it knows otherwise is passed over."""
        broker_id, epoch = process
        self._forget(broker_id)
        for end in reported:
            key = (TopicId(read_uuid(end.topic_id, "topic_id")), end.partition)
            partition = image.partition(*key)
            if partition is not None and partition.leader is None and broker_id in partition.replica_ids:
                known = LogEnd(epoch, LeaderEpoch(end.last_epoch), end.end_offset)
                self._ends.setdefault(key, {})[broker_id] = known
                self._keys.setdefault(broker_id, []).append(key)

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        for record in records:
            if isinstance(record, PartitionChanged) and record.partition.leader is not None:
                self._ends.pop((record.topic_id, record.number), None)

    def _forget(self, broker_id: BrokerId) -> None:
        for key in self._keys.pop(broker_id, ()):
            of_partition = self._ends.get(key, {})
            of_partition.pop(broker_id, None)
            if not of_partition:
                self._ends.pop(key, None)
