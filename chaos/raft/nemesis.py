"""The faults of a simulated Raft cluster, and an operator who meanwhile changes its membership.

The nemesis may do anything that the cluster must recover from automatically. Therefore its operator is a sane one: it
wipes no disk and requests no change that would permanently leave some configuration without a majority of intact disks.
"""

from collections.abc import Callable
from typing import Protocol

from lograft.chaos.harness.schedule import Detail
from lograft.chaos.raft.invariants import RaftInvariants
from lograft.chaos.raft.weather import Weather
from lograft.raft.core.configuration import (
    AddLearner,
    Configuration,
    ConfigurationChange,
    InvalidChange,
    Member,
    PromoteLearner,
    RemoveMember,
    changed,
)
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.roles import Leader
from lograft.runtime.rng import Rng


class RaftTarget(Protocol):
    """The faults that a cluster of any kind can undergo. Nodes are named by their ids."""

    weather: Weather
    invariants: RaftInvariants
    node_ids: list[int]

    def note(self, event: str, *details: Detail) -> None: ...

    def core_of(self, node_id: int) -> RaftCore | None:
        """Return the core of a node, or None if it is down or does not participate yet."""
        ...

    def is_up(self, node_id: int) -> bool:
        """Return whether the node's process runs, even if it does not participate yet."""
        ...

    def member_of(self, node_id: int) -> Member: ...

    def crash(self, node_id: int) -> None: ...

    def stop_node(self, node_id: int) -> None:
        """Shut down the node's process in an orderly way, if it has one."""
        ...

    def restart(self, node_id: int) -> None: ...

    def wipe(self, node_id: int) -> None:
        """Replace the disk of a node that is down."""
        ...

    def stall(self, node_id: int, duration_ms: int) -> None: ...

    def cut(self, sender_id: int, receiver_id: int) -> None:
        """Let nothing pass from one node to the other from now on."""
        ...

    def heal_network(self) -> None: ...

    def break_connection(self, one_id: int, other_id: int) -> None: ...

    def set_disk_slowdown(self, node_id: int, slowdown: float) -> None: ...

    def set_clock_rate(self, node_id: int, rate: float) -> None: ...

    def transfer(self, leader_id: int, target: Member) -> None: ...

    def change(self, leader_id: int, change: ConfigurationChange) -> None: ...

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None: ...


class RaftNemesis:
    """Injects one fault at a time, drawn from those the weather allows."""

    def __init__(self, cluster: RaftTarget, rng: Rng) -> None:
        self._cluster = cluster
        self._rng = rng
        self._asked_for: list[tuple[int, Configuration]] = []
        self._faults: dict[str, Callable[[], None]] = {
            "crash": self._crash,
            "crash_leader": self._crash_leader,
            "stop": self._stop,
            "restart": self._restart,
            "stall": self._stall,
            "partition": self._partition,
            "isolate_leader": self._isolate_leader,
            "cut_one_way": self._cut_one_way,
            "flap": self._flap,
            "heal": self._cluster.heal_network,
            "break_connection": self._break_connection,
            "slow_disk": self._slow_disk,
            "change_clock": self._change_clock,
            "transfer": self._transfer,
            "add_learner": self._add_learner,
            "promote": self._promote,
            "remove": self._remove,
            "wipe": self._wipe,
            "replace": self._replace,
        }

    def act(self) -> None:
        if self._cluster.weather.faults:
            self._faults[self._rng.choice(self._cluster.weather.faults)]()

    def heal(self) -> None:
        """End all faults: all nodes up, the network whole, disks fast, clocks nearly right."""
        cluster = self._cluster
        cluster.heal_network()
        for node_id in cluster.node_ids:
            cluster.set_disk_slowdown(node_id, 1.0)
            cluster.set_clock_rate(node_id, 1.0)
            if not cluster.is_up(node_id):
                cluster.restart(node_id)

    # -- processes

    def _crash(self) -> None:
        if (node_id := self._any_up()) is not None:
            self._cluster.crash(node_id)
            self._plan_restart(node_id)

    def _crash_leader(self) -> None:
        if (leader_id := self._leader_id()) is not None:
            self._cluster.crash(leader_id)
            self._plan_restart(leader_id)

    def _stop(self) -> None:
        if (node_id := self._any_up()) is not None:
            self._cluster.stop_node(node_id)
            self._plan_restart(node_id)

    def _plan_restart(self, node_id: int) -> None:
        def restart() -> None:
            if not self._cluster.is_up(node_id):
                self._cluster.restart(node_id)

        if self._rng.random() < 0.8:
            self._cluster.call_later_ms(self._rng.choice([10, 200, 800, 3000]), restart)

    def _restart(self) -> None:
        down = [node_id for node_id in self._cluster.node_ids if not self._cluster.is_up(node_id)]
        if down:
            self._cluster.restart(self._rng.choice(down))

    def _stall(self) -> None:
        if (node_id := self._any_up()) is not None:
            self._cluster.stall(node_id, self._rng.choice([20, 300, 1500, 4000]))

    def _slow_disk(self) -> None:
        node_id = self._rng.choice(self._cluster.node_ids)
        self._cluster.set_disk_slowdown(node_id, self._rng.choice([1.0, 10.0, 100.0]))

    def _change_clock(self) -> None:
        low, high = self._cluster.weather.clock_rates
        self._cluster.set_clock_rate(self._rng.choice(self._cluster.node_ids), self._rng.uniform(low, high))

    # -- the network

    def _partition(self) -> None:
        side = [node_id for node_id in self._cluster.node_ids if self._rng.random() < 0.5]
        self._separate(side)

    def _isolate_leader(self) -> None:
        if (leader_id := self._leader_id()) is not None:
            self._separate([leader_id])

    def _separate(self, side: list[int]) -> None:
        if self._rng.random() < 0.8:
            self._cluster.call_later_ms(self._rng.choice([200, 1500, 2500]), self._cluster.heal_network)
        for one in side:
            for other in self._cluster.node_ids:
                if other not in side:
                    self._cluster.cut(one, other)
                    self._cluster.cut(other, one)

    def _cut_one_way(self) -> None:
        if len(self._cluster.node_ids) > 1:
            self._cluster.cut(*self._rng.sample(self._cluster.node_ids, 2))

    def _flap(self) -> None:
        """Cut and heal repeatedly, faster than an election."""
        for place in range(self._rng.randint(2, 6)):
            delay_ms = place * self._rng.randint(30, 400)
            self._cluster.call_later_ms(delay_ms, self._cut_one_way if place % 2 == 0 else self._cluster.heal_network)

    def _break_connection(self) -> None:
        if len(self._cluster.node_ids) > 1:
            self._cluster.break_connection(*self._rng.sample(self._cluster.node_ids, 2))

    # -- the operator

    def _transfer(self) -> None:
        if (leader_id := self._leader_id()) is not None:
            core = self._cluster.core_of(leader_id)
            assert core is not None
            self._cluster.transfer(leader_id, self._rng.choice(core.configuration.voters))

    def _add_learner(self) -> None:
        self._ask(AddLearner(self._cluster.member_of(self._rng.choice(self._cluster.node_ids))))

    def _promote(self) -> None:
        current = self._current()
        if current is not None and (learners := [one for one in current.learners if self._is_intact(one)]):
            self._ask(PromoteLearner(self._rng.choice(learners)))

    def _remove(self) -> None:
        current = self._current()
        if current is not None:
            self._ask(RemoveMember(self._rng.choice(current.members)))

    def _replace(self) -> None:
        """Take the next step in replacing a member whose disk is gone by its node's present member."""
        current = self._current()
        if current is None:
            return
        for member in [member for member in current.members if not self._is_intact(member)]:
            successor = self._cluster.member_of(member.node_id)
            self._ask(RemoveMember(member) if successor in current.members else AddLearner(successor))
            return
        self._promote()

    def _wipe(self) -> None:
        node_id = self._rng.choice(self._cluster.node_ids)
        member = self._cluster.member_of(node_id)
        index, committed = self._cluster.invariants.committed_configuration
        possible = [committed, *(configuration for at, configuration in self._asked_for if at > index)]
        if all(self._survives(configuration, without=member) for configuration in possible):
            if self._cluster.is_up(node_id):
                self._cluster.crash(node_id)
            self._cluster.wipe(node_id)

    def _ask(self, change: ConfigurationChange) -> None:
        leader_id = self._leader_id()
        core = self._cluster.core_of(leader_id) if leader_id is not None else None
        if leader_id is None or core is None:
            return
        try:
            new = changed(core.configuration, change)
        except InvalidChange:
            return
        if self._survives(new):
            self._asked_for.append((core.log.last_index + 1, new))
            self._cluster.change(leader_id, change)

    def _survives(self, configuration: Configuration, without: Member | None = None) -> bool:
        return configuration.is_majority(lambda voter: voter != without and self._is_intact(voter))

    # -- selection

    def _is_intact(self, member: Member) -> bool:
        return member.node_id in self._cluster.node_ids and self._cluster.member_of(member.node_id) == member

    def _any_up(self) -> int | None:
        up = [node_id for node_id in self._cluster.node_ids if self._cluster.is_up(node_id)]
        return self._rng.choice(up) if up else None

    def _leader_id(self) -> int | None:
        """Return a node that leads, or believes that it does."""
        cores = [(node_id, self._cluster.core_of(node_id)) for node_id in self._cluster.node_ids]
        leaders = [node_id for node_id, core in cores if core is not None and isinstance(core.role, Leader)]
        return self._rng.choice(leaders) if leaders else None

    def _current(self) -> Configuration | None:
        leader_id = self._leader_id()
        core = self._cluster.core_of(leader_id) if leader_id is not None else None
        return core.configuration if core is not None else None
