"""Ends of partitions without a replica here, fetched from their leaders on demand."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import PartitionKey
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import LIST_OFFSETS
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.request_limits import MAX_ITEMS
from lograft.rpc.unary import call
from lograft.runtime.network import ConnectFailed
from lograft.runtime.world import Runtime

_TIMEOUT_MS = 3000


class RemoteLogEnds:
    """Answers from the last fetch, so that callers never wait for another broker. Each fetch covers only the partitions
    requested since the one before, so unused ends cost nothing."""

    def __init__(self, runtime: Runtime, image: Callable[[], ClusterImage]) -> None:
        self._network = runtime.network
        self._image = image
        self._known: dict[PartitionKey, int] = {}
        self._wanted: dict[PartitionKey, None] = {}
        self._has_wanted = asyncio.Event()

    def end_of(self, key: PartitionKey) -> int | None:
        """Return the high watermark as of the last fetch, or None if it is not known yet."""
        self._wanted[key] = None
        self._has_wanted.set()
        return self._known.get(key)

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            await self._has_wanted.wait()
            self._has_wanted.clear()
            wanted, self._wanted = self._wanted, {}
            known: dict[PartitionKey, int] = {}
            async with asyncio.TaskGroup() as group:
                for address, keys in self._by_leader(wanted).items():
                    group.create_task(self._ask(address, keys, known), name="ends-elsewhere")
            self._known = known

    def _by_leader(self, wanted: dict[PartitionKey, None]) -> dict[str, list[PartitionKey]]:
        image, by_leader = self._image(), dict[str, list[PartitionKey]]()
        for key in wanted:
            partition = image.partition(*key)
            leader = partition.leader if partition is not None else None
            if leader is not None:
                by_leader.setdefault(image.brokers[leader].address, []).append(key)
        return by_leader

    async def _ask(self, address: str, keys: Sequence[PartitionKey], known: dict[PartitionKey, int]) -> None:
        """Fetch the ends from one leader. Those that it does not answer in time stay unknown."""
        with contextlib.suppress(ConnectFailed, ControllerError, TimeoutError):
            connection = await self._network.connect(address, _TIMEOUT_MS)
            try:
                async with asyncio.timeout(_TIMEOUT_MS / 1000):
                    for first in range(0, len(keys), MAX_ITEMS):
                        some = keys[first : first + MAX_ITEMS]
                        answer = await call(connection, LIST_OFFSETS, _request(some), pb.ListOffsetsResponse)
                        for key, result in zip(some, answer.results, strict=False):
                            if not result.HasField("error"):
                                known[key] = result.offset
            finally:
                await connection.close()


def _request(keys: Sequence[PartitionKey]) -> pb.ListOffsetsRequest:
    return pb.ListOffsetsRequest(
        items=[
            pb.ListOffsetsRequest.Item(topic_id=topic_id.bytes, partition=number, kind=pb.ListOffsetsRequest.LATEST)
            for topic_id, number in keys
        ]
    )
