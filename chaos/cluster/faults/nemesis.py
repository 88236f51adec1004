"""Faults that a simulated cluster promises to survive. This module has those of processes and machines."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Protocol

from lograft.chaos.cluster.faults.allowed_losses import Losses
from lograft.chaos.cluster.faults.disks import DiskFaults
from lograft.chaos.cluster.faults.network import NetworkFaults
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.cluster.world.selection import Selection
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.chaos.harness.schedule import Detail
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, TopicId
from lograft.runtime.rng import Rng

_STRANDING_LOOKS = 500
_STRANDING_LOOK_MS = 10


class NemesisTarget(Protocol):
    weather: ClusterWeather
    hosts: list[SimulatedHost]
    losses: Losses

    @property
    def image(self) -> ClusterImage: ...

    @property
    def client_hosts(self) -> list[str]: ...

    def note(self, event: str, *details: Detail) -> None: ...

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None: ...

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one host to the other from now on."""
        ...

    def heal_network(self) -> None: ...

    def slow(self, one: str, other: str, slowest_ms: float) -> None: ...

    def break_connections(self, one: str, other: str) -> None: ...

    def transfer(self, active: SimulatedHost, target: SimulatedHost) -> None: ...

    def began_fault(self, number: int, fault: str) -> None: ...


class ClusterNemesis:
    """Injects one fault at a time, drawn from those the weather allows. `met` counts each kind."""

    def __init__(self, cluster: NemesisTarget, rng: Rng, selection: Selection) -> None:
        self.met: Counter[str] = Counter()
        self.numbers_met: tuple[int, ...] = ()
        self._cluster = cluster
        self._rng = rng
        self._selection = selection
        self._first_seed = rng.getrandbits(64)
        self._numbers = count()
        self._is_over = False
        self._network = NetworkFaults(cluster, rng, self._plan)
        self._disks = DiskFaults(cluster, rng, self._end, self._plan)
        self._faults: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill_broker": self._kill_broker,
            "kill_leader": self._kill_leader,
            "kill_all": self._kill_all,
            "stop": self._stop,
            "start": self._start,
            "pause": self._pause,
            "pause_leader": self._pause_leader,
            "strand": self._strand,
            "transfer": self._transfer,
            "change_clock": self._change_clock,
            "power_failure": self._power_failure,
            "blink": self._blink,
            "blackout": self._blackout,
            "crash_in_call": self._crash_in_call,
            "crash_in_start": self._crash_in_start,
            **self._network.faults(),
            **self._disks.faults(),
        }

    def act(self) -> None:
        """Inject a fault. A cluster without a majority has little to lose, so mostly leave it alone.

        Each fault has a number and its own random numbers, so it stays the same if others are left out.
        """
        number = next(self._numbers)
        self._rng.seed(self._first_seed + number)
        fault, is_bold = self._rng.choice(self._cluster.weather.faults), self._rng.random() < 0.3
        up = sum(host.is_up for host in self._cluster.hosts)
        if (2 * up > len(self._cluster.hosts) + 1 or is_bold) and self._selection.has_fault(number):
            self._cluster.note("fault", number, fault)
            self._cluster.began_fault(number, fault)
            self.met[fault] += 1
            self.numbers_met += (number,)
            self._faults[fault]()

    def may_lose_power(self, host: SimulatedHost) -> bool:
        """Return whether a promise covers this power failure. Record it as a loss where necessary."""
        return self._disks.may_lose_power(host)

    def heal(self) -> None:
        """End all faults and cancel planned ones: nodes up, network whole and fast, disks fast, clocks right. Lost or
        damaged data stays so."""
        self._is_over = True
        for host in self._cluster.hosts:
            self._resume(host)
        self._network.heal()
        for host in self._cluster.hosts:
            host.speed.slowdown = 1.0
            host.clock.set_rate(1.0)
            host.disarm()
            host.is_expected = True
            host.make_room()
            if host.is_up and (host.has_disk_trouble or host.lacks_directories):
                self._end(host, "kill")
            host.put_back()
            if host.has_old_store:
                if host.is_up:
                    self._end(host, "kill")
                host.wipe_store()
        self.start_all()

    def start_all(self) -> None:
        """Start every node that is down."""
        for host in self._down():
            host.start()

    def _down(self) -> list[SimulatedHost]:
        return [host for host in self._cluster.hosts if not host.is_up and host.is_expected]

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
        down = self._down()
        if down:
            self._rng.choice(down).start()

    def _pause(self) -> None:
        """Pause a node for less than a session, or for longer."""
        if (host := self._any_up()) is not None:
            self._pause_for(host, self._rng.choice([300, 1200, 2500, 3500, 5000]))

    def _pause_leader(self) -> None:
        if (host := self._any_leader()) is not None:
            self._pause_for(host, self._rng.choice([2500, 3500, 5000]))

    def _pause_for(self, host: SimulatedHost, duration_ms: int) -> None:
        if not host.is_paused:
            self._cluster.note("pause", host.process, duration_ms)
            host.pause()
            process = host.process
            self._plan(duration_ms, lambda: self._resume(host) if host.process == process else None)

    def _resume(self, host: SimulatedHost) -> None:
        if host.is_paused:
            self._cluster.note("resume", host.process)
            host.resume()

    def _end(self, host: SimulatedHost, how: str) -> None:
        self._cluster.note(how, host.process)
        if how == "power":
            host.lose_power()
        else:
            host.kill()
        self._plan_start(host)

    def _plan_start(self, host: SimulatedHost, *, delay_ms: int | None = None) -> None:
        def start() -> None:
            if not host.is_up:
                host.start()

        if delay_ms is not None:
            self._plan(delay_ms, start)
        elif self._rng.random() < 0.9:
            self._plan(self._rng.choice([10, 150, 400, 800, 1500, 4500]), start)

    def _plan(self, delay_ms: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self._is_over:
                action()

        self._cluster.call_later_ms(delay_ms, act)

    # -- the last in-sync replica fails, and others return before it

    def _strand(self) -> None:
        """Restart all other brokers, so that they leave every ISR, and kill the leader before they rejoin."""
        found = [
            (key, partition.leader)
            for key, partition in _partitions(self._cluster.image)
            if partition.leader is not None and len(partition.isr) > 1
        ]
        if not found:
            return
        key, leader = self._rng.choice(found)
        self._cluster.note("strand", leader)
        for host in self._up():
            if host.is_broker and host.number != leader:
                host.kill()
                self._plan_start(host, delay_ms=10)
        self._strand_when_alone(key, leader, _STRANDING_LOOKS, self._rng.choice([1500, 4000, 8000]))

    def _strand_when_alone(self, key: tuple[TopicId, int], leader: BrokerId, looks: int, away_ms: int) -> None:
        partition = self._cluster.image.partition(*key)
        if partition is None or partition.leader != leader or not looks:
            return
        if partition.isr != (leader,):
            self._plan(_STRANDING_LOOK_MS, lambda: self._strand_when_alone(key, leader, looks - 1, away_ms))
            return
        for host in self._up():
            if host.number == leader:
                self._cluster.note("kill", host.process)
                host.kill()
                self._plan_start(host, delay_ms=away_ms)

    # -- machines

    def _power_failure(self) -> None:
        host = self._any_up()
        if host is not None and self._disks.may_lose_power(host):
            self._end(host, "power")

    def _blink(self) -> None:
        """Interrupt a node's power. It is back at once."""
        host = self._any_up()
        if host is not None and self._disks.may_lose_power(host):
            self._cluster.note("power", host.process)
            host.lose_power()
            host.start()

    def _blackout(self) -> None:
        """Cut the power of all machines, including those whose node is down."""
        if self._cluster.weather.flush_mode == "os":
            return  # no promise covers that
        for host in self._cluster.hosts:
            if host.is_up:
                self._end(host, "power")
            else:
                host.lose_power()

    def _crash_in_call(self) -> None:
        """Crash a node in the middle of a disk call."""
        if (host := self._any_up()) is not None:
            self._cluster.note("crash_in_call", host.process)
            host.files.crash_at(host.files.calls + self._rng.randint(1, 200))
            self._plan_start(host)

    def _crash_in_start(self) -> None:
        """Crash a node soon after its start, before or after the cluster knows of it."""
        if (host := self._any_up()) is not None:
            self._end(host, "kill")
            self._cluster.note("crash_in_start", host.host)
            host.start()
            host.files.crash_at(host.files.calls + self._rng.randint(1, 60))

    def _change_clock(self) -> None:
        self._rng.choice(self._cluster.hosts).clock.set_rate(self._rng.uniform(0.9, 1.1))

    def _transfer(self) -> None:
        active = [host for host in self._cluster.hosts if host.leads_quorum]
        others = [host for host in self._cluster.hosts if host.config.is_controller]
        if active:
            self._cluster.transfer(self._rng.choice(active), self._rng.choice(others))

    # -- selection

    def _up(self) -> list[SimulatedHost]:
        return [host for host in self._cluster.hosts if host.is_up]

    def _any_up(self) -> SimulatedHost | None:
        up = self._up()
        return self._rng.choice(up) if up else None

    def _any_leader(self) -> SimulatedHost | None:
        return any_leader(self._cluster.image, self._up(), self._rng)


def any_leader(image: ClusterImage, hosts: list[SimulatedHost], rng: Rng) -> SimulatedHost | None:
    """Return one of the hosts that leads a partition, according to the metadata."""
    leaders = {partition.leader: None for _, partition in _partitions(image)}
    found = [host for host in hosts if host.number in leaders]
    return rng.choice(found) if found else None


def _partitions(image: ClusterImage) -> Iterator[tuple[tuple[TopicId, int], Partition]]:
    for topic_id, topic in image.topics.items():
        for number, partition in topic.partitions.items():
            yield (topic_id, number), partition
