"""The Admin service on one controller, which commits after a millisecond, and requests to it in few words."""

import asyncio
from typing import Any, TypeVar

import pytest
from support.metadata_images import brokers, image_with, partition, topic_id
from support.raft_nodes import make_runtime

from lograft.chaos.world.network import VirtualNetwork
from lograft.metadata.controller.active_controller import Committed
from lograft.metadata.controller.services.admin_items import Submitter
from lograft.metadata.controller.services.admin_service import AdminService
from lograft.metadata.decisions.decision import Decide
from lograft.metadata.decisions.partitions.log_ends import LogEnds
from lograft.metadata.decisions.topics.disk_room import DiskRoom
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import Operation
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import call
from lograft.runtime.network import Connection
from lograft.runtime.rng import Rng

T = TypeVar("T")

CONTROLLERS = {1: "c1:9093", 2: "c2:9093", 3: "c3:9093"}


class Controller:
    """Decides at once on what is to come, and commits after a millisecond. `fates`: with which errors what is asked
    comes to nothing, by when it is asked, from 0. `is_stuck`: nothing is ever committed."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.operations: list[Operation] = []
        self.asked = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.fates: dict[int, ControllerError] = {}
        self.is_stuck = False

    async def submit(self, decide: Decide[T]) -> Committed[T]:
        fate = self.fates.get(self.asked)
        self.asked += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if fate is None:
                return await self._carry_out(decide)
            await asyncio.sleep(0.001)
            raise fate
        finally:
            self.in_flight -= 1

    async def _carry_out(self, decide: Decide[T]) -> Committed[T]:
        decision = None
        try:
            decision = decide(self.image)
            if decision.records:
                operation = Operation(self.image.sequence, decision.records)
                assert self.image.apply_operation(operation)
                self.operations.append(operation)
        finally:
            if self.is_stuck:
                await asyncio.Event().wait()
            await asyncio.sleep(0.001)
        return Committed(decision.answer, len(self.operations))


class World:
    """A service on a controller, and a connection to it."""

    def __init__(self, image: ClusterImage | None = None, controller: Submitter | None = None) -> None:
        self.image = image if image is not None else image_with(*brokers(3))
        self.before = self.image.copy()
        self.controller = Controller(self.image)
        self.log_ends: LogEnds = {}
        self.room = DiskRoom()
        self.network = VirtualNetwork(Rng(5))
        self.runtime = make_runtime(7, self.network, "controller")
        self.service = AdminService(
            self.runtime, controller or self.controller, CONTROLLERS, lambda: self.log_ends, lambda _: self.room
        )
        self._connection: Connection | None = None

    async def ask(self, request: Any) -> Any:
        """The answer to a request of any kind."""
        if self._connection is None:

            def panic(error: BaseException) -> None:
                raise AssertionError("a handler failed") from error

            await self.runtime.network.serve("controller:1", self.service.handlers(), panic)
            self._connection = await self.network.host("client").connect("controller:1")
        name = type(request).__name__.removesuffix("Request")
        return await call(self._connection, f"/lograft.v1.Admin/{name}", request, getattr(pb, f"{name}Response"))

    async def refused(self, request: Any) -> ControllerError:
        with pytest.raises(ControllerError) as caught:
            await self.ask(request)
        return caught.value

    @property
    def is_unchanged(self) -> bool:
        return self.image == self.before


def error_name(result: Any) -> str | None:
    return errors_pb2.ErrorCode.Name(result.error.code) if result.HasField("error") else None


def errors(results: Any) -> list[str | None]:
    return [error_name(result) for result in results]


def new(name: str, number: int | None = None, **fields: Any) -> pb.NewTopic:
    return pb.NewTopic(name=name, topic_id=topic_id(number).bytes if number is not None else b"", **fields)


def reference(name: str = "", number: int | None = None) -> pb.TopicReference:
    return pb.TopicReference(name=name, topic_id=topic_id(number).bytes if number is not None else b"")


def partition_of(number: int, name: str = "", topic: int | None = None) -> pb.PartitionReference:
    return pb.PartitionReference(topic=reference(name, topic), partition=number)


def orders() -> ClusterImage:
    """Topic `orders` has id 1, `bills` id 2."""
    topics = {"orders": [partition(1, 2, 3), partition(2, 3, 1)], "bills": [partition(3, 1)]}
    return image_with(*brokers(3), topics=topics)


def resource(kind: Any = pb.ConfigResource.TOPIC, name: str = "", number: int | None = None) -> pb.ConfigResource:
    return pb.ConfigResource(kind=kind, name=name, topic_id=topic_id(number).bytes if number is not None else b"")


def altering(target: pb.ConfigResource, *changes: tuple[str, str | None]) -> pb.AlterConfigsRequest.Item:
    made = [pb.AlterConfigsRequest.Change(key=key, value=value) for key, value in changes]
    return pb.AlterConfigsRequest.Item(resource=target, changes=made)


def moving(target: pb.PartitionReference, *replicas: int, cancel: bool = False) -> pb.AlterReassignmentsRequest.Item:
    return pb.AlterReassignmentsRequest.Item(partition=target, replicas=replicas, cancel=cancel)
