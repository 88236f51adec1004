"""A Spark worker's access to a cluster, shared by all tasks that run in the process.

Workers are forked and reused. Connections of a parent do not work in a forked child, so each process opens its own.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future

from lograft.clients.cluster.background_task import ClientTask, open_runtime
from lograft.clients.cluster.bootstrap import parse_bootstrap
from lograft.clients.cluster.cluster_client import ClusterClient, ClusterTimes
from lograft.runtime.tasks.loop_thread import LoopThread, shared_loop
from lograft.spark.common.options import ClusterOptions
from lograft.spark.common.range_reader import OffsetRange, RangePart, RangeReader

FIRST_CONTACT_MS = 30_000
"""A user with the wrong address should not wait long for the error."""


class ClusterAccess:
    """Runs on the loop that all clients of the process share."""

    def __init__(self, loop: LoopThread, bootstrap: str) -> None:
        self.loop = loop
        self._bootstrap = parse_bootstrap(bootstrap)
        self.cluster: ClusterClient
        self._following: ClientTask
        loop.begin(self._start).result()

    async def _start(self) -> None:
        times = ClusterTimes(first_contact_ms=FIRST_CONTACT_MS)
        self.cluster = ClusterClient(open_runtime(None), self._bootstrap, times)
        self._following = ClientTask("cluster access", self.cluster.run)
        self._following.start()

    def close(self) -> None:
        self.loop.begin(self._end).result()

    async def _end(self) -> None:
        await self._following.close()
        await self.cluster.close()

    def read(self, wanted: OffsetRange, options: ClusterOptions, *, spreads: bool) -> Iterator[RangePart]:
        """Yield the parts of a range, in order, fetching the next one while the caller processes the current one."""
        reader = RangeReader(self.cluster, patience_ms=options.timeout_ms, rack=options.rack, spreads=spreads)
        parts = reader.read(wanted)
        coming = self._next(parts)
        try:
            while (part := coming.result()) is not None:
                coming = self._next(parts)
                yield part
        finally:
            coming.cancel()
            self.loop.begin(_close, coming, parts)

    def _next(self, parts: AsyncGenerator[RangePart, None]) -> "Future[RangePart | None]":
        async def take() -> RangePart | None:
            return await anext(parts, None)

        return self.loop.begin(take)


async def _close(last: "Future[RangePart | None]", parts: AsyncGenerator[RangePart, None]) -> None:
    """Drop the rest of a range when its reader stops."""
    # The reader has seen the outcome; retrieve the exception, which asyncio would otherwise print.
    await asyncio.gather(asyncio.wrap_future(last), return_exceptions=True)
    await parts.aclose()


_open: dict[str, ClusterAccess] = {}


def cluster_access(bootstrap: str) -> ClusterAccess:
    """Return this process's access to the cluster."""
    loop = shared_loop()
    known = _open.get(bootstrap)
    if known is None or known.loop is not loop:
        known = _open[bootstrap] = ClusterAccess(loop, bootstrap)
    return known


def renewed_access(outdated: ClusterAccess, bootstrap: str) -> ClusterAccess:
    """Replace an outdated access: a worker outlives a query, and the cluster may have been replaced since."""
    if _open.get(bootstrap) is outdated:
        del _open[bootstrap]
        outdated.close()
    return cluster_access(bootstrap)
