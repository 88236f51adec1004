"""Groups as resources: `apiVersion, kind, metadata, spec, status`. Pure."""

from collections.abc import Mapping

from lograft.cli.output.resource_output import Column, Resource, resource
from lograft.cli.resources.group_health import Judgement, sum_up
from lograft.clients.admin.model.group_types import (
    GroupDescription,
    GroupListing,
    GroupOffset,
    GroupState,
    MemberDescription,
)
from lograft.clients.types import TopicPartition


def listed_group(group: GroupListing) -> Resource:
    """Return a group from a listing, without a call per group."""
    return resource(
        "Group",
        {"name": group.name},
        spec={},
        status={"state": group.state.value, "members": group.members, "coordinator": group.coordinator},
    )


def group_resource(group: GroupDescription, offsets: Mapping[TopicPartition, GroupOffset]) -> Resource:
    """Return a group with its assigned partitions and those with committed offsets."""
    holders = {partition: member for member in group.members for partition in member.assigned}
    names = sorted({**dict.fromkeys(offsets), **dict.fromkeys(holders)})
    lags = [offset.lag for offset in offsets.values()]
    return resource(
        "Group",
        {"name": group.name},
        spec={"assignor": group.assignor},
        status={
            "state": group.state.value,
            "coordinator": group.coordinator,
            "epoch": group.epoch,
            "lag": None if None in lags else sum(lag for lag in lags if lag is not None),
            "members": [_member(member) for member in group.members],
            "partitions": [_partition(name, offsets.get(name), holders.get(name)) for name in names],
        },
    )


def judged_resource(group: Resource, judgements: Mapping[TopicPartition, Judgement], state: GroupState) -> Resource:
    """Add verdicts to a group and its partitions."""
    whole = sum_up(judgements, state)
    group["status"] |= {"verdict": whole.verdict.value, "reason": whole.reason}
    for each in group["status"]["partitions"]:
        each["verdict"] = judgements[TopicPartition(each["topic"], each["partition"])].verdict.value
    return group


def _member(member: MemberDescription) -> Resource:
    return {
        "memberId": member.member_id,
        "instanceId": member.instance_id,
        "clientId": member.client_id,
        "rack": member.rack,
        "topics": list(member.topics),
        "assigned": [f"{name.topic}-{name.partition}" for name in member.assigned],
        "givingUp": [f"{name.topic}-{name.partition}" for name in member.giving_up],
    }


def _partition(name: TopicPartition, offset: GroupOffset | None, holder: MemberDescription | None) -> Resource:
    return {
        "topic": name.topic,
        "partition": name.partition,
        "committed": None if offset is None else offset.committed,
        "end": None if offset is None else offset.end,
        "lag": None if offset is None else offset.lag,
        "member": None if holder is None else holder.instance_id or holder.member_id,
    }


def _members(each: Resource) -> int:
    members = each["status"]["members"]
    return members if isinstance(members, int) else len(members)


GROUP_COLUMNS = (
    Column("NAME", lambda each: each["metadata"]["name"]),
    Column("STATE", lambda each: each["status"]["state"]),
    Column("MEMBERS", _members, is_number=True),
    Column("COORDINATOR", lambda each: each["status"]["coordinator"], is_number=True),
    Column("LAG", lambda each: each["status"].get("lag"), is_number=True, is_wide=True),
)
