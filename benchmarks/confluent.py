"""What a Python user has today, to be measured beside ours: `confluent-kafka`, with librdkafka's own mock brokers.

The mock brokers live in the client's process, keep their logs in memory (the last 5 MB of each partition), and neither
replicate nor sync: what is measured is the client, and next to nothing else.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

PARTITIONS = 4
"""Of every topic of the mock: it is not asked."""

_KEPT_BYTES = 5 * 1024 * 1024
_QUIET = {"log_level": 0}


class Confluent:
    """A producer and the brokers it brings along."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                **_QUIET,
                "bootstrap.servers": "127.0.0.1:1",  # the mock's own takes its place
                "test.mock.num.brokers": 1,
                "acks": "all",
                # It does not block when this is full, but raises: large enough for a whole turn.
                "queue.buffering.max.messages": 5_000_000,
                "queue.buffering.max.kbytes": 2_000_000,
            }
        )
        brokers = self._producer.list_topics(timeout=10).brokers
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers.values())
        self._topics = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._producer.flush()

    @property
    def versions(self) -> str:
        import confluent_kafka

        return f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"

    def produce(self, values: Sequence[bytes]) -> None:
        """Each by itself, and wait for all."""
        produce = self._producer.produce
        for value in values:
            produce("plain", value)
        self._producer.flush()

    def produce_with_fates(self, values: Sequence[bytes]) -> None:
        """The same, and each record's fate is told, as ours is."""
        produce, failures = self._producer.produce, []

        def told(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error)

        for value in values:
            produce("plain", value, on_delivery=told)
        self._producer.flush()
        assert not failures

    def fill(self, values: Sequence[bytes]) -> tuple[list[str], int]:
        """Topics that hold copies of `values` to be read, and how many of them: as many as the mock keeps."""
        each = min(len(values), _KEPT_BYTES * PARTITIONS // 2 // (len(values[0]) + 16))
        topics, count = [], 0
        while count < len(values):
            topics.append(self.new_topic())
            for number, value in enumerate(values[:each]):
                self._producer.produce(topics[-1], value, partition=number % PARTITIONS)
            self._producer.flush()
            count += each
        return topics, count

    def new_topic(self) -> str:
        """Its name; it comes to be with the first record."""
        self._topics += 1
        name = f"topic-{self._topics}"
        self._producer.list_topics(name, timeout=10)
        return name

    def consumer(self, topics: Sequence[str]) -> Any:
        """At the beginning of all of them, without a group's to and fro."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                **_QUIET,
                "bootstrap.servers": self.bootstrap,
                "group.id": "bench",
                # With its defaults it stops fetching for a second whenever 100,000 messages wait: the pause, not the
                # client, would be measured.
                "queued.min.messages": 5_000_000,
                "queued.max.messages.kbytes": 2_000_000,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for topic in topics for number in range(PARTITIONS)])
        return consumer
