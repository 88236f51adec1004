"""Connects simulated Raft nodes by the real transport, over virtual connections that keep order and can break."""

import asyncio

from lograft.chaos.raft.message_fabric import FabricWorld, Joined
from lograft.chaos.world.link import Delays
from lograft.chaos.world.network import VirtualNetwork
from lograft.raft.bootstrap.bootstrapper import Bootstrapper
from lograft.raft.interfaces import Store, StoredState
from lograft.raft.transport.raft_transport import RaftTransport
from lograft.runtime.network import Network
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

_PORT = 9093


class StreamFabric:
    """The real transport. The first voters find each other by the real first start."""

    def __init__(self, world: FabricWorld, rng: Rng) -> None:
        self._world = world
        low_ms, high_ms = world.weather.delay_ms
        self._network = VirtualNetwork(rng, delays=Delays(low_ms, high_ms))

    def network(self, node_id: int) -> Network | None:
        return self._network.host(_host(node_id))

    async def join(self, runtime: Runtime, store: Store, state: StoredState, group: asyncio.TaskGroup) -> Joined:
        node_id = state.identity.node_id
        addresses = {other_id: f"{_host(other_id)}:{_PORT}" for other_id in self._world.node_ids}
        controllers = {other_id: addresses[other_id] for other_id in self._world.node_ids[: self._world.weather.voters]}
        transport = RaftTransport(runtime, state.identity, store=store)
        bootstrapping = Bootstrapper(runtime, store, state, controllers)
        handlers = {**bootstrapping.handlers(), **transport.handlers()}
        await runtime.network.serve(addresses[node_id], handlers, lambda error: self._world.note_panic(node_id, error))
        started = await bootstrapping.run()
        group.create_task(transport.run(), name=f"transport-{node_id}")
        transport.set_addresses(addresses)
        return Joined(transport, started, bootstrapping.follow)

    def crash(self, node_id: int) -> None:
        self._network.crash(_host(node_id))

    def hold(self, node_id: int, duration_ms: int) -> None:
        loop = asyncio.get_running_loop()
        for other_id in self._world.node_ids:
            if other_id != node_id:
                for source, target in ((node_id, other_id), (other_id, node_id)):
                    self._network.cut(_host(source), _host(target))
                    loop.call_later(duration_ms / 1000, self._network.heal, _host(source), _host(target))

    def cut(self, sender_id: int, receiver_id: int) -> None:
        self._network.cut(_host(sender_id), _host(receiver_id))

    def heal(self) -> None:
        self._network.heal_all()

    def break_connection(self, one_id: int, other_id: int) -> None:
        self._network.break_connections(_host(one_id), _host(other_id))


def _host(node_id: int) -> str:
    return f"node{node_id}"
