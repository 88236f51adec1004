"""A node with few descriptors, and more connections than that."""

import contextlib
import socket
from pathlib import Path

from support.server_processes import lograft, servers, until

from lograft import Consumer, Producer, TopicPartition

LIMIT = 400


def test_connections_do_not_take_the_descriptors_of_data(tmp_path: Path) -> None:
    """Before, the node lost its disk to 300 connections that said nothing."""
    with servers(tmp_path, 1) as nodes, contextlib.ExitStack() as connections:
        (node,) = nodes
        node.start("sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh")
        until(node.is_ready, "ready")
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
