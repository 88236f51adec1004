"""Topics, partitions, brokers and the quorum as resources: `apiVersion, kind, metadata, spec, status`. Pure."""

from collections.abc import Iterable
from typing import Any

from lograft.cli.common.units import span_text
from lograft.cli.output.resource_output import Column, Resource, resource
from lograft.cli.resources.disk_resources import free_text, is_any_full
from lograft.clients.admin.model.types import (
    BrokerDescription,
    ClusterDescription,
    PartitionDescription,
    QuorumDescription,
    QuorumMember,
    ReplicaDescription,
    TopicDescription,
)


def _status(name: str) -> Any:
    return lambda each: each["status"][name]


def _spec(name: str) -> Any:
    return lambda each: each["spec"][name]


def _metadata(name: str) -> Any:
    return lambda each: each["metadata"][name]


# -- topics


def topic_resource(topic: TopicDescription) -> Resource:
    partitions = topic.partitions
    return resource(
        "Topic",
        {"name": topic.name, "id": str(topic.id), "internal": topic.is_internal},
        spec={
            "partitions": len(partitions),
            "replicas": topic.replication_factor,
            "config": dict(topic.config),
        },
        status={
            "underReplicated": sum(not partition.is_in_sync for partition in partitions),
            "offline": sum(partition.leader is None for partition in partitions),
        },
    )


def _config_text(each: Resource) -> str:
    return ",".join(f"{key}={value}" for key, value in each["spec"]["config"].items())


TOPIC_COLUMNS = (
    Column("NAME", _metadata("name")),
    Column("PARTITIONS", _spec("partitions"), is_number=True),
    Column("REPLICAS", _spec("replicas"), is_number=True),
    Column("UNDER-REPLICATED", _status("underReplicated"), is_number=True, is_bad=_status("underReplicated")),
    Column("OFFLINE", _status("offline"), is_number=True, is_bad=_status("offline")),
    Column("ID", _metadata("id"), is_wide=True),
    Column("CONFIG", _config_text, is_wide=True),
)


# -- partitions


def partition_resources(
    partitions: Iterable[PartitionDescription], replicas: Iterable[ReplicaDescription]
) -> list[Resource]:
    """Return partitions with the offsets and sizes of their leaders, if these are in `replicas`."""
    led = {replica.partition: replica for replica in replicas if replica.is_leader}
    return [partition_resource(partition, led.get(partition.name)) for partition in partitions]


def partition_resource(partition: PartitionDescription, led: ReplicaDescription | None = None) -> Resource:
    """Return a partition. `led`: its leader's copy, if known."""
    return resource(
        "Partition",
        {"name": f"{partition.topic}-{partition.number}", "topic": partition.topic, "partition": partition.number},
        status={
            "leader": partition.leader,
            "leaderEpoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "elr": list(partition.elr),
            "adding": list(partition.adding),
            "removing": list(partition.removing),
            "uncleanEpoch": partition.unclean_epoch,
            "startOffset": led.start if led is not None else None,
            "endOffset": led.end if led is not None else None,
            "highWatermark": led.high_watermark if led is not None else None,
            "bytes": led.size_bytes if led is not None else None,
        },
    )


PARTITION_COLUMNS = (
    Column("TOPIC", _metadata("topic")),
    Column("PARTITION", _metadata("partition"), is_number=True),
    Column("LEADER", _status("leader"), is_number=True, is_bad=lambda each: each["status"]["leader"] is None),
    Column("EPOCH", _status("leaderEpoch"), is_number=True),
    Column("REPLICAS", _status("replicas")),
    Column(
        "ISR", _status("isr"), is_bad=lambda each: not set(each["status"]["isr"]) >= set(each["status"]["replicas"])
    ),
    Column("ELR", _status("elr"), is_wide=True),
    Column("START", _status("startOffset"), is_number=True, is_wide=True),
    Column("WATERMARK", _status("highWatermark"), is_number=True, is_wide=True),
    Column("END", _status("endOffset"), is_number=True, is_wide=True),
    Column("BYTES", _status("bytes"), is_number=True, is_wide=True),
)


def replica_status(replica: ReplicaDescription) -> Resource:
    """Return one broker's copy of a partition, as a row."""
    return {
        "broker": replica.broker,
        "role": "leader" if replica.is_leader else "follower",
        "startOffset": replica.start,
        "endOffset": replica.end,
        "highWatermark": replica.high_watermark,
        "bytes": replica.size_bytes,
        "directoryId": str(replica.directory),
    }


def hosted_status(partition: PartitionDescription, broker_id: int, replica: ReplicaDescription | None) -> Resource:
    """Return one partition of a broker, as a row. `replica`: the broker's copy, if known."""
    return {
        "topic": partition.topic,
        "partition": partition.number,
        "role": "leader" if partition.leader == broker_id else "follower",
        "inSync": broker_id in partition.isr,
        "endOffset": replica.end if replica is not None else None,
        "bytes": replica.size_bytes if replica is not None else None,
        "directoryId": str(replica.directory) if replica is not None else None,
    }


# -- brokers


def broker_resource(broker: BrokerDescription, cluster: ClusterDescription) -> Resource:
    """Return a broker. Counts include internal topics if `cluster` does."""
    partitions = [partition for topic in cluster.topics for partition in topic.partitions]
    return resource(
        "Broker",
        {"name": str(broker.id), "id": broker.id},
        spec={"address": broker.address, "rack": broker.rack},
        status={
            "state": broker.state.value,
            "cordoned": broker.is_cordoned,
            "epoch": broker.epoch,
            "version": broker.version,
            "leaders": sum(partition.leader == broker.id for partition in partitions),
            "replicas": sum(broker.id in partition.replicas for partition in partitions),
            "inSync": sum(broker.id in partition.isr for partition in partitions),
            "directories": list(map(str, broker.directories)),
        },
    )


def _uptime_text(each: Resource) -> str | None:
    uptime_ms = each["status"].get("uptimeMs")
    return None if uptime_ms is None else span_text(uptime_ms)


def version_text(each: Resource) -> str:
    """Return the version of lograft that the broker runs, as far as it is known."""
    return each["status"]["version"] or "<unknown>"


BROKER_COLUMNS = (
    Column("ID", _metadata("id"), is_number=True),
    Column("ADDRESS", _spec("address")),
    Column(
        "STATE",
        lambda each: each["status"]["state"] + (",cordoned" if each["status"]["cordoned"] else ""),
        is_bad=lambda each: each["status"]["state"] != "active",
    ),
    Column("RACK", _spec("rack")),
    Column("LEADERS", _status("leaders"), is_number=True),
    Column("REPLICAS", _status("replicas"), is_number=True),
    Column("IN-SYNC", _status("inSync"), is_number=True, is_wide=True),
    Column("VERSION", version_text, is_wide=True),
    Column("HOST", lambda each: each["spec"]["address"].rpartition(":")[0], is_wide=True),
    Column("EPOCH", _status("epoch"), is_number=True, is_wide=True),
    Column("UPTIME", _uptime_text, is_number=True, is_wide=True),
    Column("DISK FREE", free_text, is_number=True, is_wide=True, is_bad=is_any_full),
    Column("DIRECTORIES", _status("directories"), is_wide=True),
)


# -- the quorum


def quorum_resource(quorum: QuorumDescription) -> Resource:
    return resource(
        "Quorum",
        {"name": quorum.cluster_id},
        status={
            "leader": quorum.leader_id,
            "term": quorum.term,
            "commitIndex": quorum.commit_index,
            "lastIndex": quorum.last_index,
            "voters": _members(quorum.voters, quorum),
            "learners": _members((member for member in quorum.members if not member.is_voter), quorum),
        },
    )


def _members(members: Iterable[QuorumMember], quorum: QuorumDescription) -> list[Resource]:
    return [
        {
            "id": member.node_id,
            "address": member.address,
            "directoryId": str(member.directory_id) if member.directory_id is not None else None,
            "matchIndex": member.match_index,
            "lag": max(quorum.commit_index - member.match_index, 0) if member.match_index is not None else None,
            "reachable": None if member.silent_ms is None else not member.is_unreachable,
            "silentMs": member.silent_ms,
            "refusal": member.refusal,
        }
        for member in members
    ]


def _ids(name: str) -> Any:
    return lambda each: [member["id"] for member in each["status"][name]]


def _unreachable_voters(each: Resource) -> list[int]:
    return [member["id"] for member in each["status"]["voters"] if member["reachable"] is False]


QUORUM_COLUMNS = (
    Column("CLUSTER", _metadata("name")),
    Column("LEADER", _status("leader"), is_number=True, is_bad=lambda each: each["status"]["leader"] is None),
    Column("TERM", _status("term"), is_number=True),
    Column("COMMIT", _status("commitIndex"), is_number=True),
    Column("VOTERS", _ids("voters")),
    Column("UNREACHABLE", _unreachable_voters, is_bad=lambda each: bool(_unreachable_voters(each))),
    Column("LEARNERS", _ids("learners"), is_wide=True),
    Column("LAST", _status("lastIndex"), is_number=True, is_wide=True),
)
