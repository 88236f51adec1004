"""lograft: three nodes with both roles, and the Python client."""

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

from compare.failover import measure_pause
from compare.failures import Wrong
from compare.pacing import age_seconds, due_times, stamped
from compare.servers import HOST, Servers, free_ports
from compare.system import REPLICAS, Amount, Limit, Mode
from lograft import Admin, Consumer, Producer, TopicPartition
from lograft.clients.local.layout import PORTS, new_layout, to_toml
from lograft.clients.local.secret import make_secret
from lograft.runtime.process.host import is_port_free

_ONE_BY_ONE, _ARROW = "send", "send_many (Arrow)"
_POLL, _POLL_ARROW = "poll", "poll_arrow"
_POLL_RECORDS = 500  # confluent-kafka is asked for as many at a time
_STEP = 1000  # records between two looks at the clock


class LograftSystem:
    name = "lograft"
    modes: Sequence[Mode] = (Mode("fsync", "flush.mode=fsync (default)"), Mode("os", "flush.mode=os"))
    writers: Sequence[str] = (_ONE_BY_ONE, _ARROW)
    readers: Sequence[str] = (_POLL, _POLL_ARROW)

    def __init__(self) -> None:
        self.servers = Servers()
        self._admin: Admin | None = None
        self._bootstrap = ""
        self._columns: dict[int, Any] = {}

    def versions(self) -> str:
        return f"lograft {version('lograft')}, Python {sys.version.split()[0]}"

    def start(self, directory: Path) -> float:
        # A name of its own: Spark's workers outlive a round, and must not take one cluster for the next at its ports.
        layout = new_layout(f"compare-{uuid4().hex[:12]}", REPLICAS, _first_port())
        self._bootstrap = layout.bootstrap
        started = perf_counter()
        for number in layout.numbers:
            home = directory / f"node-{number}"
            home.mkdir(parents=True)
            (home / "node.toml").write_text(
                to_toml(layout.node_config(number, str(home / "data"), str(make_secret(home.parent))))
            )
            command = [sys.executable, "-P", "-m", "lograft", "server", "--config", str(home / "node.toml")]
            self.servers.start(f"node-{number}", command, home, {})
        self._admin = Admin(self._bootstrap)
        self.make_topic("first", self.modes[0], 1)
        with Producer(self._bootstrap) as producer:
            producer.send("first", b"hello").result(60)
        return perf_counter() - started

    def make_topic(self, name: str, mode: Mode, partitions: int) -> None:
        assert self._admin is not None
        config = {"flush.mode": mode.durability, "min.insync.replicas": "2"}
        self._admin.create_topic(name, partitions=partitions, replicas=REPLICAS, config=config)
        self._admin.wait_for_topic(name)

    def produce(self, writer: str, topic: str, values: Sequence[bytes], limit: Limit) -> Amount:
        import pyarrow as pa

        if writer == _ARROW and id(values) not in self._columns:
            # Kept, and not counted: whoever has columns has them already.
            self._columns[id(values)] = pa.array(values, pa.binary())
        with Producer(self._bootstrap) as producer:
            producer.partitions_for(topic)
            send = self._send_arrow if writer == _ARROW else self._send_each
            started = perf_counter()
            deliveries = send(producer, topic, values, limit.begun())
            producer.flush()
            elapsed = perf_counter() - started
            for last in deliveries:  # raises if a record was not stored
                last.result(0)
            return Amount(sum(map(_count, deliveries)), elapsed)

    @staticmethod
    def _send_each(producer: Producer, topic: str, values: Sequence[bytes], limit: Limit) -> list[Any]:
        send: Any = producer.send
        told: list[Any] = []
        for some in limit.pieces(values, _STEP):
            told += [send(topic, value) for value in some]
        return told

    def _send_arrow(self, producer: Producer, topic: str, values: Sequence[bytes], limit: Limit) -> list[Any]:
        column = self._columns[id(values)]
        return [producer.send_many(topic, column) for _ in limit.pieces(values, len(values))]

    def stored(self, topic: str) -> int:
        assert self._admin is not None
        description = self._admin.wait_for_topic(topic)
        behind = [partition.number for partition in description.partitions if not partition.is_in_sync]
        if behind:
            raise Wrong(f"{topic}: partitions {behind} are not in sync")
        with Consumer(self._bootstrap) as consumer:
            partitions = consumer.partitions_for(topic)
            ends, starts = consumer.end_offsets(partitions), consumer.beginning_offsets(partitions)
            return sum(ends.values()) - sum(starts.values())

    def consume(self, reader: str, topic: str, count: int, seconds: float) -> Amount:
        with Consumer(self._bootstrap, auto_offset_reset="earliest", max_poll_records=_POLL_RECORDS) as consumer:
            consumer.assign(consumer.partitions_for(topic))
            poll = _poll_table if reader == _POLL_ARROW else _poll_list
            have, started = 0, perf_counter()
            while have < count and perf_counter() < started + seconds:
                have += poll(consumer)
            return Amount(have, perf_counter() - started)

    def latencies(self, topic: str, size_bytes: int, rate: float, seconds: float) -> list[float]:
        expected, ages = int(rate * seconds), []
        with (
            Producer(self._bootstrap) as producer,
            Consumer(self._bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([TopicPartition(topic, 0)])

            def read() -> None:
                while len(ages) < expected:
                    records = consumer.poll(timeout=10)
                    if not records:
                        return
                    ages.extend([age_seconds(record.value) for record in records])

            reading = threading.Thread(target=read)
            reading.start()
            for due in due_times(rate, seconds):
                producer.send(topic, stamped(due, size_bytes), partition=0)
            producer.flush()
            reading.join()
        if len(ages) != expected:
            raise Wrong(f"{topic}: {len(ages)} of {expected} records came through")
        return ages

    def failover(self, topic: str) -> float:
        assert self._admin is not None
        leader = self._admin.describe_topic(topic).partitions[0].leader
        with Producer(self._bootstrap) as producer:

            def send(acknowledged: Callable[[float], None]) -> None:
                delivery = producer.send(topic, b"record")
                delivery.add_done_callback(
                    lambda told: acknowledged(perf_counter()) if told.exception() is None else None
                )

            return measure_pause(send, lambda: self.servers.kill(f"node-{leader}"))

    def spark_options(self, topic: str) -> dict[str, str] | None:
        return {"format": "lograft", "lograft.bootstrap.servers": self._bootstrap, "subscribe": topic}

    def stop(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None
        self.servers.stop()


def _poll_list(consumer: Consumer) -> int:
    return len(consumer.poll(timeout=10))


def _poll_table(consumer: Consumer) -> int:
    return int(consumer.poll_arrow(timeout=10).num_rows)


def _count(delivery: Any) -> int:
    return len(delivery) if hasattr(delivery, "__len__") else 1


def _first_port() -> int:
    """Of as many in a row as the layout wants."""
    for first in free_ports(2000):
        if all(is_port_free(HOST, port) for port in range(first, first + PORTS)):
            return first
    raise Wrong(f"no {PORTS} free ports in a row")
