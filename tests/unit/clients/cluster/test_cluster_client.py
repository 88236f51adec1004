"""A client finds the cluster, asks any of it, and follows what changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.fake_controllers import until
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.cluster.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.cluster.cluster_view import Leader
from lograft.proto.log_pb2 import InitProducerRequest, InitProducerResponse
from lograft.proto.methods import INIT_PRODUCER


@asynccontextmanager
async def following(
    cluster: FakeCluster, bootstrap: list[str] | None = None, times: ClusterTimes | None = None
) -> AsyncIterator[ClusterClient]:
    client = ClusterClient(cluster.client, bootstrap or cluster.bootstrap, times)
    running = asyncio.ensure_future(client.run())
    try:
        yield client
    finally:
        running.cancel()
        await asyncio.wait([running])
        await client.close()


async def started(*leaders: int, count: int = 3) -> FakeCluster:
    cluster = FakeCluster(count)
    await cluster.start()
    cluster.create_topic("orders", leaders or [1])
    return cluster


def leader_of(client: ClusterClient, partition: int = 0) -> Leader | None:
    topic = client.view.topic("orders")
    return client.view.leader(topic.id, partition) if topic is not None else None


@virtual
async def test_one_live_broker_of_those_named_is_enough() -> None:
    cluster = await started(2)
    cluster.kill(1)
    async with following(cluster, ["nowhere:1", "broker-1:9092", "broker-3:9092"]) as client:
        assert (await client.topic("orders")).partition_count == 1
        assert client.view.addresses[2] == "broker-2:9092"
        assert (await client.connect(2)).broken.is_set() is False


@virtual
async def test_changes_are_heard_of_within_moments_of_topics_that_were_asked_for() -> None:
    cluster = await started(1)
    cluster.create_topic("bills", [2])
    async with following(cluster) as client:
        heard = 0

        def hear() -> None:
            nonlocal heard
            heard += 1

        client.listen(hear)
        await client.topic("orders")
        await asyncio.sleep(1)
        before = heard
        cluster.move_leader("orders", 0, 3)
        await until(lambda: leader_of(client) == Leader(3, 1), within_s=0.2)
        assert heard > before
        assert client.view.topic("bills") is None
        bills = await client.topic("bills")
        cluster.move_leader("orders", 0, 2)
        await until(lambda: leader_of(client) == Leader(2, 2), within_s=0.5)
        cluster.move_leader("bills", 0, 1)
        await until(lambda: client.view.leader(bills.id, 0) == Leader(1, 1), within_s=0.5)


@virtual
async def test_a_word_of_all_that_was_asked_for_before_a_topic_was_says_nothing_of_that_topic() -> None:
    cluster = await started(1)
    async with following(cluster) as client:
        await client.topic("orders")
        await asyncio.sleep(1)
        for delay_ms in range(40):
            cluster.create_topic(f"bills-{delay_ms}", [2])
            asking = asyncio.ensure_future(client.topic(f"bills-{delay_ms}"))
            await asyncio.sleep(delay_ms / 4000)
            cluster.create_topic(f"others-{delay_ms}", [2])
            for broker in cluster.brokers.values():
                broker.forget_changes()
            bills = await asking
            for _ in range(20):
                assert client.view.topic_of_id(bills.id) is bills
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("fault", ["kill", "cut_off"])
@virtual
async def test_when_the_broker_that_is_watched_is_lost_another_is(fault: str) -> None:
    cluster = await started(1)
    async with following(cluster) as client:
        await client.topic("orders")
        await asyncio.sleep(1)
        watched = next(number for number, address in cluster.addresses.items() if address == client._watched)
        getattr(cluster, fault)(watched)
        cluster.move_leader("orders", 0, 3)
        await until(lambda: leader_of(client) == Leader(3, 1), within_s=2.5)


@virtual
async def test_a_broker_that_is_behind_is_found_out_by_asking_another() -> None:
    cluster = await started(1)
    async with following(cluster) as client:
        await client.topic("orders")
        await asyncio.sleep(1)
        watched = next(number for number, address in cluster.addresses.items() if address == client._watched)
        cluster.brokers[watched].is_behind = True
        cluster.move_leader("orders", 0, 3)
        await until(lambda: leader_of(client) == Leader(3, 1), within_s=7)
        cluster.move_leader("orders", 0, 2)
        await until(lambda: leader_of(client) == Leader(2, 2), within_s=1)


@virtual
async def test_a_call_goes_on_to_the_next_broker_when_one_cannot_answer() -> None:
    cluster = await started(1)
    cluster.kill(1)
    cluster.cut_off(2)
    async with following(cluster, times=ClusterTimes(attempt_ms=1000)) as client:
        async with client.within(10_000, "no id"):
            answer = await client.call_any(INIT_PRODUCER, InitProducerRequest(), InitProducerResponse, repeatable=True)
        assert answer.producer_id > 1000


@virtual
async def test_a_request_that_may_have_been_carried_out_is_not_repeated_unless_that_is_harmless() -> None:
    cluster = await started(1, count=1)
    cluster.cut_off(1)
    async with following(cluster, times=ClusterTimes(attempt_ms=1000)) as client:
        cluster.heal()
        connection = await client.connections.get("broker-1:9092")
        assert not connection.broken.is_set()
        cluster.cut_off(1)
        with pytest.raises(errors.TimedOut) as caught:
            await client.call_any(INIT_PRODUCER, InitProducerRequest(), InitProducerResponse, repeatable=False)
        assert caught.value.outcome_unknown


@virtual
async def test_a_cluster_that_nobody_ever_saw_is_not_looked_for_longer_than_told() -> None:
    cluster = FakeCluster()
    async with following(cluster, times=ClusterTimes(first_contact_ms=2000)) as client:
        with pytest.raises(errors.NoBrokerAvailable, match="connection refused"):
            await client.topic("orders")
        assert 2000 <= cluster.client.clock.monotonic_ms() < 3000
    await cluster.start()
    cluster.create_topic("orders", [1])
    async with following(cluster, times=ClusterTimes(first_contact_ms=2000)) as client:
        await client.topic("orders")
        for number in list(cluster.brokers):
            cluster.kill(number)
        await asyncio.sleep(5)
        with pytest.raises(errors.NoBrokerAvailable, match="5000 ms"):
            async with client.within(5000, "nothing was learnt"):
                await client.topic("bills")


@virtual
async def test_what_a_broker_was_asked_to_do_that_is_gone_by_now_may_have_been_done() -> None:
    """Seed 2003 of the simulator: a setting was said not to be changed, and was."""
    cluster = await started(1, count=1)
    async with following(cluster, times=ClusterTimes(attempt_ms=1000)) as client:
        await client.topic("orders")
        asking = asyncio.ensure_future(_ask_for_an_id(client))
        await asyncio.sleep(0)
        cluster.kill(1)  # before the answer comes
        with pytest.raises(errors.TimedOut) as caught:
            await asking
        assert caught.value.outcome_unknown


async def _ask_for_an_id(client: ClusterClient) -> None:
    async with client.within(5000, "no id was to be had"):
        await client.call_any(INIT_PRODUCER, InitProducerRequest(), InitProducerResponse, repeatable=True)


@virtual
async def test_connections_are_shared_and_made_anew_when_lost() -> None:
    cluster = await started(1)
    async with following(cluster) as client:
        await client.topic("orders")
        first, second = await asyncio.gather(client.connect(1), client.connect(1))
        assert first is second
        cluster.network.break_connections("client", "broker-1")
        await first.broken.wait()
        assert await client.connect(1) is not first
    with pytest.raises(errors.ClientClosed):
        await client.connections.get("broker-1:9092")
