"""A Raft cluster of real processes on this machine, and what can be asked of each."""

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.free_ports import free_address
from support.server_processes import QuorumProcess

from lograft.runtime.network import ConnectFailed, Connection, Stream, StreamError
from lograft.runtime.production.grpc_network import GrpcNetwork

PROGRAM = Path(__file__).resolve().parents[1] / "integration" / "raft_process.py"
CONTROL_METHOD = "/lograft.test.RaftProcess/Control"
ECHO_METHOD = "/lograft.test.RaftProcess/Echo"
_POLL_SECONDS = 0.01


class ProcessGone(Exception):
    """The process cannot be reached, or went away before it answered."""


class Refused(Exception):
    """The node answered with an error."""

    def __init__(self, kind: str, is_unknown: bool, leader: int | None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.is_unknown = is_unknown
        self.leader = leader


class RaftProcess(QuorumProcess):
    """One node, and a stream to it over which it is asked."""

    def __init__(self, node_id: int, cluster_id: str, directory: Path, controllers: Mapping[int, str]) -> None:
        super().__init__(PROGRAM, directory, node_id, cluster_id, controllers)
        self._connection: Connection | None = None
        self._stream: Stream | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._sending = asyncio.Lock()

    # -- what can be asked of it

    async def call(self, operation: str, **arguments: Any) -> Any:
        """`Refused` or `ProcessGone` instead of a result."""
        try:
            stream = self._stream or await self._open()
            number = next(self._numbers)
            answer = self._answers[number] = asyncio.get_running_loop().create_future()
            async with self._sending:
                await stream.send(json.dumps({"number": number, "operation": operation, **arguments}).encode())
        except (ConnectFailed, StreamError) as error:
            raise ProcessGone(str(error)) from error
        outcome = await answer
        if "error" in outcome:
            raise Refused(outcome["error"], outcome["unknown"], outcome["leader"])
        return outcome["result"]

    async def _open(self) -> Stream:
        connection = await GrpcNetwork().connect(self.address, 1000)
        if (stream := self._stream) is not None:  # someone was faster
            await connection.close()
            return stream
        self._connection = connection
        self._stream = connection.open(CONTROL_METHOD)
        self._reading = asyncio.ensure_future(self._read(connection, self._stream))
        return self._stream

    async def _read(self, connection: Connection, stream: Stream) -> None:
        try:
            while (message := await stream.receive()) is not None:
                outcome = json.loads(message)
                answer = self._answers.pop(outcome["number"])
                if not answer.done():  # whoever asked may have been cancelled
                    answer.set_result(outcome)
        except StreamError:
            pass
        finally:
            self._stream = None
            answers, self._answers = self._answers, {}
            for answer in answers.values():
                if not answer.done():
                    answer.set_exception(ProcessGone("it ended before it answered"))
                    answer.exception()  # whoever waited may be gone, too
            await connection.close()

    async def disconnect(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            self._reading = None

    async def echo_stream(self) -> tuple[Connection, Stream]:
        connection = await GrpcNetwork().connect(self.address, 1000)
        return connection, connection.open(ECHO_METHOD)

    async def status(self) -> dict[str, Any]:
        """Of a process that is down, one of its role only."""
        try:
            status: dict[str, Any] = await self.call("status")
        except ProcessGone:
            return {"role": "down"}
        return status

    async def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Its status, once that is so."""
        while not condition(status := await self.status()):
            self.check_running()
            await asyncio.sleep(_POLL_SECONDS)
        return status


class RaftProcesses:
    """`async with` starts nothing; it sees to it that nothing is left."""

    def __init__(self, directory: Path, count: int = 3, cluster_id: str = "processes") -> None:
        controllers = {node_id: free_address() for node_id in range(1, count + 1)}
        self.nodes = {node_id: RaftProcess(node_id, cluster_id, directory, controllers) for node_id in controllers}

    async def __aenter__(self) -> "RaftProcesses":
        return self

    async def __aexit__(self, *exception: object) -> None:
        for node in self.nodes.values():
            node.kill()
            await node.disconnect()

    def start_all(self) -> None:
        for node in self.nodes.values():
            node.start()

    async def until_led(self, *, other_than: int | None = None) -> RaftProcess:
        """The node that leads, once there is one whose first entry is committed."""
        while True:
            for node in self.nodes.values():
                if node.is_running and node.node_id != other_than and (await node.status())["role"] == "leader":
                    return node
            await asyncio.sleep(_POLL_SECONDS)
