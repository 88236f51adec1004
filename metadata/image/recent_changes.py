"""Keys of what the latest operations changed, for clients that watch the cluster. Pure."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.metadata.image.records import (
    BrokerRegistered,
    BrokerStateChanged,
    BrokerUnregistered,
    ConfigChanged,
    PartitionChanged,
    Record,
    ResourceKind,
    TopicCreated,
    TopicDeleted,
)

MAX_REMEMBERED_RECORDS = 50_000


@dataclass(slots=True)
class ChangedKeys:
    """Brokers and topics that changed, are new or gone, and of each topic the changed partitions. Keys of the latest
    operation come first."""

    brokers: dict[BrokerId, None] = field(default_factory=dict)
    topics: dict[TopicId, dict[int, None]] = field(default_factory=dict)

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            match record:
                case PartitionChanged(topic_id=topic_id, number=number):
                    self.topics.setdefault(topic_id, {})[number] = None
                case TopicCreated(topic_id=topic_id) | TopicDeleted(topic_id=topic_id):
                    self.topics.setdefault(topic_id, {})
                case ConfigChanged(resource=resource) if resource.kind is ResourceKind.TOPIC:
                    self.topics.setdefault(TopicId(UUID(resource.name)), {})
                case ConfigChanged(resource=resource) if resource.kind is ResourceKind.BROKER:
                    self.brokers[BrokerId(int(resource.name))] = None
                case BrokerRegistered(broker=broker):
                    self.brokers[broker.broker_id] = None
                case BrokerStateChanged(broker_id=broker_id) | BrokerUnregistered(broker_id=broker_id):
                    self.brokers[broker_id] = None
                case _:
                    pass  # nothing that watchers hear of


class RecentChanges:
    """The records of every operation after index `floor`; older ones are forgotten as new ones come."""

    def __init__(self, floor: int, max_records: int) -> None:
        self.floor = floor
        self._max_records = max_records
        self._count = 0
        self._operations: deque[tuple[int, tuple[Record, ...]]] = deque()

    def add(self, index: int, records: tuple[Record, ...]) -> None:
        assert index > self.floor, f"operation {index} after {self.floor}"
        self._operations.append((index, records))
        self._count += len(records)
        while self._count > self._max_records:
            self.floor, forgotten = self._operations.popleft()
            self._count -= len(forgotten)

    def restart(self, index: int) -> None:
        """Forget all records: changes before `index` are unknown, and the next one follows it."""
        self.floor, self._count = index, 0
        self._operations.clear()

    def since(self, index: int) -> ChangedKeys | None:
        """Return the keys that changed after `index`; None if some of the changes are forgotten."""
        if index < self.floor:
            return None
        touched = ChangedKeys()
        for operation_index, records in reversed(self._operations):
            if operation_index <= index:
                break
            touched.add(records)
        return touched
