"""A Raft cluster of real processes on this machine, and what can be asked of each."""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from lograft.runtime.grpc_network import GrpcNetwork
from lograft.runtime.network import ConnectFailed, Connection, Stream, StreamError

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


# Below the ephemeral ports, so that no outgoing connection takes one; apart from where other tests look.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_ports = itertools.count(os.getpid() * 61)


def free_address() -> str:
    for number in _ports:
        port = 5_000 + _worker % 8 * 800 + number % 800
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"
    raise AssertionError


class RaftProcess:
    """One node. Its files and its log are under `directory`; `kill` is kill -9."""

    def __init__(self, node_id: int, cluster_id: str, directory: Path, controllers: Mapping[int, str]) -> None:
        self.node_id = node_id
        self.address = controllers[node_id]
        self.directory = directory / f"node-{node_id}"
        self.log_path = directory / f"node-{node_id}.log"
        self._arguments = [
            sys.executable, str(PROGRAM), "--cluster", cluster_id, "--node", str(node_id),
            "--directory", str(self.directory), *(f"{node}@{address}" for node, address in controllers.items()),
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._connection: Connection | None = None
        self._stream: Stream | None = None
        self._reading: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._sending = asyncio.Lock()

    # -- the process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def was_started(self) -> bool:
        return self._process is not None

    def check_running(self) -> None:
        assert self.is_running, f"node {self.node_id} has ended:\n{self.log_text()[-3000:]}"

    def start(self) -> None:
        assert not self.is_running
        self._log = self.log_path.open("ab")
        self._process = subprocess.Popen(self._arguments, stdin=subprocess.PIPE, stdout=self._log, stderr=self._log)

    def start_second(self) -> "subprocess.CompletedProcess[str]":
        """Run the same program once more, beside the first, to its end."""
        return subprocess.run(self._arguments, capture_output=True, text=True, check=False, timeout=30, input="")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._reap()

    def stop(self) -> int:
        """Let it end by itself; its exit code."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        return self._reap()

    def wipe(self) -> None:
        assert not self.is_running
        shutil.rmtree(self.directory)

    def log_text(self) -> str:
        return self.log_path.read_text()

    def _reap(self) -> int:
        assert self._process is not None
        assert self._log is not None
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._log.close()
        return code

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
            if node.was_started:
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
