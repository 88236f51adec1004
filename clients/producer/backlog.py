"""The records that a synchronous producer has buffered, between the sending threads and the loop.

The backlog must not refer to the producer, which may be dropped: its records are still delivered then.
"""

import asyncio
import sys
from collections import deque
from dataclasses import replace
from functools import partial

from lograft.clients.cluster.background_task import ClientTask
from lograft.clients.errors import ClientClosed, LograftError, UnknownPartition
from lograft.clients.producer import aio_producer
from lograft.clients.producer.aio_producer import buffer_full
from lograft.clients.producer.pipeline.metrics import ProducerMetrics
from lograft.clients.producer.pipeline.options import ProducerKeywords, ProducerOptions
from lograft.clients.producer.pipeline.submission import Submission
from lograft.clients.producer.pipeline.submission_buffer import SUBMISSION_BYTES, OpenSubmission, SubmissionBuffer
from lograft.clients.producer.producer_work import not_flushed
from lograft.clients.records.validation import check_size
from lograft.clients.types import check_topic
from lograft.runtime.tasks.loop_handover import LoopHandover
from lograft.runtime.tasks.loop_thread import LoopLost, LoopThread

# The backlog enforces the buffer limit before handing records over, so the inner producer needs no limit.
_NO_LIMIT = 2**62
# For a producer that was not closed: long enough for a healthy cluster, short enough not to look like a hang.
_EXIT_SECONDS = 5.0


def unlimited(options: ProducerKeywords) -> ProducerKeywords:
    """Return the options of the inner, awaitable producer."""
    return {**options, "buffer_bytes": _NO_LIMIT}


class ProducerBacklog:
    """Submissions on their way to `inner`. Thread-safe, except for the part marked as on the loop."""

    def __init__(self, loop: LoopThread, inner: aio_producer.Producer, options: ProducerOptions) -> None:
        self.inner = inner
        self._options = options
        self._loop = loop
        # Read and written with the lock held.
        self._handover = LoopHandover(loop, self._take)
        self.lock = self._handover.lock
        self._buffer = SubmissionBuffer(partial(Submission, loop=loop))
        self.open_submissions = self._buffer.open_submissions
        self._is_closed = False  # refuse records: closing, or failed
        # Used on the loop; the counters may be read by other threads.
        self._taken: deque[Submission] = deque()
        self._taken_bytes = 0
        self._taken_count = 0
        self._placed_count = 0
        self._is_ending = False
        self._has_taken = asyncio.Event()
        self._progress = asyncio.Event()  # pulsed
        self._placing = ClientTask("producer", self._place_all)

    def open_submission(self, topic: str, size_bytes: int) -> OpenSubmission:
        """Return an open submission with room for such a record, which the loop will take. Call with the lock held."""
        check_topic(topic)
        check_size(size_bytes)
        room_bytes = self._wait_for_room(size_bytes)
        # Announce first: an interrupt in between must not leave a submission that the loop never takes.
        self._handover.announce()
        return self._buffer.open(topic, max(min(SUBMISSION_BYTES, room_bytes), size_bytes))

    def put(self, submission: Submission) -> None:
        if not self._loop.is_alive:
            raise self.lost()
        size_bytes = submission.size_bytes
        with self.lock:
            self._wait_for_room(size_bytes)
            self._buffer.put(submission)
            self._handover.announce()

    def _wait_for_room(self, size_bytes: int) -> int:
        """Wait for room, and return how much there is. Raise `ClientClosed` or `BufferFull` if there is too little.
        Call with the lock held."""
        if not self._is_closed and not self._has_room(size_bytes):
            self._buffer.close_all()
        if not self._is_closed and not self._has_room(size_bytes):
            # Once full, let it drain for a while: few long waits cost less than many short ones.
            spare_bytes = self._options.buffer_bytes // 4
            fits = self._handover.wait_for_room(
                lambda: self._is_closed or self._has_room(size_bytes + spare_bytes), self._options.max_block_ms / 1000
            )
            if not fits and not self._has_room(size_bytes):
                raise buffer_full(self._options)
        if self._is_closed:
            raise ClientClosed("the producer is closed: make another one")
        return self._options.buffer_bytes - self._used_bytes

    def _has_room(self, size_bytes: int) -> bool:
        """Return True if this much fits. A record larger than the buffer fits if it is empty."""
        used_bytes = self._used_bytes
        return used_bytes == 0 or used_bytes + size_bytes <= self._options.buffer_bytes

    @property
    def _used_bytes(self) -> int:
        """An upper bound of the bytes in use: a submission may be counted twice while it is handed over."""
        return self._buffer.size_bytes + self._taken_bytes + self.inner.buffered_bytes

    def lost(self) -> ClientClosed:
        """Return the error for a loop that no longer runs."""
        try:
            self._loop.check()
        except LoopLost as error:
            return ClientClosed(str(error))
        return ClientClosed("the producer is closed: make another one")

    def _flush_at_exit(self) -> None:
        """Flush, when the program ends, a producer that was not closed."""
        try:
            self._loop.run(self.flush, _EXIT_SECONDS)
        except (LograftError, LoopLost):
            left = sum(map(len, self._taken)) + self.inner.unsettled_records
            if left:
                sys.stderr.write(
                    f"lograft: {left} records were not acknowledged when the program ended, and may be lost: "
                    "use the producer in a `with` block, or close it\n"
                )

    def wish_nothing(self) -> None:
        """Cancel the flush at exit, because a caller of `close` does it."""
        self._loop.take_back(self._flush_at_exit)

    # -- on the loop

    async def start(self) -> None:
        await self.inner.start()
        self.inner.when_progress(self._handover.made_room)
        self._placing.start()
        self._placing.when_failed(self._refuse_all)
        self._loop.before_stop(self._flush_at_exit)

    def _take(self) -> None:
        """Take all submissions from the buffer. Call with the lock held."""
        submissions = self._buffer.take()
        self._taken.extend(submissions)
        self._taken_count += len(submissions)
        self._taken_bytes += sum(submission.size_bytes for submission in submissions)
        self._has_taken.set()

    def _take_last(self) -> None:
        """Take everything, and refuse further records."""
        with self.lock:
            self._is_closed = True
            self._take()
        self._handover.made_room()

    def _refuse_all(self, error: LograftError) -> None:
        """Fail the submissions that were not placed, and refuse further records."""
        self._take_last()
        for submission in self._taken:
            submission.fail(error)
        self._taken.clear()
        self._taken_bytes = 0
        self._progress.set()

    async def _place_all(self) -> None:
        """Place submissions in the order they were sent. One whose topic is not known yet delays those after it, for up
        to `max_block_ms`."""
        while True:
            await self._has_taken.wait()
            self._has_taken.clear()
            while self._taken:
                submission = self._taken[0]
                size_bytes = submission.size_bytes
                await self._place(submission)
                self._taken.popleft()
                self._taken_bytes -= size_bytes
                self._placed_count += 1
                self._handover.made_room()  # if it failed
                await asyncio.sleep(0)  # let other tasks run, such as the one that sends batches
            self._progress.set()
            self._progress.clear()

    async def _place(self, submission: Submission) -> None:
        try:
            try:
                await self.inner.place(submission)
            except UnknownPartition as error:
                submission.refuse_strangers(await self.inner.partitions_for(submission.topic), error)
                await self.inner.place(submission)
            self.inner.refused(len(submission.refused))
        except LograftError as error:
            self.inner.refused(len(submission))
            submission.fail(error)

    async def metrics(self) -> ProducerMetrics:
        """Return the producer's current metrics."""
        with self.lock:
            used_bytes = self._used_bytes
        return replace(self.inner.metrics(), buffer_bytes=used_bytes, buffer_limit_bytes=self._options.buffer_bytes)

    async def flush(self, timeout: float | None) -> None:
        """Wait until every record sent before has a result. Raise `TimedOut` after `timeout` seconds."""
        deadline = asyncio.timeout(timeout)
        self._handover.take()  # records of this thread may still wait for another thread's announcement
        wanted = self._taken_count
        try:
            async with deadline:
                while self._placed_count < wanted:
                    self._placing.check()
                    await self._progress.wait()
                await self.inner.flush()
        except TimeoutError:
            if not deadline.expired():
                raise
            raise not_flushed(timeout) from None

    async def close(self, timeout: float | None = None) -> None:
        """Deliver buffered records for up to `timeout` seconds, then close. Fail the rest."""
        if self._is_ending:
            return
        self._is_ending = True
        self._take_last()
        try:
            await self.flush(timeout)
        except LograftError:
            pass  # each record's delivery has the error
        finally:
            await self._placing.close()
            self._refuse_all(ClientClosed("the producer was closed before the record could be sent"))
            await self.inner.close(timeout=0)
            self.wish_nothing()
