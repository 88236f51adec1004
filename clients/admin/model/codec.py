"""Converts between the admin client's types and Protobuf messages. Pure."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from lograft.clients.admin.model import types
from lograft.clients.errors import InvalidArgument, error_of
from lograft.clients.option_checks import check_integer
from lograft.clients.types import TopicPartition, check_topic, is_text, partition_name
from lograft.proto import admin_pb2 as pb
from lograft.proto import cluster_pb2

_BROKER_STATES = {
    cluster_pb2.Broker.FENCED: types.BrokerState.FENCED,
    cluster_pb2.Broker.ACTIVE: types.BrokerState.ACTIVE,
    cluster_pb2.Broker.SHUTTING_DOWN: types.BrokerState.SHUTTING_DOWN,
}
CONFIG_KINDS = {
    types.ConfigKind.TOPIC: pb.ConfigResource.TOPIC,
    types.ConfigKind.BROKER: pb.ConfigResource.BROKER,
    types.ConfigKind.CLUSTER: pb.ConfigResource.CLUSTER,
}
ELECTION_KINDS = {
    types.ElectionKind.PREFERRED: pb.ElectLeadersRequest.PREFERRED,
    types.ElectionKind.UNCLEAN: pb.ElectLeadersRequest.UNCLEAN,
}


def read_cluster(description: cluster_pb2.ClusterDescription) -> types.ClusterDescription:
    return types.ClusterDescription(
        cluster_id=description.cluster_id,
        controller_id=description.controller_id if description.HasField("controller_id") else None,
        brokers=tuple(sorted(map(_broker, description.brokers), key=lambda broker: broker.id)),
        topics=tuple(sorted(map(read_topic, description.topics), key=lambda topic: topic.name)),
    )


def _broker(broker: cluster_pb2.Broker) -> types.BrokerDescription:
    return types.BrokerDescription(
        id=broker.id,
        address=broker.address,
        rack=broker.rack if broker.HasField("rack") else None,
        state=_BROKER_STATES.get(broker.state, types.BrokerState.UNKNOWN),
        epoch=broker.epoch,
        directories=tuple(UUID(bytes=directory) for directory in broker.directories),
        is_cordoned=broker.is_cordoned,
        version=broker.version if broker.HasField("version") else None,
    )


def read_topic(topic: cluster_pb2.Topic) -> types.TopicDescription:
    """Return the topic. Raise its error, if it has one."""
    if topic.HasField("error"):
        raise error_of(topic.error)
    partitions = sorted(topic.partitions, key=lambda partition: partition.number)
    return types.TopicDescription(
        id=UUID(bytes=topic.id),
        name=topic.name,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(topic.name, partition) for partition in partitions),
        config=dict(sorted(topic.configs.items())),
    )


def _partition(topic: str, partition: cluster_pb2.Partition) -> types.PartitionDescription:
    return types.PartitionDescription(
        topic=topic,
        number=partition.number,
        leader=partition.leader if partition.HasField("leader") else None,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replicas),
        isr=tuple(partition.isr),
        elr=tuple(partition.elr),
        adding=tuple(partition.adding),
        removing=tuple(partition.removing),
        unclean_epoch=partition.unclean_epoch if partition.HasField("unclean_epoch") else None,
        partition_epoch=partition.partition_epoch,
    )


def write_new_topic(topic: types.NewTopic, topic_id: UUID) -> pb.NewTopic:
    check_topic(topic.name)
    for name, number in (("partitions", topic.partitions), ("replicas", topic.replicas)):
        if number is not None:
            check_integer(name, number, 1)
    return pb.NewTopic(
        name=topic.name,
        topic_id=topic_id.bytes,
        partitions=topic.partitions,
        replication_factor=topic.replicas,
        assignments=[pb.ReplicaAssignment(broker_ids=write_brokers(brokers)) for brokers in topic.assignments],
        configs=write_config(topic.config),
    )


def write_config(config: Mapping[str, str]) -> dict[str, str]:
    for key, value in config.items():
        for text in (key, value):
            if not isinstance(text, str) or not is_text(text):
                raise InvalidArgument(f"{text!r} of {key!r}={value!r} is not a text: keys and values are strings")
    return dict(config)


def write_brokers(brokers: Iterable[int]) -> list[int]:
    brokers = list(brokers)
    for broker_id in brokers:
        check_integer("a broker's id", broker_id, 0)
    return brokers


def write_partition(partition: tuple[str, int]) -> pb.PartitionReference:
    topic, number = partition_name(partition)
    check_integer("a partition's number", number, 0)
    return pb.PartitionReference(topic=pb.TopicReference(name=topic), partition=number)


def read_partition(reference: pb.PartitionReference) -> TopicPartition:
    return TopicPartition(reference.topic.name, reference.partition)


def read_config(value: pb.ConfigValue) -> types.ConfigEntry:
    return types.ConfigEntry(
        key=value.key,
        value=value.value if value.HasField("value") else None,
        source=pb.ConfigValue.Source.Name(value.source).lower(),
        default=value.default_value if value.HasField("default_value") else None,
        description=value.description,
        kind=value.kind,
        accepts=value.accepts,
        is_of_topics=value.is_of_topics,
        setting=value.setting if value.HasField("setting") else None,
    )


def read_changes(changes: Iterable[pb.AlterConfigsRequest.Change]) -> dict[str, str | None]:
    return {change.key: change.value if change.HasField("value") else None for change in changes}


def read_reassignment(reassignment: pb.Reassignment) -> types.Reassignment:
    return types.Reassignment(
        partition=read_partition(reassignment.partition),
        replicas=tuple(reassignment.replicas),
        target=tuple(reassignment.target),
        adding=tuple(reassignment.adding),
        adding_in_sync=tuple(reassignment.adding_in_sync),
        removing=tuple(reassignment.removing),
    )


def read_election(result: pb.ElectLeadersResponse.Result) -> types.Election:
    return types.Election(
        partition=read_partition(result.partition),
        leader=result.leader if result.HasField("leader") else None,
        leader_epoch=result.leader_epoch,
        error=error_of(result.error) if result.HasField("error") else None,
    )


def read_members(members: Iterable[pb.QuorumMember]) -> tuple[types.QuorumMember, ...]:
    return tuple(
        types.QuorumMember(
            node_id=member.node_id,
            directory_id=UUID(bytes=member.directory_id) if member.directory_id else None,
            address=member.address,
            is_voter=member.is_voter,
            match_index=member.match_index if member.HasField("match_index") else None,
            refusal=member.refusal if member.HasField("refusal") else None,
            silent_ms=member.silent_ms if member.HasField("silent_ms") else None,
            is_unreachable=member.is_unreachable,
        )
        for member in sorted(members, key=lambda member: member.node_id)
    )


def read_quorum(response: pb.DescribeQuorumResponse) -> types.QuorumDescription:
    return types.QuorumDescription(
        cluster_id=response.cluster_id,
        leader_id=response.leader_id if response.HasField("leader_id") else None,
        term=response.term,
        commit_index=response.commit_index,
        last_index=response.last_index,
        members=read_members(response.members),
    )
