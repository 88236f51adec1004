"""The records of the metadata log to bytes and back. Pure.

Other bytes are a `CodecError`; so is a record of a kind that this version does not know, because it cannot be left out.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID

from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.partition import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Partition,
    PartitionEpoch,
    Replica,
    TopicId,
)
from lograft.metadata.image.records import (
    BrokerEpochsUsed,
    BrokerRegistered,
    BrokerStateChanged,
    BrokerUnregistered,
    ConfigChanged,
    ConfigResource,
    FeatureLevelChanged,
    Operation,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceKind,
    TopicCreated,
    TopicDeleted,
)
from lograft.proto import metadata_pb2 as pb
from lograft.proto.wire_format import CodecError
from lograft.raft.store.state_codec import parse

__all__ = ["CodecError", "decode_operation", "decode_records", "encode_operation", "encode_record", "encode_records"]

_UUID_BYTES = 16

K = TypeVar("K")


def encode_operation(operation: Operation) -> bytes:
    message = pb.MetadataOperation(base_sequence=operation.base_sequence)
    for record in operation.records:
        _fill(message.records.add(), record)
    return message.SerializeToString()


def decode_operation(data: bytes) -> Operation:
    """Return the operation that `encode_operation` encoded."""
    message = parse(pb.MetadataOperation, data)
    return Operation(message.base_sequence, decode_records(message.records))


def encode_records(records: Iterable[Record]) -> list[pb.MetadataRecord]:
    return [encode_record(record) for record in records]


def encode_record(record: Record) -> pb.MetadataRecord:
    message = pb.MetadataRecord()
    _fill(message, record)
    return message


def decode_records(messages: Iterable[pb.MetadataRecord]) -> tuple[Record, ...]:
    """Return the records that `encode_records` encoded."""
    return tuple([_read(message) for message in messages])


def _fill(target: pb.MetadataRecord, record: Record) -> None:
    name, fill = _FILLERS[type(record)]
    fill(getattr(target, name), record)


def _read(source: pb.MetadataRecord) -> Record:
    name = source.WhichOneof("record")
    if name is None:
        raise CodecError("a record of a kind that this version does not know, or none; is the node's version too old?")
    return _READERS[name](getattr(source, name))


# -- partitions


def _fill_partition(target: pb.PartitionChanged, record: PartitionChanged) -> None:
    partition = record.partition
    target.topic_id = record.topic_id.bytes
    target.number = record.number
    target.replicas.extend([replica.broker_id for replica in partition.replicas])
    target.directories.extend([replica.directory_id.bytes for replica in partition.replicas])
    target.isr.extend(partition.isr)
    if partition.leader is not None:
        target.leader = partition.leader
    target.leader_epoch = partition.leader_epoch
    target.partition_epoch = partition.partition_epoch
    # Most partitions do not have the following fields.
    if partition.elr:
        target.elr.extend([replica.broker_id for replica in partition.elr])
        target.elr_directories.extend([replica.directory_id.bytes for replica in partition.elr])
    if partition.target:
        target.target.extend(partition.target)
    if partition.adding:
        target.adding.extend(partition.adding)
    if partition.unclean_epoch is not None:
        target.unclean_epoch = partition.unclean_epoch


def _read_partition(source: pb.PartitionChanged) -> PartitionChanged:
    partition = Partition(
        replicas=_read_replicas(source.replicas, source.directories),
        isr=_brokers(source.isr),
        leader=BrokerId(source.leader) if source.HasField("leader") else None,
        leader_epoch=LeaderEpoch(source.leader_epoch),
        partition_epoch=PartitionEpoch(source.partition_epoch),
        elr=_read_replicas(source.elr, source.elr_directories),
        target=_brokers(source.target),
        adding=_brokers(source.adding),
        unclean_epoch=LeaderEpoch(source.unclean_epoch) if source.HasField("unclean_epoch") else None,
    )
    return PartitionChanged(TopicId(_uuid(source.topic_id)), source.number, partition)


def _brokers(ids: Sequence[int]) -> tuple[BrokerId, ...]:
    # Of a field of a message a slice is a list, which is quicker to go through than the field.
    return tuple(ids[:])  # type: ignore[arg-type]  # these are BrokerIds; to say so of each takes longer than the rest


def _read_replicas(ids: Sequence[int], directories: Sequence[bytes]) -> tuple[Replica, ...]:
    if len(ids) != len(directories):
        raise CodecError(f"{len(ids)} replicas in {len(directories)} directories")
    return tuple(map(_replica, ids[:], directories[:])) if ids else ()


@lru_cache(maxsize=8192)  # a cluster has few directories and many replicas in them: they share the objects
def _replica(broker_id: int, directory_id: bytes) -> Replica:
    return Replica(BrokerId(broker_id), _uuid(directory_id))


@lru_cache(maxsize=8192)  # a UUID takes longer to make than the rest of a record
def _uuid(data: bytes) -> UUID:
    if len(data) != _UUID_BYTES:
        raise CodecError(f"an id of {len(data)} bytes, not {_UUID_BYTES}")
    return UUID(bytes=data)


# -- brokers


def _fill_registered(target: pb.BrokerRegistered, record: BrokerRegistered) -> None:
    broker = record.broker
    target.broker_id = broker.broker_id
    target.epoch = broker.epoch
    target.incarnation = broker.incarnation.bytes
    target.address = broker.address
    if broker.rack is not None:
        target.rack = broker.rack
    target.directories.extend([directory.bytes for directory in broker.directories])
    target.boot_id = broker.boot_id
    target.state = _NUMBER_OF_STATE[broker.state]
    if broker.nodes_address is not None:
        target.nodes_address = broker.nodes_address
    target.names_used_epochs = broker.names_used_epochs
    if broker.version is not None:
        target.version = broker.version


def _read_registered(source: pb.BrokerRegistered) -> BrokerRegistered:
    broker = Broker(
        broker_id=BrokerId(source.broker_id),
        epoch=BrokerEpoch(source.epoch),
        incarnation=_uuid(source.incarnation),
        address=source.address,
        rack=source.rack if source.HasField("rack") else None,
        directories=tuple(map(_uuid, source.directories)),
        boot_id=source.boot_id,
        state=_known(_STATES, source.state, "state of a broker"),
        nodes_address=source.nodes_address if source.HasField("nodes_address") else None,
        names_used_epochs=source.names_used_epochs,
        version=source.version if source.HasField("version") else None,
    )
    return BrokerRegistered(broker)


def _fill_state(target: pb.BrokerStateChanged, record: BrokerStateChanged) -> None:
    target.broker_id = record.broker_id
    target.epoch = record.epoch
    target.state = _NUMBER_OF_STATE[record.state]


def _read_state(source: pb.BrokerStateChanged) -> BrokerStateChanged:
    state = _known(_STATES, source.state, "state of a broker")
    return BrokerStateChanged(BrokerId(source.broker_id), BrokerEpoch(source.epoch), state)


def _fill_unregistered(target: pb.BrokerUnregistered, record: BrokerUnregistered) -> None:
    target.broker_id = record.broker_id


def _read_unregistered(source: pb.BrokerUnregistered) -> BrokerUnregistered:
    return BrokerUnregistered(BrokerId(source.broker_id))


def _fill_epochs_used(target: pb.BrokerEpochsUsed, record: BrokerEpochsUsed) -> None:
    target.last = record.last
    for directory_id, epoch in record.confirmed:
        target.confirmed.add(directory_id=directory_id.bytes, epoch=epoch)


def _read_epochs_used(source: pb.BrokerEpochsUsed) -> BrokerEpochsUsed:
    confirmed = tuple((_uuid(one.directory_id), BrokerEpoch(one.epoch)) for one in source.confirmed)
    return BrokerEpochsUsed(BrokerEpoch(source.last), confirmed)


# -- topics, configuration and the rest


def _fill_created(target: pb.TopicCreated, record: TopicCreated) -> None:
    target.topic_id = record.topic_id.bytes
    target.name = record.name


def _read_created(source: pb.TopicCreated) -> TopicCreated:
    return TopicCreated(TopicId(_uuid(source.topic_id)), source.name)


def _fill_deleted(target: pb.TopicDeleted, record: TopicDeleted) -> None:
    target.topic_id = record.topic_id.bytes


def _read_deleted(source: pb.TopicDeleted) -> TopicDeleted:
    return TopicDeleted(TopicId(_uuid(source.topic_id)))


def _fill_config(target: pb.ConfigChanged, record: ConfigChanged) -> None:
    target.kind = _NUMBER_OF_KIND[record.resource.kind]
    target.name = record.resource.name
    target.key = record.key
    if record.value is not None:
        target.value = record.value


def _read_config(source: pb.ConfigChanged) -> ConfigChanged:
    resource = ConfigResource(_known(_KINDS, source.kind, "kind of resource"), source.name)
    return ConfigChanged(resource, source.key, source.value if source.HasField("value") else None)


def _fill_producer_ids(target: pb.ProducerIdsAllocated, record: ProducerIdsAllocated) -> None:
    target.next_id = record.next_id


def _read_producer_ids(source: pb.ProducerIdsAllocated) -> ProducerIdsAllocated:
    return ProducerIdsAllocated(source.next_id)


def _fill_feature_level(target: pb.FeatureLevelChanged, record: FeatureLevelChanged) -> None:
    target.level = record.level


def _read_feature_level(source: pb.FeatureLevelChanged) -> FeatureLevelChanged:
    return FeatureLevelChanged(source.level)


def _known(table: dict[int, K], number: int, what: str) -> K:
    value = table.get(number)
    if value is None:
        raise CodecError(f"{number} is no {what} that this version knows")
    return value


_STATES: dict[int, BrokerState] = {
    pb.BROKER_STATE_FENCED: BrokerState.FENCED,
    pb.BROKER_STATE_ACTIVE: BrokerState.ACTIVE,
    pb.BROKER_STATE_SHUTTING_DOWN: BrokerState.SHUTTING_DOWN,
}
_KINDS: dict[int, ResourceKind] = {
    pb.ConfigChanged.TOPIC: ResourceKind.TOPIC,
    pb.ConfigChanged.BROKER: ResourceKind.BROKER,
    pb.ConfigChanged.CLUSTER: ResourceKind.CLUSTER,
}
_NUMBER_OF_STATE: dict[BrokerState, Any] = {state: number for number, state in _STATES.items()}
_NUMBER_OF_KIND: dict[ResourceKind, Any] = {kind: number for number, kind in _KINDS.items()}

# Of each kind of record: the field it travels in, how it is written there and how it is read.
_KINDS_OF_RECORD: tuple[tuple[type, str, Callable[[Any, Any], None], Callable[[Any], Record]], ...] = (
    (BrokerRegistered, "broker_registered", _fill_registered, _read_registered),
    (BrokerStateChanged, "broker_state_changed", _fill_state, _read_state),
    (BrokerUnregistered, "broker_unregistered", _fill_unregistered, _read_unregistered),
    (BrokerEpochsUsed, "broker_epochs_used", _fill_epochs_used, _read_epochs_used),
    (TopicCreated, "topic_created", _fill_created, _read_created),
    (TopicDeleted, "topic_deleted", _fill_deleted, _read_deleted),
    (PartitionChanged, "partition_changed", _fill_partition, _read_partition),
    (ConfigChanged, "config_changed", _fill_config, _read_config),
    (ProducerIdsAllocated, "producer_ids_allocated", _fill_producer_ids, _read_producer_ids),
    (FeatureLevelChanged, "feature_level_changed", _fill_feature_level, _read_feature_level),
)
_FILLERS = {kind: (name, fill) for kind, name, fill, _ in _KINDS_OF_RECORD}
_READERS = {name: read for _, name, _, read in _KINDS_OF_RECORD}
