"""The plainest client there can be: ready-made messages on raw streams, so that what is measured is the broker."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from lograft.clients.admin.model.types import TopicDescription
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import FETCH, PRODUCE
from lograft.proto.wire_format import cut_out
from lograft.runtime.network import Connection, Stream

READ_RANGE = "/lograft.v1.Log/ReadRange"

_CREDIT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """One partition, and a connection to the broker that leads it."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    connection: Connection


def target_of(topic: TopicDescription, number: int, connection: Connection) -> Target:
    return Target(topic.id.bytes, number, topic.partitions[number].leader_epoch, connection)


def produce_messages(target: Target, batches: Sequence[bytes], acks: "pb.Acks") -> list[bytes]:
    """A message for each batch. All have one number: a partition's answers come in the order of its batches."""
    return [
        pb.ProduceRequest(
            acks=acks,
            items=[
                pb.ProduceRequest.Item(
                    number=1,
                    topic_id=target.topic_id,
                    partition=target.partition,
                    leader_epoch=target.leader_epoch,
                    batch=batch,
                )
            ],
        ).SerializeToString()
        for batch in batches
    ]


class ProduceStream:
    """Sends messages and counts what is acknowledged. Anything but an acknowledgement ends the measurement."""

    def __init__(self, target: Target, messages: Sequence[bytes]) -> None:
        self._messages = messages
        self._stream: Stream = target.connection.open(PRODUCE)
        self._sent_at: deque[float] = deque()
        self.latencies: list[float] = []

    async def at_most(self, in_flight: int, seconds: float) -> float:
        """As fast as it goes with so many on their way. Acknowledged messages a second."""
        room = asyncio.Semaphore(in_flight)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive(room))
            started = perf_counter()
            while perf_counter() - started < seconds:
                await room.acquire()
                await self._send()
            await self._stream.half_close()
        return len(self.latencies) / (perf_counter() - started)

    async def at_rate(self, messages_per_second: float, seconds: float) -> None:
        """One at a time, each when it is due, answered or not."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive(None))
            started = perf_counter()
            for number in range(int(seconds * messages_per_second)):
                wait = started + number / messages_per_second - perf_counter()
                if wait > 0:
                    await asyncio.sleep(wait)
                await self._send()
            await self._stream.half_close()

    async def _send(self) -> None:
        self._sent_at.append(perf_counter())
        await self._stream.send(self._messages[len(self._sent_at) % len(self._messages)])

    async def _receive(self, room: asyncio.Semaphore | None) -> None:
        while (data := await self._stream.receive()) is not None:
            now = perf_counter()
            for result in pb.ProduceResponse.FromString(data).results:
                if result.HasField("error"):
                    raise AssertionError(f"refused: {result.error.message}")
                self.latencies.append(now - self._sent_at.popleft())
                if room is not None:
                    room.release()


async def read_range(target: Target, start: int, end: int) -> int:
    """Bytes of batches received."""
    stream = target.connection.open(READ_RANGE)
    request = pb.ReadRangeRequest(
        topic_id=target.topic_id, partition=target.partition, leader_epoch=target.leader_epoch, start=start, end=end
    )
    await stream.send(request.SerializeToString())
    await stream.half_close()
    received = 0
    number = pb.ReadRangeResponse.BATCHES_FIELD_NUMBER
    while (data := await stream.receive()) is not None:
        received += sum(map(len, cut_out(memoryview(data), number)[1]))
    return received


async def fetch(target: Target, start: int, end: int) -> int:
    """Bytes of batches received, pushed with some credit always left."""
    stream = target.connection.open(FETCH)
    add = pb.FetchRequest.Add(
        handle=1, topic_id=target.topic_id, partition=target.partition, leader_epoch=target.leader_epoch, offset=start
    )
    await stream.send(pb.FetchRequest(add=[add], credit_bytes=_CREDIT_BYTES).SerializeToString())
    received = uncredited = 0
    position = start
    while position < end:
        data = await stream.receive()
        assert data is not None
        rest, contents = cut_out(memoryview(data), pb.FetchResponse.DATA_FIELD_NUMBER)
        assert not rest
        for content in contents:
            fields, batches = cut_out(content, pb.FetchResponse.Data.BATCHES_FIELD_NUMBER)
            told = pb.FetchResponse.Data.FromString(fields)
            assert not told.HasField("error"), told.error.message
            position = told.next_offset
            uncredited += sum(map(len, batches))
        if uncredited >= _CREDIT_BYTES // 4:
            await stream.send(pb.FetchRequest(credit_bytes=uncredited).SerializeToString())
            received, uncredited = received + uncredited, 0
    stream.reset()
    return received + uncredited
