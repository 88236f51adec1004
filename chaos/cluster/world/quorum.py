"""The voters that the controllers of a simulated cluster agree on, and the changes and losses they can bear next."""

from collections.abc import Callable, Sequence

from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.world.raft_store import Content
from lograft.raft.core.configuration import Configuration, Member


def quorum_of(hosts: Sequence[SimulatedHost]) -> Configuration | None:
    """Return the configuration of the leader and most voters, or None while there is none."""
    leaders = [host.quorum for host in hosts if host.leads_quorum]
    for configuration in leaders:
        if configuration is None:
            continue
        if configuration.is_majority(_agrees(hosts, configuration)):
            return configuration
    return None


def _agrees(hosts: Sequence[SimulatedHost], configuration: Configuration) -> Callable[[Member], bool]:
    agreeing = {host.number for host in hosts if host.quorum == configuration}
    return lambda member: member.node_id in agreeing


def missing_voters(hosts: Sequence[SimulatedHost], configuration: Configuration) -> list[SimulatedHost]:
    """Return the controllers that do not vote with their present disk."""
    voters = {(member.node_id, member.directory_id) for member in configuration.voters}
    controllers = [host for host in hosts if host.config.is_controller]
    return [host for host in controllers if (host.number, host.disk.content.identity.directory_id) not in voters]


def may_put_store_back(hosts: Sequence[SimulatedHost], host: SimulatedHost, copy: Content) -> bool:
    """Return whether a voter's disk may be replaced by an old copy: one of three may, if all others know of a later
    start of the voter."""
    now = host.disk.content
    member, others = now.identity.member, [other for other in hosts if other.config.is_controller and other is not host]
    return (
        may_lose_store(hosts)
        and copy.identity == now.identity
        and now.starts.count > 0
        and not copy.starts.has_had(now.starts.latest)
        and all(dict(other.disk.content.seen_starts).get(member) == now.starts.latest for other in others)
    )


def may_lose_store(hosts: Sequence[SimulatedHost]) -> bool:
    """Return whether a voter may lose its disk: one of three may, if all have theirs."""
    if any(host.has_old_store for host in hosts):
        return False
    configuration = quorum_of(hosts)
    return configuration is not None and len(configuration.voters) > 2 and not missing_voters(hosts, configuration)
