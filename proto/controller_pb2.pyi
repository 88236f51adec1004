from lograft.proto import errors_pb2 as _errors_pb2
from lograft.proto import metadata_pb2 as _metadata_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LatestEpochRequest(_message.Message):
    __slots__ = ("cluster_id", "broker_id")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    broker_id: int
    def __init__(self, cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ...) -> None: ...

class LatestEpochResponse(_message.Message):
    __slots__ = ("broker_epoch",)
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_epoch: int
    def __init__(self, broker_epoch: _Optional[int] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("cluster_id", "broker_id", "incarnation", "address", "rack", "directories", "boot_id", "clean_epoch", "min_feature_level", "max_feature_level", "previous_epoch", "nodes_address", "uses", "version")
    class DirectoryUse(_message.Message):
        __slots__ = ("directory_id", "used_epoch", "is_restored", "damage")
        DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
        USED_EPOCH_FIELD_NUMBER: _ClassVar[int]
        IS_RESTORED_FIELD_NUMBER: _ClassVar[int]
        DAMAGE_FIELD_NUMBER: _ClassVar[int]
        directory_id: bytes
        used_epoch: int
        is_restored: bool
        damage: str
        def __init__(self, directory_id: _Optional[bytes] = ..., used_epoch: _Optional[int] = ..., is_restored: _Optional[bool] = ..., damage: _Optional[str] = ...) -> None: ...
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    CLEAN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MIN_FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODES_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    broker_id: int
    incarnation: bytes
    address: str
    rack: str
    directories: _containers.RepeatedScalarFieldContainer[bytes]
    boot_id: str
    clean_epoch: int
    min_feature_level: int
    max_feature_level: int
    previous_epoch: int
    nodes_address: str
    uses: _containers.RepeatedCompositeFieldContainer[RegisterRequest.DirectoryUse]
    version: str
    def __init__(self, cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., directories: _Optional[_Iterable[bytes]] = ..., boot_id: _Optional[str] = ..., clean_epoch: _Optional[int] = ..., min_feature_level: _Optional[int] = ..., max_feature_level: _Optional[int] = ..., previous_epoch: _Optional[int] = ..., nodes_address: _Optional[str] = ..., uses: _Optional[_Iterable[_Union[RegisterRequest.DirectoryUse, _Mapping]]] = ..., version: _Optional[str] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("broker_epoch", "index", "stale_directories")
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STALE_DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    broker_epoch: int
    index: int
    stale_directories: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, broker_epoch: _Optional[int] = ..., index: _Optional[int] = ..., stale_directories: _Optional[_Iterable[bytes]] = ...) -> None: ...

class BrokerHeartbeatRequest(_message.Message):
    __slots__ = ("cluster_id", "broker_id", "broker_epoch", "metadata_index", "wanted", "log_ends", "full_directories")
    class Wanted(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[BrokerHeartbeatRequest.Wanted]
        RUN: _ClassVar[BrokerHeartbeatRequest.Wanted]
        READY: _ClassVar[BrokerHeartbeatRequest.Wanted]
        SHUT_DOWN: _ClassVar[BrokerHeartbeatRequest.Wanted]
    UNSPECIFIED: BrokerHeartbeatRequest.Wanted
    RUN: BrokerHeartbeatRequest.Wanted
    READY: BrokerHeartbeatRequest.Wanted
    SHUT_DOWN: BrokerHeartbeatRequest.Wanted
    class LogEnd(_message.Message):
        __slots__ = ("topic_id", "partition", "last_epoch", "end_offset", "is_damaged")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
        END_OFFSET_FIELD_NUMBER: _ClassVar[int]
        IS_DAMAGED_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        last_epoch: int
        end_offset: int
        is_damaged: bool
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., last_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ..., is_damaged: _Optional[bool] = ...) -> None: ...
    class FullDirectory(_message.Message):
        __slots__ = ("directory_id", "is_critical")
        DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
        IS_CRITICAL_FIELD_NUMBER: _ClassVar[int]
        directory_id: bytes
        is_critical: bool
        def __init__(self, directory_id: _Optional[bytes] = ..., is_critical: _Optional[bool] = ...) -> None: ...
    class FullDirectories(_message.Message):
        __slots__ = ("directories",)
        DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
        directories: _containers.RepeatedCompositeFieldContainer[BrokerHeartbeatRequest.FullDirectory]
        def __init__(self, directories: _Optional[_Iterable[_Union[BrokerHeartbeatRequest.FullDirectory, _Mapping]]] = ...) -> None: ...
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_INDEX_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    LOG_ENDS_FIELD_NUMBER: _ClassVar[int]
    FULL_DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    broker_id: int
    broker_epoch: int
    metadata_index: int
    wanted: BrokerHeartbeatRequest.Wanted
    log_ends: _containers.RepeatedCompositeFieldContainer[BrokerHeartbeatRequest.LogEnd]
    full_directories: BrokerHeartbeatRequest.FullDirectories
    def __init__(self, cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., metadata_index: _Optional[int] = ..., wanted: _Optional[_Union[BrokerHeartbeatRequest.Wanted, str]] = ..., log_ends: _Optional[_Iterable[_Union[BrokerHeartbeatRequest.LogEnd, _Mapping]]] = ..., full_directories: _Optional[_Union[BrokerHeartbeatRequest.FullDirectories, _Mapping]] = ...) -> None: ...

class BrokerHeartbeatResponse(_message.Message):
    __slots__ = ("is_active", "active_id", "active_address", "commit_index", "state", "may_stop", "error")
    IS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MAY_STOP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    is_active: bool
    active_id: int
    active_address: str
    commit_index: int
    state: _metadata_pb2.BrokerState
    may_stop: bool
    error: _errors_pb2.ErrorDetail
    def __init__(self, is_active: _Optional[bool] = ..., active_id: _Optional[int] = ..., active_address: _Optional[str] = ..., commit_index: _Optional[int] = ..., state: _Optional[_Union[_metadata_pb2.BrokerState, str]] = ..., may_stop: _Optional[bool] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class FollowRequest(_message.Message):
    __slots__ = ("cluster_id", "node_id", "from_index")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    node_id: int
    from_index: int
    def __init__(self, cluster_id: _Optional[str] = ..., node_id: _Optional[int] = ..., from_index: _Optional[int] = ...) -> None: ...

class FollowResponse(_message.Message):
    __slots__ = ("applied_index", "snapshot", "deltas", "alive")
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DELTAS_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    applied_index: int
    snapshot: MetadataSnapshotPart
    deltas: MetadataDeltas
    alive: Alive
    def __init__(self, applied_index: _Optional[int] = ..., snapshot: _Optional[_Union[MetadataSnapshotPart, _Mapping]] = ..., deltas: _Optional[_Union[MetadataDeltas, _Mapping]] = ..., alive: _Optional[_Union[Alive, _Mapping]] = ...) -> None: ...

class MetadataSnapshotPart(_message.Message):
    __slots__ = ("index", "data")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    index: int
    data: bytes
    def __init__(self, index: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class MetadataDeltas(_message.Message):
    __slots__ = ("deltas",)
    DELTAS_FIELD_NUMBER: _ClassVar[int]
    deltas: _containers.RepeatedCompositeFieldContainer[MetadataDelta]
    def __init__(self, deltas: _Optional[_Iterable[_Union[MetadataDelta, _Mapping]]] = ...) -> None: ...

class MetadataDelta(_message.Message):
    __slots__ = ("index", "records")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    index: int
    records: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.MetadataRecord]
    def __init__(self, index: _Optional[int] = ..., records: _Optional[_Iterable[_Union[_metadata_pb2.MetadataRecord, _Mapping]]] = ...) -> None: ...

class Alive(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AlterPartitionsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "items")
    class Member(_message.Message):
        __slots__ = ("broker_id", "broker_epoch", "directory_id")
        BROKER_ID_FIELD_NUMBER: _ClassVar[int]
        BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
        broker_id: int
        broker_epoch: int
        directory_id: bytes
        def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., directory_id: _Optional[bytes] = ...) -> None: ...
    class Item(_message.Message):
        __slots__ = ("topic_id", "partition", "leader_epoch", "partition_epoch", "isr")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
        ISR_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        leader_epoch: int
        partition_epoch: int
        isr: _containers.RepeatedCompositeFieldContainer[AlterPartitionsRequest.Member]
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[_Union[AlterPartitionsRequest.Member, _Mapping]]] = ...) -> None: ...
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    items: _containers.RepeatedCompositeFieldContainer[AlterPartitionsRequest.Item]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., items: _Optional[_Iterable[_Union[AlterPartitionsRequest.Item, _Mapping]]] = ...) -> None: ...

class AlterPartitionsResponse(_message.Message):
    __slots__ = ("index", "results")
    class Result(_message.Message):
        __slots__ = ("topic_id", "partition", "error", "leader_epoch", "partition_epoch", "isr")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
        ISR_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        error: _errors_pb2.ErrorDetail
        leader_epoch: int
        partition_epoch: int
        isr: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ...) -> None: ...
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    index: int
    results: _containers.RepeatedCompositeFieldContainer[AlterPartitionsResponse.Result]
    def __init__(self, index: _Optional[int] = ..., results: _Optional[_Iterable[_Union[AlterPartitionsResponse.Result, _Mapping]]] = ...) -> None: ...

class ReportFailuresRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "failed_directories", "corrupt_replicas", "reason")
    class CorruptReplica(_message.Message):
        __slots__ = ("topic_id", "partition")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    FAILED_DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    CORRUPT_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    failed_directories: _containers.RepeatedScalarFieldContainer[bytes]
    corrupt_replicas: _containers.RepeatedCompositeFieldContainer[ReportFailuresRequest.CorruptReplica]
    reason: str
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., failed_directories: _Optional[_Iterable[bytes]] = ..., corrupt_replicas: _Optional[_Iterable[_Union[ReportFailuresRequest.CorruptReplica, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class ReportFailuresResponse(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsResponse(_message.Message):
    __slots__ = ("first", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class CreateInternalTopicRequest(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "name", "topic_id")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    name: str
    topic_id: bytes
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., name: _Optional[str] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class CreateInternalTopicResponse(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class MetadataIndexRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MetadataIndexResponse(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...
