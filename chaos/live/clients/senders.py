"""A producer of a live cluster. Each record has a unique value, and its outcome is recorded."""

import asyncio

from lograft.chaos.history.entries import Acknowledged, Send
from lograft.chaos.history.recorder import Recorder
from lograft.chaos.live.clients.base import MARK, Place, pause
from lograft.clients.errors import LograftError
from lograft.clients.producer.aio_delivery import Delivery
from lograft.clients.producer.aio_producer import Producer
from lograft.runtime.rng import Rng

_MOST_OPEN = 500
_KEYS = 20
_KEYED = 0.7
_DELETING = 0.1  # in compacted topics


class Sender:
    """Sends about `per_second` records, with or without keys, to the partitions that the producer chooses. In a
    compacted topic all records have keys, and some delete them."""

    def __init__(self, recorder: Recorder, place: Place, rng: Rng, per_second: int) -> None:
        self.recorder = recorder
        self._place = place
        self._rng = rng
        self._pause_ms = 2000 / per_second
        self._sequence = 0
        self._open = 0
        self._settled = asyncio.Event()

    async def run(self, ending: asyncio.Event) -> None:
        async with Producer(self._place.bootstrap, linger_ms=2, delivery_timeout_ms=30_000) as producer:
            while not ending.is_set():
                await self._send(producer)
                await pause(ending, self._rng.uniform(0, self._pause_ms))
            await producer.flush()
        while self._open:
            self._settled.clear()
            await self._settled.wait()

    async def _send(self, producer: Producer) -> None:
        while self._open >= _MOST_OPEN:
            self._settled.clear()
            await self._settled.wait()
        sequence, self._sequence = self._sequence, self._sequence + 1
        value = f"{self.recorder.process}-{sequence}"
        is_compacted = self._place.is_compacted
        key = f"k{self._rng.randrange(_KEYS)}" if is_compacted or self._rng.random() < _KEYED else None
        deletes = is_compacted and self._rng.random() < _DELETING
        number = self.recorder.begin(
            Send,
            topic=self._place.topic,
            value=value,
            producer=self.recorder.process,
            sequence=sequence,
            key=key,
            deletes=deletes,
        )
        try:
            delivery = await producer.send(
                self._place.topic,
                None if deletes else value.encode(),
                key=None if key is None else key.encode(),
                headers=[(MARK, value.encode())] if deletes else None,
            )
        except LograftError as error:
            self.recorder.end(number, self.recorder.failure(error))
            return
        self._open += 1
        delivery.add_done_callback(lambda done: self._end(number, done))

    def _end(self, number: int, delivery: Delivery) -> None:
        self._open -= 1
        self._settled.set()
        error = delivery.exception()
        if error is not None:
            self.recorder.end(number, self.recorder.failure(error))
            return
        stored = delivery.result()
        offset = stored.offset if stored.offset >= 0 else None
        self.recorder.end(number, Acknowledged(self.recorder.now(), stored.partition, offset, stored.timestamp))
