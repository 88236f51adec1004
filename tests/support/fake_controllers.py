"""Controllers that do what a test says, and a broker's outside world, in virtual time.

world = FakeControllers()
await world.serve(1, {REGISTER: unary(answer, RegisterRequest)})
client = ControllerClient(world.runtime, world.addresses)
"""

import asyncio
from collections.abc import Callable, Mapping

from support.raft_nodes import make_runtime

from lograft.chaos.world.network import VirtualNetwork, VirtualServer
from lograft.runtime.network import Handler, Stream
from lograft.runtime.rng import Rng

BROKER = "broker"


def fail(panic: BaseException) -> None:
    raise AssertionError("a handler panicked") from panic


class FakeControllers:
    """Hosts `c1`, `c2`, ...; those that are not served refuse connections. `runtime` is the broker's."""

    def __init__(self, *ids: int, seed: int = 1) -> None:
        self.network = VirtualNetwork(Rng(seed))
        self.runtime = make_runtime(seed, self.network, BROKER)
        self.addresses = {controller_id: f"c{controller_id}:9093" for controller_id in ids or (1, 2, 3)}
        self.calls: list[tuple[int, str]] = []  # which controller was asked what, in order
        self.servers: dict[int, VirtualServer] = {}

    async def serve(self, controller_id: int, handlers: Mapping[str, Handler]) -> None:
        def noted(method: str, handler: Handler) -> Handler:
            async def serve(stream: Stream) -> None:
                self.calls.append((controller_id, method.rpartition("/")[2]))
                await handler(stream)

            return serve

        host = self.network.host(f"c{controller_id}")
        served = {method: noted(method, handler) for method, handler in handlers.items()}
        self.servers[controller_id] = await host.serve(f"c{controller_id}:9093", served, fail)

    @property
    def asked(self) -> list[int]:
        return [controller_id for controller_id, _ in self.calls]

    @property
    def now_ms(self) -> int:
        return self.runtime.clock.monotonic_ms()

    def connections(self, controller_id: int) -> int:
        return self.servers[controller_id].connections

    def pause(self, controller_id: int) -> None:
        """As SIGSTOP does: connections stay, and nothing comes."""
        self.network.cut(f"c{controller_id}", BROKER)
        self.network.cut(BROKER, f"c{controller_id}")

    def resume(self, controller_id: int) -> None:
        self.network.heal(f"c{controller_id}", BROKER)
        self.network.heal(BROKER, f"c{controller_id}")

    def kill(self, controller_id: int) -> None:
        self.network.crash(f"c{controller_id}")


async def until(condition: Callable[[], bool], within_s: float = 60) -> None:
    """Return when it holds; virtual time costs nothing, so it is looked at every few milliseconds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 (it may be about anything)
            await asyncio.sleep(0.005)


async def never_answer(stream: Stream) -> None:
    await stream.receive()
    await asyncio.Event().wait()
