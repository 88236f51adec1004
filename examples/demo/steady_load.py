"""A producer that goes on sending numbered records, and knows when each was acknowledged, and where it is."""

import itertools
import threading
import time
from dataclasses import dataclass

from lograft import Delivery, Producer

RECORDS_A_SECOND = 2_000
_ROUND_SECONDS = 0.02
_KEYS = 500


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """`seconds`: since the load began."""

    number: int
    partition: int
    offset: int
    seconds: float


class SteadyLoad:
    """As long as its block lasts. `acknowledged` and `failed` grow meanwhile, and are complete when it is left."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[Exception] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._is_over = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._send, name="load")

    def __enter__(self) -> "SteadyLoad":
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def _send(self) -> None:
        # Leaving the block waits until the fate of every record is known.
        with Producer(self._bootstrap, acks="all", linger_ms=5, delivery_timeout_ms=60_000) as producer:
            while not self._is_over.wait(_ROUND_SECONDS):
                while self.sent < self.seconds * RECORDS_A_SECOND:
                    self._send_one(producer, self.sent)
                    self.sent += 1

    def _send_one(self, producer: Producer, number: int) -> None:
        delivery = producer.send(self._topic, b"order %d" % number, key=b"customer %d" % (number % _KEYS))
        delivery.add_done_callback(lambda done: self._settle(number, done))

    def _settle(self, number: int, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            self.failed.append(error)
            return
        stored = delivery.result()
        self.acknowledged.append(Acknowledged(number, stored.partition, stored.offset, self.seconds))


def longest_pause(times: list[float], after_seconds: float) -> float | None:
    """Between two of these times, in order, of which the second is after that one. None: nothing came after it."""
    return max((end - begin for begin, end in itertools.pairwise(times) if end > after_seconds), default=None)
