"""Clients of a simulated Raft cluster. Each makes one call at a time, and gives up after a timeout."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.harness.schedule import Detail
from lograft.chaos.raft.core_node import Answer
from lograft.chaos.raft.linearizability import OperationHistory
from lograft.chaos.raft.register_machine import Kind, Value, command
from lograft.chaos.raft.weather import Weather
from lograft.raft.core.raft_core import RaftCore
from lograft.runtime.rng import Rng


class AskedNode(Protocol):
    @property
    def node_id(self) -> int: ...

    @property
    def core(self) -> RaftCore | None: ...

    def propose(self, data: bytes, answer: Answer) -> None: ...

    def read(self, key: str, answer: Answer) -> None: ...


class ClientsWorld(Protocol):
    weather: Weather

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None: ...

    def note(self, event: str, *details: Detail) -> None: ...


@dataclass(slots=True)
class _Call:
    number: int
    is_over: bool = False


class CoreClients:
    """Clients that append to all keys, and overwrite only even ones: each kind exposes different anomalies."""

    def __init__(self, world: ClientsWorld, nodes: Sequence[AskedNode], rng: Rng) -> None:
        self.history = OperationHistory()
        self._world = world
        self._nodes = nodes
        self._rng = rng
        self._stopped = False
        self._items = 0

    def start(self) -> None:
        for client in range(self._world.weather.clients):
            self._think(client)

    def stop(self) -> None:
        """Make no new calls. Calls in progress still end."""
        self._stopped = True

    def read_all(self) -> None:
        """Read every key once more, at the leader."""
        for key in self._keys():
            self._call(-1, Kind.READ, key, self._node(), lambda is_refused: None)

    def _keys(self) -> list[str]:
        return [f"key{number}" for number in range(self._world.weather.keys)]

    def _think(self, client: int, *, is_refused: bool = False) -> None:
        """Wait before the next call, longer if no leader seems to exist."""
        think_ms = self._rng.uniform(*self._world.weather.think_ms) + (50 if is_refused else 0)
        self._world.call_later_ms(think_ms, lambda: self._ask(client))

    def _ask(self, client: int) -> None:
        if self._stopped:
            return
        key = self._rng.choice(self._keys())
        kinds = [Kind.READ, Kind.APPEND, Kind.APPEND, Kind.WRITE if key[-1] in "02468" else Kind.READ]
        kind = self._rng.choice(kinds)
        self._call(client, kind, key, self._node(), lambda is_refused: self._think(client, is_refused=is_refused))

    def _node(self) -> AskedNode:
        """Return a node that some node believes to be leader, often one that believes so itself, sometimes any node."""
        dice = self._rng.random()
        beliefs = [(node, node.core.leader) for node in self._nodes if node.core is not None]
        believed = [
            leader.node_id
            for node, leader in beliefs
            if leader is not None and (dice < 0.5 or leader.node_id == node.node_id)
        ]
        if believed and dice < 0.85:
            leader_id = self._rng.choice(believed)
            return next(node for node in self._nodes if node.node_id == leader_id)
        return self._rng.choice(self._nodes)

    def _call(self, client: int, kind: Kind, key: str, node: AskedNode, then: Callable[[bool], None]) -> None:
        self._items += 1
        item = f"{client}.{self._items}"
        call = _Call(self.history.call(client, kind, key, item if kind is not Kind.READ else ""))
        self._world.note(kind.value, f"client {client}", key, item, f"at {node.node_id}")

        def end(outcome: Outcome, seen: Value | None) -> None:
            if not call.is_over:
                call.is_over = True
                self.history.end(call.number, outcome, seen)
                self._world.note(outcome.value, f"client {client}", key, item)
                then(outcome is Outcome.FAIL)

        self._world.call_later_ms(self._world.weather.timeout_ms, lambda: end(Outcome.UNKNOWN, None))
        if kind is Kind.READ:
            node.read(key, end)
        else:
            node.propose(command(kind, key, item), end)
