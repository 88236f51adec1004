"""Configuration keys of the cluster and of single brokers. Pure."""

from collections.abc import Mapping

from lograft.metadata.config.config_key import INT_MAX, LONG_MAX, ConfigKey, Flag, LogLevels, Whole, by_name
from lograft.metadata.config.topic_config import SMALLEST_SEGMENT_BYTES, TOPIC_CONFIG

SLOW_REQUEST = "slow.request.ms"

_MOST_PARTITIONS = 10_000
_MOST_REPLICAS = 2**15 - 1

_OWN_KEYS = by_name(
    ConfigKey(
        "auto.create.topics.enable", Flag(), "false",
        "Is a topic created when a client first asks for it?",
    ),
    ConfigKey(
        "default.replication.factor", Whole(1, _MOST_REPLICAS), "3",
        "How many replicas a topic gets if its creator does not say; fewer if the cluster has fewer brokers.",
    ),
    ConfigKey(
        "group.max.size", Whole(1, INT_MAX), str(INT_MAX),
        "How many members a consumer group may have.",
    ),
    ConfigKey(
        "leader.replication.throttled.rate", Whole(1, LONG_MAX), str(LONG_MAX),
        "How many bytes a second a broker sends at most to replicas that a reassignment adds, until they are in sync.",
    ),
    ConfigKey(
        "leader.rebalance.enable", Flag(), "true",
        "Whether leadership moves back to the first replica of each partition automatically.",
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second", Whole(1, LONG_MAX), str(100 * 1024 * 1024),
        "How fast a broker reads at most to compact its logs, one after the other.",
    ),
    ConfigKey(
        "num.partitions", Whole(1, _MOST_PARTITIONS), "1",
        "How many partitions a topic gets if its creator does not say.",
    ),
    ConfigKey(
        "offsets.retention.minutes", Whole(1, INT_MAX), str(7 * 24 * 60),
        "How long what a group has committed is kept once the group has no members.",
    ),
    ConfigKey(
        "offsets.topic.num.partitions", Whole(1, _MOST_PARTITIONS), "16",
        "How many partitions the topic of group offsets gets when it is created.",
    ),
    ConfigKey(
        "offsets.topic.replication.factor", Whole(1, _MOST_REPLICAS), "3",
        "How many replicas the topic of group offsets gets; it is created once there are that many brokers.",
    ),
    ConfigKey(
        "offsets.topic.segment.bytes", Whole(SMALLEST_SEGMENT_BYTES, INT_MAX), str(16 * 1024 * 1024),
        "How large a segment of the topic of group offsets is at most; fixed when it is created.",
    ),
    ConfigKey(
        "replica.lag.time.max.ms", Whole(100, LONG_MAX), "10000",
        "How long a follower may be behind before it leaves the ISR.",
    ),
)  # fmt: skip

CLUSTER_CONFIG: Mapping[str, ConfigKey] = {**TOPIC_CONFIG, **_OWN_KEYS}
"""The cluster's own keys, and those of topics: a value set here is the default of every topic."""

BROKER_CONFIG: Mapping[str, ConfigKey] = by_name(
    ConfigKey(
        "placement.enable", Flag(), "true",
        "May replicas of new partitions be placed on the broker? `lograft drain` has it that they may not.",
    ),
    ConfigKey(
        SLOW_REQUEST, Whole(0, LONG_MAX), "1000",
        "A request to the node that takes so long is logged; what it waits for as asked does not count.",
    ),
    ConfigKey(
        "log.level", LogLevels(), "info",
        "How grave an event must be to appear in the log of events of the broker's node; by default as its file says. "
        "Parts may have levels of their own: info,lograft.raft=debug.",
    ),
)  # fmt: skip


def broker_default_of(key: str) -> str:
    """Return the default of a broker's key."""
    default = BROKER_CONFIG[key].default
    assert default is not None
    return default


def cluster_default_of(key: str) -> str:
    """Return the default of one of the cluster's own keys."""
    default = _OWN_KEYS[key].default
    assert default is not None
    return default
