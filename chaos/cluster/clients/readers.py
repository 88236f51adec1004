"""Clients that read, with the production consumer and with plain calls. They also ask for high watermarks."""

import asyncio
from uuid import UUID

from lograft.chaos.cluster.checks.answers import check_next, check_told_range
from lograft.chaos.cluster.checks.history import PartitionKey, Read, Told, named
from lograft.chaos.cluster.clients.base import Client, ClientEnvironment, topics_of
from lograft.chaos.cluster.clients.poll_recorder import PollNotes, note_plain_read, positions_of
from lograft.chaos.cluster.world.record_marks import mark_of
from lograft.clients.cluster.unary_call import call
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.errors import LograftError, OffsetOutOfRange
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import LIST_OFFSETS, READ, READ_RANGE
from lograft.runtime.network import ConnectFailed, Connection, StreamError
from lograft.storage.batch.codec import decode_records, iterate_batches

_POLL_SECONDS = 0.3
_ASK_SECONDS = 1.0


class ReadingClient(Client):
    """Reads all topics from the beginning."""

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
            rack=self._any_rack(),
        )
        await consumer.start()
        recorder = ReadRecorder(name, consumer, stage)
        try:
            while not self.is_over and stage.now_us < end_us:
                await self._look(consumer, recorder)
        finally:
            await consumer.close()

    def _any_rack(self) -> str | None:
        """Return a rack for half of all consumers, which then read from followers in that rack."""
        racks = self.stage.weather.racks
        return f"rack{self.rng.randrange(racks)}" if racks and self.rng.random() < 0.5 else None

    async def _look(self, consumer: Consumer, recorder: "ReadRecorder") -> None:
        wanted = [
            TopicPartition(topic.name, number) for topic in topics_of(self.stage.image) for number in topic.partitions
        ]
        try:
            await consumer.assign(wanted)
            recorder.let_go()
            for _ in range(self.rng.randint(1, 10)):
                await recorder.poll(_POLL_SECONDS)
        except LograftError as error:
            self.stage.note("read_failed", recorder.name, str(error))
            await consumer.assign([])  # start again after an error: the topic may be another one
            recorder.begin_anew()
            await self._pause(10, 200)


class ReadRecorder:
    """Checks that one consumer receives all records in order. `latest` is the last record of each partition."""

    def __init__(self, name: str, consumer: Consumer, stage: ClientEnvironment) -> None:
        self.name = name
        self.latest: dict[PartitionKey, Read] = {}
        self._consumer = consumer
        self._stage = stage
        self._notes = PollNotes(name, stage, first=0)

    def begin_anew(self) -> None:
        """Start at the beginning of all partitions read next."""
        self.latest.clear()
        self._notes.begin_anew()

    def let_go(self) -> None:
        """Forget partitions that are no longer assigned. Should one be assigned again, by a node that has not heard of
        its deletion yet, it starts at the beginning."""
        reading = self._consumer._reader.partitions
        kept = {(UUID(bytes=each.topic_id), name.partition) for name, each in reading.items()}
        self.latest = {key: read for key, read in self.latest.items() if key in kept}
        self._notes.begin_all_but(kept)

    async def poll(self, seconds: float) -> int:
        asked_us = self._stage.now_us
        records = await self._consumer.poll(seconds)
        partitions = self._consumer._reader.partitions
        reads = []
        for record in records:
            partition = partitions[TopicPartition(record.topic, record.partition)]
            key = (UUID(bytes=partition.topic_id), record.partition)
            mark = mark_of(record.key, record.value, record.headers)
            reads.append(Read(key, self.name, record.offset, mark, partition.leader_epoch))
        self._notes.note(asked_us, reads, positions_of(self._consumer))
        for read in reads:
            check_next(self._stage.history, self.latest.get(read.key), read)
            self.latest[read.key] = read
            note_read(self._stage, read)
        return len(records)


def note_read(stage: ClientEnvironment, read: Read) -> None:
    stage.check_committed(read.key, read.leader_epoch, read.offset + 1, read)
    stage.history.reads.append(read)


class AskingClient(Client):
    """Asks any broker for the high watermark of a partition, and reads a few records, with plain calls."""

    async def _live(self, name: str) -> None:
        key = self._any_key()
        if key is not None:
            try:
                async with asyncio.timeout(_ASK_SECONDS):
                    await self._ask(key)
            except (TimeoutError, ConnectFailed, LograftError, StreamError):
                pass
        await self._pause(*self.stage.weather.ask_every_ms)

    async def _ask(self, key: PartitionKey) -> None:
        address = self.rng.choice(self.stage.addresses)
        connection = await self.stage.client_runtime(self.name).network.connect(address, 500)
        try:
            told = await self._ask_for_watermark(connection, key)
            if told is not None:
                read = self.rng.choices([self._read, self._read_range, self._read_from_start], [6, 3, 1])[0]
                await read(connection, told)
        finally:
            await connection.close()

    async def _ask_for_watermark(self, connection: Connection, key: PartitionKey) -> Told | None:
        request = pb.ListOffsetsRequest()
        request.items.add(topic_id=key[0].bytes, partition=key[1], kind=pb.ListOffsetsRequest.LATEST)
        asked_us = self.stage.now_us
        [result] = (await call(connection, LIST_OFFSETS, request, pb.ListOffsetsResponse)).results
        if result.HasField("error"):
            return None
        return self._told(key, result.leader_epoch, result.offset, asked_us)

    async def _read(self, connection: Connection, told: Told) -> None:
        """Read a few of the latest records from the same leader."""
        await self._read_at(connection, told, max(0, told.watermark - self.rng.randint(0, 5)))

    async def _read_from_start(self, connection: Connection, told: Told) -> None:
        """Read where the log may no longer start. The error then has its present start."""
        try:
            await self._read_at(connection, told, 0)
        except OffsetOutOfRange as error:
            self.stage.note("below_start", named(told.key), error.valid_start)
            check_told_range(self.stage.history, told.key, error.valid_start, error.valid_end)

    async def _read_at(self, connection: Connection, told: Told, offset: int) -> None:
        key, epoch = told.key, told.leader_epoch
        request = pb.ReadRequest(topic_id=key[0].bytes, partition=key[1], leader_epoch=epoch, offset=offset)
        asked_us = self.stage.now_us
        answer = await call(connection, READ, request, pb.ReadResponse)
        if answer.HasField("high_watermark"):
            self._told(key, epoch, answer.high_watermark, asked_us)
        reads = []
        for record in answer.records:
            value = record.value if record.HasField("value") else None
            mark = mark_of(record.key, value, [(header.key, header.value) for header in record.headers])
            reads.append(Read(key, self.name, record.offset, mark, epoch))
        self._was_given(asked_us, offset, reads)

    async def _read_range(self, connection: Connection, told: Told) -> None:
        key, epoch = told.key, told.leader_epoch
        end = self.rng.randint(0, told.watermark)
        start = max(0, end - self.rng.choice([1, 10, 100]))
        request = pb.ReadRangeRequest(
            topic_id=key[0].bytes,
            partition=key[1],
            leader_epoch=epoch,
            start=start,
            end=end,
            max_message_bytes=self.rng.choice([100, 10_000]),
        )
        asked_us, reads = self.stage.now_us, []
        stream = connection.open(READ_RANGE)
        await stream.send(request.SerializeToString())
        await stream.half_close()
        while (message := await stream.receive()) is not None:
            answer = pb.ReadRangeResponse.FromString(message)
            for begin, header in iterate_batches(answer.batches):
                batch = memoryview(answer.batches)[begin : begin + header.total_bytes]
                for record in decode_records(batch):
                    if start <= record.offset < end:
                        mark = mark_of(record.key, record.value, record.headers)
                        reads.append(Read(key, self.name, record.offset, mark, epoch))
        self._was_given(asked_us, start, reads)

    def _was_given(self, asked_us: int, start: int, reads: list[Read]) -> None:
        note_plain_read(self.stage, self.name, asked_us, start, reads)
        for read in reads:
            note_read(self.stage, read)

    def _told(self, key: PartitionKey, leader_epoch: int, watermark: int, asked_us: int) -> Told:
        told = Told(key, leader_epoch, watermark, asked_us, self.stage.now_us)
        self.stage.check_committed(key, leader_epoch, watermark, told)
        self.stage.history.told.append(told)
        return told
