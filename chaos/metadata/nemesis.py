"""Faults of a simulated metadata cluster, limited to those it must recover from automatically.

A lost disk may take the last copy of a partition with it. Controllers keep their disks.
"""

from collections.abc import Callable
from typing import Protocol

from lograft.chaos.harness.schedule import Detail
from lograft.chaos.metadata.broker import SimulatedBroker
from lograft.chaos.metadata.controller import SimulatedController
from lograft.chaos.metadata.weather import MetadataWeather
from lograft.runtime.rng import Rng


class MetadataTarget(Protocol):
    weather: MetadataWeather
    brokers: list[SimulatedBroker]
    quorum: list[SimulatedController]

    def note(self, event: str, *details: Detail) -> None: ...

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None: ...

    def pause(self, node: SimulatedBroker | SimulatedController, duration_ms: int) -> None:
        """Let none of the node's code run for a while. Its connections remain."""
        ...

    def resume_all(self) -> None:
        """Resume all paused nodes."""
        ...

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one host to the other from now on."""
        ...

    def heal_network(self) -> None: ...

    def slow(self, host: str, slowest_ms: float) -> None:
        """Delay traffic from and to this host by up to `slowest_ms`."""
        ...

    def break_connections(self, one: str, other: str) -> None: ...

    def transfer(self, active: SimulatedController, target: SimulatedController) -> None: ...


class MetadataNemesis:
    """Injects one fault at a time, drawn from those the weather allows."""

    def __init__(self, cluster: MetadataTarget, rng: Rng) -> None:
        self._cluster = cluster
        self._rng = rng
        self._is_over = False
        self._faults: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill_leader": self._kill_leader,
            "power_failure": self._power_failure,
            "blink": self._blink,
            "wipe": self._wipe,
            "stop": self._stop,
            "start": self._start,
            "pause": self._pause,
            "cut_from_controllers": self._cut_from_controllers,
            "cut_from_brokers": self._cut_from_brokers,
            "slow_broker": self._slow_broker,
            "break_streams": self._break_streams,
            "fail_directory": self._fail_directory,
            "rot": self._rot,
            "kill_controller": self._kill_controller,
            "kill_active": self._kill_active,
            "start_controller": self._start_controller,
            "pause_controller": self._pause_controller,
            "isolate_active": self._isolate_active,
            "cut_controllers": self._cut_controllers,
            "transfer": self._transfer,
            "slow_disk": self._slow_disk,
            "change_clock": self._change_clock,
            "heal": self._cluster.heal_network,
        }

    def act(self) -> None:
        if self._cluster.weather.faults:
            self._faults[self._rng.choice(self._cluster.weather.faults)]()

    def heal(self) -> None:
        """End all faults and cancel planned ones: nodes up, network whole and fast, disks fast, clocks right."""
        cluster = self._cluster
        self._is_over = True
        cluster.resume_all()
        cluster.heal_network()
        for node in (*cluster.quorum, *cluster.brokers):
            node.speed.slowdown = 1.0
            node.clock.set_rate(1.0)
            cluster.slow(node.host, cluster.weather.delay_ms[1])
        for broker in cluster.brokers:
            if broker.is_up and len(broker.disks.healthy) < len(broker.disks.directories):
                self._end(broker, "kill")
        self.start_all()

    def start_all(self) -> None:
        """Start every node that is down."""
        for controller in self._cluster.quorum:
            if not controller.is_up:
                self._start_one(controller)
        for broker in self._cluster.brokers:
            if not broker.is_up:
                broker.disks.repair()
                self._restart(broker)

    # -- brokers

    def _kill(self) -> None:
        """Kill a broker's process. Data in the kernel remains."""
        if (broker := self._any_up()) is not None:
            self._end(broker, "kill")

    def _kill_leader(self) -> None:
        """Kill a broker that leads a partition, according to the metadata."""
        up = [broker for broker in self._cluster.brokers if broker.is_up and broker.follower is not None]
        leading = [one for one in up if one.follower is not None and one.follower.image.leader_count(one.broker_id)]
        if leading:
            self._end(self._rng.choice(leading), "kill")

    def _power_failure(self) -> None:
        broker = self._rng.choice(self._cluster.brokers)
        if broker.is_up:
            self._end(broker, "power")
        else:
            self._cluster.note("power", broker.host)
        broker.disks.lose_power()

    def _blink(self) -> None:
        """Interrupt a broker's power. It is back at once."""
        if (broker := self._any_up()) is not None:
            self._cluster.note("blink", broker.process)
            broker.kill()
            broker.disks.lose_power()
            self._restart(broker)

    def _wipe(self) -> None:
        """Replace one disk of a broker by an empty one."""
        broker = self._rng.choice(self._cluster.brokers)
        if broker.is_up:
            self._end(broker, "wipe")
        else:
            self._cluster.note("wipe", broker.host)
        broker.disks.wipe(self._rng.randrange(4))

    def _end(self, broker: SimulatedBroker, how: str) -> None:
        self._cluster.note(how, broker.process)
        broker.kill()
        self._plan_restart(broker)

    def _plan_restart(self, broker: SimulatedBroker) -> None:
        def restart() -> None:
            if not broker.is_up:
                self._restart(broker)

        if self._rng.random() < 0.8:
            self._plan(self._rng.choice([10, 150, 800, 3000, 6000]), restart)

    def _plan(self, delay_ms: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self._is_over:
                action()

        self._cluster.call_later_ms(delay_ms, act)

    def _restart(self, broker: SimulatedBroker) -> None:
        if self._rng.random() < 0.5 or not broker.disks.healthy:
            broker.disks.repair()
        broker.start()
        self._cluster.note("start", broker.process)

    def _stop(self) -> None:
        if (broker := self._any_up()) is not None:
            self._cluster.note("stop", broker.process)
            broker.stop()
            self._plan_restart(broker)

    def _start(self) -> None:
        down = [broker for broker in self._cluster.brokers if not broker.is_up]
        if down:
            self._restart(self._rng.choice(down))

    def _pause(self) -> None:
        """Pause a broker for less than a session, or for longer."""
        if (broker := self._any_up()) is not None:
            self._cluster.pause(broker, self._rng.choice([300, 1200, 2500, 4000, 7000]))

    def _fail_directory(self) -> None:
        broker = self._any_up()
        if broker is None or broker.stub is None or len(broker.disks.healthy) < 2:
            return  # a process without a usable directory ends
        directory = self._rng.choice(broker.disks.healthy)
        self._cluster.note("fail_directory", broker.process, str(directory.directory_id)[:4])
        broker.stub.fail_directory(directory)

    def _rot(self) -> None:
        broker = self._any_up()
        if broker is None or broker.stub is None:
            return
        logs = [(key, log) for directory in broker.disks.healthy for key, log in directory.logs.items()]
        logs = [(key, log) for key, log in logs if not log.is_corrupt and log.end > 0]
        if logs:
            key, log = self._rng.choice(logs)
            self._cluster.note("rot", broker.process, str(key[0])[:4], key[1])
            broker.stub.rot(key, log)

    def _any_up(self) -> SimulatedBroker | None:
        up = [broker for broker in self._cluster.brokers if broker.is_up]
        return self._rng.choice(up) if up else None

    # -- controllers

    def _kill_controller(self) -> None:
        up = [controller for controller in self._cluster.quorum if controller.is_up]
        if up:
            self._end_controller(self._rng.choice(up))

    def _kill_active(self) -> None:
        if (active := self._active()) is not None:
            self._end_controller(active)

    def _end_controller(self, controller: SimulatedController) -> None:
        def restart() -> None:
            if not controller.is_up:
                self._start_one(controller)

        self._cluster.note("kill", controller.process)
        controller.kill()
        if self._rng.random() < 0.9:
            self._plan(self._rng.choice([10, 200, 800, 3000]), restart)

    def _start_controller(self) -> None:
        down = [controller for controller in self._cluster.quorum if not controller.is_up]
        if down:
            self._start_one(self._rng.choice(down))

    def _start_one(self, controller: SimulatedController) -> None:
        controller.start()
        self._cluster.note("start", controller.process)

    def _pause_controller(self) -> None:
        up = [controller for controller in self._cluster.quorum if controller.is_up]
        active = self._active()
        if active is not None and self._rng.random() < 0.5:
            up = [active]
        if up:
            self._cluster.pause(self._rng.choice(up), self._rng.choice([100, 700, 2000, 4000]))

    def _transfer(self) -> None:
        if (active := self._active()) is not None:
            self._cluster.transfer(active, self._rng.choice(self._cluster.quorum))

    def _active(self) -> SimulatedController | None:
        """Return a controller that leads the quorum, or believes that it does."""
        leading = [controller for controller in self._cluster.quorum if controller.leads]
        return self._rng.choice(leading) if leading else None

    # -- the network

    def _cut_from_controllers(self) -> None:
        broker = self._rng.choice(self._cluster.brokers)
        whom = [one for one in self._cluster.quorum if self._rng.random() < 0.7]
        self._separate([broker.host], [controller.host for controller in whom])

    def _cut_from_brokers(self) -> None:
        """Cut a broker off from others: replication stops, although the controllers see the broker as alive."""
        broker = self._rng.choice(self._cluster.brokers)
        others = [other for other in self._cluster.brokers if other is not broker and self._rng.random() < 0.7]
        self._separate([broker.host], [other.host for other in others])

    def _isolate_active(self) -> None:
        """Cut the active controller off from the others. Brokers may still believe in it."""
        if (active := self._active()) is not None:
            others = [other.host for other in self._cluster.quorum if other is not active]
            if self._rng.random() < 0.3:
                others += [broker.host for broker in self._cluster.brokers]
            self._separate([active.host], others)

    def _cut_controllers(self) -> None:
        one = self._rng.choice(self._cluster.quorum)
        other = self._rng.choice(self._cluster.quorum)
        if one is not other:
            self._cluster.cut(one.host, other.host)

    def _separate(self, some: list[str], others: list[str]) -> None:
        one_way = self._rng.random() < 0.2
        for one in some:
            for other in others:
                self._cluster.cut(one, other)
                if not one_way:
                    self._cluster.cut(other, one)
        if self._rng.random() < 0.8:
            self._plan(self._rng.choice([200, 1500, 4000]), self._cluster.heal_network)

    def _slow_broker(self) -> None:
        self._cluster.slow(self._rng.choice(self._cluster.brokers).host, self._rng.choice([2.0, 100.0, 600.0]))

    def _break_streams(self) -> None:
        broker = self._rng.choice(self._cluster.brokers)
        for controller in self._cluster.quorum:
            if self._rng.random() < 0.7:
                self._cluster.break_connections(broker.host, controller.host)

    # -- machines

    def _slow_disk(self) -> None:
        self._rng.choice(self._cluster.quorum).speed.slowdown = self._rng.choice([1.0, 10.0, 100.0])

    def _change_clock(self) -> None:
        nodes = [*self._cluster.quorum, *self._cluster.brokers]
        self._rng.choice(nodes).clock.set_rate(self._rng.uniform(0.9, 1.1))
