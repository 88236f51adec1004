"""`lograft server` as real processes: started, killed, stopped, refused."""

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from support.server_processes import ServerProcess, lograft, servers, start_all, until, variables

from lograft.proto.admin_pb2 import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from lograft.proto.cluster_pb2 import ClusterDescription, DescribeRequest, Partition
from lograft.proto.log_pb2 import (
    AppendRequest,
    AppendResponse,
    NewRecord,
    ReadRequest,
    ReadResponse,
)

R = TypeVar("R", bound=Message)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServerProcess]:
    with servers(tmp_path, 1) as [one]:
        yield one


def test_three_nodes_are_killed_restarted_and_stopped(tmp_path: Path) -> None:
    with servers(tmp_path, 3) as nodes:
        start_all(nodes)
        nodes[0].kill()
        nodes[0].start()
        nodes[0].until_ready()
        for node in nodes:
            node.kill()
        start_all(nodes)
        assert nodes[2].stop() == 0
        assert nodes[2].events[-1] == "node_stopped"
        assert (nodes[2].data_directory / "clean-shutdown").exists()
        assert all(node.is_ready() for node in nodes[:2])


def test_too_few_files_are_warned_of(node: ServerProcess) -> None:
    node.start("bash", "-c", 'ulimit -n 900; exec "$0" "$@"')
    node.until_ready()
    assert "few_files_may_be_open" in node.events


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    """Without a quorum, a node in orderly shutdown waits for two seconds; nobody has to."""
    with servers(tmp_path, 3) as nodes:
        start_all(nodes)
        for node in nodes[1:]:
            node.kill()
        nodes[0].send(signal.SIGTERM)
        until(lambda: "node_stopping" in nodes[0].events, "it has heard")
        nodes[0].send(signal.SIGTERM)
        assert nodes[0].exit_code() == 128 + signal.SIGTERM
        assert "node_stopped" not in nodes[0].events


def test_one_that_waits_for_others_says_for_whom_and_stops_when_told(tmp_path: Path) -> None:
    with servers(tmp_path, 2) as [node, _]:
        node.start()
        until(lambda: "waiting for controller 2@" in node.readiness(), "it says for whom it waits")
        assert node.stop() == 0
        assert "raft_waiting" in node.events


def test_ctrl_c_is_an_orderly_stop(node: ServerProcess) -> None:
    start_all([node])
    node.send(signal.SIGINT)
    assert node.exit_code() == 0
    assert node.events[-1] == "node_stopped"


# -- a record, from one end to the other


class Client:
    """A plain gRPC client; it asks each node until one answers, for as long as a person would."""

    def __init__(self, nodes: list[ServerProcess]) -> None:
        self._nodes = nodes

    def ask(self, method: str, request: Message, response_type: type[R]) -> R:
        """The first answer of any node. Errors that a retry may help are retried."""
        answers: list[R] = []

        def attempt() -> bool:
            for node in self._nodes:
                with grpc.insecure_channel(node.address) as channel, contextlib.suppress(grpc.RpcError):
                    call = channel.unary_unary(method, type(request).SerializeToString, response_type.FromString)
                    answers.append(call(request, timeout=5))
                    return True
            return False

        until(attempt, f"an answer to {method}")
        return answers[0]

    def create_topic(self, name: str, replicas: int) -> None:
        topic = NewTopic(name=name, partitions=1, replication_factor=replicas)
        answer = self.ask("/lograft.v1.Admin/CreateTopics", CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        assert not answer.results[0].HasField("error"), answer

    def append(self, topic: str, *values: bytes) -> int:
        request = AppendRequest(topic=topic, records=[NewRecord(value=value) for value in values])
        return self.ask("/lograft.v1.Log/Append", request, AppendResponse).base_offset

    def read(self, topic: str, count: int) -> list[bytes]:
        request = ReadRequest(topic=topic, wait_ms=1000)
        found: list[list[bytes]] = [[]]

        def look() -> bool:
            answer = self.ask("/lograft.v1.Log/Read", request, ReadResponse)
            found[0] = [record.value for record in answer.records]
            return len(found[0]) >= count

        until(look, f"{count} records")
        return found[0]

    def partition(self, topic: str) -> Partition:
        request = DescribeRequest(topics=[topic])
        return self.ask("/lograft.v1.Cluster/Describe", request, ClusterDescription).topics[0].partitions[0]


def test_a_record_outlives_its_leader_and_the_whole_cluster(tmp_path: Path) -> None:
    with servers(tmp_path, 3) as nodes:
        start_all(nodes)
        client = Client(nodes)
        client.create_topic("orders", 3)
        assert client.append("orders", b"one", b"two") == 0
        leader = client.partition("orders").leader
        nodes[leader - 1].kill()
        assert client.append("orders", b"three") == 2
        assert client.read("orders", 3) == [b"one", b"two", b"three"]
        assert client.partition("orders").leader != leader
        nodes[leader - 1].start()
        nodes[leader - 1].until_ready()
        assert sorted(client.partition("orders").isr) == [1, 2, 3]
        for node in nodes:
            node.kill()
        start_all(nodes)
        assert client.append("orders", b"four") == 3
        assert [node.stop() for node in nodes] == [0, 0, 0]
        start_all(nodes)
        assert client.read("orders", 4) == [b"one", b"two", b"three", b"four"]


# -- refusals: exit code 1, one line, no traceback


def refusal(node: ServerProcess, *flags: str, **more: str) -> str:
    result = lograft(*node.arguments, *flags, **more)  # type: ignore[arg-type]
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    plain = [line for line in result.stderr.splitlines() if not line.startswith("{")]
    assert len(plain) == 1, result.stderr
    assert plain[0].startswith("Error: ")
    return plain[0].removeprefix("Error: ")


def test_a_directory_of_another_cluster_or_node_is_refused(node: ServerProcess) -> None:
    start_all([node])
    assert node.stop() == 0
    directory = node.data_directory
    assert refusal(node, "--cluster-id", "other").startswith(f"{directory} belongs to cluster 'processes', not 'other'")
    as_node_2 = refusal(node, LOGRAFT_NODE_ID="2", LOGRAFT_CONTROLLERS="2@127.0.0.1:1")
    assert as_node_2.startswith(f"{directory} belongs to node 1, not node 2")
    start_all([node])


def test_a_directory_in_use_is_refused(node: ServerProcess) -> None:
    start_all([node])
    assert refusal(node).startswith(f"{node.data_directory} is in use by another process: stop it")
    assert node.is_ready()


def test_a_directory_that_cannot_be_used_is_refused(node: ServerProcess) -> None:
    directory = node.data_directory
    directory.write_text("a file")
    assert refusal(node) == f"{directory} cannot be used: it is a file; move it away, or choose another directory"
    assert "cannot be used: Not a directory" in refusal(node, "--data-dirs", f"{directory}/data")
    assert "cannot be used: No such file or directory" in refusal(node, "--data-dirs", f"{directory.parent}/no/data")


@pytest.mark.parametrize("has_data", [False, True])
def test_a_directory_that_cannot_be_written_to_is_refused(node: ServerProcess, has_data: bool) -> None:
    """Permissions do not keep root from anything, so it is mounted read-only, where nobody else sees it so."""
    directory = node.data_directory
    if has_data:
        start_all([node])
        assert node.stop() == 0
    else:
        directory.mkdir()
    mount = f"mount --bind {directory} {directory} && mount -o remount,ro,bind {directory}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount anything")
    command = [sys.executable, "-m", "lograft", *node.arguments]
    result = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh", *command],
        capture_output=True, text=True, check=False, timeout=60, env=variables(),
    )  # fmt: skip
    assert result.returncode == 1, result.stderr
    *_, last = result.stderr.splitlines()
    assert last == f"Error: {directory} cannot be used: Read-only file system; check that it exists and is writable"


@pytest.mark.parametrize("key", ["listen", "controller_listen", "nodes_listen", "http"])
def test_a_port_in_use_is_refused(node: ServerProcess, key: str) -> None:
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        message = refusal(node, f"--{key.replace('_', '-')}", address)
    assert (
        message == f"cannot listen on {address}: Address already in use; "
        "stop the process that uses it, or choose another address"
    )


def test_a_bad_configuration_is_refused(node: ServerProcess, tmp_path: Path) -> None:
    node.config["listne"] = "h:1"
    assert refusal(node).startswith("unknown key 'listne': did you mean listen?")
    del node.config["listne"]
    assert refusal(node, LOGRAFT_LISTEN="x").startswith("listen (LOGRAFT_LISTEN) cannot be 'x': expected host:port")
    assert refusal(node, "--log", "retention.ms=soon").startswith("retention.ms cannot be 'soon'")
    secret = tmp_path / "short.secret"
    secret.write_text("hunter2\n")
    told = refusal(node, "--cluster-secret-file", str(secret))
    assert told.startswith(f"cluster_secret_file {secret} cannot be used: it has a secret of 7 characters")
    assert "hunter2" not in told
    assert refusal(node, LOGRAFT_CLUSTER_SECRET_FILE="/none") == "/none cannot be read: No such file or directory"
    del node.config["cluster_secret_file"]
    assert "other hosts can reach this node (nodes_listen is '0.0.0.0:1')" in refusal(
        node, "--nodes-listen", "0.0.0.0:1"
    )
    missing = lograft("server", "--config", str(tmp_path / "none.toml"))
    assert (missing.returncode, missing.stderr) == (
        1,
        f"Error: {tmp_path}/none.toml cannot be read: No such file or directory\n",
    )
    assert not node.data_directory.exists()


def test_help_names_every_key() -> None:
    text = lograft("server", "--help").stdout
    assert all(flag in text for flag in ("--node-id", "--roles", "--data-dirs", "--controller-listen", "--log KEY"))


# -- broken invariants


@pytest.mark.parametrize(
    "where", ["raise error", "asyncio.get_running_loop().call_soon(fail); await asyncio.sleep(60)"]
)
def test_a_broken_invariant_ends_the_process(node: ServerProcess, where: str) -> None:
    program = f"""
import asyncio, sys
from lograft.broker.node.node import Node
from lograft.__main__ import main

error = AssertionError("broken")

def fail():
    raise error

async def run(self):
    {where}

Node.run = run
sys.argv[1:] = {node.arguments!r}
main()
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60, env=variables()
    )
    assert result.returncode == 3, result.stderr
    last = json.loads(result.stderr.splitlines()[-1])
    assert (last["event"], last["level"], last["error"]) == ("panic", "critical", "AssertionError('broken')")
    assert "Traceback" in last["exception"]


# -- what any gRPC client finds


def test_a_plain_grpc_client_finds_its_way_by_reflection(node: ServerProcess) -> None:
    """As grpcurl would: nothing of lograft is known to it but the address."""
    start_all([node])
    with grpc.insecure_channel(node.address) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check", HealthCheckRequest.SerializeToString, HealthCheckResponse.FromString
        )
        assert check(HealthCheckRequest(service="lograft.v1.Cluster"), timeout=10).status == HealthCheckResponse.SERVING
        reflect = channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            ServerReflectionRequest.SerializeToString,
            ServerReflectionResponse.FromString,
        )
        questions = [
            ServerReflectionRequest(list_services=""),
            ServerReflectionRequest(file_containing_symbol="lograft.v1.Cluster"),
        ]
        listed, file = reflect(iter(questions), timeout=10)
        names = [service.name for service in listed.list_services_response.service]
        assert {"lograft.v1.Admin", "lograft.v1.Cluster", "grpc.health.v1.Health"} <= set(names)
        assert not [name for name in names if "internal" in name]
        pool = DescriptorPool()
        for one in reversed(file.file_descriptor_response.file_descriptor_proto):
            pool.AddSerializedFile(one)
        method = pool.FindServiceByName("lograft.v1.Cluster").FindMethodByName("Describe")
        describe = channel.unary_unary(
            f"/{method.containing_service.full_name}/{method.name}",
            lambda message: message.SerializeToString(),
            GetMessageClass(method.output_type).FromString,
        )
        described = describe(GetMessageClass(method.input_type)(linearizable=True), timeout=10)
        assert [broker.address for broker in described.brokers] == [node.address]


def test_every_service_that_is_listed_can_be_described(node: ServerProcess) -> None:
    start_all([node])

    async def missing(address: str) -> list[str]:
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.stream_stream(
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                ServerReflectionRequest.SerializeToString,
                ServerReflectionResponse.FromString,
            )()
            await call.write(ServerReflectionRequest(list_services=""))
            listed = await call.read()
            unknown = []
            for service in listed.list_services_response.service:
                await call.write(ServerReflectionRequest(file_containing_symbol=service.name))
                if (await call.read()).HasField("error_response"):
                    unknown.append(service.name)
            await call.done_writing()
            return unknown

    assert asyncio.run(missing(node.address)) == []
    controller = node.config["controllers"][0].partition("@")[2]
    assert asyncio.run(missing(controller)) == []
