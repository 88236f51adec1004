"""Reflection: a client that knows no `.proto` file of ours finds out all it needs."""

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse
from support.raft_nodes import make_runtime, virtual

from lograft.proto import (  # noqa: F401 (loaded, as in a node)
    admin_pb2,
    cluster_pb2,
    controller_pb2,
    replication_pb2,
)
from lograft.proto.cluster_pb2 import DescribeRequest
from lograft.rpc.reflection import METHODS, ReflectionService, public_services
from lograft.runtime.network import Status, Stream

ADDRESS = "n0:1"
SERVICES = ["lograft.v1.Admin", "lograft.v1.Cluster"]


async def open_reflection(method: str = METHODS[0]) -> Stream:
    def panic(error: BaseException) -> None:
        raise AssertionError("a handler broke") from error

    network = make_runtime(1).network
    await network.serve(ADDRESS, ReflectionService(SERVICES).handlers(), panic)
    return (await network.connect(ADDRESS)).open(method)


async def ask(stream: Stream, request: ServerReflectionRequest) -> ServerReflectionResponse:
    await stream.send(request.SerializeToString())
    answer = ServerReflectionResponse.FromString(await stream.receive() or b"")
    assert answer.original_request == request
    return answer


@pytest.mark.parametrize("method", METHODS)
@virtual
async def test_services_are_listed(method: str) -> None:
    stream = await open_reflection(method)
    answer = await ask(stream, ServerReflectionRequest(list_services=""))
    assert [service.name for service in answer.list_services_response.service] == SERVICES


@virtual
async def test_a_call_can_be_made_up_from_what_is_told() -> None:
    """As grpcurl does: the service's file, with all it imports, makes a pool; that makes the messages."""
    stream = await open_reflection()
    for symbol in ("lograft.v1.Cluster", "lograft.v1.Cluster.Describe", "lograft.v1.DescribeRequest"):
        answer = await ask(stream, ServerReflectionRequest(file_containing_symbol=symbol))
        pool = DescriptorPool()
        for file in reversed(answer.file_descriptor_response.file_descriptor_proto):
            pool.AddSerializedFile(file)
        method = pool.FindServiceByName("lograft.v1.Cluster").FindMethodByName("Describe")
        request = GetMessageClass(method.input_type)(topics=["orders"], linearizable=True)
        assert DescribeRequest.FromString(request.SerializeToString()).topics == ["orders"]


@pytest.mark.parametrize(
    "request_",
    [
        ServerReflectionRequest(file_by_filename="lograft/proto/replication.proto"),
        ServerReflectionRequest(file_containing_symbol="lograft.internal.v1.Replication"),
        ServerReflectionRequest(file_containing_symbol="lograft.internal.v1.Controller.ReportFailures"),
        ServerReflectionRequest(file_containing_symbol="lograft.internal.v1.RegisterRequest"),
    ],
)
@virtual
async def test_what_nodes_say_to_each_other_is_not_told(request_: ServerReflectionRequest) -> None:
    stream = await open_reflection()
    answer = await ask(stream, request_)
    assert answer.error_response.error_code == Status.NOT_FOUND.value


@virtual
async def test_a_file_is_found_by_its_name() -> None:
    stream = await open_reflection()
    answer = await ask(stream, ServerReflectionRequest(file_by_filename="lograft/proto/cluster.proto"))
    names = [FileDescriptorProto.FromString(one).name for one in answer.file_descriptor_response.file_descriptor_proto]
    assert names == ["lograft/proto/cluster.proto", "lograft/proto/errors.proto"]


@pytest.mark.parametrize(
    "request_",
    [
        ServerReflectionRequest(file_by_filename="no.proto"),
        ServerReflectionRequest(file_containing_symbol="lograft.v1.Nothing"),
        ServerReflectionRequest(file_containing_symbol="lograft.v1.Cluster.Nothing"),
        ServerReflectionRequest(all_extension_numbers_of_type="lograft.v1.Nothing"),
        ServerReflectionRequest(file_containing_extension={"containing_type": "x.Y", "extension_number": 5}),
    ],
    ids=lambda request: request.WhichOneof("message_request"),
)
@virtual
async def test_what_is_not_there_is_not_found_and_the_stream_goes_on(request_: ServerReflectionRequest) -> None:
    stream = await open_reflection()
    answer = await ask(stream, request_)
    assert answer.error_response.error_code == Status.NOT_FOUND.value
    answer = await ask(stream, ServerReflectionRequest(all_extension_numbers_of_type="lograft.v1.Broker"))
    assert list(answer.all_extension_numbers_response.extension_number) == []
    answer = await ask(stream, ServerReflectionRequest())
    assert answer.error_response.error_code == Status.INVALID_ARGUMENT.value


def test_only_what_clients_may_use_is_public() -> None:
    methods = ["/lograft.v1.Log/Produce", "/lograft.internal.v1.Raft/Probe", "/lograft.v1.Log/Fetch", "/a.B/C"]
    assert public_services(methods) == ["a.B", "lograft.v1.Log"]
