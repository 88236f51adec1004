"""Clients that store records, with the production producer and any acknowledgement setting, and with plain calls."""

import asyncio
from uuid import UUID

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.cluster.checks.history import PartitionKey, SentRecord, named
from lograft.chaos.cluster.clients.base import Client, ClientEnvironment, Wanted, topics_of
from lograft.chaos.cluster.world.record_marks import headers_of, mark_for, record_key_of, value_of
from lograft.chaos.harness.outcome import Outcome
from lograft.clients.cluster.unary_call import call
from lograft.clients.errors import LograftError
from lograft.clients.producer.aio_delivery import Delivery
from lograft.clients.producer.aio_producer import Producer
from lograft.clients.producer.pipeline.options import AcksOption
from lograft.clients.producer.pipeline.pending_batch import PendingBatch, Stored
from lograft.metadata.image.partition import TopicId
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import APPEND
from lograft.runtime.network import ConnectFailed

_ASK_SECONDS = 3.0
_OPTIONS: dict[Acks, AcksOption] = {Acks.ALL: "all", Acks.LEADER: "1", Acks.NONE: "0"}


class SendingClient(Client):
    """Sends records to any topic, and does not wait for a record before it sends the next."""

    async def _live(self, name: str) -> None:
        weather, rng, stage = self.stage.weather, self.rng, self.stage
        end_us = stage.now_us + self._life_seconds() * 1_000_000
        acks = rng.choice(weather.acks)
        producer = Producer(
            stage.addresses,
            runtime=stage.client_runtime(self.name),
            acks=_OPTIONS[acks],
            delivery_timeout_ms=weather.delivery_timeout_ms,
            request_timeout_ms=rng.choice([300, 1_000, 5_000]),
            linger_ms=rng.choice([0, 0, 5, 30]),
            batch_bytes=rng.choice([400, 2_000, 100_000]),
            max_block_ms=2_000,
            compression=rng.choice([None, None, "lz4"]),
        )
        await producer.start()
        recorder = SendRecorder(name, stage, acks)
        while not self.is_over and stage.now_us < end_us:
            await self._pause(0, 2 * weather.send_every_ms)
            topics = topics_of(stage.image)
            if topics:
                topic = rng.choice(topics)
                for _ in range(rng.randint(1, weather.records_at_once)):
                    wanted = self._any_record(rng.randrange(200))
                    await recorder.send(producer, topic.name, rng.randrange(len(topic.partitions)), wanted)
        await producer.close(rng.choice([0.0, 0.3, None]))
        recorder.close()


class SendRecorder:
    """The records that one producer sends, and their outcomes."""

    def __init__(self, name: str, stage: ClientEnvironment, acks: Acks = Acks.ALL) -> None:
        self._name = name
        self._stage = stage
        self._history = stage.history
        self._acks = acks
        self._count = 0
        self._open: list[tuple[SentRecord, Delivery]] = []

    async def send(self, producer: Producer, topic: str, partition: int, wanted: Wanted) -> SentRecord | None:
        """Send a record. Return None if the producer did not accept it."""
        number, self._count = self._count, self._count + 1
        mark = mark_for(self._name, number, wanted.record_key, is_deletion=wanted.is_deletion)
        value, headers = value_of(mark, wanted.padding_bytes), headers_of(mark)
        invoked_us = self._stage.now_us
        # A record may be stored before `send` returns, but not before the producer knows its partition.
        try:
            delivery = await producer.send(topic, value, key=wanted.record_key, partition=partition, headers=headers)
        except LograftError as error:
            self._history.refused[mark] = str(error)
            return None
        partition_key = _batch(delivery).partition_key
        key = (UUID(bytes=partition_key.topic_id), partition_key.partition)
        send = self._history.sends[mark] = SentRecord(key, self._name, number, mark, self._acks, invoked_us=invoked_us)
        delivery.add_done_callback(lambda done: self._settled(send, done))
        self._open.append((send, delivery))
        return send

    def _settled(self, send: SentRecord, delivery: Delivery) -> None:
        send.settled_us = self._stage.now_us
        _settle(send, delivery)
        check_acknowledgement(self._stage, send)

    def close(self) -> None:
        """Settle all sends, because the producer is closed."""
        for send, delivery in self._open:
            if send.settled_us is None:
                send.settled_us = self._stage.now_us
            _settle(send, delivery)


def check_acknowledgement(stage: ClientEnvironment, send: SentRecord) -> None:
    if send.is_acknowledged and send.acks is Acks.ALL and send.offset is not None and send.leader_epoch is not None:
        stage.check_committed(send.key, send.leader_epoch, send.offset + 1, described(send))


def described(send: SentRecord) -> str:
    return (
        f"{named(send.key)} {send.value[:24]!r} of {send.producer}, acks {send.acks.value}, {send.outcome.value} "
        f"at {send.offset} in epoch {send.leader_epoch}"
    )


def _settle(send: SentRecord, delivery: Delivery) -> None:
    error = delivery.exception()
    if error is not None:
        send.outcome = Outcome.UNKNOWN if error.outcome_unknown else Outcome.FAIL
        send.error = str(error)
        return
    offset = delivery.result().offset
    send.outcome, send.offset = Outcome.OK, offset if offset >= 0 else None
    send.leader_epoch = _stored(_batch(delivery), delivery.index).leader_epoch


def _batch(delivery: Delivery) -> PendingBatch:
    assert isinstance(delivery.source, PendingBatch)
    return delivery.source


def _stored(batch: PendingBatch, index: int) -> Stored:
    while batch.halves is not None:
        first, second = batch.halves
        batch, index = (first, index) if index < first.record_count else (second, index - first.record_count)
    assert isinstance(batch.outcome, Stored)
    return batch.outcome


def _new_record(mark: bytes) -> pb.NewRecord:
    headers = [pb.Header(key=name, value=value) for name, value in headers_of(mark)]
    return pb.NewRecord(key=record_key_of(mark), value=value_of(mark), headers=headers)


class AppendingClient(Client):
    """Stores records with plain calls, each only once: without an answer, the outcome stays unknown."""

    async def _live(self, name: str) -> None:
        """Make one call under its own producer name: an unanswered call may still be on its way after the next."""
        await self._pause(0, 4 * self.stage.weather.send_every_ms)
        key, partition = self._any_key(), None
        if key is not None:
            topic = self.stage.image.topics.get(TopicId(key[0]))
            partition = topic.partitions.get(key[1]) if topic is not None else None
        if key is None or partition is None:
            return
        count = self.rng.randint(1, self.stage.weather.records_at_once)
        acks = self.rng.choice([Acks.ALL, Acks.ALL, Acks.LEADER])
        wanted = [self._any_record() for _ in range(count)]
        marks = [
            mark_for(name, number, one.record_key, is_deletion=one.is_deletion) for number, one in enumerate(wanted)
        ]
        now_us = self.stage.now_us
        sends = [SentRecord(key, name, number, mark, acks, invoked_us=now_us) for number, mark in enumerate(marks)]
        for send in sends:
            self.stage.history.sends[send.value] = send
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                await self._append(key, sends, partition.leader_epoch)
        except (TimeoutError, ConnectFailed):
            pass
        except LograftError as error:
            for send in sends:
                send.outcome = Outcome.UNKNOWN if error.outcome_unknown else Outcome.FAIL
                send.error, send.settled_us = str(error), self.stage.now_us

    async def _append(self, key: PartitionKey, sends: list[SentRecord], leader_epoch: int) -> None:
        connection = await self.stage.client_runtime(self.name).network.connect(
            self.rng.choice(self.stage.addresses), 500
        )
        request = pb.AppendRequest(
            topic_id=key[0].bytes,
            partition=key[1],
            leader_epoch=leader_epoch,
            records=[_new_record(send.value) for send in sends],
            acks=pb.ACKS_ALL if sends[0].acks is Acks.ALL else pb.ACKS_LEADER,
            timeout_ms=1_000,
        )
        try:
            answer = await call(connection, APPEND, request, pb.AppendResponse)
        finally:
            await connection.close()
        for number, send in enumerate(sends):
            send.outcome, send.offset, send.leader_epoch = Outcome.OK, answer.base_offset + number, leader_epoch
            send.settled_us = self.stage.now_us
            check_acknowledgement(self.stage, send)
