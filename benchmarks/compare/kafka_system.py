"""Apache Kafka in KRaft mode: three nodes with both roles, and confluent-kafka."""

import base64
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from compare.failover import measure_pause
from compare.failures import CannotRun, Wrong
from compare.obtaining import KafkaJars
from compare.pacing import age_seconds, due_times, stamped
from compare.servers import HOST, Servers, free_ports, until
from compare.system import REPLICAS, Amount, Limit, Mode

_ONE_BY_ONE, _BATCH = "produce", "produce_batch"
_CONSUME = "consume"
_POLL_RECORDS = 500
_STEP = 1000
_BATCH_RECORDS = 5000
_QUEUED_RECORDS = 200_000
_FORMAT_SECONDS = 120
_NUMBERS = range(1, REPLICAS + 1)
_QUIET = {"log_level": 0}

# What Kafka's own start script gives a broker.
_JAVA_OPTIONS = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
    "-XX:+PerfDisableSharedMem",  # one that is killed would leave a file in /tmp
)  # fmt: skip


class KafkaSystem:
    name = "Kafka"
    modes: Sequence[Mode] = (Mode("os", "default"), Mode("fsync", "flush.messages=1"))
    writers: Sequence[str] = (_ONE_BY_ONE, _BATCH)
    readers: Sequence[str] = (_CONSUME,)

    def __init__(self, jars: KafkaJars) -> None:
        self.servers = Servers()
        self._jars = jars
        self._bootstrap = ""
        self._admin: Any = None

    def versions(self) -> str:
        import confluent_kafka

        return (
            f"Apache Kafka {self._jars.version}, confluent-kafka {confluent_kafka.__version__} "
            f"(librdkafka {confluent_kafka.libversion()[0]})"
        )

    # -- the cluster

    def start(self, directory: Path) -> float:
        from confluent_kafka.admin import AdminClient

        ports = free_ports(2 * REPLICAS)
        clients, controllers = ports[:REPLICAS], ports[REPLICAS:]
        self._bootstrap = ",".join(f"{HOST}:{port}" for port in clients)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for number in _NUMBERS:
            _configure(directory / f"node-{number}", number, clients, controllers)
        self._format(directory, cluster_id)
        started = perf_counter()
        for number in _NUMBERS:
            home = directory / f"node-{number}"
            command = ["java", *_JAVA_OPTIONS, "-cp", self._jars.class_path, "kafka.Kafka", "server.properties"]
            self.servers.start(f"node-{number}", command, home, {})
        self._admin = AdminClient({**_QUIET, "bootstrap.servers": self._bootstrap})
        until(self._all_are_there, "three Kafka brokers")
        self.make_topic("first", self.modes[0], 1)
        producer = self._producer()
        _send_and_wait(producer, "first", b"hello")
        return perf_counter() - started

    def _format(self, directory: Path, cluster_id: str) -> None:
        """All at once; this is done once in the life of a node, and not counted."""
        command = ["java", "-cp", self._jars.class_path, "kafka.tools.StorageTool", "format", "-t", cluster_id]
        formatting = Servers()
        for number in _NUMBERS:
            formatting.start(
                f"format-{number}", [*command, "-c", "server.properties"], directory / f"node-{number}", {}
            )
        try:
            formatting.wait(_FORMAT_SECONDS)
        finally:
            formatting.stop()

    def _all_are_there(self) -> bool:
        from confluent_kafka import KafkaException

        self.servers.check()
        try:
            return len(self._admin.list_topics(timeout=1).brokers) == REPLICAS
        except KafkaException:
            return False

    def make_topic(self, name: str, mode: Mode, partitions: int) -> None:
        from confluent_kafka.admin import NewTopic

        config = {"flush.messages": "1"} if mode.durability == "fsync" else {}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=REPLICAS, config=config)
        self._admin.create_topics([topic])[name].result(60)
        until(lambda: self._is_in_sync(name, partitions), f"topic {name} in sync")

    def _is_in_sync(self, name: str, partitions: int) -> bool:
        described = self._admin.list_topics(name, timeout=10).topics[name].partitions
        return len(described) == partitions and all(
            partition.leader > 0 and len(partition.isrs) == REPLICAS for partition in described.values()
        )

    # -- clients

    def _producer(self, **options: Any) -> Any:
        from confluent_kafka import Producer

        return Producer(
            {
                **_QUIET,
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "queue.buffering.max.messages": _QUEUED_RECORDS,
                **options,
            }
        )

    def _consumer(self, topic: str, partitions: Sequence[int]) -> Any:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                **_QUIET,
                "bootstrap.servers": self._bootstrap,
                "group.id": "compare",
                "enable.auto.commit": False,
                # With its default it stops fetching for a second whenever 100,000 messages wait: the pause, not the
                # client, would be measured.
                "queued.min.messages": 5_000_000,
                "queued.max.messages.kbytes": 262_144,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        return consumer

    def produce(self, writer: str, topic: str, values: Sequence[bytes], limit: Limit) -> Amount:
        producer, told = self._producer(), _Told()
        producer.list_topics(topic, timeout=10)
        send = _send_batches if writer == _BATCH else _send_each
        started = perf_counter()
        sent = send(producer, topic, values, limit.begun(), told)
        producer.flush()
        elapsed = perf_counter() - started
        if told.failed or told.stored != sent:
            raise Wrong(f"{told.stored} of {sent} records were acknowledged: {told.failed}")
        return Amount(sent, elapsed)

    def _partitions(self, topic: str) -> list[int]:
        return list(self._admin.list_topics(topic, timeout=10).topics[topic].partitions)

    def stored(self, topic: str) -> int:
        from confluent_kafka import TopicPartition

        numbers = self._partitions(topic)
        until(lambda: self._is_in_sync(topic, len(numbers)), f"topic {topic} in sync")
        consumer = self._consumer(topic, numbers)
        try:
            marks = [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10) for number in numbers]
        finally:
            consumer.close()
        return sum(high - low for low, high in marks)

    def consume(self, reader: str, topic: str, count: int, seconds: float) -> Amount:
        consumer, have = self._consumer(topic, self._partitions(topic)), 0
        started = perf_counter()
        while have < count and perf_counter() < started + seconds:
            messages = consumer.consume(min(_POLL_RECORDS, count - have), timeout=10)  # which waits for that many
            # What ours does unasked: see to it that each is a record, and have its value.
            have += sum(message.error() is None and message.value() is not None for message in messages)
        elapsed = perf_counter() - started
        consumer.close()
        return Amount(have, elapsed)

    def latencies(self, topic: str, size_bytes: int, rate: float, seconds: float) -> list[float]:
        producer, consumer = self._producer(**{"linger.ms": 0}), self._consumer(topic, [0])
        expected, ages = int(rate * seconds), []

        def read() -> None:
            while len(ages) < expected:
                message = consumer.poll(10)
                if message is None or message.error() is not None:
                    return
                ages.append(age_seconds(message.value()))

        reading = threading.Thread(target=read)
        reading.start()
        for due in due_times(rate, seconds):
            producer.produce(topic, stamped(due, size_bytes), partition=0)
            producer.poll(0)
        producer.flush()
        reading.join()
        consumer.close()
        if len(ages) != expected:
            raise Wrong(f"{topic}: {len(ages)} of {expected} records came through")
        return ages

    def failover(self, topic: str) -> float:
        leader = self._admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
        producer = self._producer(**{"linger.ms": 0})

        def send(acknowledged: Callable[[float], None]) -> None:
            producer.produce(
                topic, b"record", on_delivery=lambda error, _: acknowledged(perf_counter()) if error is None else None
            )

        try:
            return measure_pause(send, lambda: self.servers.kill(f"node-{leader}"), lambda: producer.poll(0))
        finally:
            producer.purge()

    def spark_options(self, topic: str) -> dict[str, str] | None:
        return {"format": "kafka", "kafka.bootstrap.servers": self._bootstrap, "subscribe": topic}

    def stop(self) -> None:
        self._admin = None
        self.servers.stop()


def _configure(home: Path, number: int, clients: list[int], controllers: list[int]) -> None:
    home.mkdir(parents=True)
    voters = ",".join(f"{one + 1}@{HOST}:{port}" for one, port in enumerate(controllers))
    properties = {
        "process.roles": "broker,controller",
        "node.id": number,
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://{HOST}:{clients[number - 1]},CONTROLLER://{HOST}:{controllers[number - 1]}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{clients[number - 1]}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": home / "data",
        "min.insync.replicas": 2,
        "default.replication.factor": REPLICAS,
        "offsets.topic.replication.factor": REPLICAS,
        "auto.create.topics.enable": "false",
    }
    (home / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


class _Told:
    """What became of records, counted: as much as a user would keep."""

    def __init__(self) -> None:
        self.stored = 0
        self.failed: Any = None

    def __call__(self, error: Any, _message: Any) -> None:
        if error is None:
            self.stored += 1
        else:
            self.failed = error


def _send_each(producer: Any, topic: str, values: Sequence[bytes], limit: Limit, told: _Told) -> int:
    produce, sent = producer.produce, 0
    for some in limit.pieces(values, _STEP):
        _make_room(producer)
        for value in some:
            produce(topic, value, on_delivery=told)
        sent += len(some)
    return sent


def _send_batches(producer: Any, topic: str, values: Sequence[bytes], limit: Limit, told: _Told) -> int:
    sent = 0
    for some in limit.pieces(values, _BATCH_RECORDS):
        _make_room(producer)
        sent += producer.produce_batch(topic, [{"value": value} for value in some], on_delivery=told)
    return sent


def _make_room(producer: Any) -> None:
    """It does not block when its queue is full, but raises."""
    producer.poll(0)
    while len(producer) > _QUEUED_RECORDS // 2:
        producer.poll(0.005)


def _send_and_wait(producer: Any, topic: str, value: bytes) -> None:
    told = _Told()
    producer.produce(topic, value, on_delivery=told)
    producer.flush(60)
    if not told.stored:
        raise CannotRun(f"the first write to Kafka failed: {told.failed}")
