"""What goes wrong in a simulated cluster: anything that it promises to survive.

What is lost for good (a disk that is replaced, or cannot be synced) is lost only while everything else that was
acknowledged is known to be on another disk too: nobody promises more.
"""

from collections.abc import Callable
from typing import Protocol

from lograft.chaos.cluster_node import SimulatedHost
from lograft.chaos.cluster_weather import ClusterWeather
from lograft.chaos.raft_schedule import Detail
from lograft.metadata.image import ClusterImage
from lograft.runtime.rng import Rng


class Cluster(Protocol):
    weather: ClusterWeather
    hosts: list[SimulatedHost]

    @property
    def image(self) -> ClusterImage: ...

    def note(self, event: str, *details: Detail) -> None: ...

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None: ...

    def pause(self, host: SimulatedHost, duration_ms: int) -> None:
        """Nothing of it runs for a while; its connections stay."""
        ...

    def resume_all(self) -> None: ...

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from one host to the other any more."""
        ...

    def heal_network(self) -> None: ...

    def slow(self, one: str, other: str, slowest_ms: float) -> None: ...

    def break_connections(self, one: str, other: str) -> None: ...

    def transfer(self, active: SimulatedHost, target: SimulatedHost) -> None: ...

    @property
    def client_hosts(self) -> list[str]: ...


class ClusterNemesis:
    """One fault at a time, drawn from those the weather allows."""

    def __init__(self, cluster: Cluster, rng: Rng) -> None:
        self._cluster = cluster
        self._rng = rng
        self._is_over = False
        self._faults: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill_broker": self._kill_broker,
            "kill_leader": self._kill_leader,
            "kill_all": self._kill_all,
            "stop": self._stop,
            "start": self._start,
            "pause": self._pause,
            "pause_leader": self._pause_leader,
            "cut": self._cut,
            "isolate_leader": self._isolate_leader,
            "cut_from_controllers": self._cut_from_controllers,
            "slow_link": self._slow_link,
            "slow_disk": self._slow_disk,
            "break_streams": self._break_streams,
            "transfer": self._transfer,
            "heal": self._cluster.heal_network,
            "change_clock": self._change_clock,
            "power_failure": self._power_failure,
            "blink": self._blink,
            "blackout": self._blackout,
            "crash_in_call": self._crash_in_call,
            "wipe": self._wipe,
            "fail_sync": self._fail_sync,
        }

    def act(self) -> None:
        """A cluster that has no majority has little to lose: mostly it is not troubled further."""
        up = sum(host.is_up for host in self._cluster.hosts)
        if 2 * up > len(self._cluster.hosts) + 1 or self._rng.random() < 0.3:
            self._faults[self._rng.choice(self._cluster.weather.faults)]()

    def heal(self) -> None:
        """Everything works again, and whatever was planned is not: all nodes up, network whole and quick, disks quick,
        clocks right."""
        cluster = self._cluster
        self._is_over = True
        cluster.resume_all()
        cluster.heal_network()
        names = [*(host.host for host in cluster.hosts), *cluster.client_hosts]
        for one in names:
            for other in names:
                cluster.slow(one, other, cluster.weather.delay_ms[1])
        for host in cluster.hosts:
            host.speed.slowdown = 1.0
            host.clock.set_rate(1.0)
            host.disarm()
            if host.is_up and host.broken_directories:
                self._end(host, "kill")
        self.start_all()

    def start_all(self) -> None:
        """Whoever is down."""
        for host in self._cluster.hosts:
            if not host.is_up:
                host.start()

    # -- processes

    def _kill(self) -> None:
        if (host := self._any_up()) is not None:
            self._end(host, "kill")

    def _kill_broker(self) -> None:
        up = [host for host in self._up() if host.is_broker]
        if up:
            self._end(self._rng.choice(up), "kill")

    def _kill_leader(self) -> None:
        if (host := self._any_leader()) is not None:
            self._end(host, "kill")

    def _kill_all(self) -> None:
        for host in self._up():
            self._end(host, "kill")

    def _stop(self) -> None:
        if (host := self._any_up()) is not None:
            self._cluster.note("stop", host.process)
            host.stop()
            self._plan_start(host)

    def _start(self) -> None:
        down = [host for host in self._cluster.hosts if not host.is_up]
        if down:
            self._rng.choice(down).start()

    def _pause(self) -> None:
        """For less than a session, or for longer."""
        if (host := self._any_up()) is not None:
            self._cluster.pause(host, self._rng.choice([300, 1200, 2500, 3500, 5000]))

    def _pause_leader(self) -> None:
        if (host := self._any_leader()) is not None:
            self._cluster.pause(host, self._rng.choice([2500, 3500, 5000]))

    def _end(self, host: SimulatedHost, how: str) -> None:
        self._cluster.note(how, host.process)
        if how == "power":
            host.lose_power()
        else:
            host.kill()
        self._plan_start(host)

    def _plan_start(self, host: SimulatedHost) -> None:
        def start() -> None:
            if not host.is_up:
                host.start()

        if self._rng.random() < 0.9:
            self._plan(self._rng.choice([10, 150, 400, 800, 1500, 4500]), start)

    def _plan(self, delay_ms: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self._is_over:
                action()

        self._cluster.call_later_ms(delay_ms, act)

    # -- machines

    def _power_failure(self) -> None:
        if (host := self._any_up()) is not None:
            self._end(host, "power")

    def _blink(self) -> None:
        """The power is back at once."""
        if (host := self._any_up()) is not None:
            self._cluster.note("power", host.process)
            host.lose_power()
            host.start()

    def _blackout(self) -> None:
        """Everywhere, for those that are down too."""
        for host in self._cluster.hosts:
            if host.is_up:
                self._end(host, "power")
            else:
                host.lose_power()

    def _crash_in_call(self) -> None:
        """In the middle of something that it does with its disk."""
        if (host := self._any_up()) is not None:
            self._cluster.note("crash_in_call", host.process)
            host.files.crash_at(host.files.calls + self._rng.randint(1, 200))
            self._plan_start(host)

    def _slow_disk(self) -> None:
        self._rng.choice(self._cluster.hosts).speed.slowdown = self._rng.choice([1.0, 10.0, 100.0])

    def _change_clock(self) -> None:
        self._rng.choice(self._cluster.hosts).clock.set_rate(self._rng.uniform(0.9, 1.1))

    # -- disks

    def _wipe(self) -> None:
        host = self._any_expendable()
        if host is not None:
            if host.is_up:
                self._end(host, "kill")
            for directory in host.config.data_dirs:
                if self._rng.random() < 0.7:
                    host.wipe(directory)

    def _fail_sync(self) -> None:
        host = self._any_expendable()
        if host is not None and host.is_up:
            directory = self._rng.choice(host.config.data_dirs)
            self._cluster.note("fail_sync", host.process, directory)
            host.files.fail_next_sync(f"{directory}/")
            host.broken_directories.append(directory)

    def _any_expendable(self) -> SimulatedHost | None:
        """Whose disks may be lost: everything is on all its replicas, and none of them is about to be lost."""
        brokers = [host for host in self._cluster.hosts if host.is_broker]
        if any(host.broken_directories for host in brokers) or not self._is_whole():
            return None
        return self._rng.choice(brokers)

    def _is_whole(self) -> bool:
        return all(
            len(partition.replicas) > 1 and len(partition.isr) == len(partition.replicas) and not partition.target
            for topic in self._cluster.image.topics.values()
            for partition in topic.partitions.values()
        )

    # -- the network

    def _cut(self) -> None:
        """Between some, perhaps in one direction only; clients included."""
        hosts = [*(host.host for host in self._cluster.hosts), *self._cluster.client_hosts]
        some = self._rng.sample(hosts, self._rng.randint(1, 2))
        self._separate(some, [host for host in hosts if host not in some and self._rng.random() < 0.6])

    def _isolate_leader(self) -> None:
        """From the other nodes; clients may still reach it."""
        if (leader := self._any_leader()) is not None:
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

    def _transfer(self) -> None:
        active = [host for host in self._cluster.hosts if host.leads_quorum]
        others = [host for host in self._cluster.hosts if host.config.is_controller]
        if active:
            self._cluster.transfer(self._rng.choice(active), self._rng.choice(others))

    # -- who

    def _up(self) -> list[SimulatedHost]:
        return [host for host in self._cluster.hosts if host.is_up]

    def _any_up(self) -> SimulatedHost | None:
        up = self._up()
        return self._rng.choice(up) if up else None

    def _any_leader(self) -> SimulatedHost | None:
        """One that leads a partition, as the metadata has it."""
        leaders = {
            partition.leader: None
            for topic in self._cluster.image.topics.values()
            for partition in topic.partitions.values()
        }
        up = [host for host in self._up() if host.number in leaders]
        return self._rng.choice(up) if up else None
