"""Clients of one loop share connections and what is known of the cluster; and clients that nobody has are ended."""

import asyncio
import gc
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from support.fake_controllers import until
from support.fake_log_service import FakeCluster
from support.numbered_records import producing
from support.raft_nodes import virtual

from lograft.clients.admin.aio_admin import Admin
from lograft.clients.cluster import shared_cluster
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.cluster.connections import Connections
from lograft.clients.cluster.shared_cluster import MOST_CONNECTIONS
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.errors import Internal, UnknownTopic, WrongCluster
from lograft.clients.producer.aio_producer import Producer
from lograft.clients.types import TopicPartition
from lograft.runtime.network import ConnectFailed


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """What all clients did, by what it was."""
    found: Counter[str] = Counter()

    def count(owner: type, method: str, name: str) -> None:
        original = getattr(owner, method)

        async def counted(self: Any, *arguments: Any, **named: Any) -> Any:
            # Clients that earlier tests left to the garbage collector live on threads of their own.
            found[name] += threading.current_thread() is threading.main_thread()
            return await original(self, *arguments, **named)

        monkeypatch.setattr(owner, method, counted)

    count(Connections, "_connect", "connections")
    count(ClusterClient, "_watch", "watches")
    count(ClusterClient, "_describe", "descriptions")

    async def keep(_: object) -> None: ...

    monkeypatch.setattr(shared_cluster, "close_client_runtime", keep)
    yield found
    assert not [each for each in shared_cluster._shared if not each[0].is_closed()]


async def started(monkeypatch: pytest.MonkeyPatch, leaders: tuple[int, ...] = (1, 2, 3)) -> FakeCluster:
    """In whose world clients are that are given none."""
    cluster = FakeCluster(seed=1)
    await cluster.start()
    cluster.create_topic("orders", leaders)
    cluster.create_topic("bills", (1,))
    monkeypatch.setattr(shared_cluster, "open_runtime", lambda _: cluster.client)
    return cluster


def the_shared() -> list[shared_cluster.SharedCluster]:
    return list(shared_cluster._shared.values())


def test_a_thousand_producers_deliver_and_ask_no_more_than_one(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        producers = [Producer(cluster.bootstrap) for _ in range(1000)]
        for producer in producers:
            await producer.start()
        async with asyncio.timeout(20):
            sent = await asyncio.gather(*(producer.send("orders", b"v", partition=1) for producer in producers))
            offsets = [(await delivery).offset for delivery in sent]
        assert sorted(offsets) == list(range(1000))
        assert counts["descriptions"] == 1
        assert counts["watches"] == 1
        assert counts["connections"] <= 3 * MOST_CONNECTIONS
        for producer in producers:
            await producer.close()

    story()


def test_the_first_clients_have_a_connection_each(monkeypatch: pytest.MonkeyPatch, counts: Counter[str]) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        clients = [Producer(cluster.bootstrap) for _ in range(2 * MOST_CONNECTIONS)]
        for client in clients:
            await client.start()
        used = Counter(id(client._cluster.connections) for client in clients)
        assert sorted(used.values()) == [2] * MOST_CONNECTIONS
        await clients[0].close()
        async with Producer(cluster.bootstrap) as another:
            used = Counter(id(client._cluster.connections) for client in [*clients[1:], another])
            assert sorted(used.values()) == [2] * MOST_CONNECTIONS, "who comes takes the place of who went"
        for client in clients:
            await client.close()

    story()


def test_a_topic_is_followed_while_anybody_wants_it(monkeypatch: pytest.MonkeyPatch, counts: Counter[str]) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        first, second, admin = Producer(cluster.bootstrap), Producer(cluster.bootstrap), Admin(cluster.bootstrap)
        for client in (first, second, admin):
            await client.start()
        await (await first.send("orders", b"v", partition=0))
        await (await first.send("bills", b"v"))
        await (await second.send("orders", b"v", partition=0))
        (shared,) = the_shared()
        view = shared.following.view
        assert second._cluster.known_topic("bills") is None, "nobody keeps it up to date for the second"
        await first.close()
        assert (view.topic("orders") is not None, view.topic("bills")) == (True, None)
        cluster.move_leader("orders", 0, 3)
        await (await second.send("orders", b"v", partition=0))
        assert cluster.log("orders").end == 3
        assert (await second.send("bills", b"v")) is not None, "it is learnt anew"
        await second.close()
        assert the_shared() == [shared], "the admin client has it"
        await admin.close()
        assert the_shared() == []

    story()


def test_all_hear_what_there_is_not_and_who_gives_up_does_not_take_others_along(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        async with Producer(cluster.bootstrap) as first, Producer(cluster.bootstrap) as second:
            asked = await asyncio.gather(
                first.partitions_for("nowhere"), second.partitions_for("nowhere"), return_exceptions=True
            )
            assert [type(each) for each in asked] == [UnknownTopic] * 2
            patient = asyncio.ensure_future(first.partitions_for("orders"))
            hasty = asyncio.ensure_future(second.partitions_for("orders"))
            await asyncio.sleep(0)
            hasty.cancel()
            assert await patient == 3

    story()


def test_a_consumer_of_a_pattern_and_one_of_a_topic_are_in_nobodys_way(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        async with Consumer(cluster.bootstrap) as one, Consumer(cluster.bootstrap) as other:
            await other.partitions_for("orders")
            await one._cluster.follow_all()
            (shared,) = the_shared()
            assert shared.following.view.names() == ["bills", "orders"]
            one._cluster.follow_some()
            assert shared.following.view.names() == ["orders"]

    story()


def kill_all(cluster: FakeCluster) -> None:
    for number in cluster.addresses:
        cluster.kill(number)


async def start_another(cluster: FakeCluster) -> None:
    """With the same topics, at the same metadata index: only its name tells."""
    cluster.cluster_id = "another"
    await cluster.start()


def test_where_another_cluster_took_the_place_a_new_client_begins_anew(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        async with Producer(cluster.bootstrap) as old:
            await old.partitions_for("orders")
            (shared,) = the_shared()
            kill_all(cluster)
            await start_another(cluster)
            await until(lambda: shared.following.identity.is_replaced)
            assert shared.following.identity.cluster_id == "test"
            async with Producer(cluster.bootstrap) as new:
                assert (await (await new.send("orders", b"v", partition=0))).offset == 0
                assert the_shared() != [shared]
            assert the_shared() == []

    story()


def test_clients_of_a_replaced_cluster_are_told_and_touch_nothing_of_the_other(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        async with (
            Producer(cluster.bootstrap) as producer,
            Consumer(cluster.bootstrap) as consumer,
            Admin(cluster.bootstrap) as admin,
        ):
            await producer.send("orders", b"v", partition=0)
            await producer.flush()
            await consumer.assign([("orders", 0)])
            await admin.list_topics()
            kill_all(cluster)
            await start_another(cluster)
            told = r"'another' in place of 'test': make a new client"
            with pytest.raises(WrongCluster, match=told):
                await (await producer.send("orders", b"lost", partition=0))
            with pytest.raises(WrongCluster):
                await producer.send("orders", b"more", partition=0)
            with pytest.raises(WrongCluster):
                await consumer.poll(60)
            with pytest.raises(WrongCluster):
                await admin.list_topics()
            async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as fresh:
                assert await fresh.end_offsets([("orders", 0)]) == {TopicPartition("orders", 0): 1}

    story()


def test_an_address_in_wrong_hands_does_not_end_a_client(monkeypatch: pytest.MonkeyPatch, counts: Counter[str]) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        async with Admin(cluster.bootstrap) as admin:
            await admin.list_topics()
            (shared,) = the_shared()
            open_ = [each for each in cluster.addresses if shared.connections(0).is_open(cluster.addresses[each])]
            (stolen, *_) = [each for each in cluster.addresses if each not in open_]
            cluster.kill(stolen)
            cluster.cluster_id = "another"
            await cluster.start(stolen)
            with pytest.raises(ConnectFailed, match="another cluster answers there, 'another'"):
                await shared.connections(0).get(cluster.addresses[stolen])
            assert not shared.following.identity.is_replaced
            await admin.list_topics()

    story()


def test_an_address_in_wrong_hands_does_not_end_a_client_whose_broker_restarts(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        async with Admin(cluster.bootstrap) as admin:
            await admin.list_topics()
            (shared,) = the_shared()
            connections = shared.connections(0)
            (used, *_) = [each for each in cluster.addresses if connections.is_open(cluster.addresses[each])]
            stolen, _ = [each for each in cluster.addresses if each != used]
            cluster.kill(stolen)
            cluster.cluster_id = "another"
            await cluster.start(stolen)
            cluster.kill(used)
            await until(lambda: not shared.is_reached)
            with pytest.raises(ConnectFailed, match="another cluster answers there, 'another'"):
                await connections.get(cluster.addresses[stolen])
            await admin.list_topics()
            assert not shared.following.identity.is_replaced

    story()


def test_a_new_client_shares_nothing_with_those_that_lost_all_brokers(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        async with Producer(cluster.bootstrap) as old:
            await old.partitions_for("orders")
            (shared,) = the_shared()
            kill_all(cluster)
            await until(lambda: not shared.is_reached)
            async with Producer(cluster.bootstrap) as new, Producer(cluster.bootstrap) as third:
                assert the_shared() != [shared]
                assert len(the_shared()) == 1
                await start_another(cluster)
                assert await new.partitions_for("orders") == await third.partitions_for("orders") == 3
            assert the_shared() == []

    story()


def test_a_new_client_shares_nothing_with_those_whose_following_failed(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)

        async def fail(self: ClusterClient, address: str, backoff: object) -> None:
            raise AssertionError("a bug")

        async with Producer(cluster.bootstrap) as old:
            with monkeypatch.context() as broken:
                broken.setattr(ClusterClient, "_watch", fail)
                await old.partitions_for("orders")
                await until(lambda: old._task.failure is not None)
            with pytest.raises(Internal, match="a bug"):
                await old.send("orders", b"v", partition=0)
            async with Producer(cluster.bootstrap) as new:
                assert (await (await new.send("orders", b"v", partition=0))).offset >= 0
        assert the_shared() == []

    story()


# -- dropped


def test_clients_that_were_dropped_are_ended_and_what_they_were_given_is_delivered(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        for make in (Producer, Consumer, Admin):
            client = make(cluster.bootstrap)
            await client.start()
            delivery = await client.send("orders", b"v", partition=0) if isinstance(client, Producer) else None
            with pytest.warns(ResourceWarning, match="was dropped without being closed"):  # noqa: PT031
                del client
                gc.collect()
            await until(lambda: not the_shared())
            assert delivery is None or (await delivery).offset == 0
        assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"send", "fetch", "follow-metadata"})

    story()


def test_a_client_that_was_closed_or_has_a_runtime_of_its_own_is_not_told_of(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    @virtual
    async def story() -> None:
        cluster = await started(monkeypatch)
        for make in (Producer, Consumer, Admin):
            async with make(cluster.bootstrap):
                pass
        own = Admin(cluster.bootstrap, runtime=cluster.client)
        await own.start()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            del own
            gc.collect()

    story()


@virtual
async def test_a_broker_that_says_nothing_is_given_more_time_each_time() -> None:
    """Many that give up and ask again at once would keep one busy that has too much to do already."""
    async with producing((1,)) as (cluster, producer):
        broker, clock = cluster.brokers[1], cluster.client.clock
        may_speak = asyncio.Event()
        original = broker._keep_alive
        opened_ms: list[int] = []

        async def keep_alive(*arguments: Any) -> None:
            opened_ms.append(clock.monotonic_ms())
            await may_speak.wait()
            await original(*arguments)

        broker._keep_alive = keep_alive  # type: ignore[assignment, method-assign]
        delivery = await producer.send("orders", b"v")
        await until(lambda: len(opened_ms) == 6, within_s=120)
        waits_ms = [later - sooner for sooner, later in pairwise(opened_ms)]
        for wait_ms, expected_ms in zip(waits_ms, [1500, 3000, 6000, 12_000, 12_000], strict=True):
            assert expected_ms <= wait_ms < expected_ms + 1500
        may_speak.set()
        assert (await delivery).offset == 0
        (line,) = producer._sender._lines.values()
        assert line._patience == 1
