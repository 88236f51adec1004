"""A client's view of the cluster: broker addresses, topics, and the leader of each partition. Pure.

Descriptions and changes from any node, which may arrive late, and leader hints in errors update it. Updates never
replace newer state: leaders are ordered by leader epoch, in-sync replicas by partition epoch, all else by metadata
index. Updates from another cluster that answers at the same addresses are rejected.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from lograft.clients.cluster.cluster_identity import ClusterIdentity
from lograft.clients.types import HIDDEN_PREFIX
from lograft.proto import cluster_pb2 as pb


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition and its leader epoch. `broker_id` is None if there is no leader."""

    broker_id: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class InSync:
    """The in-sync replicas of a partition, as of a partition epoch."""

    brokers: tuple[int, ...] = ()
    partition_epoch: int = -1


@dataclass(slots=True)
class TopicView:
    """One topic. `leaders` and `in_sync` are by partition. `as_of`: the metadata index of the last update."""

    id: bytes
    name: str
    as_of: int
    is_internal: bool = False
    leaders: list[Leader] = field(default_factory=list)
    in_sync: list[InSync] = field(default_factory=list)

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


class ClusterView:
    """`index`: the metadata index up to which the requested topics are known. `identity`: the cluster it describes."""

    def __init__(self, identity: ClusterIdentity | None = None) -> None:
        self.identity = identity or ClusterIdentity()
        self.index = 0
        self.addresses: dict[int, str] = {}
        self.racks: dict[int, str] = {}  # of brokers that have one
        self._by_name: dict[str, TopicView] = {}
        self._by_id: dict[bytes, TopicView] = {}

    # -- queries

    def topic(self, name: str) -> TopicView | None:
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """Return the names of all known topics, without internal ones and those of the Spark connector."""
        return sorted(
            name
            for name, topic in self._by_name.items()
            if not topic.is_internal and not name.startswith(HIDDEN_PREFIX)
        )

    def topic_of_id(self, topic_id: bytes) -> TopicView | None:
        return self._by_id.get(topic_id)

    def leader(self, topic_id: bytes, partition: int) -> Leader | None:
        """Return the leader of the partition, or None if the partition is unknown."""
        topic = self._by_id.get(topic_id)
        return topic.leaders[partition] if topic is not None and partition < len(topic.leaders) else None

    def in_sync(self, topic_id: bytes, partition: int) -> tuple[int, ...]:
        """Return the partition's in-sync brokers, as far as known."""
        topic = self._by_id.get(topic_id)
        return topic.in_sync[partition].brokers if topic is not None and partition < len(topic.in_sync) else ()

    # -- updates

    def check_cluster(self, description: pb.ClusterDescription) -> None:
        """Raise `WrongCluster` if the description is of another cluster than this view."""
        self.identity.learn(description.cluster_id)

    def take_description(self, description: pb.ClusterDescription, asked: Container[str]) -> None:
        """Apply a complete description of the `asked` topics; it says nothing about others."""
        self.check_cluster(description)
        index = description.metadata_index
        if index < self.index:
            return
        self._known_up_to(index, asked)
        self.addresses, self.racks = {}, {}
        self._take_brokers(description.brokers)
        told = {topic.id for topic in description.topics}
        for topic in list(self._by_id.values()):
            if topic.name in asked and topic.id not in told and topic.as_of <= index:
                self._forget(topic)
        self._take_topics(description.topics, index)

    def take_change(self, change: pb.ClusterChange, asked: Container[str]) -> None:
        """Apply a change of the `asked` topics."""
        is_late = change.metadata_index < self.index
        if change.HasField("description"):
            self.take_description(change.description, asked)
        self._known_up_to(change.metadata_index, asked)
        if not is_late:
            for broker_id in change.removed_brokers:
                self.addresses.pop(broker_id, None)
                self.racks.pop(broker_id, None)
            self._take_brokers(change.brokers)
        for topic_id in change.deleted_topics:
            topic = self._by_id.get(topic_id)
            if topic is not None:
                self._forget(topic)
        # An unknown topic in a late change may have been deleted since.
        topics = [topic for topic in change.topics if not is_late or topic.id in self._by_id]
        self._take_topics(topics, change.metadata_index)

    def _known_up_to(self, index: int, asked: Container[str]) -> None:
        """Advance the index, unless the view has a topic that was not asked for: its changes were not reported."""
        if all(name in asked for name in self._by_name):
            self.index = max(self.index, index)

    def take_some(self, description: pb.ClusterDescription) -> None:
        """Apply a description of newly requested topics; it says nothing about others."""
        self.check_cluster(description)
        index = description.metadata_index
        # Later changes of these topics are unknown, even if the other topics are known up to a later index.
        self.index = min(self.index, index) if self.index else index
        self._take_brokers(broker for broker in description.brokers if broker.id not in self.addresses)
        for topic in description.topics:
            known = self._by_name.get(topic.name)
            if topic.HasField("error") and known is not None and known.as_of <= description.metadata_index:
                self._forget(known)
        self._take_topics(description.topics, description.metadata_index)

    def take_brokers(self, description: pb.ClusterDescription) -> None:
        """Apply the brokers of a complete description; ignore its topics."""
        self.check_cluster(description)
        if description.metadata_index >= self.index:
            self.addresses, self.racks = {}, {}
            self._take_brokers(description.brokers)

    def take_hint(self, topic_id: bytes, partition: int, leader_id: int, epoch: int, address: str | None) -> bool:
        """Apply a leader named in an error. Return True if it is newer than the known one."""
        known = self.leader(topic_id, partition)
        if known is None or epoch <= known.epoch:
            return False
        self._by_id[topic_id].leaders[partition] = Leader(leader_id, epoch)
        if address:
            self.addresses.setdefault(leader_id, address)
        return True

    def _take_brokers(self, brokers: Iterable[pb.Broker]) -> None:
        for broker in brokers:
            self.addresses[broker.id] = broker.address
            if broker.HasField("rack"):
                self.racks[broker.id] = broker.rack
            else:
                self.racks.pop(broker.id, None)

    def _take_topics(self, topics: Iterable[pb.Topic], index: int) -> None:
        for told in topics:
            if told.HasField("error"):
                continue
            topic = self._by_id.get(told.id)
            if topic is None:
                named = self._by_name.get(told.name)
                if named is not None and named.as_of > index:
                    continue  # it was deleted, and another topic has its name
                if named is not None:
                    self._forget(named)
                topic = self._by_id[told.id] = self._by_name[told.name] = TopicView(
                    told.id, told.name, index, told.is_internal
                )
            topic.as_of = max(topic.as_of, index)
            for partition in told.partitions:
                _take_partition(topic, partition)

    def forget_others(self, names: Container[str]) -> None:
        """Drop all topics except these, which alone still receive updates."""
        for topic in list(self._by_id.values()):
            if topic.name not in names:
                self._forget(topic)

    def _forget(self, topic: TopicView) -> None:
        del self._by_id[topic.id]
        if self._by_name.get(topic.name) is topic:
            del self._by_name[topic.name]


def _take_partition(topic: TopicView, told: pb.Partition) -> None:
    while len(topic.leaders) <= told.number:
        topic.leaders.append(Leader(None, -1))
        topic.in_sync.append(InSync())
    if told.leader_epoch > topic.leaders[told.number].epoch:
        topic.leaders[told.number] = Leader(told.leader if told.HasField("leader") else None, told.leader_epoch)
    if told.partition_epoch > topic.in_sync[told.number].partition_epoch:
        topic.in_sync[told.number] = InSync(tuple(told.isr), told.partition_epoch)
