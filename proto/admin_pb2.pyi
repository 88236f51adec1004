from lograft.proto import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateTopicsRequest(_message.Message):
    __slots__ = ("topics", "validate_only", "timeout_ms")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[NewTopic]
    validate_only: bool
    timeout_ms: int
    def __init__(self, topics: _Optional[_Iterable[_Union[NewTopic, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class NewTopic(_message.Message):
    __slots__ = ("name", "topic_id", "partitions", "replication_factor", "assignments", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    assignments: _containers.RepeatedCompositeFieldContainer[ReplicaAssignment]
    configs: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[ReplicaAssignment, _Mapping]]] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ReplicaAssignment(_message.Message):
    __slots__ = ("broker_ids",)
    BROKER_IDS_FIELD_NUMBER: _ClassVar[int]
    broker_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, broker_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateTopicsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("name", "topic_id", "already_existed", "partitions", "replication_factor", "error")
        NAME_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        ALREADY_EXISTED_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        name: str
        topic_id: bytes
        already_existed: bool
        partitions: int
        replication_factor: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., already_existed: _Optional[bool] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CreateTopicsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[CreateTopicsResponse.Result, _Mapping]]] = ...) -> None: ...

class TopicReference(_message.Message):
    __slots__ = ("name", "topic_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class DeleteTopicsRequest(_message.Message):
    __slots__ = ("topics", "validate_only", "timeout_ms")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicReference]
    validate_only: bool
    timeout_ms: int
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicReference, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class DeleteTopicsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("name", "topic_id", "error")
        NAME_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        name: str
        topic_id: bytes
        error: _errors_pb2.ErrorDetail
        def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DeleteTopicsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[DeleteTopicsResponse.Result, _Mapping]]] = ...) -> None: ...

class CreatePartitionsRequest(_message.Message):
    __slots__ = ("items", "validate_only", "timeout_ms")
    class Item(_message.Message):
        __slots__ = ("topic", "total", "assignments")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        TOTAL_FIELD_NUMBER: _ClassVar[int]
        ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
        topic: TopicReference
        total: int
        assignments: _containers.RepeatedCompositeFieldContainer[ReplicaAssignment]
        def __init__(self, topic: _Optional[_Union[TopicReference, _Mapping]] = ..., total: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[ReplicaAssignment, _Mapping]]] = ...) -> None: ...
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[CreatePartitionsRequest.Item]
    validate_only: bool
    timeout_ms: int
    def __init__(self, items: _Optional[_Iterable[_Union[CreatePartitionsRequest.Item, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class CreatePartitionsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("name", "topic_id", "partitions", "error")
        NAME_FIELD_NUMBER: _ClassVar[int]
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        name: str
        topic_id: bytes
        partitions: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CreatePartitionsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[CreatePartitionsResponse.Result, _Mapping]]] = ...) -> None: ...

class ConfigResource(_message.Message):
    __slots__ = ("kind", "name", "topic_id")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[ConfigResource.Kind]
        TOPIC: _ClassVar[ConfigResource.Kind]
        BROKER: _ClassVar[ConfigResource.Kind]
        CLUSTER: _ClassVar[ConfigResource.Kind]
    UNSPECIFIED: ConfigResource.Kind
    TOPIC: ConfigResource.Kind
    BROKER: ConfigResource.Kind
    CLUSTER: ConfigResource.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    kind: ConfigResource.Kind
    name: str
    topic_id: bytes
    def __init__(self, kind: _Optional[_Union[ConfigResource.Kind, str]] = ..., name: _Optional[str] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class DescribeConfigsRequest(_message.Message):
    __slots__ = ("items",)
    class Item(_message.Message):
        __slots__ = ("resource", "keys")
        RESOURCE_FIELD_NUMBER: _ClassVar[int]
        KEYS_FIELD_NUMBER: _ClassVar[int]
        resource: ConfigResource
        keys: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, resource: _Optional[_Union[ConfigResource, _Mapping]] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[DescribeConfigsRequest.Item]
    def __init__(self, items: _Optional[_Iterable[_Union[DescribeConfigsRequest.Item, _Mapping]]] = ...) -> None: ...

class ConfigValue(_message.Message):
    __slots__ = ("key", "value", "source", "default_value", "description", "kind", "accepts", "is_of_topics", "setting")
    class Source(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[ConfigValue.Source]
        DEFAULT: _ClassVar[ConfigValue.Source]
        CLUSTER: _ClassVar[ConfigValue.Source]
        BROKER: _ClassVar[ConfigValue.Source]
        TOPIC: _ClassVar[ConfigValue.Source]
    UNSPECIFIED: ConfigValue.Source
    DEFAULT: ConfigValue.Source
    CLUSTER: ConfigValue.Source
    BROKER: ConfigValue.Source
    TOPIC: ConfigValue.Source
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_FIELD_NUMBER: _ClassVar[int]
    IS_OF_TOPICS_FIELD_NUMBER: _ClassVar[int]
    SETTING_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    source: ConfigValue.Source
    default_value: str
    description: str
    kind: str
    accepts: str
    is_of_topics: bool
    setting: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., source: _Optional[_Union[ConfigValue.Source, str]] = ..., default_value: _Optional[str] = ..., description: _Optional[str] = ..., kind: _Optional[str] = ..., accepts: _Optional[str] = ..., is_of_topics: _Optional[bool] = ..., setting: _Optional[str] = ...) -> None: ...

class DescribeConfigsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("resource", "values", "error")
        RESOURCE_FIELD_NUMBER: _ClassVar[int]
        VALUES_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        resource: ConfigResource
        values: _containers.RepeatedCompositeFieldContainer[ConfigValue]
        error: _errors_pb2.ErrorDetail
        def __init__(self, resource: _Optional[_Union[ConfigResource, _Mapping]] = ..., values: _Optional[_Iterable[_Union[ConfigValue, _Mapping]]] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DescribeConfigsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[DescribeConfigsResponse.Result, _Mapping]]] = ...) -> None: ...

class AlterConfigsRequest(_message.Message):
    __slots__ = ("items", "validate_only", "timeout_ms")
    class Change(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class Item(_message.Message):
        __slots__ = ("resource", "changes")
        RESOURCE_FIELD_NUMBER: _ClassVar[int]
        CHANGES_FIELD_NUMBER: _ClassVar[int]
        resource: ConfigResource
        changes: _containers.RepeatedCompositeFieldContainer[AlterConfigsRequest.Change]
        def __init__(self, resource: _Optional[_Union[ConfigResource, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[AlterConfigsRequest.Change, _Mapping]]] = ...) -> None: ...
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AlterConfigsRequest.Item]
    validate_only: bool
    timeout_ms: int
    def __init__(self, items: _Optional[_Iterable[_Union[AlterConfigsRequest.Item, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class AlterConfigsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("resource", "error", "changes")
        RESOURCE_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        CHANGES_FIELD_NUMBER: _ClassVar[int]
        resource: ConfigResource
        error: _errors_pb2.ErrorDetail
        changes: _containers.RepeatedCompositeFieldContainer[AlterConfigsRequest.Change]
        def __init__(self, resource: _Optional[_Union[ConfigResource, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[AlterConfigsRequest.Change, _Mapping]]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AlterConfigsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[AlterConfigsResponse.Result, _Mapping]]] = ...) -> None: ...

class PartitionReference(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: TopicReference
    partition: int
    def __init__(self, topic: _Optional[_Union[TopicReference, _Mapping]] = ..., partition: _Optional[int] = ...) -> None: ...

class AlterReassignmentsRequest(_message.Message):
    __slots__ = ("items", "validate_only", "timeout_ms")
    class Item(_message.Message):
        __slots__ = ("partition", "replicas", "cancel")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        CANCEL_FIELD_NUMBER: _ClassVar[int]
        partition: PartitionReference
        replicas: _containers.RepeatedScalarFieldContainer[int]
        cancel: bool
        def __init__(self, partition: _Optional[_Union[PartitionReference, _Mapping]] = ..., replicas: _Optional[_Iterable[int]] = ..., cancel: _Optional[bool] = ...) -> None: ...
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AlterReassignmentsRequest.Item]
    validate_only: bool
    timeout_ms: int
    def __init__(self, items: _Optional[_Iterable[_Union[AlterReassignmentsRequest.Item, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class AlterReassignmentsResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("partition", "error")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        partition: PartitionReference
        error: _errors_pb2.ErrorDetail
        def __init__(self, partition: _Optional[_Union[PartitionReference, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AlterReassignmentsResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[AlterReassignmentsResponse.Result, _Mapping]]] = ...) -> None: ...

class ListReassignmentsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicReference]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicReference, _Mapping]]] = ...) -> None: ...

class Reassignment(_message.Message):
    __slots__ = ("partition", "replicas", "target", "adding", "adding_in_sync", "removing")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ADDING_FIELD_NUMBER: _ClassVar[int]
    ADDING_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    REMOVING_FIELD_NUMBER: _ClassVar[int]
    partition: PartitionReference
    replicas: _containers.RepeatedScalarFieldContainer[int]
    target: _containers.RepeatedScalarFieldContainer[int]
    adding: _containers.RepeatedScalarFieldContainer[int]
    adding_in_sync: _containers.RepeatedScalarFieldContainer[int]
    removing: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[_Union[PartitionReference, _Mapping]] = ..., replicas: _Optional[_Iterable[int]] = ..., target: _Optional[_Iterable[int]] = ..., adding: _Optional[_Iterable[int]] = ..., adding_in_sync: _Optional[_Iterable[int]] = ..., removing: _Optional[_Iterable[int]] = ...) -> None: ...

class ListReassignmentsResponse(_message.Message):
    __slots__ = ("reassignments", "errors")
    class TopicError(_message.Message):
        __slots__ = ("topic", "error")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        topic: TopicReference
        error: _errors_pb2.ErrorDetail
        def __init__(self, topic: _Optional[_Union[TopicReference, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    REASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    reassignments: _containers.RepeatedCompositeFieldContainer[Reassignment]
    errors: _containers.RepeatedCompositeFieldContainer[ListReassignmentsResponse.TopicError]
    def __init__(self, reassignments: _Optional[_Iterable[_Union[Reassignment, _Mapping]]] = ..., errors: _Optional[_Iterable[_Union[ListReassignmentsResponse.TopicError, _Mapping]]] = ...) -> None: ...

class ElectLeadersRequest(_message.Message):
    __slots__ = ("kind", "all_partitions", "partitions", "timeout_ms")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[ElectLeadersRequest.Kind]
        PREFERRED: _ClassVar[ElectLeadersRequest.Kind]
        UNCLEAN: _ClassVar[ElectLeadersRequest.Kind]
    UNSPECIFIED: ElectLeadersRequest.Kind
    PREFERRED: ElectLeadersRequest.Kind
    UNCLEAN: ElectLeadersRequest.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    ALL_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    kind: ElectLeadersRequest.Kind
    all_partitions: bool
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionReference]
    timeout_ms: int
    def __init__(self, kind: _Optional[_Union[ElectLeadersRequest.Kind, str]] = ..., all_partitions: _Optional[bool] = ..., partitions: _Optional[_Iterable[_Union[PartitionReference, _Mapping]]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ElectLeadersResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("partition", "leader", "leader_epoch", "error")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LEADER_FIELD_NUMBER: _ClassVar[int]
        LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        partition: PartitionReference
        leader: int
        leader_epoch: int
        error: _errors_pb2.ErrorDetail
        def __init__(self, partition: _Optional[_Union[PartitionReference, _Mapping]] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ElectLeadersResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[ElectLeadersResponse.Result, _Mapping]]] = ...) -> None: ...

class UnregisterBrokerRequest(_message.Message):
    __slots__ = ("broker_id", "timeout_ms")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    timeout_ms: int
    def __init__(self, broker_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class UnregisterBrokerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeQuorumRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class QuorumMember(_message.Message):
    __slots__ = ("node_id", "directory_id", "address", "is_voter", "match_index", "refusal", "silent_ms", "is_unreachable")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IS_VOTER_FIELD_NUMBER: _ClassVar[int]
    MATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    SILENT_MS_FIELD_NUMBER: _ClassVar[int]
    IS_UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    directory_id: bytes
    address: str
    is_voter: bool
    match_index: int
    refusal: str
    silent_ms: int
    is_unreachable: bool
    def __init__(self, node_id: _Optional[int] = ..., directory_id: _Optional[bytes] = ..., address: _Optional[str] = ..., is_voter: _Optional[bool] = ..., match_index: _Optional[int] = ..., refusal: _Optional[str] = ..., silent_ms: _Optional[int] = ..., is_unreachable: _Optional[bool] = ...) -> None: ...

class DescribeQuorumResponse(_message.Message):
    __slots__ = ("cluster_id", "leader_id", "term", "commit_index", "last_index", "members")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    leader_id: int
    term: int
    commit_index: int
    last_index: int
    members: _containers.RepeatedCompositeFieldContainer[QuorumMember]
    def __init__(self, cluster_id: _Optional[str] = ..., leader_id: _Optional[int] = ..., term: _Optional[int] = ..., commit_index: _Optional[int] = ..., last_index: _Optional[int] = ..., members: _Optional[_Iterable[_Union[QuorumMember, _Mapping]]] = ...) -> None: ...

class AddVoterRequest(_message.Message):
    __slots__ = ("node_id", "directory_id", "timeout_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    directory_id: bytes
    timeout_ms: int
    def __init__(self, node_id: _Optional[int] = ..., directory_id: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class RemoveVoterRequest(_message.Message):
    __slots__ = ("node_id", "directory_id", "timeout_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    directory_id: bytes
    timeout_ms: int
    def __init__(self, node_id: _Optional[int] = ..., directory_id: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ReplaceVoterRequest(_message.Message):
    __slots__ = ("node_id", "directory_id", "timeout_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    directory_id: bytes
    timeout_ms: int
    def __init__(self, node_id: _Optional[int] = ..., directory_id: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class QuorumChangeResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[QuorumMember]
    def __init__(self, members: _Optional[_Iterable[_Union[QuorumMember, _Mapping]]] = ...) -> None: ...

class TransferLeadershipRequest(_message.Message):
    __slots__ = ("node_id", "timeout_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    timeout_ms: int
    def __init__(self, node_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class TransferLeadershipResponse(_message.Message):
    __slots__ = ("leader_id",)
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    leader_id: int
    def __init__(self, leader_id: _Optional[int] = ...) -> None: ...
