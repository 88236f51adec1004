"""The settings in force for a topic: its own, else the cluster's, else the default. Pure."""

from lograft.metadata.config.cluster_config import cluster_default_of
from lograft.metadata.config.internal_topic_config import internal_setting
from lograft.metadata.config.topic_config import MIN_ISR, default_of
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, TopicId
from lograft.metadata.image.partition_transition import Conditions
from lograft.metadata.image.records import ConfigResource, ResourceKind

CLUSTER = ConfigResource(ResourceKind.CLUSTER)


def topic_setting(image: ClusterImage, topic_id: TopicId, key: str) -> str | None:
    """Return the setting in force for a topic. None: not set, and the default depends on the partition
    (`min.insync.replicas`)."""
    own = image.config_of(ConfigResource(ResourceKind.TOPIC, str(topic_id)))
    if is_internal(image, topic_id):
        return internal_setting(own, key)
    value = own.get(key)
    if value is None:
        value = image.config_of(CLUSTER).get(key)
    return value if value is not None else default_of(key)


def is_internal(image: ClusterImage, topic_id: TopicId) -> bool:
    """Return True for the cluster's own topics, to which the cluster's defaults do not apply."""
    topic = image.topics.get(topic_id)
    return topic is not None and topic.is_internal


def cluster_setting(image: ClusterImage, key: str) -> str:
    """Return the setting of a key that only the cluster has."""
    value = image.config_of(CLUSTER).get(key)
    return value if value is not None else cluster_default_of(key)


def is_cordoned(image: ClusterImage, broker_id: BrokerId) -> bool:
    """Return True if the broker gets no new replicas."""
    return image.config_of(ConfigResource(ResourceKind.BROKER, str(broker_id))).get("placement.enable") == "false"


def effective_min_isr(image: ClusterImage, topic_id: TopicId, partition: Partition) -> int:
    """Return how many in-sync replicas a write needs: `min.insync.replicas`, by default a majority, never more than
    there are replicas."""
    setting = topic_setting(image, topic_id, MIN_ISR)
    return topic_min_isr_under(setting, partition, is_internal=is_internal(image, topic_id))


def topic_min_isr_under(setting: str | None, partition: Partition, *, is_internal: bool) -> int:
    """As `min_isr_under`; never less than a majority for an internal topic, whatever is set."""
    least = min_isr_under(setting, partition)
    return max(least, min_isr_under(None, partition)) if is_internal else least


def min_isr_under(setting: str | None, partition: Partition) -> int:
    """The effective minimum if `min.insync.replicas` is `setting`; None is the default.

    While a reassignment changes the number of replicas, the lower of before and after: else more replicas would stop
    writing until the first of the new ones has caught up.
    """
    factors = [len(partition.final_replicas)]
    if partition.is_reassigning:
        factors.append(len(partition.original))
    return min(min_isr_of(setting, factor) for factor in factors)


def new_topic_min_isr(image: ClusterImage, own: str | None, replication_factor: int, *, is_internal: bool) -> int:
    """Return the effective minimum of a topic that is about to be created with `own` as its `min.insync.replicas`."""
    setting = own if own is not None or is_internal else image.config_of(CLUSTER).get(MIN_ISR)
    return min_isr_of(setting, replication_factor)


def min_isr_of(setting: str | None, replication_factor: int) -> int:
    """Return the effective `min.insync.replicas` of a partition with that replication factor; `setting` None is the
    default."""
    return min(int(setting), replication_factor) if setting is not None else replication_factor // 2 + 1


def conditions_for(image: ClusterImage, topic_id: TopicId, partition: Partition) -> Conditions:
    """Return the conditions that decide a change of this partition, from present brokers and settings."""
    return Conditions(image.brokers, effective_min_isr(image, topic_id, partition))


def allows_unclean_election(image: ClusterImage, topic_id: TopicId) -> bool:
    return topic_setting(image, topic_id, "unclean.leader.election.enable") == "true"


def trusts_page_cache(image: ClusterImage, topic_id: TopicId) -> bool:
    """Return True if records are acknowledged before they are on disk, so that a power failure may have lost some."""
    return topic_setting(image, topic_id, "flush.mode") == "os"
