"""One Raft node as a process of its own: a list of commands, replicated. Driven by JSON over a stream of its server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any
from uuid import UUID

from support.node_program import Surroundings, die, run_node

from lograft.raft.bootstrap.bootstrapper import Bootstrapper
from lograft.raft.core.configuration import AddLearner, Member, PromoteLearner, RemoveMember
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.errors import NotLeader, RaftError
from lograft.raft.store.lmdb_store import LmdbStore
from lograft.raft.transport.raft_transport import RaftTransport
from lograft.runtime.network import Stream

CONTROL_METHOD = "/lograft.test.RaftProcess/Control"
ECHO_METHOD = "/lograft.test.RaftProcess/Echo"
CHANGES = {"add": AddLearner, "promote": PromoteLearner, "remove": RemoveMember}


class ListMachine:
    """Remembers the name of every command, which is what comes before its first space, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def apply(self, index: int, data: bytes) -> int:
        self.names.append(data.partition(b" ")[0].decode())
        return len(self.names)

    def snapshot(self) -> Callable[[], bytes]:
        names = list(self.names)
        return lambda: json.dumps(names).encode()

    def restore(self, data: bytes) -> None:
        self.names = json.loads(data)


class Control:
    """What can be asked of the process, each request answered when it is done."""

    def __init__(self, store: LmdbStore, bootstrapping: Bootstrapper) -> None:
        self._store = store
        self._bootstrapping = bootstrapping
        self.machine = ListMachine()
        self.node: RaftNode | None = None

    async def serve(self, stream: Stream) -> None:
        sending = asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            while (message := await stream.receive()) is not None:
                group.create_task(self._answer(stream, sending, json.loads(message)))

    async def _answer(self, stream: Stream, sending: asyncio.Lock, request: dict[str, Any]) -> None:
        number, operation = request.pop("number"), request.pop("operation")
        handle: Callable[..., Awaitable[Any]] = getattr(self, f"do_{operation}")
        try:
            answer = {"result": await handle(**request)}
        except RaftError as error:
            leader = error.leader if isinstance(error, NotLeader) else None
            answer = {"error": type(error).__name__, "unknown": error.outcome_unknown, "leader": leader}
        async with sending:
            await stream.send(json.dumps({"number": number, **answer}).encode())

    def _started(self) -> RaftNode:
        if self.node is None:
            raise NotLeader(None)
        return self.node

    async def do_status(self) -> dict[str, Any]:
        common = {"directory": str(self._store.identity.directory_id), "fsyncs": self._store.fsyncs}
        if self.node is None:
            return {**common, "role": "waiting", "reason": self._bootstrapping.waiting_reason}
        status = self.node.status()
        return {
            **common,
            "role": status.role,
            "term": status.term,
            "leader": status.leader.node_id if status.leader is not None else None,
            "commit": status.commit_index,
            "applied": status.applied_index,
            "snapshot": status.snapshot_index,
            "voters": [str(voter.directory_id) for voter in status.configuration.voters],
            "learners": [str(learner.directory_id) for learner in status.configuration.learners],
        }

    async def do_propose(self, name: str) -> int:
        return int(await self._started().propose(name.encode()))

    async def do_names(self) -> list[str]:
        return self.machine.names

    async def do_change(self, kind: str, node_id: int, directory: str) -> None:
        await self._started().change_configuration(CHANGES[kind](Member(node_id, UUID(directory))))  # type: ignore[arg-type]

    async def do_measure(self, in_flight: int, seconds: float, size_bytes: int) -> dict[str, Any]:
        """Propose from here, so many at a time; how long each took, in seconds."""
        node = self._started()
        data = b"x " + bytes(size_bytes - 2)
        latencies: list[float] = []
        fsyncs_before, started = self._store.fsyncs, perf_counter()
        end = started + seconds

        async def propose_one_after_another() -> None:
            before = perf_counter()
            while before < end:
                await node.propose(data)
                after = perf_counter()
                latencies.append(after - before)
                before = after

        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(propose_one_after_another())
        elapsed = perf_counter() - started
        return {"latencies": latencies, "seconds": elapsed, "fsyncs": self._store.fsyncs - fsyncs_before}


async def echo(stream: Stream) -> None:
    while (message := await stream.receive()) is not None:
        await stream.send(message)


async def take_part(here: Surroundings) -> None:
    runtime, store = here.runtime, here.store
    bootstrapping = Bootstrapper(runtime, store, await store.load(), here.controllers)
    transport = RaftTransport(runtime, store.identity, store=store)
    control = Control(store, bootstrapping)
    handlers = {
        **bootstrapping.handlers(), **transport.handlers(), CONTROL_METHOD: control.serve, ECHO_METHOD: echo,
    }  # fmt: skip
    server = await runtime.network.serve(here.address, handlers, die)
    async with asyncio.TaskGroup() as group:
        group.create_task(transport.run())
        transport.set_addresses(here.controllers)
        ending = group.create_task(here.stopping.wait())
        starting = group.create_task(bootstrapping.run())
        await asyncio.wait([ending, starting], return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            starting.cancel()
            await transport.close()
        else:
            node = RaftNode(runtime, store, starting.result(), transport, control.machine)
            bootstrapping.follow(lambda: node.status().configuration)
            group.create_task(node.run())
            control.node = node
            await ending
            await node.close()
    await server.stop()
    await store.close()


if __name__ == "__main__":
    run_node(take_part)
