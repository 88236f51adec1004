"""The configuration of a topic, a broker or the cluster, and where each value comes from. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from lograft.metadata.config.config_key import ConfigKey, check_keys
from lograft.metadata.config.config_resource import KEYS, OWNERS, check_resource, topic_of
from lograft.metadata.config.effective_settings import CLUSTER, min_isr_of, topic_setting
from lograft.metadata.config.internal_topic_config import internal_default_of
from lograft.metadata.config.topic_config import MIN_ISR, TOPIC_CONFIG
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import ConfigResource, ResourceKind


class ConfigSource(Enum):
    """Where a value is set. DEFAULT: nowhere."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    DEFAULT = 4


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One key. `value` is in force; `default` applies if nothing is set anywhere. Either is None if it depends on the
    topic. `kind` names the type of value, `accepts` describes acceptable values. `is_of_topics`: the cluster's value is
    the default of topics. `setting` is the value set on the resource itself, if any."""

    key: str
    value: str | None
    source: ConfigSource
    default: str | None
    description: str
    kind: str
    accepts: str
    is_of_topics: bool
    setting: str | None


_SOURCES = {
    ResourceKind.TOPIC: ConfigSource.TOPIC,
    ResourceKind.BROKER: ConfigSource.BROKER,
    ResourceKind.CLUSTER: ConfigSource.CLUSTER,
}


def describe(image: ClusterImage, resource: ConfigResource, keys: Collection[str] | None = None) -> list[ConfigValue]:
    """Return every key of the resource, or those of `keys`, in order. Raise UNKNOWN_TOPIC, UNKNOWN_BROKER or
    INVALID_CONFIG if the resource or a key does not exist."""
    check_resource(image, resource)
    known = KEYS[resource.kind]
    if keys is not None:
        check_keys(known, keys, OWNERS[resource.kind])
    return [_value_of(image, resource, known[name]) for name in sorted(known if keys is None else set(keys))]


def _value_of(image: ClusterImage, resource: ConfigResource, key: ConfigKey) -> ConfigValue:
    setting, source = _setting_of(image, resource, key.name)
    value, default = setting if setting is not None else key.default, key.default
    topic = topic_of(image, resource) if resource.kind is ResourceKind.TOPIC else None
    if topic is not None and topic.is_internal:
        value, default = topic_setting(image, topic.topic_id, key.name), internal_default_of(key.name)
        if value != setting:
            source = ConfigSource.DEFAULT  # an earlier version let someone set it; it is not in force
    if key.name == MIN_ISR and topic is not None:
        # Where partitions differ in the number of their replicas, what holds for all of them.
        fewest = min(partition.replication_factor for partition in topic.partitions.values())
        value, default = str(min_isr_of(setting, fewest)), str(min_isr_of(None, fewest))
        if topic.is_internal:
            value = max(value, default, key=int)
    return ConfigValue(
        key=key.name,
        value=value,
        source=source,
        default=default,
        description=key.description,
        kind=key.kind.name,
        accepts=key.kind.accepts,
        is_of_topics=key.name in TOPIC_CONFIG,
        setting=image.config_of(resource).get(key.name),
    )


def _setting_of(image: ClusterImage, resource: ConfigResource, key: str) -> tuple[str | None, ConfigSource]:
    """Return the value set nearest to the resource: the topic's own, else the cluster's."""
    levels = [resource]
    if resource.kind is ResourceKind.TOPIC and not topic_of(image, resource).is_internal:
        levels.append(CLUSTER)
    for level in levels:
        setting = image.config_of(level).get(key)
        if setting is not None:
            return setting, _SOURCES[level.kind]
    return None, ConfigSource.DEFAULT
