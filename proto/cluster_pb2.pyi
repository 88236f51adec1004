from lograft.proto import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ("topics", "include_internal", "linearizable", "create_missing", "cluster_only")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_INTERNAL_FIELD_NUMBER: _ClassVar[int]
    LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    CREATE_MISSING_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ONLY_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    include_internal: bool
    linearizable: bool
    create_missing: bool
    cluster_only: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., include_internal: _Optional[bool] = ..., linearizable: _Optional[bool] = ..., create_missing: _Optional[bool] = ..., cluster_only: _Optional[bool] = ...) -> None: ...

class ClusterDescription(_message.Message):
    __slots__ = ("cluster_id", "controller_id", "metadata_index", "brokers", "topics")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_INDEX_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller_id: int
    metadata_index: int
    brokers: _containers.RepeatedCompositeFieldContainer[Broker]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    def __init__(self, cluster_id: _Optional[str] = ..., controller_id: _Optional[int] = ..., metadata_index: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[Broker, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ...) -> None: ...

class Broker(_message.Message):
    __slots__ = ("id", "address", "rack", "state", "epoch", "directories", "is_cordoned", "version")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Broker.State]
        FENCED: _ClassVar[Broker.State]
        ACTIVE: _ClassVar[Broker.State]
        SHUTTING_DOWN: _ClassVar[Broker.State]
    UNSPECIFIED: Broker.State
    FENCED: Broker.State
    ACTIVE: Broker.State
    SHUTTING_DOWN: Broker.State
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    IS_CORDONED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: int
    address: str
    rack: str
    state: Broker.State
    epoch: int
    directories: _containers.RepeatedScalarFieldContainer[bytes]
    is_cordoned: bool
    version: str
    def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., state: _Optional[_Union[Broker.State, str]] = ..., epoch: _Optional[int] = ..., directories: _Optional[_Iterable[bytes]] = ..., is_cordoned: _Optional[bool] = ..., version: _Optional[str] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("id", "name", "is_internal", "partitions", "configs", "error")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_INTERNAL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    name: str
    is_internal: bool
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    configs: _containers.ScalarMap[str, str]
    error: _errors_pb2.ErrorDetail
    def __init__(self, id: _Optional[bytes] = ..., name: _Optional[str] = ..., is_internal: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., configs: _Optional[_Mapping[str, str]] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("number", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "elr", "adding", "removing", "unclean_epoch")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ELR_FIELD_NUMBER: _ClassVar[int]
    ADDING_FIELD_NUMBER: _ClassVar[int]
    REMOVING_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    number: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    elr: _containers.RepeatedScalarFieldContainer[int]
    adding: _containers.RepeatedScalarFieldContainer[int]
    removing: _containers.RepeatedScalarFieldContainer[int]
    unclean_epoch: int
    def __init__(self, number: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., elr: _Optional[_Iterable[int]] = ..., adding: _Optional[_Iterable[int]] = ..., removing: _Optional[_Iterable[int]] = ..., unclean_epoch: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("from_index", "topics", "include_internal", "cluster_id")
    FROM_INDEX_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_INTERNAL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    from_index: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    include_internal: bool
    cluster_id: str
    def __init__(self, from_index: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., include_internal: _Optional[bool] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class ClusterChange(_message.Message):
    __slots__ = ("metadata_index", "description", "brokers", "removed_brokers", "topics", "deleted_topics", "controller_id")
    METADATA_INDEX_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    DELETED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    metadata_index: int
    description: ClusterDescription
    brokers: _containers.RepeatedCompositeFieldContainer[Broker]
    removed_brokers: _containers.RepeatedScalarFieldContainer[int]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    deleted_topics: _containers.RepeatedScalarFieldContainer[bytes]
    controller_id: int
    def __init__(self, metadata_index: _Optional[int] = ..., description: _Optional[_Union[ClusterDescription, _Mapping]] = ..., brokers: _Optional[_Iterable[_Union[Broker, _Mapping]]] = ..., removed_brokers: _Optional[_Iterable[int]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., deleted_topics: _Optional[_Iterable[bytes]] = ..., controller_id: _Optional[int] = ...) -> None: ...
