"""Consumers of a group for ordinary functions: whoever polls is told, in its own thread."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from support.fake_groups import FakeGroups
from support.fake_log_service import FakeCluster
from support.free_ports import free_address

from lograft import Consumer, RebalanceListener, TopicPartition, errors
from lograft.runtime.production.client_runtime import client_runtime, close_client_runtime
from lograft.runtime.tasks.loop_thread import CallBacks, LoopThread, shared_loop
from lograft.storage.batch.codec import encode_batch

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def groups() -> Iterator[FakeGroups]:
    """On the loop of the clients themselves, over gRPC. The topic has ten records."""
    loop = shared_loop()

    async def start() -> FakeGroups:
        cluster = FakeCluster(runtime=client_runtime(), addresses={1: free_address()})
        groups = FakeGroups(cluster)
        await cluster.start()
        cluster.create_topic("orders", [1])
        cluster.log("orders").append(encode_batch([b"%d" % number for number in range(10)], timestamps=0))
        return groups

    async def stop() -> None:
        await made.cluster.stop()
        assert made.cluster.runtime is not None
        await close_client_runtime(made.cluster.runtime)

    made = loop.run(start)
    yield made
    loop.run(stop)


class Listener(RebalanceListener):
    """Commits what was read so far when it has to, and remembers who called."""

    consumer: Consumer

    def __init__(self) -> None:
        self.told: list[str] = []
        self.threads: list[threading.Thread] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append("assigned")
        self.threads.append(threading.current_thread())
        self.consumer.seek(partitions[0], 3)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(f"revoked at {self.consumer.position(partitions[0])}")
        self.threads.append(threading.current_thread())
        self.consumer.commit({partitions[0]: self.consumer.position(partitions[0]) - 1})


def test_a_listener_is_called_by_who_polls_and_may_use_the_consumer(groups: FakeGroups) -> None:
    listener = Listener()
    with Consumer(
        groups.cluster.bootstrap, group="billing", auto_commit=False, max_poll_records=4, auto_offset_reset="earliest"
    ) as consumer:
        listener.consumer = consumer
        consumer.subscribe(["orders"], listener)
        values = [record.value for record in consumer.poll(30)]
        assert values == [b"3", b"4", b"5", b"6"]
    assert listener.told == ["assigned", "revoked at 7"]
    assert set(listener.threads) == {threading.current_thread()}
    assert groups.offsets == {("orders", 0): 6}
    assert groups.members == {}


def test_what_a_listener_raises_comes_out_of_poll(groups: FakeGroups) -> None:
    class Broken(RebalanceListener):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            raise ZeroDivisionError

    with Consumer(groups.cluster.bootstrap, group="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"], Broken())
        with pytest.raises(ZeroDivisionError):
            consumer.poll(30)
        assert len(consumer.poll(30)) == 10


def test_a_listener_of_coroutines_is_refused(groups: FakeGroups) -> None:
    class Awaited(RebalanceListener):
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            raise AssertionError

    with Consumer(groups.cluster.bootstrap, group="billing") as consumer:
        consumer.subscribe(["orders"], Awaited())
        with pytest.raises(errors.InvalidArgument, match=r"lograft\.aio\.Consumer"):
            consumer.poll(30)


def test_a_commit_is_of_what_was_given_when_it_was_asked_for(groups: FakeGroups) -> None:
    committed = threading.Event()
    with Consumer(
        groups.cluster.bootstrap, group="billing", auto_commit=False, max_poll_records=4, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        assert len(consumer.poll(30)) == 4
        consumer.commit_async(callback=lambda offsets, error: committed.set())
        assert len(consumer.poll(30)) == 4
        assert committed.wait(30)
        assert groups.offsets == {("orders", 0): 4}
        for record in consumer:
            if record.value == b"8":
                break
        consumer.commit()
        assert groups.offsets == {("orders", 0): 9}


def test_an_interrupted_caller_ends_what_it_waits_for() -> None:
    loop = LoopThread()
    call_backs = CallBacks(loop)
    ended = threading.Event()

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def ask() -> None:
        try:
            await call_backs.call(interrupted)
        except asyncio.CancelledError:
            ended.set()
            raise

    try:
        with pytest.raises(KeyboardInterrupt):
            call_backs.run(ask)
        assert ended.wait(30)
    finally:
        loop.stop()
