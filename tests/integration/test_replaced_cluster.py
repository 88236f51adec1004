"""A cluster is gone, and another one is at its addresses: whoever lives on does not take one for the other."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.free_ports import PORTS_OF_DEV, free_port
from support.server_processes import DEADLINE_SECONDS, lograft

from lograft import Admin, Consumer, Producer, TopicPartition, aio
from lograft.clients.errors import WrongCluster
from lograft.spark.common.cluster_access import cluster_access
from lograft.spark.common.options import ClusterOptions, batch_options
from lograft.spark.common.range_reader import OffsetRange
from lograft.spark.reading.range_partition import RangePartition, read_partition
from lograft.spark.reading.row_schema import full_schema

ORDERS = TopicPartition("orders", 0)


@contextmanager
def one_node(directory: Path, port: int) -> Iterator[None]:
    def dev(*arguments: str) -> None:
        result = lograft("dev", *arguments, "--data-dir", str(directory), timeout_seconds=2 * DEADLINE_SECONDS)
        assert result.returncode == 0, result.stderr

    dev("up", "--detach", "--nodes", "1", "--port", str(port))
    try:
        yield
    finally:
        dev("down")


def stored(bootstrap: str, values: list[bytes], topics_before: int = 0) -> RangePartition:
    """All of a new topic, as it is planned for a task. With more topics, the metadata has come further."""
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        for number in range(topics_before):
            admin.create_topic(f"other{number}")
        admin.create_topic(ORDERS.topic)
        producer.send_many(ORDERS.topic, values)
        producer.flush()
        topic = admin.describe_topic(ORDERS.topic)
    return RangePartition(OffsetRange(ORDERS.topic, topic.id.bytes, ORDERS.partition, 0, len(values)))


def test_a_worker_of_spark_goes_on_with_the_new_cluster(tmp_path: Path) -> None:
    port = free_port(PORTS_OF_DEV)
    bootstrap = f"127.0.0.1:{port}"
    options = batch_options({"lograft.bootstrap.servers": bootstrap, "subscribe": ORDERS.topic})

    def read(partition: RangePartition) -> list[bytes]:
        batches = read_partition(partition, full_schema(include_headers=False), options)
        return [value for batch in batches for value in batch.column("value").to_pylist()]

    with one_node(tmp_path / "first", port):
        former = stored(bootstrap, [b"a", b"b"], topics_before=3)
        assert read(former) == [b"a", b"b"]
    access = cluster_access(bootstrap)
    with one_node(tmp_path / "second", port):
        partition = stored(bootstrap, [b"c"])
        with pytest.raises(WrongCluster, match=r"there is another cluster by now, 'dev-.*: make a new client"):
            list(access.read(partition.wanted, ClusterOptions(bootstrap), spreads=False))
        assert read(partition) == [b"c"]
        assert cluster_access(bootstrap) is not access
        assert read(partition) == [b"c"]
    cluster_access(bootstrap).close()


def test_clients_that_live_on_are_told_and_leave_the_new_cluster_alone(tmp_path: Path) -> None:
    """A cluster of the same topics and groups, at the same address: nothing goes there that was meant for the first."""
    port = free_port(PORTS_OF_DEV)
    bootstrap = f"127.0.0.1:{port}"
    told = r"another cluster by now, 'dev-.*: make a new client"
    with ExitStack() as clients:
        with one_node(tmp_path / "first", port):
            stored(bootstrap, [b"a", b"b"])
            producer = clients.enter_context(Producer(bootstrap))
            idle = clients.enter_context(Producer(bootstrap, acks="1"))
            reader = clients.enter_context(Consumer(bootstrap, auto_offset_reset="earliest"))
            member = clients.enter_context(Consumer(bootstrap, group="billing", auto_offset_reset="earliest"))
            by_pattern = clients.enter_context(Consumer(bootstrap, group="all", auto_offset_reset="earliest"))
            admin, unused = clients.enter_context(Admin(bootstrap)), clients.enter_context(Admin(bootstrap))
            producer.send(ORDERS.topic, b"c").result(timeout=DEADLINE_SECONDS)
            idle.send(ORDERS.topic, b"d").result(timeout=DEADLINE_SECONDS)
            reader.assign([ORDERS])
            member.subscribe([ORDERS.topic])
            by_pattern.subscribe(re.compile("ord.*"))
            for consumer in (reader, member, by_pattern):
                values: list[bytes | None] = []
                while len(values) < 4:
                    values += [record.value for record in consumer.poll(timeout=DEADLINE_SECONDS)]
            member.commit()
            asyncio.run(check_aio(bootstrap))
        waiting = producer.send(ORDERS.topic, b"sent while nobody was there")
        with one_node(tmp_path / "second", port):
            stored(bootstrap, [b"x"])
            with pytest.raises(WrongCluster, match=told):
                waiting.result(timeout=DEADLINE_SECONDS)
            for sender in (producer, idle):
                with pytest.raises(WrongCluster, match=told):
                    sender.send(ORDERS.topic, b"lost").result(timeout=DEADLINE_SECONDS)
            for consumer in (reader, member, by_pattern):
                with pytest.raises(WrongCluster, match=told):
                    consumer.poll(timeout=DEADLINE_SECONDS)
            with pytest.raises(WrongCluster, match=told):
                member.commit()
            with pytest.raises(WrongCluster, match=told):
                reader.end_offsets([ORDERS])
            for change in (
                lambda: admin.delete_topic(ORDERS.topic),
                lambda: admin.create_topic("more"),
                lambda: admin.list_topics(),
                lambda: admin.describe_quorum(),
                lambda: admin.list_groups(),
                lambda: admin.alter_group_offsets("billing", {ORDERS: 0}),
                lambda: unused.list_topics(),
            ):
                with pytest.raises(WrongCluster, match=told):
                    change()
            with Admin(bootstrap) as fresh:
                assert fresh.list_topics() == [ORDERS.topic]
                assert [group.name for group in fresh.list_groups()] == []
            with Consumer(bootstrap) as fresh_reader:
                assert fresh_reader.end_offsets([ORDERS]) == {ORDERS: 1}


async def check_aio(bootstrap: str) -> None:
    async with aio.Admin(bootstrap) as admin:
        assert ORDERS.topic in await admin.list_topics()
