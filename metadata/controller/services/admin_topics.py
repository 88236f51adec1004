"""Changes of topics and configurations: read, decide, answer. Pure.

Each decides one item of an `Admin` request; its answer is the item's result. A refused item raises `ControllerError`.
"""

from collections.abc import Iterable

from lograft.metadata.controller.services.admin_codec import (
    describe_value,
    find_config_resource,
    find_topic_id,
    name_resource,
    read_brokers,
    read_changes,
    read_topic_id,
)
from lograft.metadata.decisions.alter_configs import alter_configs
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.describe_configs import describe
from lograft.metadata.decisions.topics.add_partitions import AddPartitions, add_partitions
from lograft.metadata.decisions.topics.create_topic import CreateTopic, create_topic
from lograft.metadata.decisions.topics.delete_topic import delete_topic
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.proto import admin_pb2 as pb
from lograft.runtime.rng import Rng

# -- topics


def decide_create(
    image: ClusterImage, item: pb.NewTopic, new_id: TopicId, rng: Rng, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[pb.CreateTopicsResponse.Result]:
    """Decide to create a topic, with `new_id` if the item has no id."""
    request = CreateTopic(
        name=item.name,
        topic_id=read_topic_id(item.topic_id) or new_id,
        partitions=item.partitions or None,
        replication_factor=item.replication_factor or None,
        assignments=_assignments(item.assignments),
        configs=dict(item.configs),
    )
    decision = create_topic(image, request, rng, room)
    created = decision.answer
    result = pb.CreateTopicsResponse.Result(
        name=created.name,
        topic_id=created.topic_id.bytes,
        already_existed=not created.is_new,
        partitions=created.partitions,
        replication_factor=created.replication_factor,
    )
    return Decision(decision.records, result)


def decide_delete(image: ClusterImage, item: pb.TopicReference) -> Decision[pb.DeleteTopicsResponse.Result]:
    topic_id = find_topic_id(image, item)
    decision = delete_topic(image, topic_id)
    name = decision.answer.name if decision.answer.name is not None else item.name
    return Decision(decision.records, pb.DeleteTopicsResponse.Result(name=name, topic_id=topic_id.bytes))


def decide_add_partitions(
    image: ClusterImage, item: pb.CreatePartitionsRequest.Item, rng: Rng, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[pb.CreatePartitionsResponse.Result]:
    topic_id = find_topic_id(image, item.topic)
    request = AddPartitions(topic_id, item.total, _assignments(item.assignments))
    decision = add_partitions(image, request, rng, room)
    added = decision.answer
    result = pb.CreatePartitionsResponse.Result(name=added.name, topic_id=topic_id.bytes, partitions=added.total)
    return Decision(decision.records, result)


def _assignments(assignments: Iterable[pb.ReplicaAssignment]) -> tuple[tuple[BrokerId, ...], ...]:
    return tuple(read_brokers(assignment.broker_ids) for assignment in assignments)


# -- configuration


def decide_describe_configs(
    image: ClusterImage, item: pb.DescribeConfigsRequest.Item
) -> Decision[pb.DescribeConfigsResponse.Result]:
    resource = find_config_resource(image, item.resource)
    values = [describe_value(value) for value in describe(image, resource, list(item.keys) or None)]
    return Decision((), pb.DescribeConfigsResponse.Result(resource=name_resource(image, resource), values=values))


def decide_alter_configs(
    image: ClusterImage, item: pb.AlterConfigsRequest.Item
) -> Decision[pb.AlterConfigsResponse.Result]:
    resource = find_config_resource(image, item.resource)
    decision = alter_configs(image, resource, read_changes(item))
    changes = [pb.AlterConfigsRequest.Change(key=key, value=value) for key, value in decision.answer.changed.items()]
    named = name_resource(image, resource)
    return Decision(decision.records, pb.AlterConfigsResponse.Result(resource=named, changes=changes))
