"""What each field of a resource means, as `lograft get -o yaml` shows it. Pure.

Keys of configuration are not here: the cluster knows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lograft.cli.common.nouns import Noun

CONFIG_KEYS = {Noun.TOPIC: "spec.config", Noun.CONFIG: "spec.value"}
"""Where keys of configuration have values."""


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """`type`: as kubectl has it, `[]string` for a list of texts."""

    type: str
    text: str


@dataclass(frozen=True, slots=True)
class Kind:
    """`fields`: by path, in the order in which they are shown."""

    name: str
    text: str
    fields: Mapping[str, FieldDoc]


_PARTS = {
    "metadata": "What it is called.",
    "spec": "What it is to be.",
    "status": "What it is at the moment. Nobody sets it: files that are applied may have it, and it is passed over.",
}

# Path, type, text; a line each, or more, the others indented.
_TOPIC = """
metadata.name | string | Its name: up to 180 letters, digits, dots, underscores and hyphens.
metadata.id | string | Its own among all topics that ever were: a topic created anew under the same name has
    another. If a file that is applied has it, that very topic is meant.
metadata.internal | boolean | Whether it is one of the cluster's own. Passed over in a file.
spec.partitions | integer | How many partitions it has. There can be more later, and never fewer. Left out of a
    file: the cluster's num.partitions for a new topic, else as many as there are.
spec.replicas | integer | How many brokers have each partition; while partitions move, how many will. If partitions
    differ, the fewest. Left out of a file: the cluster's default.replication.factor for a new topic, else as many
    as there are.
spec.config | map[string]string | What is set on the topic itself. A file that has it has all of it: keys that are
    not listed are unset. A file without it leaves it as it is.
status.underReplicated | integer | How many of its partitions have a replica that is not in sync.
status.offline | integer | How many of its partitions have no leader, and so can be neither written nor read.
"""
_PARTITION = """
metadata.name | string | The topic's name, a hyphen, and the number.
metadata.topic | string | Whose partition it is.
metadata.partition | integer | Its number, from 0.
status.leader | integer | The broker that takes and gives its records; null: none at the moment.
status.leaderEpoch | integer | How often it has changed leaders.
status.replicas | []integer | The brokers that have it, the preferred leader first.
status.isr | []integer | Those of them that are in sync: they have every acknowledged record.
status.elr | []integer | Not in sync, but known to have every acknowledged record all the same: they may lead.
status.adding | []integer | Replicas that a reassignment under way adds.
status.removing | []integer | Replicas that a reassignment under way removes in the end.
status.uncleanEpoch | integer | The latest leader epoch that began with an unclean election, with which records may
    have been lost; null: there was none.
status.startOffset | integer | The first offset there is; null: the leader has not said.
status.endOffset | integer | The offset that the next record gets.
status.highWatermark | integer | What is below is on enough replicas, and can be read.
status.bytes | integer | How much the leader has of it on its disk.
"""
_BROKER = """
metadata.name | string | Its id, as a name.
metadata.id | integer | Its own in the cluster: node_id in its configuration.
spec.address | string | Where clients find it.
spec.rack | string | Where it stands: replicas are spread over racks; null: it does not say.
status.state | string | active: it serves. fenced: it is registered, but not alive, or not ready yet. shutting-down:
    what it leads moves to others.
status.cordoned | boolean | Whether nothing new is placed there, as `lograft drain` has it.
status.epoch | integer | Another with each start of the broker.
status.leaders | integer | How many partitions it leads.
status.replicas | integer | How many partitions it has.
status.inSync | integer | How many of them it is in sync with.
status.directories | []string | The ids of its data directories.
status.disks | []Object | What is left on the disk of each; with -o wide, json or yaml. null: it does not answer.
status.disks.directory | string | The id of the data directory.
status.disks.path | string | Where that is, on its machine.
status.disks.freeBytes | integer | What is left on that disk.
status.disks.totalBytes | integer | How large the disk is.
status.disks.reserveBytes | integer | With less left no records are taken: disk.reserve.bytes in its configuration.
status.disks.full | boolean | Whether that is so.
"""
_GROUP = """
metadata.name | string | What its consumers call it.
spec.assignor | string | Who decides which member reads what: uniform, range or roundrobin.
status.state | string | empty: no members, but offsets. stable: members have what they are to have. reconciling:
    partitions are moving between members.
status.coordinator | integer | The broker that keeps its offsets and knows its members.
status.epoch | integer | Another whenever members, what they want, or their topics change.
status.lag | integer | How many records there are that it has not committed; null: somebody did not say.
status.members | []Object | Its consumers.
status.members.memberId | string | A member's own, as long as it lives.
status.members.instanceId | string | The name that a static member has for ever; null: it is not static.
status.members.clientId | string | What its program calls itself.
status.members.rack | string | Where it stands, if it says so.
status.members.topics | []string | What it wants to read.
status.members.assigned | []string | The partitions that it reads.
status.members.givingUp | []string | Of them, what another is to have next.
status.partitions | []Object | Those that members read, and those of which anything is committed.
status.partitions.topic | string | Whose partition it is.
status.partitions.partition | integer | Its number.
status.partitions.committed | integer | The offset of the next record to read; null: nothing is committed.
status.partitions.end | integer | The offset up to which records can be read.
status.partitions.lag | integer | How many records lie between.
status.partitions.member | string | Who reads it; null: nobody.
"""
_QUORUM = """
metadata.name | string | The id of the cluster.
status.leader | integer | The active controller; null: there is none.
status.term | integer | Another with each election.
status.commitIndex | integer | How much of the metadata log is decided.
status.lastIndex | integer | How much of it the leader has.
status.voters | []Object | Who decides: a majority of them has to agree.
status.learners | []Object | Who follows, and does not vote.
""" + "".join(
    f"""\
status.{role}.id | integer | The node's number.
status.{role}.address | string | Where its controller is found.
status.{role}.directoryId | string | Its own disk's: with another it would be another member.
status.{role}.matchIndex | integer | How much of the log it is known to have; null: nothing is known yet.
status.{role}.lag | integer | How many decided entries it lacks.
status.{role}.reachable | boolean | Whether it answered the leader within an election timeout; null: the server does
    not say.
status.{role}.silentMs | integer | How many milliseconds ago it last answered the leader; null: the server does not say.
status.{role}.refusal | string | Why the leader takes nothing from it; null: it does.
"""
    for role in ("voters", "learners")
)
_CONFIG = """
metadata.name | string | Whose key it is, and which: cluster/num.partitions, broker/1/log.level,
    topic/orders/retention.ms.
metadata.owner | string | Whose it is: cluster, broker/ID or topic/NAME.
metadata.key | string | The key.
spec.value | string | What is set there itself; null: nothing, so that what is in force comes from elsewhere.
status.value | string | What is in force.
status.source | string | Where that is set: topic, broker, cluster, or nowhere, so that it is the default.
status.default | string | What it would be if nothing were set anywhere; null: that depends on the topic.
status.type | string | What values look like.
status.description | string | What it means.
"""
_REASSIGNMENT = """
metadata.name | string | The partition: its topic's name, a hyphen, and the number.
metadata.topic | string | Whose partition it is.
metadata.partition | integer | Its number.
spec.from | []integer | The brokers that had it before.
spec.to | []integer | Those that will have it, the preferred leader first.
status.adding | []Object | The replicas that are added, and how far they are.
status.adding.broker | integer | Who is to have it.
status.adding.inSync | boolean | Whether it has caught up.
status.adding.endOffset | integer | How far its copy goes; null: it has not said.
status.adding.behind | integer | How many records it lacks.
status.adding.bytes | integer | How much it has on its disk.
status.removing | []integer | The replicas that leave when all of those are in sync.
status.leaderEndOffset | integer | How far the leader's copy goes.
status.leaderBytes | integer | How much that is on its disk.
"""
_CONTEXT = """
metadata.name | string | What this machine calls the cluster.
spec.bootstrap | string | Some of its brokers.
status.current | boolean | Whether commands mean this one if they do not say which.
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
    Noun.TOPIC: _kind("Topic", "A named log, in partitions that several brokers have.", _TOPIC),
    Noun.PARTITION: _kind("Partition", "A log of its own: records in the order of their offsets.", _PARTITION),
    Noun.BROKER: _kind("Broker", "A node that stores partitions.", _BROKER),
    Noun.GROUP: _kind("Group", "Consumers that share topics, and how far they are.", _GROUP),
    Noun.QUORUM: _kind("Quorum", "The nodes that decide on metadata.", _QUORUM),
    Noun.CONFIG: _kind("Config", "One key of the configuration of a topic, a broker or the cluster.", _CONFIG),
    Noun.REASSIGNMENT: _kind("Reassignment", "A partition on its way to other brokers.", _REASSIGNMENT),
    Noun.CONTEXT: _kind("Context", "A cluster that this machine knows by name.", _CONTEXT),
}
