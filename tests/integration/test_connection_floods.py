"""A node with few descriptors, and more connections than that; and strangers who send more than there is memory for."""

import asyncio
import contextlib
import itertools
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.server_processes import lograft, servers, start_all, until

from lograft import Admin, Consumer, Producer, TopicPartition
from lograft.broker.replication.codec import REPLICATE
from lograft.clients.admin.model.types import ConfigKind
from lograft.clients.errors import BatchTooLarge
from lograft.proto.log_pb2 import ReadRequest, ReadResponse
from lograft.proto.methods import CREATE_TOPICS, PROVE, READ, REGISTER
from lograft.runtime.network import Status, StreamError
from lograft.runtime.production.grpc_network import GrpcNetwork

LIMIT = 400
MEBIBYTE = 1024 * 1024


def test_connections_do_not_take_the_descriptors_of_data(tmp_path: Path) -> None:
    """Before, the node lost its disk to 300 connections that said nothing."""
    with servers(tmp_path, 1) as nodes, contextlib.ExitStack() as connections:
        (node,) = nodes
        node.start("sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh")
        node.until_ready()
        host, _, port = node.address.rpartition(":")
        made = lograft("create", "topic", "orders", "--config", "segment.bytes=1024", LOGRAFT_BOOTSTRAP=node.address)
        assert made.returncode == 0, made.stderr
        with Producer(node.address) as producer:
            producer.send("orders", b"before").result(30)
            for _ in range(2 * LIMIT):
                with contextlib.suppress(OSError):
                    connections.enter_context(socket.create_connection((host, int(port)), timeout=10))
            for number in range(50):  # each needs a file of its own
                producer.send("orders", bytes(1000) + b"%d" % number).result(30)
        until(lambda: "connections_refused" in node.output, "said in the log")
        # Whoever comes anew is served, too, once those that say nothing are gone: their address is the same.
        with Consumer(node.address, first_contact_ms=30_000) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            assert consumer.end_offsets([TopicPartition("orders", 0)]) == {TopicPartition("orders", 0): 51}
        assert node.is_running
        assert not {"disk_failed", "directory_failed", "loop_failed", "panic"} & set(node.events)


# The guard takes samples: on a starved machine it may see messages only when they are complete, and then each is in
# memory twice, in gRPC and in Python. So as many are sent at once as fit even then; what is kept of them is too much.
STREAMS, AT_ONCE = 100, 8
FIRST_MESSAGE = bytes(50 * MEBIBYTE)
MOST_BYTES = 1024 * MEBIBYTE
assert 2 * AT_ONCE * len(FIRST_MESSAGE) < MOST_BYTES - 150 * MEBIBYTE  # which an idle node takes


async def first_messages(addresses: list[str]) -> Counter[Status | None]:
    """How streams end of which each begins with a large message, on a connection of its own."""
    turns = asyncio.Semaphore(AT_ONCE)
    ends: Counter[Status | None] = Counter()

    async def one(address: str, method: str) -> None:
        async with turns:
            connection = await GrpcNetwork().connect(address, timeout_ms=30_000)
            try:
                stream = connection.open(method)
                await stream.send(FIRST_MESSAGE)
                while await stream.receive() is not None:
                    pass
                ends[None] += 1
            except StreamError as error:
                ends[error.status] += 1
            finally:
                await connection.close()

    methods = [PROVE, REPLICATE, REGISTER, CREATE_TOPICS]
    calls = zip(itertools.cycle(addresses), itertools.cycle([m for m in methods for _ in addresses]), strict=False)
    await asyncio.gather(*(one(*each) for each in itertools.islice(calls, len(addresses) * STREAMS)))
    return ends


def test_large_first_messages_of_strangers_take_little_memory(tmp_path: Path) -> None:
    """Before, a node took gigabytes for them, and kept what streams held that it had refused."""
    with servers(tmp_path, 1) as nodes:
        (node,) = nodes
        start_all(nodes)
        controllers = node.config["controllers"][0].partition("@")[2]
        made = lograft("create", "topic", "orders", LOGRAFT_BOOTSTRAP=node.address)
        assert made.returncode == 0, made.stderr
        with Producer(node.address) as producer:
            producer.send("orders", b"before").result(30)
            ends = asyncio.run(first_messages([node.config["nodes_listen"], controllers]))
            producer.send("orders", b"after").result(30)
        assert ends.total() == 2 * STREAMS
        refused = {Status.UNAUTHENTICATED, Status.UNAVAILABLE, Status.RESOURCE_EXHAUSTED, Status.UNIMPLEMENTED}
        assert set(ends) <= refused, ends
        status = Path(f"/proc/{node.process_id}/status")
        if status.exists():
            peak_kib = int(status.read_text().partition("VmHWM:")[2].split()[0])
            assert peak_kib * 1024 < MOST_BYTES, f"{peak_kib >> 10} MiB"
        assert node.is_running
        assert not {"loop_failed", "panic"} & set(node.events)


async def read_that_waits(address: str) -> int:
    """Return how many records a `Read` has found in the empty partition of the topic `orders`, after a second."""
    connection = await GrpcNetwork().connect(address, timeout_ms=30_000)
    try:
        stream = connection.open(READ)
        await stream.send(ReadRequest(topic="orders", wait_ms=1000).SerializeToString())
        await stream.half_close()
        answer = await stream.receive()
        assert answer is not None
        return len(ReadResponse.FromString(answer).records)
    finally:
        await connection.close()


def test_the_largest_request_follows_the_topics_unless_it_is_set(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as nodes:
        (node,) = nodes
        start_all(nodes)
        with Producer(node.address) as producer, Admin(node.address) as admin:
            admin.create_topic("orders")
            admin.wait_for_topic("orders")
            with pytest.raises(BatchTooLarge, match=r"raise the topic's max\.message\.bytes"):
                producer.send("orders", bytes(20 * MEBIBYTE)).result(60)
            with ThreadPoolExecutor(1) as pool:
                # The broker listens anew, and no call that is under way is lost by that.
                read = pool.submit(asyncio.run, read_that_waits(node.address))
                admin.alter_config(ConfigKind.TOPIC, "orders", {"max.message.bytes": str(60 * MEBIBYTE)})
                until(lambda: "larger_requests_taken" in node.output, "taken")
                assert read.result(60) == 0
            assert producer.send("orders", bytes(59 * MEBIBYTE)).result(60).offset == 0
        node.stop()
        start_all(nodes)
        with Producer(node.address) as producer:
            assert producer.send("orders", bytes(58 * MEBIBYTE)).result(60).offset == 1
        node.stop()
        node.config["max_request_bytes"] = 8 * MEBIBYTE
        start_all(nodes)
        with Producer(node.address) as producer:
            with pytest.raises(BatchTooLarge, match="the node's max_request_bytes"):
                producer.send("orders", bytes(20 * MEBIBYTE)).result(60)
            producer.send("orders", bytes(7 * MEBIBYTE)).result(60)
        with Consumer(node.address) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            consumer.seek_to_beginning()
            sizes: list[int] = []
            while len(sizes) < 3:
                sizes += [len(record.value or b"") for record in consumer.poll(30)]
    assert sizes == [59 * MEBIBYTE, 58 * MEBIBYTE, 7 * MEBIBYTE]
