"""A producer's background work. It must not refer to the producer, which may be dropped."""

import asyncio

from lograft.clients.cluster.background_task import ClientTask
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.errors import ClientClosed, LograftError, TimedOut
from lograft.clients.producer.pipeline.accumulator import Accumulator
from lograft.clients.producer.pipeline.sender import Sender


class ProducerWork:
    """Sends the accumulator's batches to the cluster from `start` to `close`."""

    def __init__(self) -> None:
        self._cluster: ClusterClient
        self._accumulator: Accumulator
        self._sender: Sender
        self.task = ClientTask("producer", self._run)

    def start(self, cluster: ClusterClient, accumulator: Accumulator, sender: Sender) -> None:
        self._cluster, self._accumulator, self._sender = cluster, accumulator, sender
        self.task.start()
        self.task.when_failed(self._abandon_all)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.run(), name="follow-metadata")
            group.create_task(self._sender.run(), name="send")

    def _abandon_all(self, error: LograftError) -> None:
        for key in self._accumulator.partitions:
            self._accumulator.abandon(key, error)
        self._sender.tell_progress()

    async def flush(self, timeout: float | None) -> None:
        """Wait until every record sent before has a result. Raise `TimedOut` after `timeout` seconds."""
        self.task.check()
        self._accumulator.close_all()
        self._sender.wake()
        waited_for = list(self._accumulator)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                while not all(batch.is_settled for batch in waited_for):
                    await self._sender.progress.wait()
                    self.task.check()
        except TimeoutError:
            if not limit.expired():
                raise
            raise not_flushed(timeout) from None

    async def close(self, timeout: float | None = None) -> None:
        """Deliver buffered records for up to `timeout` seconds, then close. Fail the rest."""
        if not self.task.is_running:
            return
        try:
            await self.flush(timeout)
        except LograftError:
            pass  # each record's delivery has the error
        finally:
            self.task.closing()
            self._abandon_all(ClientClosed("the producer was closed before the record was acknowledged"))
            await self.task.close()
            await self._cluster.close()


def not_flushed(timeout: float | None) -> TimedOut:
    return TimedOut(f"not all that was sent was acknowledged within {timeout} s")
