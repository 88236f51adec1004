"""Three controller processes and brokers over real gRPC: what was acknowledged stays, whoever is killed."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

from support.controller_processes import ControllerCluster, FakeBroker, controller_cluster

from lograft.proto import errors_pb2
from lograft.proto.admin_pb2 import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicReference,
)
from lograft.proto.cluster_pb2 import Broker, ClusterDescription
from lograft.proto.methods import CREATE_TOPICS, DELETE_TOPICS
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.network import ConnectFailed

DEADLINE_SECONDS = 180
KILLS = 5
CLIENTS = 4
CREATED_PER_KILL = 25


def run(directory: Path, scenario: Callable[[ControllerCluster, list[FakeBroker]], Awaitable[None]]) -> None:
    async def main() -> None:
        async with controller_cluster(directory, deadline_seconds=DEADLINE_SECONDS) as cluster:
            cluster.start_all()
            async with AsyncExitStack() as stack:
                brokers = [await stack.enter_async_context(cluster.broker(number)) for number in (1, 2, 3)]
                await scenario(cluster, brokers)
            assert list(await cluster.stop_all()) == [0, 0, 0]

    asyncio.run(main())


class Client:
    """Creates topics, one after the other, by way of any broker, and asks again until it has an answer."""

    def __init__(self, number: int, cluster: ControllerCluster, brokers: list[FakeBroker]) -> None:
        self._number = number
        self._cluster = cluster
        self._brokers = brokers
        self.created: dict[str, bytes] = {}

    async def create_for_ever(self) -> None:
        while True:
            name = f"topic-{self._number}-{len(self.created)}"
            topic = NewTopic(name=name, topic_id=uuid4().bytes, partitions=2, replication_factor=3)
            await self._create(topic)
            self.created[name] = topic.topic_id

    async def _create(self, topic: NewTopic) -> None:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=2000)
        while True:
            broker = self._brokers[self._number % len(self._brokers)]
            try:
                response = await self._cluster.ask(broker.address, CREATE_TOPICS, request, CreateTopicsResponse)
            except ControllerError as error:
                if not error.retriable:
                    raise
                continue
            (result,) = response.results
            assert not result.HasField("error"), result.error.message
            assert result.topic_id == topic.topic_id
            assert result.partitions == 2
            return


def test_killing_the_active_controller_loses_no_topic_and_creates_none_twice(tmp_path: Path) -> None:
    async def scenario(cluster: ControllerCluster, brokers: list[FakeBroker]) -> None:
        clients = [Client(number, cluster, brokers) for number in range(CLIENTS)]

        def created() -> int:
            return sum(len(client.created) for client in clients)

        async with asyncio.TaskGroup() as group:
            loads = [group.create_task(client.create_for_ever()) for client in clients]
            for _ in range(KILLS):
                active = await cluster.until_active()
                enough = created() + CREATED_PER_KILL
                while created() < enough:  # noqa: ASYNC110 (the clients have no event for it)
                    await asyncio.sleep(0.01)
                active.kill()
                await cluster.until_active(other_than=active.node_id)
                active.start()
            for load in loads:
                load.cancel()
        await check_all_agree(cluster, brokers, clients)

    run(tmp_path, scenario)


async def check_all_agree(cluster: ControllerCluster, brokers: list[FakeBroker], clients: list[Client]) -> None:
    """Every node has every topic that was acknowledged, once, with a leader for each partition."""
    addresses = [broker.address for broker in brokers] + list(cluster.addresses.values())
    for address in addresses:
        description = await describe_patiently(cluster, address)
        names = Counter(topic.name for topic in description.topics)
        assert set(names.values()) == {1}
        ids = {topic.name: topic.id for topic in description.topics}
        for client in clients:
            for name, topic_id in client.created.items():
                assert ids[name] == topic_id
        # At most the one that each client was creating when it was stopped.
        assert len(ids) <= sum(len(client.created) + 1 for client in clients)
        for topic in description.topics:
            for partition in topic.partitions:
                assert partition.leader in partition.isr
                assert sorted(partition.replicas) == [1, 2, 3]


async def describe_patiently(cluster: ControllerCluster, address: str) -> ClusterDescription:
    """A controller that was just started may not be there yet."""
    while True:
        try:
            return await cluster.describe(address)
        except (ConnectFailed, ControllerError):
            await asyncio.sleep(0.05)


def test_a_broker_that_vanishes_is_fenced_and_what_it_led_has_another_leader(tmp_path: Path) -> None:
    async def main() -> None:
        async with controller_cluster(tmp_path, deadline_seconds=DEADLINE_SECONDS) as cluster:
            cluster.start_all()
            async with cluster.broker(1) as first, cluster.broker(2):
                async with cluster.broker(3):
                    request = CreateTopicsRequest(topics=[NewTopic(name="t", partitions=6, replication_factor=3)])
                    response = await cluster.ask(first.address, CREATE_TOPICS, request, CreateTopicsResponse)
                    assert not response.results[0].HasField("error")
                    leaders = Counter(
                        one.leader for one in (await cluster.describe(first.address)).topics[0].partitions
                    )
                    assert leaders == {1: 2, 2: 2, 3: 2}
                while True:
                    description = await cluster.describe(first.address)
                    states = {broker.id: broker.state for broker in description.brokers}
                    if states[3] == Broker.FENCED:
                        break
                    await asyncio.sleep(0.02)
                partitions = description.topics[0].partitions
                assert {one.leader for one in partitions} == {1, 2}
                assert all(sorted(one.isr) == [1, 2] for one in partitions)
            await cluster.stop_all()

    asyncio.run(main())


def test_a_request_that_makes_no_sense_is_answered_with_the_cause(tmp_path: Path) -> None:
    async def scenario(cluster: ControllerCluster, brokers: list[FakeBroker]) -> None:
        request = CreateTopicsRequest(topics=[NewTopic(name="bad name"), NewTopic(name="good", replication_factor=9)])
        response = await cluster.ask(brokers[0].address, CREATE_TOPICS, request, CreateTopicsResponse)
        codes = [result.error.code for result in response.results]
        assert codes == [errors_pb2.INVALID_TOPIC, errors_pb2.NOT_ENOUGH_BROKERS]
        deletion = DeleteTopicsRequest(topics=[TopicReference(name="nothing")])
        answer = await cluster.ask(brokers[1].address, DELETE_TOPICS, deletion, DeleteTopicsResponse)
        assert answer.results[0].error.code == errors_pb2.UNKNOWN_TOPIC

    run(tmp_path, scenario)
