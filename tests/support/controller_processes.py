"""Controllers as real processes on this machine, and brokers without logs that live in this one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

from google.protobuf.message import Message
from support.free_ports import free_address
from support.server_processes import QuorumProcess

from lograft.metadata.controller.initial_records import FEATURE_LEVEL, MIN_FEATURE_LEVEL
from lograft.metadata.decisions.brokers.registration import Registration
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.membership.broker_session import Wanted
from lograft.metadata.membership.cluster_membership import ClusterMembership
from lograft.proto.admin_pb2 import DescribeQuorumRequest, DescribeQuorumResponse
from lograft.proto.cluster_pb2 import ClusterDescription, DescribeRequest
from lograft.proto.methods import DESCRIBE_CLUSTER, DESCRIBE_QUORUM
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import call
from lograft.runtime.network import ConnectFailed
from lograft.runtime.production.node_runtime import close_production_runtime, production_runtime
from lograft.runtime.world import Runtime

PROGRAM = Path(__file__).resolve().parents[1] / "integration" / "controller_process.py"
CLUSTER_ID = "controllers"
_POLL_SECONDS = 0.02

R = TypeVar("R", bound=Message)


@dataclass
class FakeBroker:
    """All of a broker that has to do with the metadata; it serves clients, and hands their requests on."""

    address: str
    membership: ClusterMembership

    @property
    def is_ready(self) -> bool:
        return self.membership.session.state is BrokerState.ACTIVE


class ControllerCluster:
    """Three controller processes, and what can be asked of them."""

    def __init__(self, runtime: Runtime, directory: Path, group: asyncio.TaskGroup, count: int = 3) -> None:
        self._runtime = runtime
        self._group = group
        self.addresses = {node_id: free_address() for node_id in range(1, count + 1)}
        self.controllers = {
            node_id: QuorumProcess(PROGRAM, directory, node_id, CLUSTER_ID, self.addresses)
            for node_id in self.addresses
        }

    def start_all(self) -> None:
        for controller in self.controllers.values():
            controller.start()

    async def until_active(self, *, other_than: int | None = None) -> QuorumProcess:
        """The process that is the active controller."""
        while True:
            for node_id, controller in self.controllers.items():
                if controller.is_running and node_id != other_than and await self._is_active(controller):
                    return controller
            await asyncio.sleep(_POLL_SECONDS)

    async def _is_active(self, controller: QuorumProcess) -> bool:
        try:
            await self.ask(controller.address, DESCRIBE_QUORUM, DescribeQuorumRequest(), DescribeQuorumResponse)
        except (ConnectFailed, ControllerError):
            return False
        return True

    async def ask(self, address: str, method: str, request: Message, response_type: type[R]) -> R:
        """One call over a connection of its own. `ConnectFailed` or `ControllerError` instead of an answer."""
        connection = await self._runtime.network.connect(address, 1000)
        try:
            async with asyncio.timeout(60):
                return await call(connection, method, request, response_type)
        finally:
            await connection.close()

    async def describe(self, address: str, *, linearizable: bool = True) -> ClusterDescription:
        request = DescribeRequest(linearizable=linearizable)
        return await self.ask(address, DESCRIBE_CLUSTER, request, ClusterDescription)

    @contextlib.asynccontextmanager
    async def broker(self, broker_id: int, directory_id: UUID | None = None) -> AsyncIterator[FakeBroker]:
        """A broker that is registered and ready, until the end of the block: then it is gone without a word."""
        address = free_address()
        registration = Registration(
            broker_id=BrokerId(broker_id),
            incarnation=uuid4(),
            address=address,
            rack=None,
            directories=(directory_id or uuid4(),),
            boot_id="boot",
            clean_epoch=None,
            min_feature_level=MIN_FEATURE_LEVEL,
            max_feature_level=FEATURE_LEVEL,
        )
        membership = ClusterMembership(self._runtime, self.addresses, CLUSTER_ID, registration, lambda: ())
        server = await self._runtime.network.serve(address, membership.handlers(), _panic)
        running = self._group.create_task(membership.run())
        try:
            await membership.until_registered()
            membership.session.set_wanted(Wanted.READY)
            broker = FakeBroker(address, membership)
            await membership.session.wait_until(lambda: broker.is_ready)
            yield broker
        finally:
            running.cancel()
            await asyncio.wait([running])
            await server.stop()

    async def stop_all(self) -> Sequence[int]:
        """Exit codes of those that run, which are asked to end."""
        running = [controller for controller in self.controllers.values() if controller.is_running]
        return [await asyncio.to_thread(controller.stop) for controller in running]


def _panic(error: BaseException) -> None:
    raise AssertionError("a handler broke") from error


@contextlib.asynccontextmanager
async def controller_cluster(directory: Path, *, deadline_seconds: float) -> AsyncIterator[ControllerCluster]:
    """Nothing is left of it in the end."""
    runtime = production_runtime(_panic)
    try:
        async with asyncio.timeout(deadline_seconds), asyncio.TaskGroup() as group:
            cluster = ControllerCluster(runtime, directory, group)
            try:
                yield cluster
            finally:
                for controller in cluster.controllers.values():
                    controller.kill()
    finally:
        await close_production_runtime(runtime)
