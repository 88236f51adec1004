"""A producer that sends numbered records at a constant rate, and records when and where each was acknowledged."""

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
    """An acknowledged record. `seconds`: the time since the load began."""

    number: int
    partition: int
    offset: int
    seconds: float


class SteadyLoad:
    """Sends records while its block runs. `acknowledged` and `failed` grow, and are complete after the block."""

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
        # Leaving the block waits until every record is acknowledged or failed.
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
    """Return the longest interval between consecutive `times` that ends after `after_seconds`; None if none does."""
    return max((end - begin for begin, end in itertools.pairwise(times) if end > after_seconds), default=None)
