"""Documentation of the fields of resources. Pure.

Configuration keys are documented by the cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lograft.cli.common.nouns import Noun

CONFIG_KEYS = {Noun.TOPIC: "spec.config", Noun.CONFIG: "spec.value"}
"""The fields that hold configuration values."""


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """`type` follows kubectl's notation: `[]string` is a list of strings."""

    type: str
    text: str


@dataclass(frozen=True, slots=True)
class Kind:
    """`fields`: by path, in output order."""

    name: str
    text: str
    fields: Mapping[str, FieldDoc]


_PARTS = {
    "metadata": "Identification of the resource.",
    "spec": "Desired state.",
    "status": "Current state. Read-only, and ignored in files.",
}

# Path, type and text per line. Continuation lines are indented.
_TOPIC = """
metadata.name | string | Name of the topic: up to 180 letters, digits, dots, underscores and hyphens.
metadata.id | string | Unique id. A topic that is deleted and created again gets a new one. If a file contains an id,
    it applies only to the topic with that id.
metadata.internal | boolean | Whether the topic is internal to the cluster. Ignored in files.
spec.partitions | integer | Number of partitions. Can only increase. If omitted in a file: the cluster's
    num.partitions for a new topic, unchanged otherwise.
spec.replicas | integer | Number of replicas of each partition, the target number during a reassignment. If partitions
    differ, the lowest. If omitted in a file: the cluster's default.replication.factor for a new topic, unchanged
    otherwise.
spec.config | map[string]string | Configuration of the topic itself. In a file, it is complete: keys that are not
    listed are unset. If omitted, the configuration is unchanged.
status.underReplicated | integer | Number of partitions with replicas that are not in sync.
status.offline | integer | Number of partitions without a leader, which can be neither written nor read.
"""
_PARTITION = """
metadata.name | string | Name of the topic, a hyphen, and the partition number.
metadata.topic | string | Name of the topic.
metadata.partition | integer | Partition number, from 0.
status.leader | integer | Id of the leader, which serves writes and reads; null: no leader.
status.leaderEpoch | integer | Incremented with each change of the leader.
status.replicas | []integer | Brokers that host the partition, the preferred leader first.
status.isr | []integer | In-sync replicas: they have every acknowledged record.
status.elr | []integer | Eligible leader replicas: not in sync, but known to have every acknowledged record.
status.adding | []integer | Replicas that a reassignment in progress adds.
status.removing | []integer | Replicas that a reassignment in progress removes once it completes.
status.uncleanEpoch | integer | Latest leader epoch that started with an unclean election, which may have lost
    records; null: none.
status.startOffset | integer | First available offset; null: the leader did not answer.
status.endOffset | integer | Offset of the next record to be written.
status.highWatermark | integer | Records below this offset are committed and can be read.
status.bytes | integer | Size of the leader's copy on disk.
"""
_BROKER = """
metadata.name | string | Id of the broker, as a string.
metadata.id | integer | Id of the broker: node_id in its configuration.
spec.address | string | Address for clients.
spec.rack | string | Rack, used to spread replicas; null: not configured.
status.state | string | active: serves requests. fenced: registered, but not alive or not ready yet. shutting-down:
    leadership moves to other brokers.
status.cordoned | boolean | Whether no new replicas are placed on it, for example by `lograft drain`.
status.epoch | integer | Incremented with each start of the broker.
status.version | string | Version of lograft that it runs; null: it does not report one.
status.leaders | integer | Number of partitions that it leads.
status.replicas | integer | Number of partitions that it hosts.
status.inSync | integer | Number of hosted partitions for which it is in sync.
status.directories | []string | Ids of its data directories.
status.uptimeMs | integer | Milliseconds since its process started, with -o wide, json or yaml; null: no answer.
status.disks | []Object | Disks of the data directories, with -o wide, json or yaml; null: the broker does not answer.
status.disks.directory | string | Id of the data directory.
status.disks.path | string | Path of the data directory.
status.disks.freeBytes | integer | Free space.
status.disks.totalBytes | integer | Size of the disk.
status.disks.reserveBytes | integer | Free space below which the broker rejects writes: disk.reserve.bytes.
status.disks.full | boolean | Whether free space is below the reserve.
"""
_GROUP = """
metadata.name | string | Name of the group.
spec.assignor | string | Strategy that assigns partitions to members: uniform, range or roundrobin.
status.state | string | empty: committed offsets, but no members. stable: members have their assigned partitions.
    reconciling: partitions are moving between members.
status.coordinator | integer | Broker that manages the group's members and offsets.
status.epoch | integer | Incremented whenever members, subscriptions or topics change.
status.lag | integer | Number of records not yet committed; null: a broker did not answer.
status.members | []Object | Members of the group.
status.members.memberId | string | Unique id of the member.
status.members.instanceId | string | Permanent id of a static member; null: not static.
status.members.clientId | string | Client id of the member.
status.members.rack | string | Rack of the member, if configured.
status.members.topics | []string | Subscribed topics.
status.members.assigned | []string | Partitions that the member reads.
status.members.givingUp | []string | Assigned partitions that are being revoked.
status.partitions | []Object | Assigned partitions, and partitions with committed offsets.
status.partitions.topic | string | Name of the topic.
status.partitions.partition | integer | Partition number.
status.partitions.committed | integer | Offset of the next record to read; null: none committed.
status.partitions.end | integer | Offset up to which records can be read.
status.partitions.lag | integer | Number of records between committed and end.
status.partitions.member | string | Member that reads the partition; null: none.
"""
_QUORUM = """
metadata.name | string | Id of the cluster.
status.leader | integer | Active controller; null: none.
status.term | integer | Incremented with each election.
status.commitIndex | integer | Last committed index of the metadata log.
status.lastIndex | integer | Last index of the leader's log.
status.voters | []Object | Voters. Each change of metadata requires a majority of them.
status.learners | []Object | Members that replicate the metadata but do not vote.
""" + "".join(
    f"""\
status.{role}.id | integer | Node id.
status.{role}.address | string | Address of its controller.
status.{role}.directoryId | string | Id of its metadata directory, which identifies the member.
status.{role}.matchIndex | integer | Last index it is known to have; null: unknown.
status.{role}.lag | integer | Number of committed entries that it lacks.
status.{role}.reachable | boolean | Whether it answered the leader within an election timeout; null: not reported.
status.{role}.silentMs | integer | Milliseconds since it last answered the leader; null: not reported.
status.{role}.refusal | string | Why the leader rejects it; null: it does not.
"""
    for role in ("voters", "learners")
)
_CONFIG = """
metadata.name | string | Owner and key, such as cluster/num.partitions, broker/1/log.level, topic/orders/retention.ms.
metadata.owner | string | Owner: cluster, broker/ID or topic/NAME.
metadata.key | string | Configuration key.
spec.value | string | Value set by the owner itself; null: none, so the effective value comes from elsewhere.
status.value | string | Effective value.
status.source | string | Source of the effective value: topic, broker, cluster or default.
status.default | string | Default value; null: depends on the topic.
status.type | string | Type of the value.
status.description | string | Description of the key.
"""
_REASSIGNMENT = """
metadata.name | string | Name of the partition: topic, hyphen, number.
metadata.topic | string | Name of the topic.
metadata.partition | integer | Partition number.
spec.from | []integer | Brokers that hosted the partition before.
spec.to | []integer | Brokers that will host the partition, the preferred leader first.
status.adding | []Object | Replicas being added, with their progress.
status.adding.broker | integer | Broker of the added replica.
status.adding.inSync | boolean | Whether it has caught up.
status.adding.endOffset | integer | End offset of its copy; null: the broker did not answer.
status.adding.behind | integer | Number of records it lacks.
status.adding.bytes | integer | Size of its copy on disk.
status.removing | []integer | Replicas that are removed once all added ones are in sync.
status.leaderEndOffset | integer | End offset of the leader's copy.
status.leaderBytes | integer | Size of the leader's copy on disk.
"""
_CONTEXT = """
metadata.name | string | Name of the context.
spec.bootstrap | string | Addresses of one or more brokers.
status.current | boolean | Whether it is the current context.
"""
_NODE = """
metadata.name | string | Id of the node, as a string.
metadata.id | integer | Id of the node: node_id in its configuration.
spec.roles | []string | controller, broker, or both.
spec.address | string | Address of its broker for clients; null: not a broker.
spec.controllerAddress | string | Address of its controller; null: not a controller.
spec.rack | string | Rack of its broker; null: not configured.
status.broker | string | State of its broker: active, fenced or shutting-down; null: not a broker.
status.controller | string | Part in the metadata quorum: leader, voter or learner; null: not a controller.
"""
_CLUSTER = """
metadata.name | string | Id of the cluster.
status.healthy | boolean | Whether `lograft health` finds no problems.
status.problems | []string | Problems, by cause.
status.controller | integer | Active controller; null: none.
status.voters | integer | Number of voters of the metadata quorum; null: the quorum is unreachable.
status.brokers | []Object | Brokers with their state and load.
status.brokers.id | integer | Id of the broker.
status.brokers.address | string | Address for clients.
status.brokers.state | string | State: active, fenced or shutting-down.
status.brokers.leaders | integer | Number of partitions that it leads.
status.brokers.replicas | integer | Number of partitions that it hosts.
status.brokers.uptimeMs | integer | Milliseconds since its process started; null: the broker does not answer.
status.brokers.freeBytes | integer | Free space on all its disks; null: the broker does not answer.
status.topics | integer | Number of topics, internal ones included.
status.partitions | integer | Number of partitions.
status.underReplicated | integer | Number of partitions with replicas that are not in sync.
status.offline | integer | Number of partitions without a leader.
status.config | []Object | Configuration of the cluster; null: not available in time.
status.config.key | string | Configuration key.
status.config.value | string | Effective value.
status.config.source | string | Source of the value: cluster or default.
"""


def _kind(name: str, text: str, table: str) -> Kind:
    fields: dict[str, FieldDoc] = {}
    for line in table.strip().replace("\n    ", " ").splitlines():
        path, of_type, meaning = line.split(" | ")
        part = path.partition(".")[0]
        fields.setdefault(part, FieldDoc("Object", _PARTS[part]))
        fields[path] = FieldDoc(of_type, meaning)
    return Kind(name, text, fields)


KINDS: Mapping[Noun, Kind] = {
    Noun.TOPIC: _kind("Topic", "A named log, split into replicated partitions.", _TOPIC),
    Noun.PARTITION: _kind("Partition", "An ordered log of records within a topic.", _PARTITION),
    Noun.BROKER: _kind("Broker", "A node that hosts partitions.", _BROKER),
    Noun.GROUP: _kind("Group", "Consumers that share topics, with their committed offsets.", _GROUP),
    Noun.QUORUM: _kind("Quorum", "The controllers that replicate the cluster's metadata.", _QUORUM),
    Noun.CONFIG: _kind("Config", "A configuration key of a topic, a broker or the cluster.", _CONFIG),
    Noun.REASSIGNMENT: _kind("Reassignment", "A partition that is moving to other brokers.", _REASSIGNMENT),
    Noun.CONTEXT: _kind("Context", "A named cluster in the local configuration.", _CONTEXT),
    Noun.NODE: _kind("Node", "A process that runs a broker, a controller, or both.", _NODE),
    Noun.CLUSTER: _kind("Cluster", "All nodes, topics and groups that share one metadata quorum.", _CLUSTER),
}
