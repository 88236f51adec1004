from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BrokerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BROKER_STATE_UNSPECIFIED: _ClassVar[BrokerState]
    BROKER_STATE_FENCED: _ClassVar[BrokerState]
    BROKER_STATE_ACTIVE: _ClassVar[BrokerState]
    BROKER_STATE_SHUTTING_DOWN: _ClassVar[BrokerState]
BROKER_STATE_UNSPECIFIED: BrokerState
BROKER_STATE_FENCED: BrokerState
BROKER_STATE_ACTIVE: BrokerState
BROKER_STATE_SHUTTING_DOWN: BrokerState

class BrokerRegistered(_message.Message):
    __slots__ = ("broker_id", "epoch", "incarnation", "address", "rack", "directories", "boot_id", "state", "nodes_address", "names_used_epochs", "version")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NODES_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    NAMES_USED_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    epoch: int
    incarnation: bytes
    address: str
    rack: str
    directories: _containers.RepeatedScalarFieldContainer[bytes]
    boot_id: str
    state: BrokerState
    nodes_address: str
    names_used_epochs: bool
    version: str
    def __init__(self, broker_id: _Optional[int] = ..., epoch: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., directories: _Optional[_Iterable[bytes]] = ..., boot_id: _Optional[str] = ..., state: _Optional[_Union[BrokerState, str]] = ..., nodes_address: _Optional[str] = ..., names_used_epochs: _Optional[bool] = ..., version: _Optional[str] = ...) -> None: ...

class BrokerStateChanged(_message.Message):
    __slots__ = ("broker_id", "epoch", "state")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    epoch: int
    state: BrokerState
    def __init__(self, broker_id: _Optional[int] = ..., epoch: _Optional[int] = ..., state: _Optional[_Union[BrokerState, str]] = ...) -> None: ...

class BrokerUnregistered(_message.Message):
    __slots__ = ("broker_id",)
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    def __init__(self, broker_id: _Optional[int] = ...) -> None: ...

class BrokerEpochsUsed(_message.Message):
    __slots__ = ("last", "confirmed")
    class Confirmed(_message.Message):
        __slots__ = ("directory_id", "epoch")
        DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
        EPOCH_FIELD_NUMBER: _ClassVar[int]
        directory_id: bytes
        epoch: int
        def __init__(self, directory_id: _Optional[bytes] = ..., epoch: _Optional[int] = ...) -> None: ...
    LAST_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    last: int
    confirmed: _containers.RepeatedCompositeFieldContainer[BrokerEpochsUsed.Confirmed]
    def __init__(self, last: _Optional[int] = ..., confirmed: _Optional[_Iterable[_Union[BrokerEpochsUsed.Confirmed, _Mapping]]] = ...) -> None: ...

class TopicCreated(_message.Message):
    __slots__ = ("topic_id", "name")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    name: str
    def __init__(self, topic_id: _Optional[bytes] = ..., name: _Optional[str] = ...) -> None: ...

class TopicDeleted(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    def __init__(self, topic_id: _Optional[bytes] = ...) -> None: ...

class PartitionChanged(_message.Message):
    __slots__ = ("topic_id", "number", "replicas", "directories", "isr", "leader", "leader_epoch", "partition_epoch", "elr", "elr_directories", "target", "adding", "unclean_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ELR_FIELD_NUMBER: _ClassVar[int]
    ELR_DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ADDING_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    number: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    directories: _containers.RepeatedScalarFieldContainer[bytes]
    isr: _containers.RepeatedScalarFieldContainer[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: _containers.RepeatedScalarFieldContainer[int]
    elr_directories: _containers.RepeatedScalarFieldContainer[bytes]
    target: _containers.RepeatedScalarFieldContainer[int]
    adding: _containers.RepeatedScalarFieldContainer[int]
    unclean_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., number: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., directories: _Optional[_Iterable[bytes]] = ..., isr: _Optional[_Iterable[int]] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., elr: _Optional[_Iterable[int]] = ..., elr_directories: _Optional[_Iterable[bytes]] = ..., target: _Optional[_Iterable[int]] = ..., adding: _Optional[_Iterable[int]] = ..., unclean_epoch: _Optional[int] = ...) -> None: ...

class ConfigChanged(_message.Message):
    __slots__ = ("kind", "name", "key", "value")
    class ResourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[ConfigChanged.ResourceKind]
        TOPIC: _ClassVar[ConfigChanged.ResourceKind]
        BROKER: _ClassVar[ConfigChanged.ResourceKind]
        CLUSTER: _ClassVar[ConfigChanged.ResourceKind]
    UNSPECIFIED: ConfigChanged.ResourceKind
    TOPIC: ConfigChanged.ResourceKind
    BROKER: ConfigChanged.ResourceKind
    CLUSTER: ConfigChanged.ResourceKind
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    kind: ConfigChanged.ResourceKind
    name: str
    key: str
    value: str
    def __init__(self, kind: _Optional[_Union[ConfigChanged.ResourceKind, str]] = ..., name: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class ProducerIdsAllocated(_message.Message):
    __slots__ = ("next_id",)
    NEXT_ID_FIELD_NUMBER: _ClassVar[int]
    next_id: int
    def __init__(self, next_id: _Optional[int] = ...) -> None: ...

class FeatureLevelChanged(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: int
    def __init__(self, level: _Optional[int] = ...) -> None: ...

class MetadataRecord(_message.Message):
    __slots__ = ("broker_registered", "broker_state_changed", "broker_unregistered", "broker_epochs_used", "topic_created", "topic_deleted", "partition_changed", "config_changed", "producer_ids_allocated", "feature_level_changed")
    BROKER_REGISTERED_FIELD_NUMBER: _ClassVar[int]
    BROKER_STATE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    BROKER_UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCHS_USED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_CREATED_FIELD_NUMBER: _ClassVar[int]
    TOPIC_DELETED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_CHANGED_FIELD_NUMBER: _ClassVar[int]
    CONFIG_CHANGED_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_IDS_ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_CHANGED_FIELD_NUMBER: _ClassVar[int]
    broker_registered: BrokerRegistered
    broker_state_changed: BrokerStateChanged
    broker_unregistered: BrokerUnregistered
    broker_epochs_used: BrokerEpochsUsed
    topic_created: TopicCreated
    topic_deleted: TopicDeleted
    partition_changed: PartitionChanged
    config_changed: ConfigChanged
    producer_ids_allocated: ProducerIdsAllocated
    feature_level_changed: FeatureLevelChanged
    def __init__(self, broker_registered: _Optional[_Union[BrokerRegistered, _Mapping]] = ..., broker_state_changed: _Optional[_Union[BrokerStateChanged, _Mapping]] = ..., broker_unregistered: _Optional[_Union[BrokerUnregistered, _Mapping]] = ..., broker_epochs_used: _Optional[_Union[BrokerEpochsUsed, _Mapping]] = ..., topic_created: _Optional[_Union[TopicCreated, _Mapping]] = ..., topic_deleted: _Optional[_Union[TopicDeleted, _Mapping]] = ..., partition_changed: _Optional[_Union[PartitionChanged, _Mapping]] = ..., config_changed: _Optional[_Union[ConfigChanged, _Mapping]] = ..., producer_ids_allocated: _Optional[_Union[ProducerIdsAllocated, _Mapping]] = ..., feature_level_changed: _Optional[_Union[FeatureLevelChanged, _Mapping]] = ...) -> None: ...

class MetadataOperation(_message.Message):
    __slots__ = ("base_sequence", "records")
    BASE_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    base_sequence: int
    records: _containers.RepeatedCompositeFieldContainer[MetadataRecord]
    def __init__(self, base_sequence: _Optional[int] = ..., records: _Optional[_Iterable[_Union[MetadataRecord, _Mapping]]] = ...) -> None: ...

class MetadataSnapshot(_message.Message):
    __slots__ = ("sequence", "records", "part", "is_last")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    records: _containers.RepeatedCompositeFieldContainer[MetadataRecord]
    part: int
    is_last: bool
    def __init__(self, sequence: _Optional[int] = ..., records: _Optional[_Iterable[_Union[MetadataRecord, _Mapping]]] = ..., part: _Optional[int] = ..., is_last: _Optional[bool] = ...) -> None: ...
