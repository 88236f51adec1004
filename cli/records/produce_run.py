"""Track sent records: how many were written, and which failed first."""

import signal
from collections.abc import Iterator
from functools import partial
from typing import TypeVar

import click

from lograft.cli.records.input_lines import Source
from lograft.cli.records.text_input import InputColumns
from lograft.clients.errors import BufferFull, LograftError
from lograft.clients.producer.sync_producer import Deliveries, Producer

T = TypeVar("T")


class Sending:
    """Sends records and counts results. Callbacks run on the client's thread, the last one before the producer
    closes."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.stored = 0
        self.failed = 0
        self.failure: LograftError | None = None
        self._producer = producer
        self._topic = topic
        self._sent = 0
        self._first_failed: tuple[int, str] | None = None  # number of records sent before it, and its position

    def send(self, source: Source, columns: InputColumns) -> None:
        """Send records, waiting for buffer space."""
        try:
            deliveries = self._producer.send_many(
                self._topic,
                columns.values,
                keys=columns.keys,
                partition=columns.partition,
                timestamps=columns.timestamps,
                headers=columns.headers,
            )
        except BufferFull as error:
            if error.taken is not None:
                self._expect(error.taken, source, columns)
            raise
        self._expect(deliveries, source, columns)

    def _expect(self, deliveries: Deliveries, source: Source, columns: InputColumns) -> None:
        deliveries.add_done_callback(partial(self._settled, source, columns, self._sent))
        self._sent += len(deliveries)

    def _settled(self, source: Source, columns: InputColumns, sent_before: int, deliveries: Deliveries) -> None:
        if deliveries.exception() is None:
            self.stored += len(deliveries)
            return
        for index, delivery in enumerate(deliveries):
            error = delivery.exception()
            if error is None:
                self.stored += 1
                continue
            self.failed += 1
            if self._first_failed is None or sent_before + index < self._first_failed[0]:
                self._first_failed = sent_before + index, source.place(columns.numbers[index])
                self.failure = error

    def finish(self) -> None:
        """Report the result. Raise the error of the first record that was not written, if any."""
        click.echo(f"{self.stored} record{'' if self.stored == 1 else 's'} written to {self._topic}", err=True)
        if self.failure is not None:
            assert self._first_failed is not None
            click.echo(f"{self.failed} not written, or not confirmed; the first is {self._first_failed[1]}", err=True)
            raise self.failure


class Interrupts:
    """Ends the reading at the first Ctrl+C, so that sent records are counted, and the process at the second one."""

    def __init__(self) -> None:
        self.is_asked = False
        self._is_reading = False
        signal.signal(signal.SIGINT, self._interrupt)

    def while_reading(self, pieces: Iterator[T]) -> Iterator[T]:
        while not self.is_asked:
            self._is_reading = True
            piece = next(pieces, None)
            self._is_reading = False
            if piece is None:
                return
            yield piece

    def _interrupt(self, *_: object) -> None:
        is_first, self.is_asked = not self.is_asked, True
        if self._is_reading or not is_first:
            self._is_reading = False
            raise KeyboardInterrupt
