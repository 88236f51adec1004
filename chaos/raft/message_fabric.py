"""A fabric connects simulated Raft nodes. This one carries encoded messages that may be late, lost or duplicated."""

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lograft.chaos.harness.schedule import Detail
from lograft.chaos.raft.links import RaftLinks
from lograft.chaos.raft.weather import Weather
from lograft.raft.core.configuration import Configuration
from lograft.raft.core.messages import Envelope, InstallSnapshot
from lograft.raft.core.ready import SnapshotToSend
from lograft.raft.interfaces import Inbox, Snapshot, Store, StoredState, StoreIdentity, Transport
from lograft.raft.transport.envelope_codec import decode_envelopes, encode_envelopes
from lograft.runtime.network import Network
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime


class FabricWorld(Protocol):
    weather: Weather
    node_ids: list[int]

    def note(self, event: str, *details: Detail) -> None: ...

    def note_panic(self, node_id: int, error: BaseException) -> None:
        """Handle an error in a handler of that node. The node has to fail with it."""
        ...


@dataclass(frozen=True, slots=True)
class Joined:
    """A started node's transport and state. `follow` takes a function that returns the running node's configuration."""

    transport: Transport
    state: StoredState
    follow: Callable[[Callable[[], Configuration]], None]


class Fabric(Protocol):
    """The connections between nodes."""

    def network(self, node_id: int) -> Network | None:
        """Return the network for the runtime of a node that starts."""
        ...

    async def join(self, runtime: Runtime, store: Store, state: StoredState, group: asyncio.TaskGroup) -> Joined:
        """Connect a node that starts, as soon as it may start. Its tasks go into `group`."""
        ...

    def crash(self, node_id: int) -> None: ...

    def hold(self, node_id: int, duration_ms: int) -> None:
        """Hold back everything to and from the node for a while, then deliver it."""
        ...

    def cut(self, sender_id: int, receiver_id: int) -> None: ...

    def heal(self) -> None: ...

    def break_connection(self, one_id: int, other_id: int) -> None: ...


class MessageFabric:
    """Carries every message independently."""

    def __init__(self, world: FabricWorld, rng: Rng) -> None:
        self._world = world
        self._links = RaftLinks(rng)
        self._ends: dict[int, _MessageEnd] = {}
        self._held_until: dict[int, float] = {}

    def network(self, node_id: int) -> Network | None:
        return None

    async def join(self, runtime: Runtime, store: Store, state: StoredState, group: asyncio.TaskGroup) -> Joined:
        end = self._ends[state.identity.node_id] = _MessageEnd(self, state.identity)
        return Joined(end, state, lambda current: None)

    def crash(self, node_id: int) -> None:
        if (end := self._ends.get(node_id)) is not None:
            end.inbox = None
        for other_id in self._world.node_ids:
            if self._links.is_noticed(other_id, node_id):
                self._notice_break(other_id, node_id)

    def hold(self, node_id: int, duration_ms: int) -> None:
        self._held_until[node_id] = asyncio.get_running_loop().time() + duration_ms / 1000

    def cut(self, sender_id: int, receiver_id: int) -> None:
        self._links.cut(sender_id, receiver_id)

    def heal(self) -> None:
        self._links.heal()

    def break_connection(self, one_id: int, other_id: int) -> None:
        self._notice_break(one_id, other_id)
        self._notice_break(other_id, one_id)

    def _notice_break(self, node_id: int, other_id: int) -> None:
        other = self._ends.get(other_id)

        def notice() -> None:
            end = self._ends.get(node_id)
            if end is not None and end.inbox is not None and other is not None:
                end.inbox.connection_broken(other.identity.member)

        self._later(self._links.delay_us(self._world.weather), notice)

    def carry(self, envelope: Envelope, report_to: "_MessageEnd | None" = None) -> None:
        """Deliver the message once, twice or not at all."""
        weather = self._world.weather
        copies = 2 if report_to is None and self._links.is_duplicated(weather) else 1
        message = envelope.message
        data = None if isinstance(message, InstallSnapshot) else encode_envelopes([envelope])
        path = (message.sender.node_id, envelope.recipient.node_id)
        for _ in range(copies):
            is_lost = self._links.is_cut(*path) or self._links.is_lost(weather)
            deliver = functools.partial(self._deliver, envelope, data, path, is_lost, report_to)
            self._later(self._links.delay_us(weather), deliver)

    def _deliver(
        self,
        envelope: Envelope,
        data: bytes | None,
        path: tuple[int, int],
        is_lost: bool,
        report_to: "_MessageEnd | None",
    ) -> None:
        held_until = max(self._held_until.get(node_id, 0.0) for node_id in path)
        left = held_until - asyncio.get_running_loop().time()
        if left > 0:
            self._later(int(left * 1_000_000) + 1, lambda: self._deliver(envelope, data, path, is_lost, report_to))
            return
        end = self._ends.get(envelope.recipient.node_id)
        inbox = end.inbox if end is not None and end.identity.member == envelope.recipient else None
        is_there = inbox is not None and not is_lost and not self._links.is_cut(*path)
        event = "deliver" if is_there else "lose"
        self._world.note(event, type(envelope.message).__name__, f"{path[0]}>{path[1]}", envelope.message.term)
        if is_there and inbox is not None:
            [arrived] = decode_envelopes(data) if data is not None else [envelope]
            assert arrived == envelope, f"{envelope} arrived as {arrived}"
            inbox.receive(arrived.message)
        if report_to is not None and report_to.inbox is not None:
            report_to.inbox.snapshot_reported(envelope.recipient, is_there)

    def _later(self, delay_us: int, action: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_us / 1_000_000, action)


class _MessageEnd:
    """One node's `Transport`."""

    def __init__(self, fabric: MessageFabric, identity: StoreIdentity) -> None:
        self._fabric = fabric
        self.identity = identity
        self.inbox: Inbox | None = None

    def start(self, inbox: Inbox) -> None:
        self.inbox = inbox

    def set_addresses(self, addresses: Mapping[int, str]) -> None:
        """Do nothing: nodes are known by their ids."""

    def send(self, envelope: Envelope) -> None:
        self._fabric.carry(envelope)

    def send_snapshot(self, order: SnapshotToSend, snapshot: Snapshot) -> None:
        message = InstallSnapshot(self.identity.member, order.term, snapshot.metadata, snapshot.data)
        self._fabric.carry(Envelope(order.recipient, message), self)

    async def close(self) -> None:
        self.inbox = None
