"""Nodes as resources: the broker and the controller of each node."""

from collections.abc import Sequence

from lograft.cli.common.best_effort import ask_soon
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.nouns import parse_id
from lograft.cli.output.resource_output import Column, Resource, resource
from lograft.clients.admin.cluster_admin import ClusterAdmin
from lograft.clients.admin.model.types import BrokerDescription, QuorumDescription, QuorumMember


async def nodes(admin: ClusterAdmin, names: Sequence[str]) -> list[Resource]:
    """Return the nodes with these ids, or all. Without a quorum, only brokers are known."""
    cluster = await admin.describe_cluster()
    quorum, _ = await ask_soon(admin.describe_quorum())
    brokers = {broker.id: broker for broker in cluster.brokers}
    members = {member.node_id: member for member in quorum.members} if quorum is not None else {}
    known = sorted({*brokers, *members})
    wanted = [parse_id(name, "node") for name in names] or known
    for node_id in wanted:
        if node_id not in known:
            raise CommandError(f"unknown node {node_id}", "list nodes with `lograft get nodes`")
    return [node_resource(node_id, brokers.get(node_id), members.get(node_id), quorum) for node_id in wanted]


def node_resource(
    node_id: int, broker: BrokerDescription | None, member: QuorumMember | None, quorum: QuorumDescription | None
) -> Resource:
    roles = [role for role, part in (("controller", member), ("broker", broker)) if part is not None]
    return resource(
        "Node",
        {"name": str(node_id), "id": node_id},
        spec={
            "roles": roles,
            "address": broker.address if broker is not None else None,
            "controllerAddress": member.address if member is not None else None,
            "rack": broker.rack if broker is not None else None,
        },
        status={
            "broker": broker.state.value if broker is not None else None,
            "controller": _controller_state(member, quorum),
        },
    )


def _controller_state(member: QuorumMember | None, quorum: QuorumDescription | None) -> str | None:
    if member is None or quorum is None:
        return None
    if member.node_id == quorum.leader_id:
        return "leader"
    role = "voter" if member.is_voter else "learner"
    return f"{role},unreachable" if member.is_unreachable else role


def _is_bad(each: Resource) -> bool:
    return each["status"]["broker"] not in (None, "active")


NODE_COLUMNS = (
    Column("ID", lambda each: each["metadata"]["id"], is_number=True),
    Column("ROLES", lambda each: each["spec"]["roles"]),
    Column("BROKER", lambda each: each["status"]["broker"], is_bad=_is_bad),
    Column(
        "CONTROLLER",
        lambda each: each["status"]["controller"],
        is_bad=lambda each: "unreachable" in (each["status"]["controller"] or ""),
    ),
    Column("ADDRESS", lambda each: each["spec"]["address"]),
    Column("CONTROLLER ADDRESS", lambda each: each["spec"]["controllerAddress"]),
    Column("RACK", lambda each: each["spec"]["rack"], is_wide=True),
)
