"""Network faults between the hosts of a simulated cluster, including its clients."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.chaos.harness.schedule import Detail
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.runtime.rng import Rng

Plan: TypeAlias = Callable[[int, Callable[[], None]], None]
"""Runs an action after a number of milliseconds."""


class NetworkTarget(Protocol):
    weather: ClusterWeather
    hosts: list[SimulatedHost]

    @property
    def image(self) -> ClusterImage: ...

    @property
    def client_hosts(self) -> list[str]: ...

    def note(self, event: str, *details: Detail) -> None: ...

    def cut(self, source: str, target: str) -> None: ...

    def heal_network(self) -> None: ...

    def slow(self, one: str, other: str, slowest_ms: float) -> None: ...

    def break_connections(self, one: str, other: str) -> None: ...


class NetworkFaults:
    def __init__(self, cluster: NetworkTarget, rng: Rng, plan: Plan) -> None:
        self._cluster = cluster
        self._rng = rng
        self._plan = plan

    def faults(self) -> dict[str, Callable[[], None]]:
        return {
            "cut": self._cut,
            "isolate_leader": self._isolate_leader,
            "cut_from_controllers": self._cut_from_controllers,
            "slow_link": self._slow_link,
            "break_streams": self._break_streams,
            "heal": self._cluster.heal_network,
        }

    def heal(self) -> None:
        """End all network faults permanently."""
        cluster = self._cluster
        cluster.heal_network()
        names = [*(host.host for host in cluster.hosts), *cluster.client_hosts]
        for one in names:
            for other in names:
                cluster.slow(one, other, cluster.weather.delay_ms[1])

    def _cut(self) -> None:
        """Cut some hosts off from others, clients included, perhaps in one direction only."""
        hosts = [*(host.host for host in self._cluster.hosts), *self._cluster.client_hosts]
        some = self._rng.sample(hosts, self._rng.randint(1, 2))
        self._separate(some, [host for host in hosts if host not in some and self._rng.random() < 0.6])

    def _isolate_leader(self) -> None:
        """Cut a leader off from the other nodes. Clients may still reach it."""
        leaders = {
            partition.leader: None
            for topic in self._cluster.image.topics.values()
            for partition in topic.partitions.values()
        }
        found = [host for host in self._cluster.hosts if host.is_up and host.number in leaders]
        if found:
            leader = self._rng.choice(found)
            others = [host.host for host in self._cluster.hosts if host is not leader]
            if self._rng.random() < 0.3:
                others += self._cluster.client_hosts
            self._separate([leader.host], others)

    def _cut_from_controllers(self) -> None:
        host = self._rng.choice(self._cluster.hosts)
        controllers = [one.host for one in self._cluster.hosts if one.config.is_controller and one is not host]
        self._separate([host.host], controllers)

    def _separate(self, some: list[str], others: list[str]) -> None:
        one_way = self._rng.random() < 0.3
        for one in some:
            for other in others:
                self._cluster.cut(one, other)
                if not one_way:
                    self._cluster.cut(other, one)
        if self._rng.random() < 0.9:
            self._plan(self._rng.choice([200, 700, 1500, 2500, 4000]), self._cluster.heal_network)

    def _slow_link(self) -> None:
        one, other = self._rng.choice(self._cluster.hosts), self._rng.choice(self._cluster.hosts)
        slowest_ms = self._rng.choice([2.0, 100.0, 600.0])
        self._cluster.note("slow", one.host, other.host, slowest_ms)
        self._cluster.slow(one.host, other.host, slowest_ms)

    def _break_streams(self) -> None:
        one, other = self._rng.sample(self._cluster.hosts, 2)
        self._cluster.break_connections(one.host, other.host)
