"""A consumer's background work. It must not refer to the consumer, which may be dropped."""

import asyncio

from lograft.clients.cluster.background_task import ClientTask
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.consumer.group.session import GroupSession
from lograft.clients.consumer.reading.partition_reader import PartitionReader


class ConsumerWork:
    """Fetches records and maintains group membership from `start` to `end`."""

    def __init__(self) -> None:
        self._cluster: ClusterClient
        self._reader: PartitionReader
        self._group: GroupSession | None
        self.task = ClientTask("consumer", self._run)

    def start(self, cluster: ClusterClient, reader: PartitionReader, group: GroupSession | None) -> None:
        self._cluster, self._reader, self._group = cluster, reader, group
        self.task.start()
        self.task.when_failed(lambda _: reader.tell())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.run(), name="follow-metadata")
            group.create_task(self._reader.run(), name="fetch")
            if self._group is not None:
                group.create_task(self._group.run(), name="group")

    async def end(self) -> None:
        """Stop without committing or leaving the group, both of which the caller does first."""
        await self.task.close()
        self._reader.stop()
        await self._cluster.close()
