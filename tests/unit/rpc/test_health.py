"""Health checking, as any gRPC client asks for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse
from support.raft_nodes import make_runtime, virtual

from lograft.rpc.health import HealthService
from lograft.runtime.network import Connection, Status, StreamError

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
ADDRESS = "n0:1"


@asynccontextmanager
async def served(health: HealthService) -> AsyncIterator[Connection]:
    def panic(error: BaseException) -> None:
        raise AssertionError("a handler broke") from error

    network = make_runtime(1).network
    server = await network.serve(ADDRESS, health.handlers(), panic)
    connection = await network.connect(ADDRESS)
    yield connection
    await connection.close()
    await server.stop()


async def check(connection: Connection, service: str) -> int:
    stream = connection.open("/grpc.health.v1.Health/Check")
    await stream.send(HealthCheckRequest(service=service).SerializeToString())
    await stream.half_close()
    answer = await stream.receive()
    assert answer is not None
    assert await stream.receive() is None
    return HealthCheckResponse.FromString(answer).status  # type: ignore[no-any-return]


@virtual
async def test_a_service_is_serving_from_when_it_is_said_to_be_until_it_is_not() -> None:
    health = HealthService(["lograft.v1.Log"])
    async with served(health) as connection:
        for name in ("", "lograft.v1.Log"):
            health.set_serving(False)
            assert await check(connection, name) == NOT_SERVING
            health.set_serving(True)
            assert await check(connection, name) == SERVING


@virtual
async def test_an_unknown_service_is_not_found() -> None:
    async with served(HealthService(["lograft.v1.Log"])) as connection:
        with pytest.raises(StreamError, match=r"no service 'x' is served here: lograft.v1.Log") as refused:
            await check(connection, "x")
        assert refused.value.status is Status.NOT_FOUND


@virtual
async def test_all_services_are_listed() -> None:
    health = HealthService(["a", "b"])
    health.set_serving(True)
    async with served(health) as connection:
        stream = connection.open("/grpc.health.v1.Health/List")
        await stream.send(HealthListRequest().SerializeToString())
        statuses = HealthListResponse.FromString(await stream.receive() or b"").statuses
        assert {name: one.status for name, one in statuses.items()} == {"": SERVING, "a": SERVING, "b": SERVING}


@virtual
async def test_a_watcher_is_told_at_once_and_of_every_change() -> None:
    health = HealthService(["a"])
    async with served(health) as connection:
        stream = connection.open("/grpc.health.v1.Health/Watch")
        await stream.send(HealthCheckRequest(service="a").SerializeToString())
        seen = []
        for is_serving in (True, False, True):
            seen.append(HealthCheckResponse.FromString(await stream.receive() or b"").status)
            health.set_serving(is_serving)
            health.set_serving(is_serving)
        seen.append(HealthCheckResponse.FromString(await stream.receive() or b"").status)
        assert seen == [NOT_SERVING, SERVING, NOT_SERVING, SERVING]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.receive(), 10)


@virtual
async def test_a_watcher_of_an_unknown_service_is_told_so_and_waits() -> None:
    async with served(HealthService([])) as connection:
        stream = connection.open("/grpc.health.v1.Health/Watch")
        await stream.send(HealthCheckRequest(service="x").SerializeToString())
        answer = HealthCheckResponse.FromString(await stream.receive() or b"")
        assert answer.status == HealthCheckResponse.SERVICE_UNKNOWN


@pytest.mark.parametrize("method", ["Check", "List", "Watch"])
@virtual
async def test_garbage_is_refused(method: str) -> None:
    async with served(HealthService([])) as connection:
        stream = connection.open(f"/grpc.health.v1.Health/{method}")
        await stream.send(b"\xff\xff")
        with pytest.raises(StreamError, match=r"not a grpc\.health\.v1"):
            await stream.receive()
