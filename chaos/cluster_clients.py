"""Clients of a simulated cluster: the production producer and consumer, and one that asks for watermarks. All they do
goes into the history."""

import asyncio
from typing import Protocol
from uuid import UUID

from lograft.broker.log_methods import READ
from lograft.chaos.cluster_checks import check_next
from lograft.chaos.cluster_history import ClusterHistory, PartitionKey, Read, Send, Told
from lograft.chaos.cluster_weather import ClusterWeather
from lograft.chaos.linearizability import Outcome
from lograft.chaos.raft_schedule import Detail
from lograft.clients.aio_consumer import Consumer
from lograft.clients.aio_producer import Producer
from lograft.clients.calling import call
from lograft.clients.delivery import Delivery
from lograft.clients.errors import LograftError
from lograft.clients.methods import LIST_OFFSETS
from lograft.clients.topic_partition import TopicPartition
from lograft.metadata.image import ClusterImage
from lograft.proto import log_pb2 as pb
from lograft.runtime.network import ConnectFailed
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

_POLL_SECONDS = 0.3
_LIFE_SECONDS = 6.0
_ASK_SECONDS = 1.0


class Stage(Protocol):
    """What clients need of the world."""

    weather: ClusterWeather
    history: ClusterHistory

    @property
    def now_us(self) -> int: ...

    @property
    def image(self) -> ClusterImage:
        """The latest that is committed."""
        ...

    @property
    def addresses(self) -> list[str]:
        """Of all brokers."""
        ...

    def note(self, event: str, *details: Detail) -> None: ...

    def client_runtime(self, host: str) -> Runtime: ...


class Client:
    """`run` until `stop`. A name is used once."""

    def __init__(self, name: str, stage: Stage, rng: Rng) -> None:
        self.name = name
        self.stage = stage
        self.rng = rng
        self.is_over = False

    def stop(self) -> None:
        self.is_over = True

    async def run(self) -> None:
        """One life after the other, each by another client."""
        life = 0
        while not self.is_over:
            life += 1
            await self._live(f"{self.name}.{life}")

    async def _live(self, name: str) -> None:
        raise NotImplementedError

    async def _pause(self, low_ms: float, high_ms: float) -> None:
        await asyncio.sleep(self.rng.uniform(low_ms, high_ms) / 1000)

    def _life_seconds(self) -> float:
        return self.rng.choice([0.5, 1, 3]) * _LIFE_SECONDS


class SendingClient(Client):
    """Sends records to whatever topics there are, and does not wait for one before it sends the next."""

    async def _live(self, name: str) -> None:
        weather, rng, stage = self.stage.weather, self.rng, self.stage
        end_us = stage.now_us + self._life_seconds() * 1_000_000
        producer = Producer(
            stage.addresses,
            runtime=stage.client_runtime(self.name),
            delivery_timeout_ms=weather.delivery_timeout_ms,
            request_timeout_ms=rng.choice([300, 1_000, 5_000]),
            linger_ms=rng.choice([0, 0, 5, 30]),
            batch_bytes=rng.choice([400, 2_000, 100_000]),
            max_block_ms=2_000,
            compression=rng.choice([None, None, "lz4"]),
        )
        await producer.start()
        recorder = SendRecorder(name, stage.history)
        while not self.is_over and stage.now_us < end_us:
            await self._pause(0, 2 * weather.send_every_ms)
            topics = list(stage.image.topics.values())
            if topics:
                topic = rng.choice(topics)
                for _ in range(rng.randint(1, weather.records_at_once)):
                    await recorder.send(producer, topic.name, rng.randrange(len(topic.partitions)), rng.randrange(200))
        await producer.close(rng.choice([0.0, 0.3, None]))
        recorder.close()


class SendRecorder:
    """What one producer sends, and what becomes of it."""

    def __init__(self, name: str, history: ClusterHistory) -> None:
        self._name = name
        self._history = history
        self._count = 0
        self._open: list[tuple[Send, Delivery]] = []

    async def send(self, producer: Producer, topic: str, partition: int, padding: int) -> Send | None:
        """None: it was not taken."""
        number, self._count = self._count, self._count + 1
        value = f"{self._name}/{number}/".encode() + b"." * padding
        # A value may be stored before `send` returns, but not before the producer knows where to.
        try:
            delivery = await producer.send(topic, value, partition=partition)
        except LograftError as error:
            self._history.refused[value] = str(error)
            return None
        key = (UUID(bytes=delivery.batch.partition_key.topic_id), delivery.batch.partition_key.partition)
        send = self._history.sends[value] = Send(key, self._name, number, value)
        delivery.add_done_callback(lambda done: _settle(send, done))
        self._open.append((send, delivery))
        return send

    def close(self) -> None:
        """All is settled: the producer is closed."""
        for send, delivery in self._open:
            _settle(send, delivery)


def _settle(send: Send, delivery: Delivery) -> None:
    error = delivery.exception()
    if error is None:
        offset = delivery.result().offset
        send.outcome, send.offset = Outcome.OK, offset if offset >= 0 else None
    else:
        send.outcome = Outcome.UNKNOWN if error.outcome_unknown else Outcome.FAIL
        send.error = str(error)


class ReadingClient(Client):
    """Reads everything from the beginning, in all topics there are."""

    async def _live(self, name: str) -> None:
        stage = self.stage
        end_us = stage.now_us + self._life_seconds() * 1_000_000
        consumer = Consumer(
            stage.addresses,
            runtime=stage.client_runtime(self.name),
            auto_offset_reset="earliest",
            request_timeout_ms=2_000,
            max_poll_records=self.rng.choice([1, 7, 500]),
            fetch_buffer_bytes=self.rng.choice([500, 100_000]),
            fetch_partition_bytes=self.rng.choice([300, 50_000]),
        )
        await consumer.start()
        recorder = ReadRecorder(name, consumer, stage.history)
        try:
            while not self.is_over and stage.now_us < end_us:
                await self._look(consumer, recorder)
        finally:
            await consumer.close()

    async def _look(self, consumer: Consumer, recorder: "ReadRecorder") -> None:
        wanted = [
            TopicPartition(topic.name, number)
            for topic in self.stage.image.topics.values()
            for number in topic.partitions
        ]
        try:
            await consumer.assign(wanted)
            for _ in range(self.rng.randint(1, 10)):
                await recorder.poll(_POLL_SECONDS)
        except LograftError as error:
            self.stage.note("read_failed", recorder.name, str(error))
            await consumer.assign([])  # what failed is begun anew: its topic may be another one
            recorder.positions.clear()
            await self._pause(10, 200)


class ReadRecorder:
    """What one consumer is given: all of it in order, and nothing left out."""

    def __init__(self, name: str, consumer: Consumer, history: ClusterHistory) -> None:
        self.name = name
        self.positions: dict[PartitionKey, int] = {}
        self._consumer = consumer
        self._history = history

    async def poll(self, seconds: float) -> int:
        records = await self._consumer.poll(seconds)
        partitions = self._consumer._fetcher.partitions
        for record in records:
            topic_id = partitions[TopicPartition(record.topic, record.partition)].topic_id
            read = Read((UUID(bytes=topic_id), record.partition), self.name, record.offset, record.value)
            check_next(self.positions.get(read.key), read)
            self.positions[read.key] = record.offset
            self._history.reads.append(read)
        return len(records)


class AskingClient(Client):
    """Asks whoever is there how far a partition is committed, and reads a little, by plain calls."""

    async def _live(self, name: str) -> None:
        topics = list(self.stage.image.topics.values())
        if topics:
            topic = self.rng.choice(topics)
            key = (UUID(bytes=topic.topic_id.bytes), self.rng.randrange(len(topic.partitions)))
            try:
                async with asyncio.timeout(_ASK_SECONDS):
                    await self._ask(key)
            except (TimeoutError, ConnectFailed, LograftError):
                pass
        await self._pause(*self.stage.weather.ask_every_ms)

    async def _ask(self, key: PartitionKey) -> None:
        stage = self.stage
        connection = await stage.client_runtime(self.name).network.connect(self.rng.choice(stage.addresses), 500)
        try:
            request = pb.ListOffsetsRequest()
            request.items.add(topic_id=key[0].bytes, partition=key[1], kind=pb.ListOffsetsRequest.LATEST)
            asked_us = stage.now_us
            [result] = (await call(connection, LIST_OFFSETS, request, pb.ListOffsetsResponse)).results
            if result.HasField("error"):
                return
            stage.history.told.append(Told(key, result.leader_epoch, result.offset, asked_us, stage.now_us))
            read = pb.ReadRequest(
                topic_id=key[0].bytes,
                partition=key[1],
                leader_epoch=result.leader_epoch,
                offset=max(0, result.offset - self.rng.randint(0, 5)),
            )
            asked_us = stage.now_us
            answer = await call(connection, READ, read, pb.ReadResponse)
            if answer.HasField("high_watermark"):
                told = Told(key, result.leader_epoch, answer.high_watermark, asked_us, stage.now_us)
                stage.history.told.append(told)
            for record in answer.records:
                stage.history.reads.append(Read(key, self.name, record.offset, record.value))
        finally:
            await connection.close()
