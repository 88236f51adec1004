"""Changes of the configuration of a topic, a broker or the cluster. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lograft.metadata.config.config_key import check_changes
from lograft.metadata.config.config_resource import KEYS, OWNERS, check_resource, topic_of
from lograft.metadata.config.effective_settings import (
    CLUSTER,
    effective_min_isr,
    min_isr_under,
    topic_min_isr_under,
    topic_setting,
)
from lograft.metadata.config.internal_topic_config import WITH_LEAST, check_internal_change, internal_default_of
from lograft.metadata.config.topic_config import MIN_ISR
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage, Topic
from lograft.metadata.image.partition_transition import Conditions, settle
from lograft.metadata.image.records import ConfigChanged, ConfigResource, PartitionChanged, ResourceKind
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


@dataclass(frozen=True, slots=True)
class AlteredConfig:
    """`changed`: the keys whose value changes, in order, with the new value; None: unset."""

    changed: Mapping[str, str | None]


def alter_configs(
    image: ClusterImage, resource: ConfigResource, changes: Mapping[str, str | None]
) -> Decision[AlteredConfig]:
    """Set each key of `changes` on the resource, or unset it (None): all of them, or none if one is not acceptable.

    A change of `min.insync.replicas` also changes, in the same operation, all partitions whose effective minimum it
    affects.
    """
    check_resource(image, resource)
    wanted = check_changes(KEYS[resource.kind], changes, OWNERS[resource.kind])
    present = image.config_of(resource)
    changed = {key: value for key, value in wanted.items() if present.get(key) != value}
    if resource.kind is ResourceKind.TOPIC and topic_of(image, resource).is_internal:
        _check_internal(image, topic_of(image, resource), changed)
    settled: list[PartitionChanged] = []
    if MIN_ISR in changed:
        _check_min_isr(image, resource, changed[MIN_ISR])
        settled = list(_settled(image, resource, changed[MIN_ISR]))
    records = [ConfigChanged(resource, key, value) for key, value in changed.items()]
    return Decision((*records, *settled), AlteredConfig(changed))


def _check_internal(image: ClusterImage, topic: Topic, changed: Mapping[str, str | None]) -> None:
    for key, value in changed.items():
        present = topic_setting(image, topic.topic_id, key)
        if key == MIN_ISR:
            for partition in topic.partitions.values():
                # Not as it would come to: a majority holds anyway, but less was asked for.
                wanted, least = min_isr_under(value, partition), min_isr_under(None, partition)
                check_internal_change(topic.name, key, value, present, wanted=wanted, least=least)
        elif key in WITH_LEAST:
            default = internal_default_of(key)
            assert default is not None
            wanted = int(value if value is not None else default)
            check_internal_change(topic.name, key, value, present, wanted=wanted, least=int(default))
        else:
            check_internal_change(topic.name, key, value, present)


def _check_min_isr(image: ClusterImage, resource: ConfigResource, value: str | None) -> None:
    """Raise if a topic asks for more replicas in sync than it has. The cluster may: each topic then needs all that it
    has."""
    if resource.kind is not ResourceKind.TOPIC or value is None:
        return
    topic = topic_of(image, resource)
    for number, partition in topic.partitions.items():
        if int(value) > partition.replication_factor:
            raise ControllerError(
                errors_pb2.INVALID_CONFIG,
                f"{MIN_ISR} cannot be {value} for topic {topic.name}: the replication factor of its "
                f"partition {number} is {partition.replication_factor}; give at most that, or add replicas first",
            )


def _settled(image: ClusterImage, resource: ConfigResource, value: str | None) -> Iterator[PartitionChanged]:
    """Return what partitions become when `min.insync.replicas` of the resource is `value`."""
    for topic, setting in _topics_concerned(image, resource, value):
        for number, partition in topic.partitions.items():
            min_isr = topic_min_isr_under(setting, partition, is_internal=topic.is_internal)
            if min_isr == effective_min_isr(image, topic.topic_id, partition):
                continue
            after = settle(partition, partition, Conditions(image.brokers, min_isr))
            if after is not partition:
                yield PartitionChanged(topic.topic_id, number, after)


def _topics_concerned(
    image: ClusterImage, resource: ConfigResource, value: str | None
) -> Iterator[tuple[Topic, str | None]]:
    """Return the topics that the change may affect, each with its setting after the change."""
    if resource.kind is ResourceKind.TOPIC:
        topic = topic_of(image, resource)
        default = image.config_of(CLUSTER).get(MIN_ISR) if not topic.is_internal else None
        yield topic, value if value is not None else default
    elif resource.kind is ResourceKind.CLUSTER:
        for topic in image.topics.values():
            own = image.config_of(ConfigResource(ResourceKind.TOPIC, str(topic.topic_id)))
            if MIN_ISR not in own and not topic.is_internal:
                yield topic, value
